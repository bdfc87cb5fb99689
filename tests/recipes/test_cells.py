"""Values are values: the spelling of cells, the kind of each column, and their use in each task."""

import csv
import datetime
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from recipes.data.cells import as_labels
from recipes.data.columns import choose_features, describe_columns, encoded, mean_and_deviation
from recipes.data.forms import read_form
from recipes.data.own_graph import read_graph
from recipes.data.passages import read_passages, table_passages
from recipes.data.splits import inputs_of, repeated_fact, split_by_order, stratified_order
from recipes.data.tables import class_target, read_table
from recipes.errors import ConfigError, DataError
from recipes.results.folder import saved_config, write_config
from recipes.settings.config_file import load_config
from recipes.tasks.table import load, make


def written(path, **columns):
    """A csv file of these cells."""
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def column(path, cells):
    """The cells next to another column, without which an empty cell is an empty line."""
    return read_table(written(path / "t.csv", other=["x"] * len(cells), c=cells))["c"]


# ---- kinds -----------------------------------------------------------------------------------------------------------

NUMBERS = ["1 2 3", "-1 +2 0", "0.5 .5 5.", "1e3 1E-3 2e+5", "00.5 1.5", "0 -0 0.0", "1 NA 3", "1 nan 2", "1 None 2",
           "1 null 2", "1 n/a -", "1 ? 2", "1 . 2", "inf 1 -inf", "9007199254740993 1", "1e999 1", "true false true",
           "True FALSE", "true NA", "1700000000.25 1", "-5 -007"]
CODES = ["01 02", "007 7", "00 1", "1 010", "0001 A"]
DATES = ["2024-05-17 2024-01-01", "2024/05/17", "2024-05-17T12:30 2024-05-17", "2024-05-17T12:30:00.25",
         "2024-05-17T12:30:00Z", "2024-05-17T12:30:00+02:00 2024-05-17", "2024-05-17 NA", "0001-01-01 9999-12-31",
         "2024-05-17T12:30:00.123456789"]
TEXTS = ["a b", "NA", "NA EU", "None Some", "nan a", "null x", "1_000", "0x10 0x11", "1-2 3-4", "12:30", "2024-13-01",
         "2024-02-30", "1 true", "yes no", "$5 €6", "5% 6", "٣", "1 2024-01-01", "1.2.3", "1,2,3", "31.02.2024",
         "1,5 2.5", "03/04/2024 04/03/2024", "13/13/2024", "A12 A13", "12,34,567", "$ %", "5-May", "(5", "--5"]


@pytest.mark.parametrize(("kind", "text"), [
    *(("number", each) for each in NUMBERS), *(("category", each) for each in CODES),
    *(("date", each) for each in DATES), *(("category", each) for each in TEXTS),
    *(("number", each) for each in ("1,5 2,5", "$5 $6", "5% 6% NA", "1,304.00 5", "(7) 5", "−5 6")),
    *(("date", each) for each in ("17.05.2024", "05/17/2024", "1/2/2024 13/2/2024 NA", "17-May-2024"))])
def test_the_cells_decide_the_kind(tmp_path, kind, text):
    cells = text.split(" ")
    assert column(tmp_path, cells).kind == kind
    assert column(tmp_path, [f" {cell} " for cell in cells] + ["", " "]).kind == kind            # spaces and gaps
    assert column(tmp_path, cells).texts().tolist() == cells


SEMICOLON, COMMA = ";", ","
FORMS = [
    (COMMA, ["1,304.00", "999.5", "-2"], [1304, 999.5, -2]), (COMMA, ["1,304", "12"], [1304, 12]),
    (SEMICOLON, ["1,304", "12"], [1.304, 12]), (SEMICOLON, ["1.304,5", "12"], [1304.5, 12]),
    (SEMICOLON, ["1,304.5", "12"], [1304.5, 12]), (COMMA, ["1.304.000,25", "0,5"], [1304000.25, 0.5]),
    (COMMA, ["$5", "$1,200.50"], [5, 1200.5]), (SEMICOLON, ["1.200 €", "5 €"], [1200, 5]),
    (COMMA, ["€1.25", "€3"], [1.25, 3]), (COMMA, ["5 %", "12.5%", "-"], [5, 12.5, np.nan]),
    (COMMA, ["(1,200.50)", "3"], [-1200.5, 3]), (COMMA, ["-$5", "$-6", "($7)"], [-5, -6, -7]),
    (COMMA, ["−5", "3"], [-5, 3]), (COMMA, ["1'234.5", "1’000"], [1234.5, 1000]),
    (SEMICOLON, ["1\u202f234,5", "2\xa0000"], [1234.5, 2000]), (COMMA, ["1,000", "1e3", "inf"], [1000, 1000, np.nan]),
    (COMMA, ["12,345,678", ".5"], [12345678, 0.5])]


@pytest.mark.parametrize(("separator", "cells", "numbers"), FORMS)
def test_forms_of_numbers(tmp_path, separator, cells, numbers):
    text = "".join(f'x{separator}"{cell}"\n' for cell in ["c", *cells])
    (tmp_path / "t.csv").write_text(text, "utf-8")
    result = read_table(tmp_path / "t.csv")["c"]
    assert result.kind == "number" and result.texts().tolist() == cells
    np.testing.assert_array_equal(np.where(result.missing("number"), np.nan, result.numbers()), numbers)


