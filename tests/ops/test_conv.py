"""Convolutions beyond the rows of `structural_table`: short forms, shapes, programs, dtypes, errors."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.ops.structural_table import NHWC, c, f, i
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import lax
from xjax.core.types import typeof
from xjax.ops.window import Window
from xjax.runtime.placement.places import on
from xjax.runtime.programs.executable import compile_sharded, load
from xjax.runtime.programs.lowering import ModuleText, lower_primitive

jax = real_jax()
from tests.core.test_printing_as_jax import Rebuild  # noqa: E402  (needs jax)


def general(strides=(1, 1), padding="VALID", numbers=NHWC, **more):
    return lambda lax, x, k: lax.conv_general_dilated(x, k, strides, padding, dimension_numbers=numbers, **more)


def transposed(strides, padding, **more):
    return lambda lax, x, k: lax.conv_transpose(x, k, strides, padding, **more)


BYTES = i(100, 100, dtype=np.int8)

# name -> (function of (lax, *args), args); compared with JAX by value
VALUES = {
    "axes anywhere": (general((1, 2), "SAME", ("CWNH", "IHOW", "HNWC")), f(3, 5, 2, 4), f(3, 2, 4, 3)),
    "depthwise": (general((2, 1), "SAME_LOWER", feature_group_count=3), f(2, 5, 4, 3), f(2, 3, 1, 6)),
    "complex": (general((2, 1), "SAME"), c(1, 4, 3, 2), c(2, 2, 2, 3)),
    "no space": (lambda lax, x, k: lax.conv(x, k, (), "VALID"), f(2, 3), f(4, 3)),
    "three axes": (lambda lax, x, k: lax.conv(x, k, (1, 2, 1), "SAME"), f(1, 2, 3, 3, 2), f(2, 2, 2, 1, 2)),
    "no features": (general(), f(1, 3, 3, 0), f(2, 2, 0, 3)),
    "negative padding": (lambda lax, x, k: lax.conv_with_general_padding(
        x, k, (2,), ((-1, 3),), (2,), (3,)), f(2, 3, 5), f(4, 3, 2)),
    "integers": (general(), i(1, 2, 3, 4).reshape(1, 2, 2, 1), i(1, -1).reshape(2, 1, 1, 1)),
    "int8 summed as int32": (general(preferred_element_type=np.int32), BYTES.reshape(1, 2, 1, 1),
                             BYTES.reshape(2, 1, 1, 1)),
    "bools": (general(), np.eye(4, dtype=bool).reshape(1, 4, 4, 1), np.eye(2, dtype=bool).reshape(2, 2, 1, 1)),
    "precision": (general(precision="highest"), f(1, 3, 3, 2), f(2, 2, 2, 1)),
    "transposed SAME": (transposed((3, 2), "SAME"), f(1, 3, 3, 2), f(2, 4, 2, 3)),
    "transposed VALID": (transposed((3, 2), "VALID", rhs_dilation=(1, 2)), f(1, 3, 3, 2), f(2, 4, 2, 3)),
    "transposed padding": (transposed((3, 2), ((1, 0), (0, 2))), f(1, 3, 3, 2), f(2, 4, 2, 3)),
    "transposed kernel": (transposed((2,), ((0, 1),), transpose_kernel=True, use_consistent_padding=True),
                          f(1, 3, 2), f(3, 4, 2)),
    "patches": (lambda lax, x: lax.conv_general_dilated_patches(
        x, (2, 3), (1, 2), "SAME", rhs_dilation=(2, 1), dimension_numbers=("NHWC", "WIHO", "CHNW")), f(2, 4, 5, 3)),
    "local": (lambda lax, x, k: lax.conv_general_dilated_local(
        x, k, (1, 2), "VALID", (2, 3), dimension_numbers=("NHWC", "HWIO", "CWNH")), f(2, 3, 7, 2), f(2, 3, 12, 4)),
}


@pytest.mark.parametrize("name", VALUES)
def test_value(name):
    fun, *args = VALUES[name]
    assert_same(fun(lax, *args), jax.jit(lambda *xs: fun(jax.lax, *xs))(*args))


def test_complex_derivatives():
    """By the definition: the adjoint with respect to <a, b> = sum(a b), without conjugation as in JAX."""
    x, k = c(1, 2, 5), c(3, 2, 2)
    y, back = xjax.vjp(lambda x, k: lax.conv(x, k, (1,), "SAME"), x, k)
    ct, dx, dk = c(*y.shape), c(*x.shape), c(*k.shape)
    _, dy = xjax.jvp(lambda x, k: lax.conv(x, k, (1,), "SAME"), (x, k), (dx, dk))
    cx, ck = back(ct)
    np.testing.assert_allclose(np.sum(ct * dy), np.sum(cx * dx) + np.sum(ck * dk), rtol=1e-4)


@pytest.mark.parametrize("narrow", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_gradients_have_the_dtype_of_their_operand(narrow):
    """The sum is float32; the cotangent of each operand is converted back."""
    x, k = f(1, 4, 4, 2).astype(narrow), f(3, 3, 2, 1).astype(narrow)

    def run(lib):
        return lib.jit(lib.grad(
            lambda x, k: lib.numpy.sum(general(preferred_element_type=np.float32)(lib.lax, x, k)), (0, 1)))
    ours = run(xjax)(x, k)
    assert all(ct.dtype == narrow for ct in ours)
    assert_same(ours, run(jax)(x, k))


def test_gradient_of_each_example():
    """vmap of grad makes grouped convolutions; the result equals a loop."""
    xs, k = f(3, 1, 4, 4, 2), f(2, 2, 2, 3)

    def loss(k, x):
        return xjax.numpy.sum(general((2, 1), "SAME")(lax, x, k) ** 2)
    slopes = xjax.jit(xjax.vmap(xjax.grad(loss), (None, 0)))(k, xs)
    slope = xjax.jit(xjax.grad(loss))
    np.testing.assert_allclose(slopes, [slope(k, x) for x in xs], rtol=1e-4, atol=1e-5)


def test_mapped_axis_of_size_zero():
    xs, k = f(0, 1, 4, 4, 2), f(2, 2, 2, 3)
    assert xjax.vmap(lambda x: general()(lax, x, k))(xs).shape == (0, 1, 3, 3, 3)
    assert xjax.vmap(lambda x, k: general()(lax, x, k))(xs, f(0, 2, 2, 2, 3)).shape == (0, 1, 3, 3, 3)


def test_patches_keep_infinities_in_their_place():
    """A convolution with unit kernels would have 0 * inf = nan next to an infinity."""
    x = np.array([[[1, np.inf, 2, 3]]], np.float32)
    patches = lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")
    np.testing.assert_array_equal(patches, [[[1, np.inf, 2], [np.inf, 2, 3]]])


# -- rewritten with other operations on CPU -----------------------------------------------------------------------

LAYOUTS = [NHWC, ("NCHW", "OIHW", "NCHW"), ("WNCH", "IWOH", "HCNW")]

# name -> (number of convolutions left to XLA including derivatives, operand NHWC, kernel HWIO, parameters)
ON_CPU = {
    "depthwise": (0, f(2, 9, 8, 5), f(3, 2, 1, 5), {
        "window_strides": (2, 1), "padding": ((2, 1), (-1, 3)), "lhs_dilation": (1, 2), "rhs_dilation": (2, 3),
        "feature_group_count": 5}),
    "depthwise, two kernels each": (2, f(2, 6, 5, 3), f(2, 2, 1, 6), {
        "window_strides": (1, 1), "padding": "SAME", "feature_group_count": 3}),
    "of one feature": (2, f(3, 9, 8, 1), f(3, 2, 1, 5), {"window_strides": (1, 1), "padding": "SAME"}),
    "of three features": (1, f(6, 9, 12, 3), f(2, 3, 3, 4), {
        "window_strides": (1, 2), "padding": ((2, 0), (-1, 3)), "lhs_dilation": (2, 1), "rhs_dilation": (1, 2)}),
    "many features": (2, f(2, 33, 34, 64), f(2, 3, 64, 64) / 10, {
        "window_strides": (1, 2), "padding": ((1, 0), (2, 1)), "rhs_dilation": (2, 1)}),
    "kernel of one element": (0, f(2, 24, 24, 32), f(1, 1, 32, 16), {"window_strides": (2, 1), "padding": "VALID"}),
    "kernel of one element, dilated operand": (1, f(2, 5, 6, 8), f(1, 1, 8, 7), {
        "window_strides": (1, 1), "padding": ((2, 0), (-1, 1)), "lhs_dilation": (1, 3)}),
    "transposed, of three by two": (2, f(3, 7, 6, 8), f(3, 2, 8, 7), {
        "window_strides": (1, 1), "padding": ((1, 2), (-1, 3)), "lhs_dilation": (2, 3)}),
    "strided, of three by three": (2, f(3, 7, 8, 16), f(3, 3, 16, 16) / 5, {
        "window_strides": (2, 3), "padding": ((1, 1), (0, 2))}),
    "five by five": (2, f(3, 7, 8, 4), f(5, 5, 4, 6) / 5, {
        "window_strides": (1, 1), "padding": ((1, 2), (-1, 4)), "rhs_dilation": (1, 2)}),
    "kernel of one element, strides and padding": (2, f(2, 5, 6, 8), f(1, 1, 8, 7), {
        "window_strides": (2, 1), "padding": ((1, 0), (0, 2))}),
    "result of one position": (1, f(3, 6, 5, 8), f(3, 4, 8, 7), {
        "window_strides": (4, 2), "padding": ((0, -1), (0, 0)), "rhs_dilation": (2, 1)}),
}


@pytest.mark.parametrize("name", ON_CPU)
def test_other_forms_on_cpu(name):
    """Values and gradients in several layouts; with features last, the rewritten form is used."""
    left, x, k, params = ON_CPU[name]

    def arranged(array, axes, spec):
        return np.transpose(array, [axes.index(letter) for letter in spec])

    def run(lib):
        def both(x, k, numbers):
            def conv(x, k):
                return lib.lax.conv_general_dilated(x, k, dimension_numbers=numbers, **params)
            y, back = lib.vjp(conv, x, k)
            return y, *back(y)
        args = [(arranged(x, "NHWC", n[0]), arranged(k, "HWIO", n[1])) for n in LAYOUTS]
        compiled = lib.jit(lambda args: [both(*a, n) for a, n in zip(args, LAYOUTS, strict=True)])
        return compiled(args), lib.jit(lambda *a: both(*a, NHWC)).lower(*args[0]).as_text()
    (ours, text), (theirs, _) = run(xjax), run(jax)
    for numbers, a, b in zip(LAYOUTS, ours, theirs, strict=True):
        for part, result, expected in zip(("value", "operand", "kernel"), a, b, strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=2e-4, err_msg=f"{numbers} {part}")
    assert text.count("stablehlo.convolution") == left


def test_depthwise_along_one_axis():
    x, k, numbers = f(2, 9, 5), f(4, 1, 5), ("NHC", "HIO", "NHC")

    def run(lib):
        def loss(x, k):
            y = lib.lax.conv_general_dilated(x, k, (2,), ((3, 1),), None, (2,), numbers, feature_group_count=5)
            return lib.numpy.sum(y * y)
        return lib.jit(lib.grad(loss, (0, 1)))
    for result, expected in zip(run(xjax)(x, k), run(jax)(x, k), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert "stablehlo.convolution" not in run(xjax).lower(x, k).as_text()


def test_kernel_gradients_over_a_batch_that_is_cut_over_devices():
    """Each device sums over its own images, and the sums are added; under pmap the caller adds them."""
    xs, k = f(2, 2, 24, 24, 16), f(1, 1, 16, 16)

    def gradient(k, x):
        return xjax.grad(lambda k: xjax.numpy.sum(general()(lax, x, k) ** 2))(k)
    expected = np.asarray(xjax.jit(gradient)(k, xs.reshape(4, 24, 24, 16)))
    mesh = xjax.sharding.Mesh(np.array(xjax.devices()[:2]), ("batch",))
    over = xjax.sharding.NamedSharding(mesh, xjax.sharding.PartitionSpec("batch"))
    sharded = xjax.device_put(xs.reshape(4, 24, 24, 16), over)
    np.testing.assert_allclose(xjax.jit(gradient)(k, sharded), expected, rtol=1e-4)
    whole = xjax.sharding.NamedSharding(mesh, xjax.sharding.PartitionSpec())
    compiled = compile_sharded(xjax.make_jaxpr(gradient)(k, sharded), "gradient", mesh, [whole, over], [None])
    assert "all-gather(" not in compiled.as_text() and "all-reduce(" in compiled.as_text()
    np.testing.assert_allclose(xjax.pmap(gradient, in_axes=(None, 0))(k, xs).sum(0), expected, rtol=1e-4)


@pytest.mark.parametrize("numbers", [NHWC, ("NCHW", "OIHW", "NCHW")])
def test_in_a_loop_all_convolutions_have_the_order_of_axes_that_is_fast(numbers):
    """With other orders XLA's CPU backend computes element by element, 14 times slower."""
    x, k = (f(*(dict(zip("NHWC", (2, 8, 8, 12), strict=True))[a] for a in numbers[0])),
            f(*(dict(zip("HWIO", (3, 3, 12, 12), strict=True))[a] for a in numbers[1])))

    def loss(x, k):
        return lax.sin(lax.conv_general_dilated(lax.sin(x), k, (1, 1), "SAME", dimension_numbers=numbers)).sum()

    def descend(x, k):
        return lax.fori_loop(0, 3, lambda i, xk: xjax.grad(loss, (0, 1))(*xk), (x, k))

    text = xjax.jit(descend).lower(x, k).compile().as_text()
    labels = re.findall("dim_labels=([^, ]*)", text)
    assert len(labels) == 3 and set(labels) == {"b01f_01io->b01f"}


