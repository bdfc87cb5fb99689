"""`x.at[index].set(...)` and the other methods: against NumPy, and against JAX where NumPy has no equivalent."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.oracle import real_jax

X = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
K = np.array([0, -1, 2], np.int32)
S = np.s_

INDICES = [S[0], S[-1, 2], S[1:3], S[:], S[::-1], S[::2, 1:4], S[3:0:-2], S[..., 1], S[None, 1], S[2, None], S[K],
           S[:, K], S[K, 1], S[K, 1:3], S[K[:, None], K], S[K, ::-1], S[::-2, K], S[X > 0], S[:, X[0] > 0], S[True],
           S[False], S[None, K, None], S[...], S[np.zeros(0, np.int32)]]
METHODS = {"set": None, "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "mul": np.multiply,
           "divide": np.divide, "min": np.minimum, "max": np.maximum, "power": np.power}


def updated(index, method: str, values) -> np.ndarray:
    out = np.abs(X) if method == "power" else X.copy()
    if method == "set":
        out[index] = values
    else:
        METHODS[method].at(out, index, values)
    return out


@pytest.mark.parametrize("index", INDICES, ids=range(len(INDICES)))
def test_set_and_add(index):
    values = np.random.default_rng(1).normal(size=X[index].shape).astype(np.float32)
    for method in ("set", "add"):
        got = getattr(jnp.array(X).at[index], method)(values)
        np.testing.assert_allclose(got, updated(index, method, values), rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("index", [S[1], S[K, 1:3], S[::-1, K]], ids=["row", "array", "reversed"])
def test_methods(method, index):
    x = np.abs(X) if method == "power" else X
    values = np.linspace(0.5, 2.0, X[index].size, dtype=np.float32).reshape(X[index].shape)
    want = updated(index, method, values)
    np.testing.assert_allclose(getattr(jnp.array(x).at[index], method)(values), want, rtol=1e-5)
    jitted = xjax.jit(lambda x, v: getattr(x.at[index], method)(v))
    np.testing.assert_allclose(jitted(x, values), want, rtol=1e-5)


def test_repeated_positions():
    x, i = jnp.zeros(3), np.array([1, 1, 1])
    assert x.at[i].add(1.0).tolist() == [0, 3, 0]
    assert (x + 1).at[i].multiply(2.0).tolist() == [1, 8, 1]
    assert x.at[i].max(jnp.array([1.0, 5.0, 2.0])).tolist() == [0, 5, 0]


def test_apply():
    np.testing.assert_allclose(jnp.array(X).at[K].apply(jnp.sin), updated(K, "set", np.sin(X[K])), rtol=1e-6)
    np.testing.assert_allclose(jnp.arange(3.0).at[1:].apply(lambda v: v * 2 + 1), [0, 3, 5])


def test_values_broadcast():
    x = jnp.array(X)
    for values in (1.0, 2, np.float32(3), np.arange(5.0, dtype=np.float32), [1, 2, 3, 4, 5],
                   np.ones((1, 1, 5), np.float32)):
        np.testing.assert_array_equal(x.at[K].set(values), updated(K, "set", np.asarray(values).reshape(-1)))
    with pytest.raises(ValueError, match=r"x\.at\[0\]\.set: the values do not broadcast"):
        x.at[0].set(np.zeros(3, np.float32))


def test_out_of_range():
    x, far = jnp.zeros(3), np.array([1, 7, -9])
    assert x.at[far].set(1.0).tolist() == [0, 1, 0]                       # dropped, as in JAX
    assert x.at[far].set(1.0, mode="clip").tolist() == [1, 1, 1]
    assert x.at[7].set(1.0, mode="drop").tolist() == [0, 0, 0]
    assert x.at[-1].add(1.0, mode="drop", wrap_negative_indices=False).tolist() == [0, 0, 0]
    with pytest.raises(IndexError, match="7 is out of bounds for axis 0 with size 3"):
        x.at[7].set(1.0)


def test_get():
    x = jnp.arange(1.0, 4.0)
    far = np.array([0, 5, -1, -7])
    np.testing.assert_array_equal(x.at[far].get(mode="fill"), [1, np.nan, 3, np.nan])
    assert x.at[far].get(mode="fill", fill_value=-1).tolist() == [1, -1, 3, -1]
    assert x.at[far].get(mode="clip").tolist() == [1, 3, 3, 1]
    assert x.at[9].get(mode="fill", fill_value=0).tolist() == 0
    assert x.at[-1].get(mode="fill", fill_value=0, wrap_negative_indices=False).tolist() == 0
    assert jnp.arange(3).at[9].get(mode="fill").tolist() == np.iinfo(np.int32).min
    with pytest.raises(ValueError, match="unknown mode 'bad'"):
        x.at[0].get(mode="bad")


def test_fill_values():
    x = jnp.arange(3.0)
    for fill in (2, np.float32(2), jnp.float32(2), np.array(2)):
        assert x.at[9].get(mode="fill", fill_value=fill).tolist() == 2
    with pytest.raises(TypeError, match="`fill_value` must be a known number(?s:.*)fix: .*numpy.where"):
        xjax.jit(lambda x, v: x.at[9].get(mode="fill", fill_value=v))(x, 2.0)
    with pytest.raises(TypeError, match="known number"):
        x.at[9].get(mode="fill", fill_value=np.ones(2))


VALUES = {"bool": True, "int": 3, "float": 2.5, "complex": 1 + 2j, "int32": np.int32(3), "float32": np.float32(2.5)}


@pytest.mark.parametrize("method, dtype", [("set", "bool"), ("set", "int32"), ("set", "float16"), ("set", "complex64"),
                                           ("add", "uint8"), ("max", "float32")])
def test_dtypes_and_warnings_as_jax(method, dtype):
    """The result has the dtype of x; values that it cannot hold are converted with a warning."""
    jax = real_jax()

    def outcome(lib, value):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                update = lambda: getattr(lib.numpy.ones(3, dtype).at[1:], method)(value)
                out = update() if lib is xjax else lib.jit(update)()
            except (TypeError, ValueError) as error:
                return type(error)
        return out.dtype, out.weak_type, out.tolist(), sum(w.category is FutureWarning for w in caught)

    for name, value in VALUES.items():
        if not (method == "max" and "complex" in (dtype + name)):           # JAX orders complex numbers differently
            assert outcome(xjax, value) == outcome(jax, value), name


def test_dtypes_follow_the_array():
    assert jnp.arange(3).at[0].set(7).dtype == np.int32
    assert jnp.zeros(3, jnp.bfloat16).at[0].add(1.5).dtype == jnp.bfloat16
    with pytest.warns(FutureWarning, match="dtype float32 are converted to int32"):
        assert jnp.arange(3).at[0].add(1.5).tolist() == [1, 1, 2]
    assert jnp.array(2.0).at[()].set(3.0).weak_type == jnp.array(2.0).weak_type


def test_the_array_is_not_changed():
    x = jnp.zeros(3)
    x.at[0].set(1.0)
    assert x.tolist() == [0, 0, 0]


@pytest.mark.parametrize("index", [S[1], S[K, 1:3], S[::-2]], ids=["row", "array", "span"])
@pytest.mark.parametrize("method", ["set", "add", "multiply", "divide"])
def test_gradients(method, index):
    """Compared with central differences in float64."""
    rng = np.random.default_rng(2)
    x, v = rng.normal(size=(4, 5)), rng.uniform(1.0, 2.0, size=X[index].shape)
    w, dx, dv = rng.normal(size=(4, 5)), rng.normal(size=(4, 5)), rng.normal(size=v.shape)
    with xjax.enable_x64():
        def loss(x, v):
            return jnp.sum(getattr(jnp.asarray(x).at[index], method)(v, unique_indices=True) ** 2 * w)

        gx, gv = xjax.jit(xjax.grad(loss, (0, 1)))(x, v)
        h, value = 1e-6, xjax.jit(loss)
        slope = (value(x + h * dx, v + h * dv) - value(x - h * dx, v - h * dv)) / (2 * h)
        np.testing.assert_allclose(np.sum(gx * dx) + np.sum(gv * dv), slope, rtol=1e-6)


def test_gradient_of_set_with_repeated_positions_goes_to_the_winner():
    def f(v):
        return jnp.zeros(2).at[np.array([1, 1])].set(v)[1]
    g = np.asarray(xjax.grad(f)(jnp.array([3.0, 4.0])))
    assert g.sum() == 1 and g[int(f(jnp.array([3.0, 4.0])) == 4.0)] == 1


@pytest.mark.parametrize("method", ["set", "multiply", "apply", "get"])
def test_vmap_over_each_combination_as_jax(method):
    """Operand, positions and values mapped or not, with derivatives of the mapped function."""
    jax = real_jax()

    def everything(lib):
        def f(x, i, v):
            if method == "apply":
                return x.at[i, 1:].apply(lambda y: y * 3)
            if method == "get":
                return x.at[i, 1:].get(mode="fill", fill_value=2.0) * v
            return getattr(x.at[i, 1:], method)(v)

        def run(x, i, v):
            args = {"x": (lib.numpy.stack([x, -x], 1), 1), "i": (lib.numpy.stack([i, i + 2]), 0),
                    "v": (lib.numpy.stack([v, v / 3], -1), -1)}
            plain = {"x": (x, None), "i": (i, None), "v": (v, None)}
            outs = []
            for names in ("x", "i", "v", "xi", "xv", "iv", "xiv"):
                mapped = [args[n] if n in names else plain[n] for n in "xiv"]
                g = lib.vmap(f, tuple(axis for _, axis in mapped))
                x_, i_, v_ = (a for a, _ in mapped)
                outs.append(g(x_, i_, v_))
                if names == "xi" and method != "apply":     # `apply` has no derivative
                    outs.append(lib.grad(lambda x_: lib.numpy.sum(lib.numpy.sin(g(x_, i_, v_))))(x_))
            return outs
        return lib.jit(run)(X, np.array([0, -2]), np.float32([1.5, 0.5, -1.0, 0.25]))

    assert_same(everything(xjax), everything(jax), tol=1 / 8)      # sums of a few terms


def test_vmap():
    got = xjax.vmap(lambda x, i, v: x.at[i].add(v))(X, np.array([0, 1, -1, 9]), np.ones(4, np.float32))
    want = X.copy()
    want[[0, 1, 2], [0, 1, 4]] += 1
    np.testing.assert_allclose(got, want)


def test_messages_of_misuse():
    x = jnp.zeros(3)
    with pytest.raises(AttributeError, match=r"write x\.at\[index\]\.set"):
        x.at.set(0, 1.0)
    with pytest.raises(AttributeError, match="did you mean 'subtract'"):
        x.at[0].substract(1.0)
    with pytest.raises(TypeError, match="ambiguous"):
        x.at[[0, 1]].set(1.0)
    with pytest.raises(TypeError, match="keyword arguments: 'func'"):
        x.at[0].set(1.0, func=jnp.sin)
    assert repr(x.at[0:2, ...]) == "x.at[0:2, ...] (x: f32[3])"


PROGRAMS = {
    "set row": lambda x, i: x.at[0].set(1),
    "set rows": lambda x, i: x.at[i].set(1.0),
    "add rows": lambda x, i: x.at[i].add(x[:2]),
    "set span": lambda x, i: x.at[1:3].set(x[:2]),
    "add columns": lambda x, i: x.at[:, i].add(1.0),
    "multiply": lambda x, i: x.at[i].mul(2),
    "divide": lambda x, i: x.at[i].divide(2),
    "power": lambda x, i: x.at[i].power(2),
    "min": lambda x, i: x.at[i].min(2),
    "traced scalar": lambda x, i: x.at[i[0]].set(1.5),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_those_of_jax(name):
    jax = real_jax()
    from tests.core.test_printing_as_jax import Rebuild
    f, i = PROGRAMS[name], np.array([0, 1], np.int32)
    assert str(xjax.make_jaxpr(f)(X, i)) == str(Rebuild().bare(jax.make_jaxpr(f)(X, i).jaxpr))


@pytest.mark.parametrize("name", ["max", "min"])
def test_tangents_of_extrema_at_ties(name):
    """One row, computed by slices of the operand: ties share the tangent equally."""
    def tangents(lib):
        x = lib.numpy.array([1.0, 2.0, 3.0, 0.0], np.float32)
        run = lib.jit(lambda v, i: lib.jvp(lambda x, v: getattr(x.at[i], name)(v), (x, v), (x * 2, v + 1)))
        return [run(np.float32(v), np.int32(i)) for i, v in ((0, 1), (1, 5), (1, 1), (2, 1), (9, 1), (-1, 0))]
    assert_same(tangents(xjax), tangents(real_jax()))
