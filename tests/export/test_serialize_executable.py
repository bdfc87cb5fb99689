"""`experimental.serialize_executable`: compiled programs as bytes, in this process and in another one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests import isolated
from xjax.experimental import serialize_executable

X = np.ones(3, np.float32)


def compiled(f, *args):
    return xjax.jit(f).lower(*args).compile()


def test_round_trip():
    captured = jnp.arange(3.0)

    def f(p, key):
        return {"y": p["x"] * captured, "r": xjax.random.normal(key, (2,))}

    original = compiled(f, {"x": X}, xjax.random.key(0))
    loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(original))
    args = {"x": X * 2}, xjax.random.key(1)
    for ours, direct in zip(xjax.tree.leaves(loaded(*args)), xjax.tree.leaves(original(*args)), strict=True):
        np.testing.assert_array_equal(ours, direct)
    assert loaded.in_avals == original.in_avals and loaded.as_text()
    with pytest.raises(TypeError, match="another type"):
        loaded({"x": X[:2]}, xjax.random.key(1))


def test_another_process(tmp_path):
    saved = serialize_executable.serialize(compiled(lambda x: x * 3, X))
    data, *_ = serialize_executable.serialize(serialize_executable.deserialize_and_load(*saved))
    (tmp_path / "program").write_bytes(data)
    out = isolated.run("""
        import sys
        import numpy as np, xjax
        from xjax.experimental import serialize_executable
        trees = xjax.tree.structure(((0,), {})), xjax.tree.structure(0)
        f = serialize_executable.deserialize_and_load(open(sys.argv[1], "rb").read(), *trees)
        print(f(np.ones(3, np.float32)).tolist())
    """, tmp_path / "program")
    assert out.strip() == "[3.0, 3.0, 3.0]"


def test_refusals():
    data, in_tree, out_tree = serialize_executable.serialize(compiled(lambda x: x * 3, X))
    for damaged in (b"", data[:-1], data[1:], pickle.dumps(X)):
        with pytest.raises(ValueError, match="damaged"):
            serialize_executable.deserialize_and_load(damaged, in_tree, out_tree)
    with pytest.raises(ValueError, match="structures"):
        serialize_executable.deserialize_and_load(data, xjax.tree.structure(((0, 0), {})), out_tree)
    with pytest.raises(ValueError, match="Python functions"):
        serialize_executable.serialize(compiled(lambda x: xjax.pure_callback(lambda x: x, x, x), X))