def test_only_computed_operands_are_transposed_apart():
    """Nothing computes an argument of the program, so a barrier before its transpose would only copy it."""
    x, k = f(4, 16, 16, 16), f(3, 3, 16, 16)

    def kernel_gradient(x, k):
        return xjax.linear_transpose(lambda k: general(padding="SAME")(lax, x, k), k)(x)

    of_argument, of_sine = (xjax.jit(g).lower(x, k).as_text()
                            for g in (kernel_gradient, lambda x, k: kernel_gradient(lax.sin(x), k)))
    assert "@apart" not in of_argument and "@apart" in of_sine


def test_programs_for_gpu():
    """Programs written differently for another platform have the same meaning: lowered for it, run here."""
    place = on(xjax.devices()[0])
    x = f(2, 90)
    window = Window((1, 40), (1, 3), ((0, 0), (2, 0)), (1, 1), (1, 2))._asdict()
    depthwise = {"window_strides": (1, 1), "padding": ((0, 0), (1, 1)), "lhs_dilation": (1, 1), "rhs_dilation": (1, 1),
                 "dimension_numbers": lax.conv_dimension_numbers((1,) * 4, (1,) * 4, NHWC), "feature_group_count": 3,
                 "batch_group_count": 1, "precision": None, "preferred_element_type": None}
    for p, args, params in ((lax.reduce_window_max_p, (x,), window),
                            (lax.select_and_gather_add_p, (f(2, 90), x), {**window, "select_prim": lax.ge_p}),
                            (lax.conv_general_dilated_p, (f(2, 5, 4, 3), f(2, 2, 1, 3)), depthwise)):
        avals = [typeof(a) for a in args]
        text, outs = lower_primitive(p, avals, params, "gpu")
        assert text != lower_primitive(p, avals, params)[0]
        result = load(text, place, avals, outs)([xjax.numpy.asarray(a) for a in args])[0]
        np.testing.assert_allclose(result, p.bind(*args, **params), rtol=1e-5, atol=1e-6)