@pytest.mark.parametrize(("cells", "days"), [
    (["17.05.2024"], ["2024-05-17"]), (["3.4.2024"], ["2024-04-03"]), (["03/14/2024"], ["2024-03-14"]),
    (["3/4/2024", "3/14/2024"], ["2024-03-04", "2024-03-14"]),
    (["3-4-2024", "14-4-2024"], ["2024-04-03", "2024-04-14"]),
    (["03/14/2024 2:05 PM", "3/14/2024 12:00 AM"], ["2024-03-14T14:05", "2024-03-14"]),
    (["17.05.2024 14:05:30"], ["2024-05-17T14:05:30"]), (["17 May 2024", "1st Jan 2024"], ["2024-05-17", "2024-01-01"]),
    (["May 17, 2024", "Sept. 3, 2023"], ["2024-05-17", "2023-09-03"]), (["17-May-2024", "NA"], ["2024-05-17", "NaT"]),
    (["3 march 2024, 5:00pm"], ["2024-03-03T17:00"])])
def test_forms_of_dates(tmp_path, cells, days):
    result = column(tmp_path, cells)
    assert result.kind == "date" and result.texts().tolist() == cells
    expected = np.array(days, "datetime64[s]")
    np.testing.assert_array_equal(result.days(), np.where(np.isnat(expected), np.nan, expected.astype(float) / 86_400))


def test_one_column_with_decimal_commas_decides_about_the_points_of_others(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;c;d\n1,5;1.234;1.5;007\n2,25;12;2.123;010\n")
    table = read_table(tmp_path / "t.csv")
    assert [table[name].numbers().tolist() for name in "abc"] == [[1.5, 2.25], [1234, 12], [1.5, 2.123]]
    assert table["d"].kind == "category"


@pytest.mark.parametrize(("cells", "stated", "encoding"), [
    (["03/04/2024", "04/04/2024"], "date 31/12/2024", [19816, 19817]),
    (["03/04/2024", "04/04/2024"], "date 12/31/2024", [19786, 19817]),
    (["20240304", "20240404"], "date 20241231", [19786, 19817]), (["1,234", "1,5"], "number 1.234,5", [1.234, 1.5]),
    (["1,234", "2,500"], "number 1.234,5", [1.234, 2.5]), (["1.234", "2.500"], "number 1.234,5", [1234, 2500]),
    (["1,234 €", "2,500 €"], "number 1,234.5", [1234, 2500])])
def test_a_form_may_be_stated(tmp_path, cells, stated, encoding):
    """... and predictions read their file by it, whatever its cells would decide."""
    file = written(tmp_path / "t.csv", y=["a", "b"] * 10, c=cells * 10)
    config = load_config("configs/mlp_table.yaml",
                         [f"task.file={file}", "task.target=y", f"task.columns={{c: '{stated}'}}"]).task
    data = load(config)
    described, = data.artifacts["columns"]
    column = read_table(tmp_path / "t.csv")["c"].in_form(read_form(json.loads(json.dumps(described))))
    assert (column.days() if stated.startswith("date") else column.numbers())[:2].tolist() == encoding
    new = written(tmp_path / "new.csv", c=cells[:1])
    assert make(config, data.artifacts).read(new).rows.arrays["x"].shape[0] == 1


def test_the_summary_shows_a_cell_of_each_form(tmp_path):
    file = written(tmp_path / "t.csv", sold=["14.05.2024", "15.05.2024"] * 10, area=["$3.00", "$4.50"] * 10,
                   price=["1.234,5", "2,5"] * 10)
    config = load_config("configs/mlp_table.yaml", [f"task.file={file}", "task.target=price", "task.kind=regression"])
    assert load(config.task).summary["written as"].split("\n") == [
        "sold: dates such as 31/12/2024, here 14.05.2024", "area: numbers such as 1,234.5 $, here $3.00",
        "price: numbers such as 1.234,5, here 1.234,5"]


@pytest.mark.parametrize(("cells", "new", "message"), [
    (["1.234,5", "2,5"], "3.5", "numbers such as 1.234,5"), (["5%", "6%"], "0.05", "numbers such as 1,234.5 %"),
    (["14.05.2024", "15.05.2024"], "2024-05-17", "dates such as 31/12/2024"),
    (["1", "2"], "1,5", "numbers such as 12")])
def test_a_file_in_another_form_is_refused(tmp_path, cells, new, message):
    file = written(tmp_path / "t.csv", y=["a", "b"] * 10, c=cells * 10)
    config = load_config("configs/mlp_table.yaml", [f"task.file={file}", "task.target=y"]).task
    with pytest.raises(DataError, match=re.escape(message)):
        make(config, load(config).artifacts).read(written(tmp_path / "new.csv", c=[new]))


@pytest.mark.parametrize(("values", "kind", "texts"), [
    (pa.array([1, None, 3]), "number", ["1", None, "3"]), (pa.array([1.0, None, 3.0]), "number", ["1", None, "3"]),
    (pa.array([1.5, float("nan")]), "number", ["1.5", None]), (pa.array([True, None]), "number", ["True", None]),
    (pa.array(["01", "2"]), "category", ["01", "2"]), (pa.array(["1", None]), "number", ["1", None]),
    (pa.array(["NA", "b"]).dictionary_encode(), "category", ["NA", "b"]),
    (pa.array([datetime.date(2024, 5, 17), None]), "date", ["2024-05-17", None]),
    (pa.array([datetime.datetime(2024, 5, 17, 12)]), "date", ["2024-05-17 12:00:00"]),
    (pa.array([2**60 + 1]), "number", [str(2**60 + 1)]), (pa.array([[1, 2]]), "category", ["[1, 2]"]),
    (pa.array([None, None]), "category", [None, None]), (pa.array(["2024-05-17", ""]), "date", ["2024-05-17", None]),
    (pa.array([1, 2]).cast(pa.decimal128(24, 2)), "number", ["1.00", "2.00"]),
])
def test_types_of_a_parquet_file(tmp_path, values, kind, texts):
    parquet.write_table(pa.table({"c": values}), tmp_path / "t.parquet")
    result = read_table(tmp_path / "t.parquet")["c"]
    assert (result.kind, result.texts().tolist()) == (kind, texts)


@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_json_keeps_the_spelling(tmp_path, name):
    lines = ['{"a": 1.50, "b": "01", "c": null}', '{"a": 9007199254740993, "b": "1", "c": true}']
    (tmp_path / name).write_text("\n".join(lines) if name == "t.jsonl" else f"[{', '.join(lines)}]")
    table = read_table(tmp_path / name)
    texts = [table[each].texts().tolist() for each in table]
    assert texts == [["1.50", "9007199254740993"], ["01", "1"], [None, "true"]]


@pytest.mark.parametrize("text", ["[1, 2]", "3", '{"a": 1', '[{"a": 1}, 2]'])
def test_json_that_is_no_table(tmp_path, text):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(DataError, match="the data file cannot be read"):
        read_table(tmp_path / "t.json")


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cells", "numbers"), [
    ("1 +2 -3.5 1e3 .5 5.", [1, 2, -3.5, 1000, 0.5, 5]), ("007 7", [7, 7]), ("true FALSE", [1, 0]),
    ("NA None inf 1", [np.nan, np.nan, np.inf, 1]), ("1700000000.125 1", [1700000000.125, 1]),
    ("9007199254740993 1", [2.0**53, 1])])
