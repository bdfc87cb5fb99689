"""Methods, properties and operators of arrays and tracers: all of JAX's exist and agree with the functions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close
from tests.oracle import current, only, real_jax
from tests.sampling import one_in

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
K = np.arange(1, 7, dtype=np.int32).reshape(2, 3)

# Attributes of JAX's arrays that are left out, with the reason.
LEFT_OUT = {
    "clone": "arrays never change", "device_buffer": "gone in JAX too", "device_buffers": "gone in JAX too",
    "flat": "raises in JAX too", "platform": "of the device",
    "traceback": "of JAX's own frames", "unsafe_raw_buffer": only("memory of JAX's own client", since="0.12"),
}

BINARY = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y,
    "//": lambda x, y: x // y, "%": lambda x, y: x % y, "**": lambda x, y: x ** y, "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y, "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y, "divmod": divmod,
}
BITS = {"&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y, "<<": lambda x, y: x << y,
        ">>": lambda x, y: x >> y}
UNARY = {"neg": lambda x: -x, "pos": lambda x: +x, "abs": abs, "round": lambda x: round(x, 1)}


@pytest.mark.parametrize("symbol", BINARY)
def test_binary_operators(symbol):
    f, x = BINARY[symbol], np.abs(X) + 0.1
    y = x[::-1].copy()
    for a, b in ((x, y), (x, 2.0), (2.0, x), (x, 3), (x, x[0]), (x, np.float32(0.5)), (K, 2), (7, K)):
        first = a if isinstance(a, (int, float)) else jnp.array(a)
        want = f(np.asarray(a, np.float32) if isinstance(a, float) else a, np.asarray(b, x.dtype)
                 if isinstance(b, float) else b)
        assert_close(f(first, b if not isinstance(b, np.ndarray) else jnp.array(b)), want)
    assert_close(f(x, jnp.array(y)), f(x, y))                    # the NumPy array is on the left
    assert_close(f(np.float32(0.5), jnp.array(y)), f(np.float32(0.5), y))
    # NumPy array to the left of a tracer
    assert_close(xjax.jit(lambda a, b: (f(a, b), f(x, b)))(x, y), (f(x, y), f(x, y)))


@pytest.mark.parametrize("symbol", BITS)
def test_operators_on_bits(symbol):
    f = BITS[symbol]
    for a, b in ((K, K[::-1].copy()), (K, 2), (3, K)):
        first = a if isinstance(a, int) else jnp.array(a)
        assert_close(f(first, b if isinstance(b, int) else jnp.array(b)), f(a, b))
    assert_close(~jnp.array(K), ~K)
    if symbol in "&|^":
        mask = X > 0
        np.testing.assert_array_equal(f(jnp.array(mask), ~mask), f(mask, ~mask), strict=True)


@pytest.mark.parametrize("name", UNARY)
def test_unary_operators(name):
    assert_close(UNARY[name](jnp.array(X)), UNARY[name](X) if name != "round" else np.round(X, 1))


def test_matmul():
    x = jnp.array(X)
    for got in (x @ X.T, X @ x.T, xjax.jit(lambda a: X.T @ a)(X).T @ np.eye(4, dtype=np.float32)):
        assert got.shape in ((3, 3), (4, 4))
    assert_close(x @ x.T, X @ X.T)
    assert_close(X.T @ x, X.T @ X)


def test_dtypes_of_operators():
    x, i = jnp.array(X), jnp.array(K)
    assert (x + 1).dtype == np.float32 and (i + 1).dtype == np.int32 and (i / 2).dtype == np.float32
    assert (i + 1.5).dtype == np.float32 and (x == 1).dtype == bool
    assert (x.astype(jnp.bfloat16) * 2.5).dtype == jnp.bfloat16
    assert not (x + 1).weak_type and (jnp.array(1.0) + 1).weak_type == (jnp.array(1.0)).weak_type


@pytest.mark.parametrize("symbol", [*BINARY, *BITS, "@"])
@pytest.mark.parametrize("left", [np.array([3, 2], np.int32), np.int32(2), np.array([3.0, 2.0], np.float32),
                                  np.float32(2), np.float64(2)], ids=repr)
def test_numpy_on_the_left_of_a_traced_value(symbol, left):
    f = {**BINARY, **BITS, "@": lambda x, y: x @ y}[symbol]
    if left.dtype.kind == "f" and symbol in BITS or symbol == "@" and not left.ndim:
        return
    right, want = np.array([1, 2], np.int32), f(left, np.array([1, 2], np.int32))
    result = xjax.jit(lambda y: (f(left, y), xjax.vmap(lambda y: f(left, y))(y[None])))(right)
    assert_close(result, (want, [z[None] for z in want] if symbol == "divmod" else want[None]))


def test_unknown_operands_decide_themselves():
    class Vector:
        def __radd__(self, other):
            return "theirs"
    assert jnp.array(X) + Vector() == "theirs"
    with pytest.raises(TypeError, match="unsupported operand"):
        jnp.array(X) - Vector()
    assert (jnp.array(X) == Vector()) is False and (jnp.array(X) != "a") is True
    sparse = scipy.sparse.eye(3, format="csr", dtype=np.float32)
    assert_close(np.asarray(sparse @ jnp.array(X)), X)
    assert_close(np.asarray(jnp.array(X.T) @ sparse), X.T)


@pytest.mark.parametrize("other", [[1, 2, 3, 4], (1,), {1}, {"a": 1}])
def test_containers_are_refused(other):
    for f in (lambda x: x + other, lambda x: other * x, lambda x: x < other):
        with pytest.raises(TypeError, match=f"a {type(other).__name__} is not an array"):
            f(jnp.array(X))


METHODS = {
    "sum": lambda x: x.sum(axis=0), "mean": lambda x: x.mean(), "max": lambda x: x.max(1), "min": lambda x: x.min(),
    "argmax": lambda x: x.argmax(1), "argmin": lambda x: x.argmin(), "var": lambda x: x.var(),
    "std": lambda x: x.std(0),
    "prod": lambda x: x.prod(), "any": lambda x: (x > 2).any(), "all": lambda x: (x > 2).all(0), "ptp": np.ptp,
    "reshape": lambda x: x.reshape(2, -1), "reshape of a tuple": lambda x: x.reshape((4, 3)),
    "ravel": lambda x: x.ravel(), "flatten": lambda x: x.flatten(), "transpose": lambda x: x.transpose(),
    "transpose of axes": lambda x: x.reshape(3, 2, 2).transpose(2, 0, 1),
    "transpose of a tuple": lambda x: x.transpose((1, 0)), "T": lambda x: x.T, "mT": lambda x: x.mT,
    "swapaxes": lambda x: x.swapaxes(0, 1), "squeeze": lambda x: x[None].squeeze(0),
    "astype": lambda x: x.astype(np.int32), "real": lambda x: x.real, "imag": lambda x: x.imag,
    "conj": lambda x: x.conj(), "copy": lambda x: x.copy(), "dot": lambda x: x.dot(x.T),
    "clip": lambda x: x.clip(-0.5, 0.5), "cumsum": lambda x: x.cumsum(1), "cumprod": lambda x: x.cumprod(0),
    "sort": lambda x: np.sort(x, 1) if isinstance(x, np.ndarray) else x.sort(1), "argsort": lambda x: x.argsort(1),
    "repeat": lambda x: x.repeat(2, axis=0), "take": lambda x: x.take(np.array([0, 2]), axis=1),
    "diagonal": lambda x: x.diagonal(1), "trace": lambda x: x.trace(), "round": lambda x: x.round(1),
    "nonzero": lambda x: (x > 0).nonzero(), "searchsorted": lambda x: np.sort(x[0]).searchsorted(0.0)
    if isinstance(x, np.ndarray) else x[0].sort().searchsorted(0.0),
    "compress": lambda x: x.compress(np.array([True, False, True]), axis=0),
    "choose": lambda x: (x[0] > 0).astype(np.int32).choose([x[1], x[2]]),
    "view": lambda x: x.view(np.int32), "view, narrower": lambda x: x.view(np.uint8),
    "view, wider": lambda x: x.astype(np.int16).view(np.int32),
    "argpartition": lambda x: np.take_along_axis(np.asarray(x), np.asarray(x.argpartition(1, axis=1)), 1)[:, 1]
    if not isinstance(x, xjax.core.trace.Tracer) else jnp.take_along_axis(x, x.argpartition(1, axis=1), 1)[:, 1],
    "byteswap": lambda x: x.astype(np.int32).byteswap(),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_those_of_numpy(name):
    f = METHODS[name]
    got = f(jnp.array(X)) if name != "ptp" else jnp.array(X).ptp()
    assert_close(got, f(X))
    if name not in ("nonzero", "ptp", "choose"):
        assert_close(xjax.jit(f)(X), f(X))


WIDTHS = ["bool", "int8", "uint16", "int32", "float16", "float32", "complex64", "bfloat16", "float64", "complex128",
          "uint64"]


@pytest.mark.parametrize("widths", one_in(4, itertools.product(WIDTHS, WIDTHS), "-".join))
def test_view_between_all_widths(widths):
    old, new = widths
    arrays, wants = [], []
    with xjax.enable_x64():
        for shape in ((2, 4), (8,), (3,), (0,), (3, 0), ()):
            width = np.dtype(jnp.dtype(old)).itemsize
            bits = np.random.default_rng(1).integers(0, 255, (*shape, width), np.uint8)
            x = bits[..., 0] > 100 if old == "bool" else bits.view(jnp.dtype(old))[..., 0]
            try:
                wants.append(np.array(x).view(jnp.dtype(new)))
                arrays.append(x)
            except ValueError:
                with pytest.raises(ValueError, match="(?s)not a multiple.*fix:"):
                    jnp.asarray(x).view(new)
        eager = jnp.asarray(arrays[0]).view(new)
        compiled = xjax.jit(lambda arrays: [x.view(new) for x in arrays])(arrays)
        for got, want in zip([eager, *compiled], [wants[0], *wants], strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype
            if new == "bool":                                   # NumPy keeps bytes other than 0 and 1
                np.testing.assert_array_equal(got, want.view(np.uint8) != 0)
            else:
                assert np.asarray(got).tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "float32", "complex64", "float64", "complex128"])
def test_byteswap(dtype):
    with xjax.enable_x64():
        arrays = [x.astype(dtype) for x in (np.arange(6).reshape(2, 3), np.array(258), np.zeros((0, 2)))]
        eager = [jnp.asarray(arrays[0]).byteswap()]
        compiled = xjax.jit(lambda arrays: [x.byteswap() for x in arrays])(arrays)
        twice = xjax.jit(lambda arrays: [x.byteswap().byteswap() for x in arrays])(arrays)
        for x, got, back in zip([arrays[0], *arrays], eager + compiled, [twice[0], *twice], strict=True):
            assert np.asarray(got).tobytes() == np.asarray(x).byteswap().tobytes()
            np.testing.assert_array_equal(back, x)


def test_parts_of_complex_numbers_have_derivatives():
    z = jnp.array([1 + 2j, 3 - 4j])
    np.testing.assert_array_equal(xjax.jvp(lambda z: z.view("float32"), (z,), (1j * z,))[1], (1j * z).view("float32"))
    np.testing.assert_array_equal(xjax.vmap(lambda z: z.view("float32"))(z[None]), z.view("float32")[None])
    weights = np.arange(4.0, dtype=np.float32)
    np.testing.assert_array_equal(xjax.grad(lambda z: (z.view("float32") * weights).sum())(z), [0 - 1j, 2 - 3j])


def test_round_without_digits_gives_integers():
    for x in (jnp.float32(2.5), jnp.array([-1.5, 0.5, 2.567]), jnp.int8(3), jnp.bfloat16(2.5)):
        assert round(x).dtype == np.int32 and round(x, 1).dtype == x.dtype
        np.testing.assert_array_equal(round(x), np.round(np.asarray(x, np.float32)))
    assert xjax.jit(round)(2.5).dtype == np.int32 and round(jnp.complex64(1.5 + 2.5j)) == 2 + 2j


def test_in():
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    for value in (2.0, 9, np.nan, x[0], x[:, :1] + 9, True):
        assert (value in jnp.asarray(x)) == (value in x)
    assert "a" not in jnp.ones(3) and 1 not in jnp.zeros(0)
    keys = xjax.random.split(xjax.random.key(0))
    assert keys[1] in keys and xjax.random.key(9) not in keys
    with pytest.raises(xjax.errors.TracerBoolConversionError):
        xjax.jit(lambda x: 2 in x)(x)


def test_an_empty_array_is_neither_true_nor_false():
    with pytest.raises(ValueError, match="(?s)empty array.*fix: use x.size"):
        bool(jnp.zeros(0))


def test_scalars():
    x = jnp.array(X)
    assert x[1, 2].item() == X[1, 2] and x.item(5) == X.item(5) and x.tolist() == X.tolist()
    assert x.to_device(xjax.devices()[1]).devices() == {xjax.devices()[1]}


def test_every_method_of_jax_is_here():
    jax = real_jax()
    theirs = {name for name in dir(jax.numpy.ones(1)) if not name.startswith("_")}
    ours = set(dir(jnp.ones(1)))
    assert theirs - ours == set(current(LEFT_OUT))


def test_arrays_and_tracers_have_the_same_operators():
    seen = []
    xjax.make_jaxpr(lambda x: seen.append({n for n in dir(x)}) or x)(1.0)
    for name in ("__add__", "__rmatmul__", "__getitem__", "at", "T", "sum", "__iter__", "__round__"):
        assert name in seen[0]


def test_mT_needs_two_axes():
    with pytest.raises(ValueError, match="at least two axes"):
        jnp.ones(3).mT


@pytest.mark.parametrize("call", [
    lambda x: jnp.linalg.matrix_power(x, 1), lambda x: jnp.linalg.outer(x[0], x[1]),
    lambda x: jnp.polyder(x[0], 0), lambda x: jnp.polyint(x[0], 0)])
def test_results_of_numpy_arrays_are_arrays(call):
    assert isinstance(call(np.eye(2, dtype=np.float32)), xjax.Array)


ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("call", [
    lambda: jnp.polyval(ONES[0, 0], 1.0), lambda: jnp.polyfit(ONES, ONES[0], 1), lambda: jnp.polymul(ONES, ONES[0]),
    lambda: jnp.polyfit(ONES[0], ONES[0], 1, w=ONES), lambda: jnp.poly(ONES),
    lambda: jnp.ravel_multi_index((ONES[0],), (3,)), lambda: jnp.gradient(ONES[0, :1]),
    lambda: jnp.histogramdd(ONES[None]), lambda: jnp.linalg.tensorinv(ONES),
    lambda: jnp.linalg.cross(ONES[:, 0], ONES[1]),
    lambda: jnp.frompyfunc(lambda x, y: x + y, 2, 1).reduce(ONES[0, :0])])
def test_errors_print_the_types_of_numpy_arrays(call):
    with pytest.raises((TypeError, ValueError), match=r"f32\["):
        call()