# -- shapes -------------------------------------------------------------------------------------------------------

def test_shapes_as_jax():
    strings = [NHWC, ("NCHW", "OIHW", "NCHW"), ("HNWC", "OWIH", "CNHW")]
    for numbers, strides, padding in itertools.product(strings, [(1, 1), (2, 3)], ["SAME", "VALID", ((1, 2), (0, 3))]):
        sizes = dict(zip("NCHWOI", (2, 3, 7, 8, 5, 3), strict=True))
        x = tuple(sizes[letter] for letter in numbers[0])
        k = tuple({**sizes, "H": 3, "W": 2}[letter] for letter in numbers[1])
        for name in ("conv_general_shape_tuple", "conv_transpose_shape_tuple"):
            assert getattr(lax, name)(x, k, strides, padding, numbers) == getattr(jax.lax, name)(
                x, k, strides, padding, numbers), name
        assert tuple(lax.conv_dimension_numbers(x, k, numbers)) == tuple(
            jax.lax.conv_dimension_numbers(x, k, numbers))
        assert lax.conv_general_permutations(numbers) == jax.lax.conv_general_permutations(numbers)
    for size, window, stride, name in itertools.product((1, 5, 8), (1, 2, 5), (1, 3), ("SAME", "SAME_LOWER", "valid")):
        arguments = (np.array([size]), np.array([window]), np.array([stride]), name)
        assert lax.padtype_to_pads(*arguments) == [tuple(map(int, p)) for p in jax.lax.padtype_to_pads(*arguments)]


