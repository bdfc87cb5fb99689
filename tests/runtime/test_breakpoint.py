"""`debug.breakpoint`: its prompt shows the variables of compiled, mapped, differentiated and eager functions."""

from __future__ import annotations

import io

import numpy as np
import pytest

import xjax

X = np.arange(3, dtype=np.float32)


def talk(f, *commands):
    """The lines that the prompt of a breakpoint in `f(stdin=..., stdout=...)` prints."""
    said = io.StringIO()
    f(stdin=io.StringIO("\n".join(commands) + "\n"), stdout=said)
    xjax.effects_barrier()
    return [line.replace("(xdb) ", "").strip() for line in said.getvalue().splitlines()]


def test_breakpoint_in_a_compiled_program():
    def inner(y, files):
        state = {"y": (y, "text"), "odd": {1: 2, "a": 3}}
        scale = 3
        xjax.debug.breakpoint(**files)
        return y * scale if state else y

    def program(**files):
        @xjax.jit
        def outer(x):
            return inner(x + 1, files)
        return outer(np.float32([1, 2]))

    lines = talk(program, "y", "p state['y'][1], state['odd'], scale", "pp X.shape", "absent", "u", "x", "l", "d", "",
                 "scale + 1", "w", "c")
    assert lines[0].startswith("Stopped in inner (") and lines[0].endswith("xjax.debug.breakpoint(**files)")
    assert lines[1:5] == ["Array([2., 3.], dtype=float32)", "('text', {1: 2, 'a': 3}, 3)", "(3,)",
                          "*** NameError: name 'absent' is not defined"]
    assert lines[5].startswith("> outer (") and lines[6] == "Array([1., 2.], dtype=float32)"
    assert any("->" in line and "return inner(x + 1, files)" in line for line in lines)
    assert "4" in lines and lines[-2].startswith("> inner (")


def test_breakpoint_under_transforms_and_in_eager_mode():
    def f(x, files):
        xjax.debug.breakpoint(num_frames=1, **files)
        return x * x

    lines = talk(lambda **files: xjax.grad(f)(3.0, files), "x", "u", "c")
    assert lines[1] == "Array(3., dtype=float32, weak_type=True)" and lines[2].startswith("> f (")
    lines = talk(lambda **files: xjax.jit(lambda x: xjax.vmap(lambda x: f(x, files))(x))(X[:2]), "x", "c", "x", "c")
    assert [line for line in lines if line.startswith("Array")] == ["Array(0., dtype=float32)",
                                                                   "Array(1., dtype=float32)"]

    def with_token(x, files):
        token = xjax.debug.breakpoint(token={"x": x}, **files)
        return token["x"] + 1

    assert talk(lambda **files: xjax.jit(lambda x: with_token(x, files))(1.0), "x")[1] == "Array(1., dtype=float32)"
    with pytest.raises(SystemExit):
        talk(lambda **files: f(1.0, files), "q")
    with pytest.raises(SystemExit):
        talk(lambda **files: xjax.jit(lambda x: f(x, files))(1.0), "q")
    for options, match in [({"backend": "web"}, "no such debugger"), ({"ordered": True, "token": 1.0}, "not both")]:
        with pytest.raises(ValueError, match=match):
            xjax.debug.breakpoint(**options)