def test_numbers(tmp_path, cells, numbers):
    np.testing.assert_array_equal(column(tmp_path, cells.split()).numbers(), numbers)


@pytest.mark.parametrize(("cell", "day"), [
    ("1970-01-02", 1), ("1970/01/02", 1), ("1970-01-01T12:00", 0.5), ("1970-01-01 06:00:00", 0.25),
    ("1970-01-01T02:00:00+02:00", 0), ("1970-01-01T12:00:00Z", 0.5), ("1969-12-31", -1),
    ("1970-01-01T00:00:00.5", 0.5 / 86400),
    ("NA", np.nan), ("", np.nan)])
def test_days(tmp_path, cell, day):
    np.testing.assert_allclose(column(tmp_path, [cell, "2000-01-01"]).days()[0], day, rtol=1e-12)


@pytest.mark.parametrize(("needed", "cells", "message"), [
    ("numbers", "1 x 3", "'x' in row 2 after the header"), ("numbers", "1 2 2024-05-17", "'2024-05-17' in row 3"),
    ("numbers", "1,5 2.5", "'1,5' in row 1"), ("days", "2024-05-17 17.05.2024", "'17.05.2024' in row 2"),
    ("days", "5", "'5' in row 1"), ("days", "2024-02-30", "'2024-02-30' in row 1")])
def test_a_cell_of_another_kind_is_named(tmp_path, needed, cells, message):
    with pytest.raises(DataError, match=message):
        getattr(column(tmp_path, cells.split()), needed)()


@pytest.mark.parametrize(("values", "texts"), [
    (np.array([0, 1, -1]), ["0", "1", ""]), (np.array([0.0, 1.0, -1.0]), ["0", "1", ""]),
    (np.array([0.0, np.nan, 2.0]), ["0", "", "2"]), (np.array(["01", "1", ""]), ["01", "1", ""]),
    (np.array([b"a", b"-1"]), ["a", ""]), (np.array([True, False]), ["True", "False"]),
    (np.array([2**60 + 1]), [str(2**60 + 1)]),
    (np.array(["NA", "None", "nan"]), ["NA", "None", "nan"])])
def test_labels_of_an_array(values, texts):
    assert as_labels(values).tolist() == texts


@pytest.mark.parametrize(("cells", "classes"), [
    ("01 02 01", ["01", "02"]), ("1 0 1", ["0", "1"]), ("1.0 0.0", ["0.0", "1.0"]), ("NA EU NA", ["EU", "NA"]),
    ("None Some", ["None", "Some"]), ("nan inf x", ["inf", "nan", "x"]), ("true false", ["false", "true"]),
    ("TRUE False", ["False", "TRUE"]), ("9007199254740993 9007199254740992", ["9007199254740992", "9007199254740993"]),
    ("2024-05-17 2024-05-18", ["2024-05-17", "2024-05-18"]), ("a A", ["A", "a"]), ("1 01", ["01", "1"]),
    ("-1 1", ["-1", "1"])])
