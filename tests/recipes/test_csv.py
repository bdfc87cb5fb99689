"""The layout of csv files: separators, lines before the header, and lines that do not fit it."""

import pytest

from recipes.data.tables import read_table
from recipes.errors import DataError


@pytest.mark.parametrize(("text", "names", "rows"), [
    ('"x,1",y\n1,2\n', ["x,1", "y"], 1), ("x,y\n1\n2,3\n", ["x", "y"], 2), ("x,y\r\n1,2\r\n", ["x", "y"], 1),
    ('x,y\n"a\nb",2\n', ["x", "y"], 1), ("\ufeffx,y\n1,2\n", ["x", "y"], 1), ("x,y\n1,2\n\n3,4\n", ["x", "y"], 2),
    (",y\n1,2\n", ["Unnamed: 0", "y"], 1), ('x,y\n"say ""hi""",2', ["x", "y"], 1)])
def test_forms_of_csv(tmp_path, text, names, rows):
    (tmp_path / "t.csv").write_text(text, "utf-8", newline="")
    table = read_table(tmp_path / "t.csv")
    assert (table.column_names, table.num_rows) == (names, rows)


@pytest.mark.parametrize(("name", "text", "rows", "facts"), [
    ("t.csv", "x;y\n1,5;2,5\n3;4\n", 2, "semicolons"), ("t.csv", "sep=;\nx;y\n1;2\n", 1, "semicolons"),
    ("t.csv", "x\ty\n1\t2\n", 1, "tabs"), ("t.csv", "x|y\n1|2\n", 1, "vertical bars"),
    ("t.tsv", "x,y\n1,2\n", 1, "commas"), ("t.csv", 'x;y\n"a;b";"c\nd"\n', 1, "semicolons"),
    ("t.csv", "# made by a sensor\n# 2024\nx,y\n1,2\n", 1, "before the header: # made by a sensor, # 2024"),
    ("t.csv", "# note, with commas\nx;y\n1,2;3\n", 1, "semicolons"), ("t.csv", "x, y\n1, 2\n", 1, ""),
    ("t.csv", "x,y\n1;2,3;4\n", 1, ""), ("t.csv", "x,y\r1,2\r", 1, ""), ("t.csv", "#x,y\n1,2\n", 1, "")])
def test_layouts_of_csv(tmp_path, name, text, rows, facts):
    (tmp_path / name).write_text(text, "utf-8", newline="")
    table = read_table(tmp_path / name)
    assert ([each.strip("#") for each in table.column_names], table.num_rows) == (["x", "y"], rows)
    shown = table.layout.facts()
    assert facts in "".join(shown.values()) if facts else not shown


def test_a_line_with_too_many_values_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n3,4,5\n")
    with pytest.raises(DataError, match="line 3 has 3 values, and the header 2"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("text", ["x,y\n1,2,3\n4,5,6\n", "x,y\n1,2\n3,4,5\n", 'x,y\n"1,2\n', ""])
def test_csv_that_would_lose_values(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match="the data file cannot be read"):
        read_table(tmp_path / "t.csv")
