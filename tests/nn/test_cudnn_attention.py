"""cuDNN's attention: its calls in xjax's text for CUDA equal JAX's; the check needs no GPU.

The values of the operations and their derivatives are checked on the CPU, in the form that XLA compiles.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import re

import ml_dtypes
import numpy as np
import pytest

import xjax
from tests.oracle import real_jax
from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax.core.versions import version_numbers
from xjax.nn import attention_by_cudnn, dot_product_attention
from xjax.sharding import Mesh, NamedSharding
from xjax.sharding import PartitionSpec as P

jax = real_jax()
BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
B, T, S, N, H = 2, 8, 16, 4, 8
LENGTHS = np.array([3, 8], np.int32)
_rng = np.random.default_rng(0)


def half(*shape, dtype=BF16):
    return _rng.standard_normal(shape).astype(dtype)


MASK = _rng.random((B, 1, T, S)) < 0.7

# name -> options, or a function of the dtype that returns options with float arrays
CASES = {
    "plain": {},
    "scale": {"scale": 0.25},
    "causal": {"is_causal": True},
    "bias": lambda dtype: {"bias": half(1, N, T, S, dtype=dtype)},
    "bias of every example": lambda dtype: {"bias": half(B, N, T, S, dtype=dtype), "is_causal": True},
    "mask": {"mask": MASK},
    "bias and mask": lambda dtype: {"bias": half(1, 1, T, S, dtype=dtype), "mask": MASK},
    "lengths": {"query_seq_lengths": LENGTHS, "key_value_seq_lengths": 2 * LENGTHS},
    "lengths of keys": {"key_value_seq_lengths": LENGTHS, "is_causal": True},
    "window": {"local_window_size": (3, 0)},
    "window, causal": {"local_window_size": 3, "is_causal": True},
    "window, lengths": {"local_window_size": (3, 0), "query_seq_lengths": LENGTHS},
    "all": lambda dtype: {"bias": half(1, N, T, S, dtype=dtype), "mask": MASK[:1], "is_causal": True,
                          "local_window_size": (5, 0), "key_value_seq_lengths": LENGTHS},
}


def options_of(name, dtype):
    options = CASES[name]
    return options(dtype) if callable(options) else options


def split(options):
    """Static options, and array options in order, which become operands."""
    arrays = {key: x for key, x in options.items() if isinstance(x, np.ndarray)}
    return {key: x for key, x in options.items() if key not in arrays}, arrays


@pytest.fixture(autouse=True)
def jax_believes_in_cudnn(monkeypatch):
    """Pretend that cuDNN is installed: JAX checks its version before it writes the text."""
    module = importlib.import_module("jax._src.cudnn.fused_attention_stablehlo")
    monkeypatch.setattr(module, "check_cudnn_version", lambda: 91100)


def calls(text):
    """The calls of a program: target, options, operands with the sources of their values, layouts and types."""
    text = text[text.index("@main("):].split("func.func")[0]
    sources = {name: f"argument {i}" for i, name in enumerate(re.findall(r"(%\w+): tensor", text.splitlines()[0]))}
    custom_calls = []
    for line in text.splitlines():
        if not (match := re.match(r"\s*(%\w+)(?::\d+)? = (.*)", line)):
            continue
        name, operation = match.groups()
        reads = operation.split(" : ")[0].split("backend_config")[0]
        operands = [sources[x] for x in re.findall(r"%\w+(?:#\d+)?", reads)]
        if "custom_call" not in operation:
            kept = sorted({x for text in operands for x in text.split(" and ")} - {""})
            sources[name] = " and ".join(kept)
            continue
        sources |= {f"{name}#{i}": f"result {i} of call {len(custom_calls)}" for i in range(6)}
        config = json.loads(re.search(r'backend_config = "(.*?[^\\])"', operation)[1].replace(r"\22", '"').replace(
            r'\"', '"'))
        layouts = re.search(r"operand_layouts.*?\]\s*(?=\}? ?: \()", operation[:operation.rindex(" : ")] + " : (")
        custom_calls.append((re.search(r"(__cudnn\$\w+)", operation)[1], config, operands,
                      re.findall(r"dense<\[?([\d, ]*)\]?>", layouts[0]), operation[operation.rindex(" : "):]))
    return custom_calls


def text_of(lib, function, operands):
    return lib.jit(function).trace(*operands).lower(lowering_platforms=("cuda",)).as_text()


def compare(make, operands, count):
    ours, theirs = (calls(text_of(lib, make(lib), operands)) for lib in (xjax, jax))
    for of_ours, of_theirs in zip(ours, theirs, strict=True):
        for a, b in zip(of_ours, of_theirs, strict=True):
            assert a == b
    assert len(ours) == count


FAST = {(BF16, "plain", 2), (BF16, "all", N), (F16, "mask", N), (BF16, "window, lengths", N)}


def _rows():
    for row in itertools.product((BF16, F16), CASES, (N, 2)):
        yield pytest.param(*row, id="-".join(map(str, row)), marks=[] if row in FAST else pytest.mark.slow)


@pytest.mark.parametrize(("dtype", "name", "kv_heads"), list(_rows()))
def test_calls_as_in_jax(dtype, name, kv_heads):
    """The forward pass, with residuals, and the gradient by all arguments including the bias."""
    fixed, arrays = split(options_of(name, dtype))
    operands = [half(B, T, N, H, dtype=dtype), half(B, S, kv_heads, H, dtype=dtype),
                half(B, S, kv_heads, H, dtype=dtype), *arrays.values()]

    def attention(lib, **more):
        return lambda q, k, v, *rest: lib.nn.dot_product_attention(
            q, k, v, implementation="cudnn", **fixed, **more, **dict(zip(arrays, rest, strict=True)))

    def gradient(lib):
        return lib.grad(lambda *xs: (attention(lib)(*xs).astype(np.float32) ** 2).sum(),
                        tuple(range(3 + ("bias" in arrays))))

    compare(attention, operands, 1)
    compare(lambda lib: attention(lib, return_residual=True), operands, 1)
    if name != "mask" or version_numbers(jax.__version__) >= (0, 12):      # older JAX has a gradient of the mask
        compare(gradient, operands, 2)


@pytest.mark.parametrize("name", one_in(3, ["lengths", "plain", "bias of every example"]))
def test_calls_under_vmap_as_in_jax(name):
    fixed, arrays = split(options_of(name, BF16))
    operands = [half(3, B, T, N, H), half(3, B, S, 2, H), half(3, B, S, 2, H),
                *(np.stack([x] * 3) for x in arrays.values())]

    def mapped(lib):
        return lib.vmap(lambda q, k, v, *rest: lib.nn.dot_product_attention(
            q, k, v, implementation="cudnn", **fixed, **dict(zip(arrays, rest, strict=True))))

    def gradient(lib):
        return lib.grad(lambda *xs: mapped(lib)(*xs).astype(np.float32).sum())

    compare(mapped, operands, 1)
    compare(gradient, operands, 2)


# -- values and derivatives, by XLA --------------------------------------------------------------------------------

@pytest.fixture
def beside_a_gpu(monkeypatch):
    """Pretend that the process has a GPU; a program for the CPU then computes the same values by XLA."""
    monkeypatch.setattr(attention_by_cudnn.backend, "default_backend", lambda: "gpu")


def _both(name, dtype=F16):
    options = dict(options_of(name, dtype))
    bias = options.pop("bias", None)
    operands = [half(B, T, N, H, dtype=dtype), half(B, S, 2, H, dtype=dtype), half(B, S, 2, H, dtype=dtype)]
    operands += [] if bias is None else [bias]
    return operands, [functools.partial(_attention, implementation=i, **options) for i in ("cudnn", "xla")]


def _attention(*operands, **options):
    return dot_product_attention(*operands, **options)


# The weights are rounded to half precision, an error of at most 2e-3 of the largest; gradients are sums of 16 weights.
TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}


@pytest.mark.usefixtures("beside_a_gpu")
@pytest.mark.parametrize("name", one_in(3, ["bias and mask", "causal", "window", "lengths"]))
def test_values_and_derivatives(name):
    operands, (ours, by_xla) = _both(name)

    def every(f):
        def loss(*xs):
            return (f(*xs).astype(np.float32) ** 2).sum()

        tangents = [np.ones_like(x) for x in operands]
        return xjax.jit(lambda *xs: (f(*xs), xjax.grad(loss, tuple(range(len(xs))))(*xs), xjax.jvp(f, xs, tangents)[1],
                                     xjax.jvp(xjax.grad(loss), xs, tangents)[1]))(*operands)

    for a, b in zip(xjax.tree.leaves(every(ours)), xjax.tree.leaves(every(by_xla)), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        scale = max(1.0, float(np.abs(np.asarray(b, np.float32)).max()))
        np.testing.assert_allclose(np.asarray(a, np.float32) / scale, np.asarray(b, np.float32) / scale, **TOLERANCE)


@pytest.mark.usefixtures("beside_a_gpu")
@pytest.mark.parametrize("in_axes", one_in(3, [(0, None, 1, None), (1, 0, 0, None), (None, 0, 0, 0)], str))
def test_gradients_under_vmap(in_axes):
    """One gradient of the bias per example, even if all examples share the bias."""
    shapes = [(B, T, N, H), (B, S, 2, H), (B, S, 2, H), (1, N, T, S)]
    operands = [half(*(shape if a is None else (*shape[:a], 3, *shape[a:])), dtype=F16)
                for shape, a in zip(shapes, in_axes, strict=True)]

    def gradients(implementation):
        def loss(*xs):
            return (dot_product_attention(*xs, implementation=implementation).astype(np.float32) ** 2).sum()
        return xjax.jit(xjax.vmap(xjax.grad(loss, (0, 1, 2, 3)), in_axes))(*operands)

    for a, b in zip(gradients("cudnn"), gradients("xla"), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.astype(np.float32), b.astype(np.float32), **TOLERANCE)


@pytest.mark.parametrize(("change", "exc", "words"), [
    ({}, NotImplementedError, "needs an NVIDIA GPU"),
    ({"query": half(B, T, N, H).astype(np.float32), "key": half(B, S, N, H).astype(np.float32),
      "value": half(B, S, N, H).astype(np.float32)}, NotImplementedError, "float16 and bfloat16"),
    ({"bias": half(1, 1, 1, S)}, ValueError, "batch and heads only"),
    ({"local_window_size": 2}, ValueError, "to the left only"),
    ({"query_seq_lengths": LENGTHS.astype(np.uint8)}, ValueError, "int32"),
])
def test_refused(change, exc, words):
    arguments = {"query": half(B, T, N, H), "key": half(B, S, N, H), "value": half(B, S, N, H), **change}
    assert_refused(lambda: dot_product_attention(**arguments, implementation="cudnn"), exc, words)


@pytest.mark.parametrize(("features", "positions", "words"), [(12, T, "multiple of 8"), (136, T, "at most 128"),
                                                              (H, 5, "even numbers")])
def test_sizes_that_cudnn_does_not_take(features, positions, words):
    q, bias = half(B, positions, N, features), half(1, 1, positions, positions)

    def gradient(q):
        return xjax.grad(lambda q: dot_product_attention(q, q, q, bias, implementation="cudnn").sum())(q)

    assert_refused(lambda: text_of(xjax, gradient, [q]), NotImplementedError, words)


# -- several devices ------------------------------------------------------------------------------------------------

def test_each_device_of_a_region_calls_cudnn_and_a_program_that_xla_shards_does_not():
    mesh = Mesh(np.array(xjax.devices()[:2]), ("batch",))
    operands = [half(B, T, N, H), half(B, S, 2, H), half(B, S, 2, H)]

    def gradient(*xs):
        return xjax.grad(lambda *xs: dot_product_attention(*xs, implementation="cudnn").astype(np.float32).sum(),
                         (0, 1, 2))(*xs)

    regions = xjax.shard_map(gradient, mesh=mesh, in_specs=P("batch"), out_specs=P("batch"))
    lines = [line for line in text_of(xjax, regions, operands).splitlines() if "__cudnn" in line]
    assert len(lines) == 2 and all(f'[\\"1\\", \\"{N}\\", \\"{T}\\", \\"{S}\\"]' in line for line in lines)
    placed = [xjax.device_put(x, NamedSharding(mesh, P("batch"))) for x in operands]
    text = text_of(xjax, gradient, placed)
    assert "cudnn" not in text and "stablehlo.dot_general" in text