def test_classes_are_spelled_as_in_the_file(tmp_path, cells, classes):
    ids, result = class_target(column(tmp_path, cells.split()))
    assert result == classes and [result[i] for i in ids] == cells.split()


# ---- the table task --------------------------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=40).round(3)
Y = np.where(X > 0, "yes", "no")


def config(file, *overrides, target="y"):
    return load_config("mlp_table", [f"task.file={file}", f"task.target={target}", *overrides]).task


def loaded(file, *overrides, target="y"):
    return load(config(file, *overrides, target=target))


@pytest.mark.parametrize(("cells", "override", "kind"), [
    (["01", "02"], "number", "number"), (["1", "2"], "category", "category"),
    (["2024-05-17", "2024-06-01"], "category", "category"),
    (["1", "x"], "category", "category"), (["2024-05-17", "2025-05-17"], "date", "date"),
    (["NA", "1"], "category", "category"),
    (["NA", "1"], "number", "number")])
def test_a_kind_may_be_stated(tmp_path, cells, override, kind):
    file = written(tmp_path / "t.csv", a=X, **{"the column": cells * 20}, y=Y)
    data = loaded(file, f"task.columns={{the column: {override}}}", "task.missing=fill")
    assert data.artifacts["columns"][1]["kind"] == kind


@pytest.mark.parametrize(("cells", "why"), [
    (["same"] * 40, "c: the same text in all 40 rows"), ([""] * 40, "c: no values"),
    ([14.62] * 40, "c: the same number in all"),
    (["2024-05-17"] * 40, "c: the same date in all"), ([0.1 + 0.2, 0.3] * 20, "c: the same number in all"),
    ([f"{i:02d}x" for i in range(40)] * 2, "c: texts with 80 different"),
    ([f"text {i}" for i in range(80)], "c: texts with 80 different"),
    ([f"0{i}" for i in range(80)], "c: texts with 80 different values, in 80 rows")])
def test_columns_that_are_not_used_are_listed(tmp_path, cells, why):
    if len(cells) == 80:
        cells = [f"{cell}{i}" for i, cell in enumerate(cells)] if "x" in cells[0] else cells
    n = len(cells)
    file = written(tmp_path / "t.csv", a=np.resize(X, n), c=cells, y=np.resize(Y, n))
    data = loaded(file)
    assert data.summary["features"] == "numbers: a" and data.summary["left out"].startswith(why)


@pytest.mark.parametrize(("name", "used"), [("", False), ("Unnamed: 0", False), ("__index_level_0__", False),
    ("index", True)])
def test_the_index_of_pandas_is_not_used_unless_it_is_named(tmp_path, name, used):
    file = written(tmp_path / "t.csv", **{name: range(40)}, a=X, y=Y)
    name = name or "Unnamed: 0"
    data = loaded(file)
    assert (name in data.summary["features"]) == used != ("left out" in data.summary)
    assert name in loaded(file, f"task.features=['{name}']").summary["features"]
    assert name in loaded(file, f"task.columns={{'{name}': number}}").summary["features"]


