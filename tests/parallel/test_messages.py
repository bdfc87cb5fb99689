"""The messages of mistakes in programs for several devices, word for word, and that what they advise is right.

`messages.json` has the messages on 4 devices, `fixes.py` has each program as its message says.

After a change of words: `python -m tests.parallel.test_messages` writes the file again; read its difference.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import xjax
from tests.compare import assert_close, outcome
from tests.parallel import fixes
from tests.parallel.programs import PROGRAMS

FILE = Path(__file__).with_name("messages.json")
GOLDEN = json.loads(FILE.read_text()) if FILE.exists() else {}
MISTAKES = {name: f for name, f in PROGRAMS.items() if name.startswith("mistakes.")}
COMPUTED = {"mistakes.carry_that_varies_only_after_a_step", "mistakes.branches_that_vary_differently"}


def message(name: str) -> str:
    error = outcome(MISTAKES[name], xjax, 4).error
    return "" if error is None else f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", MISTAKES)
def test_the_message_of_a_mistake(name):
    found = message(name)
    assert found == GOLDEN[name]
    assert (found == "") == (name in COMPUTED)
    if found:
        assert "\n  fix: " in found and len(found.splitlines()) <= 6


@pytest.mark.parametrize("name", [name for name in MISTAKES if name not in COMPUTED])
def test_the_fix_runs(name):
    got, want = getattr(fixes, name.removeprefix("mistakes."))(xjax, 4)
    assert_close(got, want)


def test_there_are_40_mistakes():
    assert len(MISTAKES) - len(COMPUTED) >= 40


def test_typed_shardings_are_refused():
    for options in ({"unreduced": {"x"}}, {"reduced": {"x"}}):
        with pytest.raises(NotImplementedError, match="(?s)typed shardings.*fix:"):
            xjax.P("x", **options)
    assert xjax.P("x", unreduced=(), reduced=frozenset()) == xjax.P("x") and xjax.P().unreduced == frozenset()
    with pytest.raises(NotImplementedError, match="(?s)lax.pcast.*fix:"):
        xjax.shard_map(lambda x: xjax.lax.pcast(x, "x", to="unreduced"), mesh=xjax.make_mesh((4,), ("x",)),
                       in_specs=xjax.P(), out_specs=xjax.P("x"))(1.0)
    with pytest.raises(NotImplementedError, match="(?s)lax.all_gather.*fix:"):
        xjax.shard_map(lambda x: xjax.lax.all_gather(x, "x", to="reduced"), mesh=xjax.make_mesh((4,), ("x",)),
                       in_specs=xjax.P("x"), out_specs=xjax.P())(xjax.numpy.ones(4))


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: message(name) for name in MISTAKES}, indent=1) + "\n")
