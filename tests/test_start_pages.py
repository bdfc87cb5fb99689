"""Tables and programs of docs/start and of one guide are correct: each line of code in a table has the shown result.

A table whose first column is `code` or `program` has code in this column, and its results in the columns `result` or
`xjax`, and `JAX`: the text of the value, or the class of the error. Its rows use the names that the page has made.
"""

import ast
import functools
import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
import types
from typing import NamedTuple

import pytest

from tests.oracle import real_jax
from tests.quick_compiling import flags
from tests.test_docs import BLOCKS, DOCS, START, module_of, results_of, run


class Row(NamedTuple):
    """A row of a table of results: its page, its line, and the text of each column by the name of the column."""

    page: str
    line: int
    cells: dict[str, str]

    @property
    def code(self):
        return (self.cells.get("code") or self.cells["program"]).strip("`")

    @property
    def shown(self):
        return (self.cells.get("result") or self.cells["xjax"]).strip("`")


def tables(page):
    """(Line of its header, names of the columns, rows as lists of cells) of each table of a page."""
    text = (DOCS / page).read_text()
    for match in re.finditer(r"^\|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", text, re.MULTILINE):
        lines = match[0].splitlines()
        header, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in [lines[0], *lines[2:]]]
        assert all(len(row) == len(header) for row in rows), f"{page}: {header}"
        yield text[:match.start()].count("\n"), header, rows


def checked_rows(page):
    for line, header, rows in tables(page):
        if header[0] in ("code", "program"):
            yield from (Row(page, line + 2 + i, dict(zip(header, row))) for i, row in enumerate(rows))


# Pages whose tables have programs and their results.
WITH_RESULTS = (*START, "guides/why_xjax.md")
ROWS = [row for page in WITH_RESULTS for row in checked_rows(page)]


def text_of(code, namespace):
    """The value of an expression as `print` shows it, on one line, or the class of its error.

    The elements of a tuple are printed as arguments of `print`, if the code is a tuple or one of them is an array.
    """
    try:
        value = eval(code, namespace)
    except Exception as err:
        return type(err).__name__
    several = isinstance(value, tuple | list) and any(hasattr(each, "dtype") for each in value)
    several = several or isinstance(ast.parse(code, mode="eval").body, ast.Tuple)
    return " ".join((", ".join(map(str, value)) if several else str(value)).split())


@functools.cache
def results(page, column):
    """Line of a row -> its result, in this library or (column "JAX") in the real one, after the blocks of the page."""
    rows = [row for row in ROWS if row.page == page and column in ("xjax", *row.cells)]
    if column == "xjax":
        results_of(page)
        namespace = vars(module_of(page))
    else:
        jax = real_jax()
        module = types.ModuleType("for_jax")
        namespace = vars(module)
        namespace.update(jax=jax, jnp=jax.numpy, lax=jax.lax)
        for block in BLOCKS[page]:
            if block.line < max(row.line for row in rows) and "import xjax" not in block.code:
                run(block, module)
    return {row.line: text_of(row.code, namespace) for row in rows}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.page}-line{row.line + 1}")
def test_row_has_the_shown_result(row):
    if "optim" in row.code and importlib.util.find_spec("optax") is None:
        pytest.skip("optax is not installed")
    assert results(row.page, "xjax")[row.line] == row.shown


@pytest.mark.parametrize("row", [row for row in ROWS if "JAX" in row.cells], ids=lambda row: row.code)
def test_row_has_the_shown_result_of_jax(row):
    assert results(row.page, "JAX")[row.line] == row.cells["JAX"].strip("`")


def names(page):
    """Dotted names of the libraries in the page: in its text, tables and code."""
    modules = "xjax|xnn|jnp|lax|random|losses|metrics|recipes"
    return sorted(set(re.findall(rf"(?<![\w.])(?:{modules})\.[A-Za-z_][\w.]*\w", (DOCS / page).read_text())))


@pytest.mark.parametrize("page", START)
def test_every_name_exists(page):
    modules = {"jnp": "xjax.numpy", "lax": "xjax.lax", "random": "xjax.random", "losses": "xnn.losses",
               "metrics": "xnn.metrics"}
    for name in names(page):
        first, _, rest = name.partition(".")
        needs = "pydantic" if first == "recipes" else "optax" if "optim" in rest.split(".") else "numpy"
        if importlib.util.find_spec(needs):
            pkgutil.resolve_name(f"{modules.get(first, first)}.{rest}")


PROGRAMS = [block for page in START for block in BLOCKS[page] if block.program]


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: f"{block.page}-{block.program}")
def test_program_for_jax_runs_on_xjax(block, tmp_path):
    """The text after the command has the other output of the program."""
    if block.missing():
        pytest.skip(f"{', '.join(block.missing())}: not installed")
    command, shown = re.search(rf"^```bash\n(python -m xjax {block.program})\n```\n\n```text\n(.*?)^```",
                               (DOCS / block.page).read_text(), re.DOTALL | re.MULTILINE).groups()
    (tmp_path / block.program).write_text(block.code)
    done = subprocess.run([sys.executable, *command.split()[1:]], cwd=tmp_path, capture_output=True, text=True,
                          check=False, timeout=300,
                          env={**os.environ, "XLA_FLAGS": flags(), "PYTHONPATH": str(DOCS.parent)})
    assert (done.stdout, done.returncode) == (shown, 0), done.stderr
