"""`x[index]`: values against NumPy, programs and errors against JAX, few compilations in eager loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.errors import NonConcreteBooleanIndexError
from xjax.runtime.dispatch import EvalTrace
from xjax.runtime.programs import executable

X = np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)
K = np.array([0, -1, 2], np.int32)
J = np.array([[1], [3]])
S = np.s_

# Each of these indices is applied to X.
BASIC = [
    S[0], S[-1], S[1:], S[:], S[::-1], S[3:0:-2], S[..., 1], S[1, :, None, 2], S[1:3, 2], S[None], S[3:2], S[()],
    S[...], S[1, 2, 3], S[::2, ::-2, 1:6:3], S[-3:-1, None, ..., None], S[np.int32(1), 2:3], S[:, :0], S[::-1, ::-1],
    S[7:, 0], S[..., -1, :], S[5:0:-1],
]
ADVANCED = [
    S[K], S[:, K], S[K, K], S[K, :, K], S[K, 1:3], S[1, K], S[0, :, K], S[K, ::-1], S[J, K], S[K, None, K],
    S[None, K, ::2], S[np.zeros(0, np.int32)], S[0:4:2, K], S[3::-2, None, :, K], S[..., K, None],
    S[K[:, None], K[None], K[0]], S[::-1, K, 4:1:-1], S[np.uint8([1, 2])], S[[0, 2], 1], S[J, :, K], S[K, 1, 1:],
    S[:, K, None, 0], S[np.int8([-1]), ..., 2],
]
MASKS = [
    S[X > 0], S[(X > 0)[:, :, 0]], S[:, (X > 0)[0]], S[..., (X > 0)[0, 0]], S[True], S[False], S[True, 0],
    S[0, True, K], S[(X > 0)[:, 0, 0], 1:3], S[[True, False, True, False], 1], S[np.zeros((4, 5), bool)], S[None, True],
]


def names(indices: list) -> list[str]:
    return [str(k) for k in range(len(indices))]


@pytest.mark.parametrize("index", BASIC + ADVANCED + MASKS, ids=names(BASIC + ADVANCED + MASKS))
def test_values(index):
    got = jnp.array(X)[index]
    np.testing.assert_array_equal(np.asarray(got), X[index], strict=True)


@pytest.mark.parametrize("index", BASIC[:14:3] + ADVANCED[::4] + MASKS[::4])
def test_jit_equals_eager(index):
    np.testing.assert_array_equal(xjax.jit(lambda x: x[index])(X), X[index], strict=True)


@pytest.mark.parametrize("index", [S[1], S[:, ::-1], S[K], S[1, K], S[J, 1:3, K]])
def test_vmap_and_gradient(index):
    got = xjax.vmap(lambda x: x[index], in_axes=2, out_axes=0)(np.stack([X, -X], 2))
    np.testing.assert_array_equal(got, np.stack([X[index], -X[index]]))
    weights = np.random.default_rng(1).normal(size=X[index].shape).astype(np.float32)
    want = np.zeros_like(X)
    np.add.at(want, index, weights)
    for f in (xjax.grad, lambda g: xjax.jit(xjax.grad(g))):
        np.testing.assert_allclose(f(lambda x: jnp.sum(x[index] * weights))(jnp.array(X)), want, rtol=1e-6)


@pytest.mark.parametrize("i", [0, 3, -4, -1])
def test_traced_scalars(i):
    rows = xjax.jit(lambda x, i: (x[i], x[i, 1:], x[1, i], x[:, i, ::-1], x[None, i], x[i, i]))(X, i)
    for got, want in zip(rows, (X[i], X[i, 1:], X[1, i], X[:, i, ::-1], X[None, i], X[i, i]), strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


def test_mapped_indices():
    got = xjax.vmap(lambda i: jnp.array(X)[i, :, i])(K)
    np.testing.assert_array_equal(got, X[K, :, K])


def test_positions_in_arrays_are_moved_inside():
    x, far = jnp.array(X), np.array([9, -9], np.int32)
    np.testing.assert_array_equal(x[far], X[[3, 0]])
    np.testing.assert_array_equal(xjax.jit(lambda x, i: x[i])(X, 9), X[3])


def test_an_array_index_of_each_width():
    x = jnp.arange(300)
    for dtype in (np.uint8, np.int8, np.int16, np.uint32, np.int32):
        i = np.array([5, 120], dtype)
        np.testing.assert_array_equal(x[jnp.array(i)], [5, 120])
        np.testing.assert_array_equal(xjax.jit(lambda x, i: x[i])(x, i), [5, 120])


def test_host_positions_beyond_int32_are_out_of_range():
    """JAX wraps such positions: 2**33 reads row 0."""
    x, far = jnp.arange(1.0, 4.0), np.array([2**33, 1, -2**40])
    assert x[far].tolist() == [3, 2, 1]
    assert x.at[far].get(mode="fill", fill_value=0).tolist() == [0, 2, 0]
    assert x.at[np.uint64([2**64 - 1, 0])].set(9.0).tolist() == [9, 2, 3]
    assert x.at[2**40].get(mode="clip").tolist() == 3
    assert x.at[-2**40].get(mode="fill", fill_value=0).tolist() == 0


def test_empty_results_and_operands():
    assert jnp.zeros((0, 3))[np.zeros(0, np.int32)].shape == (0, 3)
    assert jnp.zeros((2, 0))[K[:1]].shape == (1, 0)
    assert jnp.zeros((0,))[:].shape == (0,)


def test_x64_indices():
    with xjax.enable_x64():
        x = jnp.arange(5.0)
        assert x.dtype == np.float64
        np.testing.assert_array_equal(x[jnp.array([1, -1])], [1.0, 4.0])
        assert float(x[2]) == 2.0


# -- eager speed --------------------------------------------------------------------------------------------------

@pytest.fixture
def compiled(monkeypatch) -> list[str]:
    """The texts of compiled programs."""
    texts = []
    compile_ = executable._compile

    def watched(name, avals, module, *args):
        texts.append(module.text)
        return compile_(name, avals, module, *args)

    monkeypatch.setattr(executable, "_compile", watched)
    return texts


WITH_POSITIONS = {
    "row": lambda x, i: x[i],
    "block": lambda x, i: x[i:i + 3],
    "block, backwards": lambda x, i: x[i + 3:i:-1],
    "mixed": lambda x, i: x[2:4, -i - 1],
    "array and position": lambda x, i: x[np.array([i, 0]), i],
    "gradient": lambda x, i: xjax.grad(lambda y: y[i, 0])(x),
    "set row": lambda x, i: x.at[i].set(float(i)),
    "add to a block": lambda x, i: x.at[i:i + 3, i].add(1.0),
    "get": lambda x, i: x.at[i, 2].get(mode="fill", fill_value=math.nan),
    "take": lambda x, i: jnp.take(x, i, axis=1),
}


@pytest.mark.parametrize("name", WITH_POSITIONS)
def test_a_position_is_no_reason_to_compile(name, compiled):
    x, read = jnp.ones((17, 19)), WITH_POSITIONS[name]
    read(x, 1)
    compiled.clear()
    for i in range(2, 10):
        read(x, i)
    assert not compiled


def test_one_launch_for_a_read(monkeypatch):
    x, i = jnp.array(X), jnp.array(K)
    reads = (lambda: x[1], lambda: x[1:3, None, 2], lambda: x[i, ::2], lambda: x[i[0]], lambda: x.at[i].add(x[:3]))
    want = [np.asarray(read()) for read in reads]
    single = []                                         # operations launched one by one
    process = EvalTrace.process
    monkeypatch.setattr(EvalTrace, "process", lambda *args: single.append(args[1].name) or process(*args))
    for read, value in zip(reads, want, strict=True):
        np.testing.assert_array_equal(read(), value)
    assert x[...] is x and x[:, ::1] is x
    assert not single


def test_iteration():
    assert not list(jnp.zeros((0, 2)))
    np.testing.assert_array_equal(np.stack(list(jnp.array(X))), X)
    total = xjax.jit(lambda x: sum(row * k for k, row in enumerate(x)))(X)
    np.testing.assert_allclose(total, sum(row * k for k, row in enumerate(X)), rtol=1e-5)
    with pytest.raises(TypeError, match="0-d"):
        iter(jnp.array(1.0))
    with pytest.raises(TypeError, match="0-d"):
        xjax.make_jaxpr(lambda x: list(x))(1.0)


# -- errors -------------------------------------------------------------------------------------------------------

WRONG = {
    "beyond the end": (S[4], IndexError, ["4 is out of bounds for axis 0 with size 4", "from -4 to 3"]),
    "before the start": (S[0, -6], IndexError, ["-6 is out of bounds for axis 1 with size 5"]),
    "too many": (S[1, 2, 3, 4], IndexError, ["4 axes are indexed, but the array has 3"]),
    "list": (S[[0, 1]], TypeError, ["ambiguous", "array(index)"]),
    "float": (S[1.5], TypeError, ["must be an integer", "float64[]"]),
    "float array": (S[np.ones(2, np.float32)], TypeError, ["float32[2]"]),
    "string": (S["a"], TypeError, ["string"]),
    "float slice": (S[1.5:], TypeError, ["start of a slice", "int(1.5)"]),
    "two ellipses": (S[..., ...], IndexError, ["ellipsis"]),
    "shape of a mask": (S[np.ones(3, bool)], IndexError, ["bool[3]", "[4] of shape (4, 5, 6)"]),
    "shape of a mask, at the end": (S[..., np.ones(3, bool)], IndexError, ["bool[3]", "[6]"]),
    "a set": (S[{0, 1}], IndexError, ["set {0, 1}"]),
    "rows of different lengths": (S[[[0], [1, 2]], 0], TypeError, ["list inside an index", "numpy.array"]),
    "shapes of arrays": (S[K, np.arange(2)], IndexError, ["do not broadcast", "axis 1"]),
}


@pytest.mark.parametrize("index, error, words", WRONG.values(), ids=list(WRONG))
def test_errors(index, error, words):
    for run in (lambda: jnp.array(X)[index], lambda: xjax.jit(lambda x: x[index])(X)):
        assert type(assert_refused(run, error, words)).__mro__.index(error) <= 2


def test_a_traced_mask_names_the_rewrite():
    with pytest.raises(NonConcreteBooleanIndexError, match="numpy.where\\(mask, x, 0\\)"):
        xjax.jit(lambda x: x[x > 0])(X)
    got = xjax.grad(lambda x: jnp.sum(x[x > 0] * 2))(jnp.array(X))       # the mask is known under eager grad
    np.testing.assert_array_equal(got, np.where(X > 0, 2, 0))


def test_a_traced_slice_names_the_rewrite():
    with pytest.raises(IndexError, match="lax.dynamic_slice"):
        xjax.jit(lambda x, i: x[i:i + 2])(X, 1)


def test_step_zero():
    with pytest.raises(ValueError, match="step"):
        jnp.array(X)[::0]


def test_arrays_are_immutable():
    x = jnp.array(X)
    with pytest.raises(TypeError, match=r"fix: y = x\.at\[0, 1:3\]\.set\(1\)\."):
        x[0, 1:3] = 1
    with pytest.raises(TypeError, match=r"x\.at\[::2\]\.set\(value\)"):
        xjax.jit(lambda x: x.__setitem__(slice(None, None, 2), x))(X)
    with pytest.raises(TypeError, match="immutable"):
        del x[0]


# -- JAX ----------------------------------------------------------------------------------------------------------

PROGRAMS = {
    "x[0]": lambda x, i: x[0],
    "x[-1]": lambda x, i: x[-1],
    "x[1:]": lambda x, i: x[1:],
    "x[:]": lambda x, i: x[:],
    "x[::-1]": lambda x, i: x[::-1],
    "x[3:0:-2]": lambda x, i: x[3:0:-2],
    "x[..., 1]": lambda x, i: x[..., 1],
    "x[1, :, None, 2]": lambda x, i: x[1, :, None, 2],
    "x[None]": lambda x, i: x[None],
    "x[3:2]": lambda x, i: x[3:2],
    "x[i]": lambda x, i: x[i],
    "x[:, i]": lambda x, i: x[:, i],
    "x[i, i]": lambda x, i: x[i, i],
    "x[i, :, i]": lambda x, i: x[i, :, i],
    "x[i, None, i]": lambda x, i: x[i, None, i],
    "x[i, 1:3]": lambda x, i: x[i, 1:3],
    "x[i].get(fill)": lambda x, i: x.at[i].get(mode="fill", fill_value=3.0),
    "x[i].get(clip)": lambda x, i: x.at[i].get(mode="clip"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_those_of_jax(name):
    jax = real_jax()
    from tests.core.test_printing_as_jax import Rebuild
    f, i = PROGRAMS[name], np.array([0, 1], np.int32)
    assert str(xjax.make_jaxpr(f)(X, i)) == str(Rebuild().bare(jax.make_jaxpr(f)(X, i).jaxpr))