def test_a_parquet_file_of_pandas(tmp_path):
    frame = pd.DataFrame({"a": X, "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(40), "D"), "y": Y},
                         index=np.arange(7, 47))
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv")
    one, other = (loaded(tmp_path / name) for name in ("t.parquet", "t.csv"))
    assert one.artifacts["columns"] == other.artifacts["columns"]
    assert one.summary["left out"].startswith("__index_level_0__: ")
    assert other.summary["left out"].startswith("Unnamed: 0: ")
    for split, rows in one.splits.items():
        np.testing.assert_array_equal(rows.arrays["x"], other.splits[split].arrays["x"])


def test_lists_and_times_of_a_parquet_file_are_not_used(tmp_path):
    times = pa.array([5] * 40, pa.time32("s"))
    parquet.write_table(pa.table({"a": X, "y": Y, "vector": [[1.0, 2.0]] * 40, "t": times}), tmp_path / "t.parquet")
    data = loaded(tmp_path / "t.parquet")
    assert data.summary["features"] == "numbers: a"
    assert data.summary["left out"].startswith("vector: values of the type list<")
    assert "\nt: values of the type time32[" in data.summary["left out"]


def test_a_constant_column_with_gaps_shows_the_gaps_only(tmp_path):
    data = loaded(written(tmp_path / "t.csv", a=X, c=["14.62", ""] * 20, y=Y), "task.missing=fill")
    (constant,) = [each for each in data.artifacts["columns"] if each["name"] == "c"]
    assert constant["constant"] and constant["deviation"] == 1
    table = read_table(written(tmp_path / "n.csv", c=["14.62", "1e9", ""]))
    np.testing.assert_array_equal(encoded(table, [constant]), [[0, 0], [0, 0], [0, 1]])


@pytest.mark.parametrize("offset", [0, 1e6, 1.7e9, -4e12])
def test_a_target_or_feature_with_a_large_offset_is_centred_before_it_is_rounded(tmp_path, offset):
    file = written(tmp_path / "t.csv", a=[f"{offset + x:.3f}" for x in X], y=[f"{offset + 100 * x:.3f}" for x in X])
    data = loaded(file, "task.kind=regression")
    x, y = (np.concatenate([rows.arrays[name].ravel() for rows in data.splits.values()]) for name in "xy")
    np.testing.assert_allclose(x, y, atol=2e-3 if abs(offset) > 1e12 else 1e-4)     # 4e12 itself is rounded to 5e-4
    task = make(config(file, "task.kind=regression"), data.artifacts)
    cells = task.columns(np.float32([0, 1]))["y"]
    assert cells.dtype == np.float64 and cells[1] - cells[0] == pytest.approx(100 * X[:28].std(), rel=0.5)


def test_integers_above_two_to_the_53(tmp_path):
    big = [2**60 + 1000 * i for i in range(40)]
    pd.DataFrame({"a": big, "b": X, "y": Y}).to_parquet(tmp_path / "t.parquet")
    one, other = loaded(tmp_path / "t.parquet"), loaded(written(tmp_path / "t.csv", a=big, b=X, y=Y))
    np.testing.assert_allclose(one.splits["train"].arrays["x"], other.splits["train"].arrays["x"], rtol=1e-6)


@pytest.mark.parametrize(("cells", "message"), [
    (["1", "2", "3", "red"] * 10, "'red' in row 4 after the header"),
    (["2024-05-17"] * 3 + ["soon"], "'soon' in row 4"),
    (["2024-05-17"] * 3 + ["2024-02-30"], "'2024-02-30' in row 4")])
def test_a_few_words_in_a_column_of_numbers_or_dates(tmp_path, cells, message):
    file = written(tmp_path / "t.csv", a=X, c=(cells * 40)[:40], y=Y)
    with pytest.raises(DataError, match=message):
        loaded(file)
    assert "c: by task.columns" in loaded(file, "task.columns={c: ignore}").summary["left out"]


def test_the_split_of_a_column(tmp_path):
    words = ["train", "val", "TEST", "Train", "test", "train"]
    file = written(tmp_path / "t.csv", a=range(6), b=["x", "y"] * 3, part=words)
    config = load_config("configs/mlp_table.yaml",
                         [f"task.file={file}", "task.target=b", "task.split_column=part"]).task
    data = load(config)
    assert data.summary["split"] == "train 3, val 1, test 2" and data.summary["features"] == "numbers: a"
    assert not make(config, data.artifacts).read(file).notes


@pytest.mark.parametrize(("words", "message"), [
    (["train", "dev"], "other words than train, val and test"), (["train", ""], "an empty cell in row 2"),
    (["val", "test"], "has the word train")])
def test_a_column_that_is_no_split(tmp_path, words, message):
    file = written(tmp_path / "t.csv", a=[1, 2], b=["x", "y"], part=words)
    with pytest.raises(DataError, match=message):
        load(load_config("configs/mlp_table.yaml",
                         [f"task.file={file}", "task.target=b", "task.split_column=part"]).task)


def test_the_ids_pass_through(tmp_path):
    file = written(tmp_path / "t.csv", id=[f"{i:03d}" for i in range(40)], a=X, y=Y)
    data = loaded(file, "task.id_column=id")
    assert data.summary["ids"] == "id" and data.summary["features"] == "numbers: a" and "left out" not in data.summary
    task = make(config(file, "task.id_column=id"), data.artifacts)
    inputs = task.read(written(tmp_path / "n.csv", a=[1, 2], id=["007", "NA"]))
    assert inputs.names["id"].tolist() == ["007", "NA"]
    with pytest.raises(DataError, match="missing  id"):
        task.read(written(tmp_path / "m.csv", a=[1, 2]))


@pytest.mark.parametrize(("override", "message"), [
    ("task.id_column=y", "is the target"), ("task.columns={a: text}",
        "task.columns.a  must be 'number', 'category', 'date', 'ignore', ")])
def test_wrong_keys(tmp_path, override, message):
    with pytest.raises(ConfigError, match=message):
        config(tmp_path / "t.csv", override)


@pytest.mark.parametrize("override", ["task.id_column=z", "task.columns={z: ignore}"])
def test_a_key_that_names_no_column(tmp_path, override):
    with pytest.raises(DataError, match="there is no column 'z'"):
        loaded(written(tmp_path / "t.csv", a=X, y=Y), override)


# ---- prediction ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained_on(tmp_path_factory):
    """A task whose training had a number, a category, a date and a code; it is not trained."""
    file = written(tmp_path_factory.mktemp("cells") / "t.csv", n=X, c=["1", "2"] * 20,
                   when=pd.date_range("2024-01-01", periods=40),
                   zip=["01", "02", "11", "12"] * 10, y=Y)
    section = config(file, "task.columns={c: category}")
    return make(section, load(section).artifacts)


RIGHT = {"n": "1", "c": "1", "when": "2024-05-17", "zip": "01"}


@pytest.mark.parametrize(("cells", "message"), [
    ({"n": "unknown"}, "the column 'n' must have numbers(.|\n)*'unknown' in row 1"),
    ({"n": "2024-05-17"}, "the column 'n' must have numbers"),
    ({"when": "17.05.2024"}, "the column 'when' must have dates"),
    ({"when": "1"}, "the column 'when' must have dates"), ({"n": ""},
        "the column 'n' has gaps(.|\n)*an empty cell in row 1"),
    ({"n": "NA"}, "the column 'n' has gaps(.|\n)*'NA' in row 1"), ({"when": ""}, "the column 'when' has gaps"),
    ({"c": ""}, "the column 'c' has gaps"), ({"n": "1,5"}, "'1,5' in row 1")])
def test_prediction_names_column_and_row(trained_on, tmp_path, cells, message):
    file = written(tmp_path / "n.csv", **{name: [cell] for name, cell in (RIGHT | cells).items()})
    with pytest.raises(DataError, match=message):
        trained_on.read(file)


@pytest.mark.parametrize("cells", [
    {}, {"n": " 1.0 "}, {"n": "+1"}, {"n": "1e0"}, {"c": "1.0"}, {"c": " 1 "}, {"when": "2024/05/17"},
    {"when": "2024-05-17T00:00"},
    {"when": "2024-05-17 00:00:00"}, {"n": "true"}, {"n": "01"}, {"extra": "5"}])
def test_the_same_value_in_another_form(trained_on, tmp_path, cells):
    names = [*RIGHT | cells][::-1]                                                   # another order
    right, same = (trained_on.read(written(tmp_path / "n.csv", **{name: [row[name]] for name in names if name in row}))
                   for row in (RIGHT, RIGHT | cells))
    np.testing.assert_array_equal(right.rows.arrays["x"], same.rows.arrays["x"])
    assert len(same.notes) == len(cells.keys() - RIGHT.keys())


@pytest.mark.parametrize("cells", [{"n": 1}, {"n": 1.0}, {"c": 1}, {"c": 1.0}, {"when": pd.Timestamp("2024-05-17")},
                                   {"when": datetime.date(2024, 5, 17)}, {"n": True}])
def test_a_typed_file_for_a_run_on_csv(trained_on, tmp_path, cells):
    pd.DataFrame({name: [cell] for name, cell in (RIGHT | cells).items()}).to_parquet(tmp_path / "n.parquet")
    right = trained_on.read(written(tmp_path / "n.csv", **{name: [cell] for name, cell in RIGHT.items()}))
    np.testing.assert_array_equal(trained_on.read(tmp_path / "n.parquet").rows.arrays["x"], right.rows.arrays["x"])


@pytest.mark.parametrize(("cells", "note"), [
    ({"zip": "1"}, "'zip' in 1 of 1, first '1' in row 1"), ({"c": "3"}, "'c' in 1 of 1"),
    ({"extra": "5"}, "not used: the column 'extra'")])
def test_what_training_did_not_have_is_noted(trained_on, tmp_path, cells, note):
    inputs = trained_on.read(written(tmp_path / "n.csv", **{name: [cell] for name, cell in (RIGHT | cells).items()}))
    assert note in inputs.notes[0]


def test_no_row(trained_on, tmp_path):
    (tmp_path / "n.csv").write_text("n,c,when,zip\n")
    with pytest.raises(DataError, match="the file has no rows"):
        trained_on.read(tmp_path / "n.csv")


# ---- graphs and passages ---------------------------------------------------------------------------------------------


def graph(folder, ids, labels, edges, **columns):
    written(folder / "nodes.csv", id=ids, label=labels, **columns)
    written(folder / "edges.csv", source=[a for a, _ in edges], target=[b for _, b in edges])
    return read_graph(folder)


@pytest.mark.parametrize(("ids", "edge"), [
    (["007", "7", "A"], ("007", "A")), (["NA", "None", "nan"], ("None", "nan")), (["1", "2", "3"], ("1.0", "3.0")),
    (["1", "1.0", "2"], ("1.0", "2")), (["true", "True", "TRUE"], ("true", "TRUE")),
    (["9007199254740993", "9007199254740992", "1"], ("9007199254740993", "1"))])
def test_ids_of_nodes_are_texts(tmp_path, ids, edge):
    result = graph(tmp_path, ids, ["a", "b", "c"], [edge], f=[1, 2, 3])
    assert list(result.ids) == ids
    assert [ids[i] for i in result.edges[:, 0]] == [end if end in ids else end[:-2] for end in edge]


@pytest.mark.parametrize(("labels", "texts"), [
    (["0", "1", "", "1"], ["0", "1", "", "1"]), (["01", "02", "", "01"], ["01", "02", "", "01"]),
    (["NA", "EU", "", "EU"], ["NA", "EU", "", "EU"]),
    (["0", "1", "NA", "1"], ["0", "1", "", "1"]), (["None", "x", "x", ""], ["None", "x", "x", ""]),
    (["-1", "1", "", "1"], ["-1", "1", "", "1"])])
def test_labels_of_nodes(tmp_path, labels, texts):
    assert graph(tmp_path, list("abcd"), labels, [("a", "b")], f=range(4)).labels.tolist() == texts


def test_what_a_graph_leaves_out(tmp_path):
    result = graph(tmp_path, list("abc"), list("xyx"), [("a", "b"), ("b", "a"), ("c", "c")], **{"Unnamed: 0": range(3)},
                  f=range(3))
    assert set(result.left_out) == {"loops", "repeated edges"}
    written(tmp_path / "edges.csv", source=["a"], target=["b"], weight=[0.5], kind=["x"])
    assert read_graph(tmp_path).left_out == {"column kind of edges.csv": "not used, 1 values"}
    assert read_graph(tmp_path, "not used by gin").left_out["column weight of edges.csv"] == "not used by gin, 1 values"


def test_a_graph_without_edges(tmp_path):
    result = graph(tmp_path, list("abc"), list("xyx"), [], f=range(3))
    assert result.edges.shape == (2, 0)


@pytest.mark.parametrize(("array", "labels"), [([0.0, 1.0, np.nan], ["0", "1", ""]), ([-1.0, 0.0, 1.0], ["", "0", "1"]),
                                               (np.array([-1, 0, 1]), ["", "0", "1"]),
                                               ([b"x", b"y", b""], ["x", "y", ""])])
def test_labels_of_npz(tmp_path, array, labels):
    np.savez(tmp_path / "g.npz", edges=[[0], [1]], features=np.ones((3, 1)), labels=array, more=np.ones(2))
    result = read_graph(tmp_path / "g.npz")
    assert result.labels.tolist() == labels and result.left_out == {"array more": "not used, float64[2]"}


def test_labels_with_fractions(tmp_path):
    np.savez(tmp_path / "g.npz", edges=[[0], [1]], features=np.ones((2, 1)), labels=[0.5, 1.0])
    with pytest.raises(DataError, match="the labels are not classes"):
        read_graph(tmp_path / "g.npz")


def test_texts_are_kept_as_they_are(tmp_path):
    texts = ["NA", "007", " two  spaces ", "null", "1.50", "a,b", 'say "x"']
    file = written(tmp_path / "t.csv", text=texts, label=["01", "NA", "01", "NA", "01", "NA", "01"], more=range(7))
    result = table_passages(file, "text", "label", (0.2, 0.2), 0)
    assert result.texts == texts and result.classes == ["01",
        "NA"] and result.left_out == {"column more": "not used, 7 rows"}
    assert [*read_passages(file, "text").values()] == texts
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert [*read_passages(tmp_path / "t.jsonl", "text").values()] == texts


# ---- splits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [[90, 10], [5, 5, 90], [1, 99], [2, 2, 2], [30, 30, 40], [3] * 20, [1] * 6,
                                    [1000, 7, 1]])
