"""Files of exported functions: trees and their registered types, damaged and foreign bytes."""

from __future__ import annotations

import collections
import io
import json
import pickle
from typing import NamedTuple

import numpy as np
import pytest

import xjax
from xjax import export

X = np.ones((2, 3), np.float32)


class Pair(NamedTuple):
    a: object
    b: object


class Box:
    def __init__(self, inside, label):
        self.inside, self.label = inside, label


xjax.tree_util.register_pytree_node(Box, lambda box: ((box.inside,), box.label), lambda label, xs: Box(xs[0], label))
export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")
export.register_pytree_node_serialization(
    Box, serialized_name="tests.Box", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode)


def saved(f, *args, vjp_order=0, **kwargs):
    return bytes(export.export(xjax.jit(f))(*args, **kwargs).serialize(vjp_order))


@pytest.mark.parametrize("tree", [
    X, (X,), [X, [X]], {"b": X, "a": (X, None)}, Pair(X, (X,)), Box({"x": X}, "label"),
    collections.OrderedDict(b=X, a=X)], ids=lambda tree: type(tree).__name__)
def test_trees(tree):
    exported = export.deserialize(saved(lambda t: (t, None), tree))
    assert exported.in_tree == xjax.tree.structure(((tree,), {}))
    assert xjax.tree.structure(exported.call(tree)) == xjax.tree.structure((tree, None))


def test_keywords():
    exported = export.deserialize(saved(lambda x, *, z, a: x * z - a, X, z=X * 3, a=X))
    np.testing.assert_array_equal(exported.call(X, a=X, z=X * 3), X * 2)


def test_types_that_are_not_registered():
    other = collections.namedtuple("other", "x")
    with pytest.raises(ValueError, match="register_namedtuple_serialization"):
        saved(lambda t: t.x, other(X))
    with pytest.raises(TypeError, match="keys"):
        saved(lambda t: t[1], {1: X})
    with pytest.raises(ValueError, match="already"):
        export.register_namedtuple_serialization(Pair, serialized_name="tests.Other")
    with pytest.raises(ValueError, match="already"):
        export.register_namedtuple_serialization(other, serialized_name="tests.Pair")
    with pytest.raises(ValueError, match="not a named tuple"):
        export.register_namedtuple_serialization(dict, serialized_name="tests.dict")
    with pytest.raises(ValueError, match="tree nodes"):
        export.register_pytree_node_serialization(
            object, serialized_name="o", serialize_auxdata=json.dumps, deserialize_auxdata=json.loads)


def _npz():
    data = io.BytesIO()
    np.savez(data, x=X)
    return data.getvalue()


FOREIGN = {"empty": b"", "text": b"def f(x): return x\n" * 40, "pickle": pickle.dumps({"x": X}), "npz": _npz(),
           "zeros": bytes(4000), "ones": b"\xff" * 4000, "module": b"ML\xefR\rStableHLO_v1.10.0" + bytes(100)}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_refused(name):
    with pytest.raises(ValueError, match="damaged, or not a file of an exported function") as caught:
        export.deserialize(FOREIGN[name])
    assert "fix: " in str(caught.value)


def test_damaged_files_are_refused():
    data = saved(lambda x: x @ x.T, X, vjp_order=1)
    damaged = [data[:n] for n in range(0, len(data), 211)] + [data[n:] for n in range(1, 400, 57)]
    for n in range(0, len(data), 197):
        flipped = bytearray(data)
        flipped[n] ^= 1 << n % 8
        damaged.append(bytes(flipped))
    for blob in damaged:
        with pytest.raises(ValueError, match="damaged"):
            export.deserialize(blob)
    with pytest.raises(TypeError, match="bytes"):
        export.deserialize("a path")


def test_another_calling_convention_is_refused():
    exported = export.export(xjax.jit(lambda x: x))(X)
    object.__setattr__(exported, "calling_convention_version", 11)
    with pytest.raises(ValueError, match="calling convention has version 11"):
        export.deserialize(exported.serialize())
