"""Pickles written by commit c8961d4, before modules moved: they load, with their original values."""

import importlib
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import xjax
import xnn
from tests.compare import assert_same
from xjax import numpy as jnp
from xnn.graph.structure.adjacency import as_adjacency
from xnn.sparse import CSR

WRITTEN = Path(__file__).with_name("pickles_of_c8961d4")
FEATURES = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
GRAPH = xnn.graph.Graph.from_edges([0, 1, 2], [1, 2, 0], FEATURES, {"weight": np.float32([1, 2, 3])})
WANTED = {
    "arrays": {"float32": jnp.arange(6.0).reshape(2, 3), "bfloat16": jnp.ones(3, "bfloat16") / 3, "int32": jnp.int32(7),
               "bool": jnp.array([True, False]), "complex64": jnp.array([1 + 2j]), "key": xjax.random.key(3),
               "empty": jnp.zeros((0, 2))},
    "csr": xnn.sparse.CSR.from_dense(np.float32([[0, 1, 0], [2, 0, 3]])),
    "graph": GRAPH,
    "batch": xnn.graph.batch([GRAPH, GRAPH]),
}


@pytest.mark.filterwarnings("ignore:xnn.graph.graph is")
@pytest.mark.parametrize("name", WANTED)
def test_pickles(name):
    restored = pickle.loads((WRITTEN / f"{name}.pickle").read_bytes())
    assert type(restored) is type(WANTED[name])
    assert_same(_without_keys(restored), _without_keys(WANTED[name]))


def _without_keys(tree):
    def words(x):
        return xjax.random.key_data(x) if jnp.issubdtype(x.dtype, xjax.dtypes.prng_key) else x
    return xjax.tree.map(words, tree)


def test_parameters():
    shape, params = pickle.loads((WRITTEN / "params.pickle").read_bytes())
    layer = xnn.graph.GCN(5, 2)
    assert shape == (-1, 2)
    assert xjax.tree.structure(params) == xjax.tree.structure(layer.init(xjax.random.key(0), (-1, 4))[1])
    assert layer.apply(params, FEATURES, GRAPH).shape == (3, 2)


def test_old_names_of_modules():
    old, new = "xnn.graph.sampling", "xnn.graph.samplers.sampling"
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is {new} now"):
        moved = importlib.import_module(old)
    assert moved is sys.modules[new]
    assert moved.__name__ == moved.__spec__.name == new


@pytest.mark.parametrize("old", ["Rows", "Block"])
def test_old_names_in_pickles(old):
    new = {"Rows": "SlicedEll", "Block": "EllBlock"}[old]
    with pytest.warns(DeprecationWarning, match=f"xnn.sparse.rows.{old} is {new} now"):
        assert pickle.loads(f"cxnn.sparse.rows\n{old}\n.".encode()) is getattr(xnn.sparse.rows, new)
    with pytest.raises(AttributeError, match="xnn.sparse.rows.*Unknown"):
        xnn.sparse.rows.Unknown


@pytest.mark.parametrize("old, new", [("near", "by_row"), ("far", "by_col")])
def test_old_names_of_sides(old, new):
    csr = WANTED["csr"]
    with pytest.warns(DeprecationWarning, match=f"CSR.{old} is {new} now"):
        assert getattr(csr, old) is getattr(csr, new)


def test_old_names_of_arguments():
    csr = WANTED["csr"]
    with pytest.warns(DeprecationWarning, match="the argument near is by_row now"):
        assert CSR(csr.data, near=csr.by_row, by_col=csr.by_col, shape=csr.shape).by_row is csr.by_row
    matrix = np.ones((2, 3))
    with pytest.warns(DeprecationWarning, match="where is caller now"), pytest.raises(TypeError, match="^f: "):
        as_adjacency(matrix, where="f")
    with pytest.warns(DeprecationWarning, match="bad: the argument where is caller now"):
        assert str(xjax.errors.bad(where="f", what="it is wrong")) == "f: it is wrong."
    with pytest.warns(DeprecationWarning), pytest.raises(TypeError, match="where"):
        as_adjacency(matrix, where="f", caller="g")


def test_modules_that_never_were():
    with pytest.raises(ModuleNotFoundError, match="xnn.graph.unknown"):
        importlib.import_module("xnn.graph.unknown")