# -- programs -----------------------------------------------------------------------------------------------------

X, K = np.ones((1, 4, 4, 2), np.float32), np.ones((2, 2, 2, 3), np.float32)
PROGRAMS = {
    "conv": lambda lib: lambda x, k: general(padding="SAME")(lib.lax, x, k),
    "gradient": lambda lib: lib.grad(lambda x, k: general((2, 1))(lib.lax, x, k).sum(), (0, 1)),
    "precision": lambda lib: lambda x, k: general(precision="high", preferred_element_type=np.float32)(lib.lax, x, k),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_read_as_in_jax(name):
    ours = xjax.make_jaxpr(PROGRAMS[name](xjax))(X, K)
    theirs = Rebuild().bare(jax.make_jaxpr(PROGRAMS[name](jax))(X, K).jaxpr)
    assert str(ours) == str(theirs)


# -- errors -------------------------------------------------------------------------------------------------------

def shaped(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


ERRORS = SimpleNamespace(
    features=(lambda: lax.conv(shaped(1, 3, 5), shaped(4, 2, 2), (1,), "SAME"), ValueError,
              ("f32[1,3,5]   axis 1 has 3 features", "f32[4,2,2]   axis 1 has 2 features")),
    dtypes=(lambda: lax.conv(shaped(1, 3, 5), shaped(4, 3, 2, dtype=np.int32), (1,), "SAME"), TypeError,
            ("f32[1,3,5]", "i32[4,3,2]")),
    ranks=(lambda: lax.conv(shaped(1, 3, 5), shaped(4, 3, 2, 2), (1,), "SAME"), TypeError, ("(1, 3, 5)",)),
    strides=(lambda: lax.conv(shaped(1, 3, 5), shaped(4, 3, 2), (1, 1), ((0, 0),)), ValueError,
             ("`window_strides`", "1 spatial")),
    stride_zero=(lambda: lax.conv(shaped(1, 3, 5), shaped(4, 3, 2), (0,), ((0, 0),)), ValueError, ("positive",)),
    padding=(lambda: lax.conv(shaped(1, 3, 5), shaped(4, 3, 2), (1,), "SMAE"), RuntimeError, ("SAME",)),
    pairs=(lambda: lax.conv(shaped(1, 3, 5), shaped(4, 3, 2), (1,), (1, 2)), ValueError, ("(low, high)",)),
    groups=(lambda: lax.conv_general_dilated(shaped(1, 4, 5), shaped(3, 2, 2), (1,), "SAME", feature_group_count=2),
            ValueError, ("feature_group_count", "2", "3 output features")),
    batch=(lambda: lax.conv_general_dilated(shaped(3, 4, 5), shaped(4, 4, 2), (1,), "SAME", batch_group_count=2),
           ValueError, ("batch_group_count", "3")),
    both=(lambda: lax.conv_general_dilated(shaped(4, 4, 5), shaped(4, 2, 2), (1,), "SAME", None, None, None, 2, 2),
          ValueError, ("one of them must be 1",)),
    crop=(lambda: lax.conv(shaped(1, 3, 5), shaped(4, 3, 2), (1,), ((-4, -3),)), ValueError, ("negative padding",)),
    letters=(lambda: lax.conv_general_dilated(X, K, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWX")),
             TypeError, ("'NHWX'", "'C'")),
    spatial=(lambda: lax.conv_general_dilated(X, K, (1, 1), "SAME", dimension_numbers=("NHWC", "HXIO", "NHWC")),
             TypeError, ("same spatial letters",)),
    dilated=(lambda: lax.conv_with_general_padding(shaped(1, 3, 5), shaped(4, 3, 2), (1,), "SAME", (2,), None),
             ValueError, ("conv_transpose",)),
)


@pytest.mark.parametrize("case", vars(ERRORS).values(), ids=vars(ERRORS))
def test_errors(case):
    assert_refused(*case)


# -- integers on GPUs ---------------------------------------------------------------------------------------------

def for_gpus(fun, *args):
    """The result of the program lowered for GPUs, which a CPU can run as well."""
    program = xjax.make_jaxpr(fun)(*args)
    module = ModuleText(xjax.jit(fun).trace(*args).lower(lowering_platforms=("cuda",)).as_text())
    executable = load(module, on(xjax.devices()[0]), program.in_avals, program.out_avals)
    return executable([xjax.device_put(x) for x in args])[0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integers_on_gpus_are_convolved_exactly(dtype):
    """cuDNN has no integer convolution: the integers are split into doubles; overflow wraps as on CPUs."""
    npr, ends = np.random.default_rng(0), np.iinfo(dtype)
    with xjax.enable_x64(True):
        x = npr.integers(ends.min, ends.max, (2, 5, 6, 4), dtype=dtype, endpoint=True)
        kernel = npr.integers(ends.min, ends.max, (2, 3, 2, 4), dtype=dtype, endpoint=True)
        x[0], kernel[..., 0] = ends.max, ends.min                   # the largest possible sums
        for more in ({}, {"preferred_element_type": np.int64}):
            fun = lambda x, k, more=more: general((1, 2), "SAME", feature_group_count=2, **more)(lax, x, k)
            want = fun(x, kernel)
            got = for_gpus(fun, x, kernel)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
