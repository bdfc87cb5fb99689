"""Memory maps and other subclasses of NumPy's array are taken as plain arrays are, also as constants of programs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.refusals import assert_refused
from tests.sampling import each_once, one_in
from tests.values import table
from tests.values.signatures import words
from xjax import lax, random

X, W = np.linspace(-1, 1, 12).reshape(3, 4), np.linspace(0, 1, 12).reshape(3, 4)      # float64: becomes float32
N, B = np.array([[2, 0, 1, 0]]), np.array([[True, False, True, True]])
HALF = jnp.asarray(X, "bfloat16")


class Tagged(np.ndarray):
    """As the arrays with units of other libraries are."""


def mapped(x, folder):
    file = np.memmap(folder / f"{id(x)}.bin", x.dtype, "w+", shape=x.shape)
    file[...] = x
    return file


KINDS = {"memmap": mapped, "subclass": lambda x, folder: x.view(Tagged), "matrix": lambda x, folder: np.matrix(x),
         "record view": lambda x, folder: x.view(np.recarray)}
LINES = {
    "asarray": lambda x, w, i, b: jnp.asarray(x), "array of a dtype": lambda x, w, i, b: jnp.array(x, "float16"),
    "half": lambda x, w, i, b: jnp.asarray(x, "bfloat16"),
    "integers to float": lambda x, w, i, b: jnp.asarray(i, "float32"),
    "array of a list": lambda x, w, i, b: jnp.array([x, w]), "sum": lambda x, w, i, b: jnp.sum(x, 0),
    "ufunc": lambda x, w, i, b: jnp.sin(x) + jnp.maximum(x, w), "operators": lambda x, w, i, b: jnp.ones((3, 4)) * x,
    "operators, reflected": lambda x, w, i, b: x - jnp.ones((3, 4)), "with half precision": lambda x, w, i, b: HALF * x,
    "product": lambda x, w, i, b: jnp.dot(x, w.T), "einsum": lambda x, w, i, b: jnp.einsum("ij,kj->ik", x, w),
    "where": lambda x, w, i, b: jnp.where(b, x, w), "take": lambda x, w, i, b: jnp.take(x, i, axis=0),
    "index": lambda x, w, i, b: jnp.ones((3, 2))[i], "set": lambda x, w, i, b: jnp.zeros((3, 4)).at[i, 1].set(i),
    "set rows": lambda x, w, i, b: jnp.zeros((3, 4)).at[:].set(x), "stack": lambda x, w, i, b: jnp.stack([x, w]),
    "pad": lambda x, w, i, b: jnp.pad(x, 1),
    "result_type": lambda x, w, i, b: jnp.zeros(2, jnp.result_type(x, "float16")),
    "zeros_like": lambda x, w, i, b: jnp.zeros_like(x), "lax": lambda x, w, i, b: lax.mul(lax.neg(x), w),
    "lax, converted": lambda x, w, i, b: lax.convert_element_type(x, "int8"),
    "slice": lambda x, w, i, b: lax.dynamic_slice(x, (np.asarray(i)[0, 2], 0), (1, 2)),
    "argument of jit": lambda x, w, i, b: xjax.jit(lambda x, i: x[i])(x, i),
    "derivative": lambda x, w, i, b: xjax.grad(lambda x: jnp.sum(x * w))(x),
    "constant of a derivative": lambda x, w, i, b: xjax.grad(lambda y: jnp.sum(y * x))(jnp.ones((3, 4))),
    "vmap": lambda x, w, i, b: xjax.vmap(lambda x, w: x @ w)(x, w),
    "scan": lambda x, w, i, b: lax.scan(lambda c, x: (c + x, c), jnp.zeros(4), x),
    "scan with a constant": lambda x, w, i, b: lax.scan(lambda c, _: (c + x, None), jnp.zeros((3, 4)), None, 2)[0],
    "cond": lambda x, w, i, b: lax.cond(b.any(), lambda x: x + 1, lambda x: x, x),
    "device_put": lambda x, w, i, b: xjax.device_put(x),
    "shapes": lambda x, w, i, b: jnp.asarray(xjax.eval_shape(jnp.sum, x).ndim),
    "choice": lambda x, w, i, b: random.choice(random.key(0), jnp.ravel(x), (5,)),
    "normal": lambda x, w, i, b: random.uniform(random.key(0), (3, 4), minval=x, maxval=w),
    "segments": lambda x, w, i, b: xjax.ops.segment_sum(x.T, i.ravel(), 3),
    "linalg": lambda x, w, i, b: jnp.linalg.norm(x),
}


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """Kind -> the arrays of the lines."""
    folder = tmp_path_factory.mktemp("arrays")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)          # of np.matrix
        return {kind: [make(x, folder) for x in (X, W, N, B)] for kind, make in KINDS.items()}


def is_the_same(got, want):
    for x, y in zip(xjax.tree.leaves(got), xjax.tree.leaves(want), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        np.testing.assert_array_equal(x, y, strict=True)


@pytest.mark.parametrize("kind, line", each_once(KINDS, LINES))
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_line_with_a_subclass(values, kind, line):
    """It gives what plain arrays give: at once, and where the arrays are constants of a program."""
    run = LINES[line]
    if kind == "matrix" and line in ("segments",):            # its methods give matrices
        pytest.skip("np.matrix.ravel has two axes")
    is_the_same(run(*values[kind]), run(X, W, N, B))
    is_the_same(xjax.jit(lambda: run(*values[kind]))(), xjax.jit(lambda: run(X, W, N, B))())


ROWS = [row for row in table.ROWS if row.signatures and not row.call]


@pytest.mark.parametrize("row", one_in(40, ROWS), ids=str)
def test_a_function_of_a_subclass(row):
    rng = np.random.default_rng(0)
    xs = [np.asarray(word.random(rng)) for word in words(row.signatures[0])]
    function = row.function(xjax)
    want, got = function(*xs), function(*[x.view(Tagged) for x in xs])
    is_the_same(*[[x for x in xjax.tree.leaves(tree) if not is_key(x)] for tree in (got, want)])


def is_key(x):
    return jnp.issubdtype(x.dtype, xjax.dtypes.prng_key)


@pytest.mark.parametrize("call", [jnp.asarray, jnp.sum, lambda x: lax.neg(x), lambda x: xjax.jit(jnp.sin)(x),
                                  lambda x: jnp.ones(3) + x], ids=["asarray", "sum", "lax", "jit", "operator"])
def test_a_masked_array_is_refused(call):
    """As in JAX: its mask would be ignored."""
    assert_refused(lambda: call(np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])), ValueError,
                   ("masked array", "filled"))
