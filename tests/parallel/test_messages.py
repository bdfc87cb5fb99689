"""Messages of mistakes in programs for several devices are as recorded, and the fixes that they advise work.

`messages.json` has the messages on 4 devices; `fixes.py` has each program corrected as its message advises.

After a change of a message, `python -m tests.parallel.test_messages` writes the file again: review the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import xjax
from tests.compare import assert_close, outcome
from tests.parallel import fixes
from tests.parallel.programs import PROGRAMS
from tests.refusals import assert_refused

FILE = Path(__file__).with_name("messages.json")
GOLDEN = json.loads(FILE.read_text()) if FILE.exists() else {}
MISTAKES = {name: f for name, f in PROGRAMS.items() if name.startswith("mistakes.")}
COMPUTED = {"mistakes.carry_that_varies_only_after_a_step", "mistakes.branches_that_vary_differently"}


def message(name: str) -> str:
    error = outcome(MISTAKES[name], xjax, 4).error
    return "" if error is None else f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", MISTAKES)
def test_the_message_of_a_mistake(name):
    text = message(name)
    assert text == GOLDEN[name]
    assert (text == "") == (name in COMPUTED)
    if text:
        assert "\n  fix: " in text and len(text.splitlines()) <= 6


@pytest.mark.parametrize("name", [name for name in MISTAKES if name not in COMPUTED])
def test_the_fix_runs(name):
    got, want = getattr(fixes, name.removeprefix("mistakes."))(xjax, 4)
    assert_close(got, want)


def test_there_are_40_mistakes():
    assert len(MISTAKES) - len(COMPUTED) >= 40


def in_mesh(call):
    with xjax.set_mesh(xjax.make_mesh((4,), ("x",))):
        return call()


def test_typed_shardings_are_refused():
    mesh = xjax.make_mesh((4,), ("x",))
    for spec in (xjax.P(unreduced={"x"}), xjax.P(None, reduced={"x"})):
        for acts in (lambda spec=spec: xjax.NamedSharding(mesh, spec),
                     lambda spec=spec: xjax.shard_map(lambda x: x, mesh=mesh, in_specs=spec, out_specs=xjax.P())(1.0),
                     lambda spec=spec: xjax.shard_map(lambda x: x, mesh=mesh, in_specs=xjax.P(), out_specs=spec)(1.0),
                     lambda spec=spec: xjax.shard_map(lambda: 1.0, mesh=mesh, in_specs=(), out_specs=spec)(),
                     lambda spec=spec: in_mesh(lambda: xjax.lax.with_sharding_constraint(np.ones(4), spec)),
                     lambda spec=spec: in_mesh(lambda: xjax.device_put(np.ones(4), spec)),
                     lambda spec=spec: in_mesh(lambda: xjax.reshard(np.ones(4), spec)),
                     lambda spec=spec: in_mesh(lambda: xjax.ShapeDtypeStruct((4,), np.float32, sharding=spec)),
                     lambda spec=spec: in_mesh(lambda: xjax.jit(lambda x: x, in_shardings=spec)(np.ones(4))),
                     lambda spec=spec: in_mesh(lambda: xjax.jit(lambda x: x, out_shardings=spec)(np.ones(4)))):
            assert_refused(acts, NotImplementedError, "typed shardings")
    with pytest.raises(NotImplementedError, match="(?s)lax.pcast.*fix:"):
        xjax.shard_map(lambda x: xjax.lax.pcast(x, "x", to="unreduced"), mesh=xjax.make_mesh((4,), ("x",)),
                       in_specs=xjax.P(), out_specs=xjax.P("x"))(1.0)
    with pytest.raises(NotImplementedError, match="(?s)lax.all_gather.*fix:"):
        xjax.shard_map(lambda x: xjax.lax.all_gather(x, "x", to="reduced"), mesh=xjax.make_mesh((4,), ("x",)),
                       in_specs=xjax.P("x"), out_specs=xjax.P())(xjax.numpy.ones(4))


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: message(name) for name in MISTAKES}, indent=1) + "\n")
