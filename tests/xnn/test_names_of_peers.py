"""The tables of `tests/xnn/peers/table.py` have all public names of other libraries; the names they advise exist."""

import functools
import importlib.util
import json
import re
from pathlib import Path

import pytest

import xjax
import xjax.nn.initializers
import xjax.scipy.stats
import xnn
from tests.xnn.peers.names import MODULES, NAMES, public_names, version_of
from tests.xnn.peers.table import TABLES, as_markdown

LISTED = json.loads(NAMES.read_text())
PAGE = Path(__file__).resolve().parents[2] / "docs/from_other_libraries.md"
# Arguments and methods that texts mention in backquotes.
WORDS = {"init", "apply", "init_state", "apply_with_state", "broadcast", "train"}


def exists(name):
    parts = name.split(".")
    try:
        functools.reduce(getattr, parts[1:] if parts[0] == "xjax" else parts, xjax if parts[0] == "xjax" else xnn)
    except AttributeError:
        return False
    return True


def targets(text):
    """The names that a text of the tables advises."""
    quoted = [re.match(r"[\w.]+", span)[0] for span in re.findall(r"`([^`]*)`", text)]
    return [name for name in quoted if name not in WORDS]


@pytest.mark.parametrize("module", LISTED)
def test_every_name_is_in_the_table_once(module):
    entries = [name for names in TABLES[module].values() for name in names.split()]
    assert sorted(entries) == LISTED[module]["names"]


@pytest.mark.parametrize("module", TABLES)
def test_what_the_tables_name_exists(module):
    named = {name for text in TABLES[module] for name in targets(text)}
    missing = {name for name in named if not (needs_optax(name) or exists(name))}
    assert not missing, f"no such names: {sorted(missing)}"


def needs_optax(name):
    return name.partition(".")[0] == "optim" and importlib.util.find_spec("optax") is None


@pytest.mark.parametrize("module", MODULES)
def test_the_lists_are_those_of_the_installed_libraries(module):
    pytest.importorskip(MODULES[module])
    if version_of(MODULES[module]) != LISTED[module]["version"]:
        pytest.skip(f"the list is of {MODULES[module]} {LISTED[module]['version']}")
    assert public_names(module) == LISTED[module]["names"]


@pytest.mark.parametrize("module", TABLES)
def test_the_page_has_the_tables(module):
    page = PAGE.read_text()
    assert as_markdown(module) in page, "python -m tests.xnn.peers.page writes them"
    assert f"{MODULES[module]} {LISTED[module]['version']}" in page