def test_each_split_has_each_class_by_its_share(counts):
    labels = np.repeat(np.arange(len(counts)), counts)
    order = np.random.default_rng(1).permutation(len(labels))
    parts = split_by_order(stratified_order(order, labels), (0.15, 0.15))
    plain = split_by_order(order, (0.15, 0.15))
    assert {name: len(ids) for name, ids in parts.items()} == {name: len(ids) for name, ids in plain.items()}
    assert sorted(np.concatenate(list(parts.values()))) == list(range(len(labels)))
    for name, share in (("train", 0.7), ("val", 0.15), ("test", 0.15)):
        result = np.bincount(labels[parts[name]], minlength=len(counts))
        assert (np.abs(result - share * np.array(counts)) <= 1 + len(counts) / 4).all(), (name, result)
    assert (np.bincount(labels[parts["train"]], minlength=len(counts)) > 0).all() or max(counts) == 1


def test_classes_without_rows_are_said(tmp_path):
    data = loaded(written(tmp_path / "t.csv", a=X, y=["rare", *Y[1:]]))
    assert data.summary["classes missing"] == "val has no example of rare\ntest has no example of rare"
    assert "classes missing" not in loaded(written(tmp_path / "t.csv", a=X, y=Y)).summary


@pytest.mark.parametrize(("times", "count"), [
    (["2024-01-01T10:00Z", "2024-01-02 10:00", "2024-01-03"], 13),
    (["2024-01-01T10:00+02:00", "2024-01-01 10:00 -0500"], 0),
    (["2024-01-01T10:00", "2024-01-02"], 0), (["2024-01-01T10:00:00.5Z", "2024-01-02T10:00:00.5"], 20)])
