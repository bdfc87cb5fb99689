"""Random index expressions: reads and writes as in NumPy; each mode and method as in JAX, derivatives too."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close
from tests.oracle import real_jax

SHAPE = (3, 4, 2)
X = np.random.default_rng(0).normal(size=SHAPE)
QUIET = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


def slices(n: int) -> st.SearchStrategy:
    bounds = st.none() | st.integers(-n - 1, n + 1)
    return st.builds(slice, bounds, bounds, st.sampled_from([None, 1, 2, -1, -2]))


def arrays(low: int, high: int) -> st.SearchStrategy:
    """Integer arrays whose shapes broadcast together."""
    def of_shape(shape):
        size = int(np.prod(shape))
        values = st.lists(st.integers(low, high), min_size=size, max_size=size)
        return values.map(lambda flat: np.array(flat, np.int32).reshape(shape))
    return st.sampled_from([(), (2,), (1,), (2, 1), (3, 2)]).flatmap(of_shape)


@st.composite
def indices(draw, beyond: int = 0):
    """An index of an array of SHAPE; positions in arrays may be out of range by up to `beyond`."""
    items = []
    for n in SHAPE[:draw(st.integers(0, 3))]:
        kind = draw(st.sampled_from(["int", "slice", "slice", "array", "array", "mask"]))
        mask = st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
        items.append(draw({"int": st.integers(-n, n - 1), "slice": slices(n), "mask": mask,
                           "array": arrays(-n - beyond, n - 1 + beyond)}[kind]))
        if draw(st.integers(0, 4)) == 0:
            items.append(None)
    if draw(st.integers(0, 3)) == 0:
        items.append(...)
    if draw(st.integers(0, 7)) == 0:
        items.insert(0, draw(st.booleans()))
    return tuple(items)


@settings(max_examples=40, **QUIET)
@given(indices())
def test_as_numpy(index):
    try:
        want = X[index]
    except IndexError:
        with pytest.raises(IndexError, match="fix: "):
            jnp.array(X, np.float32)[index]
        return
    values = np.random.default_rng(1).normal(size=want.shape)
    with xjax.enable_x64():
        x, v = jnp.asarray(X), jnp.asarray(values)
        got, pull = xjax.vjp(lambda x: x[index], x)
        np.testing.assert_array_equal(got, want, strict=True)
        added = np.zeros_like(X)
        np.add.at(added, index, values)
        np.testing.assert_allclose(pull(v)[0], added, rtol=1e-13, atol=1e-15)   # a sum of at most six terms
        np.testing.assert_allclose(x.at[index].add(v), X + added, rtol=1e-13, atol=1e-15)
        marked = X.copy()
        marked[index] = 7.0
        np.testing.assert_array_equal(x.at[index].set(7.0), marked, strict=True)


METHODS = ["set", "add", "subtract", "multiply", "divide", "power", "min", "max", "get"]
MODES = [None, "clip", "fill", "promise_in_bounds"]


@settings(max_examples=14, **QUIET)
@given(indices(beyond=2), st.sampled_from(METHODS), st.sampled_from(MODES), st.booleans())
def test_as_jax(index, method, mode, wraps):
    """Value, gradient by `x` and by the values, Hessian-vector product: one program for each library."""
    jax = real_jax()
    assume((method, mode) not in [("min", "clip"), ("max", "clip")])    # JAX's derivative is inf or nan
    assume(mode != "promise_in_bounds" or method == "get")              # a write out of bounds is then undefined
    rng = np.random.default_rng(2)
    x = rng.uniform(0.5, 2.0, SHAPE)
    with jax.enable_x64(True), xjax.enable_x64():
        try:
            shape = jax.eval_shape(lambda x: x[index], x).shape
        except ValueError:
            assume(False)
        values, wave = rng.uniform(0.5, 2.0, shape), rng.normal(size=SHAPE)
        options = {"mode": mode, "wrap_negative_indices": wraps}

        def update(x, v):
            if method == "get":
                return x.at[index].get(fill_value=0.25 if mode == "fill" else None, **options) * v
            return getattr(x.at[index], method)(v, **options)

        def both(lib, np_):
            def cost(x, v):
                return np_.sum(np_.sin(update(x, v)))

            def run(x, v, dx):
                slope = lib.grad(cost, (0, 1))
                return update(x, v), slope(x, v), lib.jvp(lambda x: slope(x, v), (x,), (dx,))[1]
            try:
                return lib.tree.leaves(lib.jit(run)(x, values, wave))
            except NotImplementedError:                     # JAX: gradient by values of multiply, divide, power
                return "refused"

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", xjax.errors.RetraceWarning)         # each example is another program
            want, got = both(jax, jax.numpy), both(xjax, jnp)
        assert got != "refused"
        if want != "refused":
            assert_close(got, want)