def test_times_with_and_without_a_zone(tmp_path, times, count):
    result = loaded(written(tmp_path / "t.csv", t=[times[i % len(times)] for i in range(40)], a=X, y=Y)).summary
    said = f"t: {count} of 40 times without a zone, read as UTC; others have one"
    assert result.get("time zones") == (said if count else None)


@pytest.mark.parametrize(("classes", "said"), [
    (["Yes", "yes", "No"], "'Yes', 'yes': classes that differ in case, spaces or codings of letters"),
    (["\xe9", "e\u0301"], "'e\\u0301', '\\xe9': classes that differ in case, spaces or codings of letters"),
    (["yes", "no"], None)])
def test_classes_that_are_alike_are_said(tmp_path, classes, said):
    file = written(tmp_path / "t.csv", a=X, y=[classes[i % len(classes)] for i in range(40)])
    assert loaded(file).summary.get("alike") == said


def test_a_name_in_the_other_coding_of_its_letters(tmp_path):
    """As a csv file has it that was made from names of files on macOS: columns and categories are found by either."""
    one, other = "caf\xe9", "cafe\u0301"
    cells = np.where(X > 0, one, "bar")
    task = config(written(tmp_path / "t.csv", **{one: cells, "b": X, "y": Y}), f"task.id_column={other}")
    trained = make(task, load(task).artifacts)
    inputs = trained.read(written(tmp_path / "new.csv", **{other: [other], "b": [1]}))
    assert inputs.names[other].tolist() == [other] and not inputs.notes
    task = config(tmp_path / "t.csv", "task.columns={" + other + ": category}")
    trained = make(task, load(task).artifacts)
    inputs = trained.read(written(tmp_path / "new.csv", **{other: [other, one, "new"], "b": [1, 1, 1]}))
    assert inputs.rows.arrays["x"][:, :2].tolist() == [[0, 1], [0, 1], [0, 0]] and len(inputs.notes) == 1


def test_rows_that_training_has_seen_are_said(tmp_path):
    x = np.tile(X[:10], 4)
    summary = loaded(written(tmp_path / "t.csv", a=x, b=-x, y=np.where(x > 0, "yes", "no"))).summary
    assert summary["repeated"] == ("val: 6 of 6 have the inputs of an example of train\n"
                                   "test: 6 of 6 have the inputs of an example of train")
    different = np.arange(40)
    assert "repeated" not in loaded(written(tmp_path / "t.csv", a=different, y=Y)).summary


@pytest.mark.parametrize("examples", [np.arange(24).reshape(4, 6), np.arange(16, dtype=np.uint8).reshape(4, 2, 2, 1),
                                      np.arange(24.0).reshape(6, 4).T])
def test_repeated_examples_of_any_shape(examples):
    parts = {"train": examples, "val": examples[:0], "test": np.concatenate([examples[1:3], examples[:1] + 100])}
    result = repeated_fact({split: inputs_of(part) for split, part in parts.items()})
    assert result == {"repeated": "test: 2 of 3 have the inputs of an example of train"}


@pytest.mark.parametrize(("last", "said"), [
    ("Total", "'Total' in the column 'item': delete the row if it sums up the others"),
    ("Grand total:", "'Grand total:' in the column 'item': delete the row if it sums up the others"),
    ("pen", None), ("Totally", None)])
def test_a_row_of_sums_at_the_end_is_said(tmp_path, last, said):
    items = [*(["pen", "cup"] * 20)[:39], last]
    assert loaded(written(tmp_path / "t.csv", item=items, a=X, y=Y)).summary.get("last row") == said


def test_a_word_that_other_rows_have_is_no_sum(tmp_path):
    assert "last row" not in loaded(written(tmp_path / "t.csv", item=["pen", "total"] * 20, a=X, y=Y)).summary


@pytest.mark.parametrize(("lines", "row"), [(["Sales of 2024,"], 1), (["Sales,", ",", "by shop,"], 3)])
def test_a_title_above_the_header(tmp_path, lines, row):
    rows = [*lines, "a,y", *(f"{a},{y}" for a, y in zip(X, Y, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    with pytest.raises(DataError, match=f"delete the lines before row {row} after the header: it is the true header"):
        loaded(tmp_path / "t.csv")


def test_a_wide_table_is_summed_up(tmp_path):
    wide = {f"c{i}": X for i in range(240)}
    features = loaded(written(tmp_path / "t.csv", **wide, y=Y)).summary["features"]
    assert features.startswith("numbers: c0, c1, ") and features.endswith("c99 and 140 more")


@pytest.mark.parametrize("largest", [1e150, 1e300, np.finfo(float).max])
def test_numbers_whose_squares_are_infinite(tmp_path, largest):
    """As the largest float, which marks gaps in some files."""
    cells = [*X[1:], largest]
    (described,) = loaded(written(tmp_path / "t.csv", a=cells, y=Y)).artifacts["columns"]
    assert np.isfinite([described["mean"], described["deviation"]]).all()
    regression = loaded(written(tmp_path / "t.csv", a=X, y=cells), "task.kind=regression").artifacts
    assert np.isfinite([regression["target_mean"], regression["target_unit"]]).all()


@pytest.mark.parametrize("cells", [[1.5, 2.5, 4], [1e200, 3e200], [-1e300, 1e300], [7], []])
def test_means_and_deviations(cells):
    numbers = np.array(cells, float)
    exact = numbers.astype(np.longdouble)
    expected = (exact.mean(), exact.std()) if len(cells) else (0, 0)
    np.testing.assert_allclose(mean_and_deviation(numbers), expected, rtol=1e-15)


@pytest.mark.parametrize("names", [["a", "a "], ["\xe9", "\xe9"]])
def test_names_that_differ_by_spaces_are_one(tmp_path, names):
    """In a parquet file too, where the second once replaced the first."""
    parquet.write_table(pa.table([X, X, Y], [*names, "y"]), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="occurs twice"):
        loaded(tmp_path / "t.parquet")


def test_describing_reads_the_training_rows_only(tmp_path):
    table = read_table(written(tmp_path / "t.csv", a=[1, 2, 3, 1000], c=["x", "y", "x", "z"]))
    train = np.arange(3)
    kinds = choose_features(table, {}, None, [], train).kinds
    number, category = describe_columns(table, kinds, train)
    assert number["mean"] == 2 and category["values"] == ["x", "y"]
    assert Path(table.file).name == "t.csv"


def test_a_run_of_an_earlier_version_keeps_its_split(tmp_path):
    file = written(tmp_path / "t.csv", a=X, y=Y)
    whole = load_config("mlp_table", [f"task.file={file}", "task.target=y"])
    (tmp_path / "config.yaml").write_text(whole.to_yaml().replace("  stratify: true\n", ""))
    earlier = saved_config(tmp_path)
    assert (whole.task.stratify, earlier.task.stratify) == (True, False)
    assert load_config(str(write_config(earlier, tmp_path) or tmp_path / "config.yaml")).task.stratify is False
