"""cuDNN's attention on NVIDIA GPUs: one call forward and one backward, without an array of all queries times keys.

    o:bf16[2,16,4,64] sums:f32[2,4,16] = dot_product_attention_fwd[is_training=True mask_type=CAUSAL ...] q k v

Operands: query, key, value, a bias if `has_bias`, the lengths of queries and keys if the mask has PADDING. The calls
are those of JAX. If XLA shards a program automatically, `attention_by_xla` computes the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax.core import dtypes, hlo
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.lowering import lower_function
from xjax.core.primitive import Missing, Primitive
from xjax.core.types import LinearInput, ShapedArray, Zero, typeof
from xjax.nn.attention_by_xla import attend
from xjax.ops.shape import broadcast_in_dim
from xjax.ops.zeros import instantiate
from xjax.runtime import xla
from xjax.runtime.devices import backend
from xjax.transforms.autodiff import jvp, vjp
from xjax.transforms.batching import place_axis
from xjax.typing import Array

_CALLER = "nn.dot_product_attention"
_ELEMENTS = {np.dtype(np.float16): "F16", dtypes.bfloat16: "BF16"}
# Added to the masked products: large enough that their weights are zero, and finite, since cuDNN subtracts two of them.
_HIDDEN = {np.dtype(np.float16): -2.0**15, dtypes.bfloat16: -2.0**41}


def attend_by_cudnn(query: Array, key: Array, value: Array, bias: Array | None, mask: Array | None, *,
                    scale: float, is_causal: bool, window: int | tuple[int, int] | None, lengths: tuple[Any, Any],
                    with_sums: bool) -> tuple[Any, Any]:
    """As `attention_by_xla.attend`, for float16 and bfloat16.

    Raises: NotImplementedError for another dtype; ValueError for a window to the right without a causal mask, a
      bias or mask whose last axes are not [T, S], or lengths that are not int32. When the program is compiled,
      NotImplementedError without a GPU, or for sizes that cuDNN does not support.
    """
    if query.dtype not in _ELEMENTS:
        raise bad(_CALLER, "implementation='cudnn' takes float16 and bfloat16", {"query": typeof(query)},
                  "convert query, key and value, or leave `implementation` out.", exc=NotImplementedError)
    both = _with_mask(bias, mask, query.dtype)
    if both is not None and both.shape[2:] != (query.shape[1], key.shape[1]):
        raise bad(_CALLER, "implementation='cudnn' repeats bias and mask along batch and heads only",
                  {"bias or mask": typeof(both), "[T, S]": f"{[query.shape[1], key.shape[1]]}"},
                  "broadcast the last two axes.", exc=ValueError)
    has_lengths = lengths[0] is not None or lengths[1] is not None
    operands = [query, key, value] if both is None else [query, key, value, both]
    if has_lengths:
        operands += [_all_lengths(n, x) for n, x in zip(lengths, (query, key), strict=True)]
    mask_type = "_".join(["PADDING"] * has_lengths + ["CAUSAL"] * is_causal) or "NO_MASK"
    out, *sums = forward_p.bind(*operands, scale=float(scale), mask_type=mask_type, has_bias=both is not None,
                                has_dbias=bias is not None, sliding_window_length=_left_window(window, mask_type),
                                is_training=with_sums)
    return out, jnp.transpose(sums[0], (0, 2, 1)) if with_sums else None


def _with_mask(bias: Array | None, mask: Array | None, dtype: np.dtype) -> Array | None:
    """One bias for bias and mask: cuDNN has no boolean masks."""
    if mask is None:
        return bias
    hidden = jnp.where(mask, dtype.type(0), dtype.type(_HIDDEN[dtype]))
    return hidden if bias is None else bias + hidden


def _all_lengths(lengths: Array | None, x: Array) -> Array:
    if lengths is None:
        return jnp.full(x.shape[:1], x.shape[1], np.int32)
    if lengths.dtype != np.int32:
        raise bad(_CALLER, "implementation='cudnn' takes lengths as int32", {"lengths": typeof(lengths)},
                  "convert them with astype.", exc=ValueError)
    return lengths


def _left_window(window: int | tuple[int, int] | None, mask_type: str) -> int | None:
    """The window in cuDNN's terms: it includes the position itself, and no later positions."""
    if window is None:
        return None
    left, right = (window, window) if isinstance(window, int) else window
    if right and mask_type != "CAUSAL":
        raise bad(_CALLER, "implementation='cudnn' has windows to the left only", {"local_window_size": (left, right)},
                  "pass local_window_size=(left, 0), or is_causal=True without lengths.", exc=ValueError)
    return left + 1


# -- the same by XLA: the meaning of the operations ------------------------------------------------------------------

class _Form(NamedTuple):
    """The parameters common to the three operations. `has_dbias`: the bias is not only a mask, and has a gradient."""

    scale: float
    mask_type: str
    sliding_window_length: int | None
    has_bias: bool
    has_dbias: bool

    @property
    def inputs(self) -> int:
        """The number of operands with a gradient, which come first."""
        return 3 + self.has_dbias

    @property
    def operands(self) -> int:
        """The number of all operands of the forward operation."""
        return 3 + self.has_bias + 2 * ("PADDING" in self.mask_type)


def _forward(form: _Form, *operands: Array) -> tuple[Array, Array]:
    query, key, value, *rest = operands
    bias = rest.pop(0) if form.has_bias else None
    out, sums = attend(query, key, value, bias, scale=form.scale, is_causal="CAUSAL" in form.mask_type,
                       window=form.sliding_window_length and (form.sliding_window_length - 1, 0),
                       lengths=tuple(rest) if rest else (None, None), with_sums=True)
    return out, jnp.transpose(sums, (0, 2, 1)).astype(np.float32)


def _only_inputs(form: _Form, rest: Sequence[Any]) -> Callable:
    """The result as a function of the differentiable operands."""
    return lambda *inputs: _forward(form, *inputs, *rest)[0]


def _tangent(form: _Form, *args: Array) -> list[Array]:
    """Operands: tangents of the inputs, the operands of the forward operation, its two results."""
    n = form.inputs
    dxs, inputs, rest = args[:n], args[n:2 * n], args[2 * n:n + form.operands]
    return [jvp(_only_inputs(form, rest), inputs, dxs)[1]]


def _backward(form: _Form, *args: Array) -> list[Array]:
    """Operands: the operands of the forward operation, its two results, the cotangent of the first result."""
    n = form.inputs
    return list(vjp(_only_inputs(form, args[n:form.operands]), *args[:n])[1](args[-1]))


# -- rules -----------------------------------------------------------------------------------------------------------

def _forward_type(query, key, value, *rest, is_training, **form):
    batch, targets, heads, _ = query.shape
    sums = ShapedArray((batch, heads, targets), np.dtype(np.float32))
    return (query.strong(), sums) if is_training else (query.strong(),)


def _forward_jvp(primals, tangents, *, is_training, **form):
    """The residuals of the derivative are the operands and both results. The sums have no derivative, as in JAX."""
    n = _Form(**form).inputs
    if all(type(dx) is Zero for dx in tangents[:n]):
        outs = forward_p.bind(*primals, is_training=is_training, **form)
        return outs, [Zero(y.aval.tangent()) for y in outs]
    out, sums = forward_p.bind(*primals, is_training=True, **form)
    dy, = tangent_p.bind(*map(instantiate, tangents[:n]), *primals, out, sums, **form)
    return ([out, sums], [dy, Zero(typeof(sums).tangent())]) if is_training else ([out], [dy])


def _tangent_transpose(cts, *args, **form):
    n = _Form(**form).inputs
    *operands, out, sums = args[n:]
    results = backward_p.bind(*operands, out, sums, instantiate(cts[0]), **form)
    return [ct if type(dx) is LinearInput else None for ct, dx in zip(results, args[:n], strict=True)] + [None] * (
        len(args) - n)


def _jvp_by(program: Callable, bind: Callable[..., list[Any]]) -> Callable:
    """The jvp rule of an operation: the derivative of `program`, its equivalent in XLA's operations."""
    def rule(primals, tangents, **form):
        active = [i for i, dx in enumerate(tangents) if type(dx) is not Zero]

        def of_active(*xs: Array) -> list[Array]:
            args = list(primals)
            for i, x in zip(active, xs, strict=True):
                args[i] = x
            return program(_Form(**form), *args)

        _, dys = jvp(of_active, [primals[i] for i in active], [tangents[i] for i in active])
        return bind(*primals, **form), dys
    return rule


def _batch_by(bind: Callable[..., list[Any]], is_bias: Callable[[_Form], Sequence[int]], bias_out: int | None,
              shares_bias: bool) -> Callable:
    """The batching rule of an operation: the mapped axis becomes part of the batch.

    Args:
      is_bias: positions of the operands that are a bias or its tangent; their batch axis may have size 1.
      bias_out: position of the cotangent of the bias among the results, or None.
      shares_bias: whether an unmapped bias of batch size 1 keeps that size.
    """
    def rule(axis, args, bdims, **params):
        form = _Form(**{name: params[name] for name in _Form._fields})
        biases = is_bias(form)
        size, batch = axis.size, next(_without(x, b)[0] for i, (x, b) in enumerate(zip(args, bdims, strict=True))
                                      if i not in biases)
        merged = [x if shares_bias and i in biases and bdim is None and typeof(x).shape[0] == 1
                  else _merge(place_axis(x, bdim, 0, size), batch) for i, (x, bdim) in enumerate(
                      zip(args, bdims, strict=True))]
        outs = [_split(y, size) for y in bind(*merged, **params)]
        if form.has_dbias and bias_out is not None:
            x, bdim = args[biases[0]], bdims[biases[0]]
            if _without(x, bdim)[0] == 1 != batch:
                outs[bias_out] = outs[bias_out].sum(1, keepdims=True)
        return outs, [0] * len(outs)
    return rule


def _without(x: Array, bdim: int | None) -> tuple[int, ...]:
    shape = typeof(x).shape
    return shape if bdim is None else shape[:bdim] + shape[bdim + 1:]


def _merge(x: Array, batch: int) -> Array:
    """[n, batch or 1, ...] as [n * batch, ...]."""
    size, _, *shape = typeof(x).shape
    repeated = broadcast_in_dim(x, (size, batch, *shape), range(len(shape) + 2))
    return jnp.reshape(repeated, (size * batch, *shape))


def _split(x: Array, size: int) -> Array:
    total, *shape = typeof(x).shape
    return jnp.reshape(x, (size, total // size, *shape))


# -- the calls -------------------------------------------------------------------------------------------------------

def _form_of(params: dict[str, Any]) -> _Form:
    return _Form(**{name: params[name] for name in _Form._fields})


def _lower_by(program: Callable) -> Callable:
    """By XLA, which cannot shard cuDNN's calls; also for the part of a GPU program that runs on the CPU."""
    def lower(b: Builder, outs: Sequence[ShapedArray], *args: Value, **params: Any) -> list[Value]:
        return lower_function(b, lambda *xs: program(_form_of(params), *xs), args)[:len(outs)]
    return lower


def _lower_on(call: Callable[..., list[Value]]) -> dict[str, Callable]:
    """Lowering on GPUs: a call of cuDNN. On the CPU of a process without a GPU it raises."""
    def on_gpu(b: Builder, outs: Sequence[ShapedArray], *args: Value, **params: Any) -> list[Value] | None:
        if b.is_cut:
            return None
        form = _form_of(params)
        _check_sizes(form, args, is_training=params.get("is_training", True))
        return call(b, outs, form, *args)

    def on_cpu(b: Builder, outs: Sequence[ShapedArray], *args: Value, **params: Any) -> None:
        if backend.default_backend() == "cpu":
            raise bad(_CALLER, "implementation='cudnn' needs an NVIDIA GPU", {"platform": "cpu"},
                      "leave `implementation` out, or pass 'xla'.", exc=NotImplementedError)

    return {"cpu": on_cpu, "gpu": on_gpu}


def _check_sizes(form: _Form, args: Sequence[Value], is_training: bool) -> None:
    """Raise NotImplementedError for sizes that cuDNN, or the GPU of this process, does not support."""
    query, key = args[0].aval, args[1].aval
    capability = _capability()
    most, features = 256 if capability >= (9, 0) else 128, query.shape[3]
    if features > most or features % 8:
        raise _unsupported(f"a head of at most {most} features, a multiple of 8", query)
    if is_training and form.has_bias and (query.shape[1] % 2 or key.shape[1] % 2):
        raise _unsupported("even numbers of positions, for derivatives with a bias or mask", query, key)
    if capability == (10, 3) and (xla.cuda_library_version("cudnn") or 0) < 91100:
        raise _unsupported("cuDNN 9.11 on a GPU of compute capability 10.3", query)


def _unsupported(what: str, *avals: ShapedArray) -> Exception:
    return bad(_CALLER, f"implementation='cudnn' needs {what}", dict(zip(("query", "key"), avals, strict=False)),
               "leave `implementation` out, or change the sizes.", exc=NotImplementedError)


def _capability() -> tuple[int, ...]:
    """The compute capability of the GPU; (0,) when lowering without a GPU, so the limits of all GPUs apply."""
    if backend.default_backend() != "gpu":
        return (0,)
    return tuple(int(part) for part in str(backend.local_devices(backend="gpu")[0].compute_capability).split("."))


def _call_forward(b: Builder, outs: Sequence[ShapedArray], form: _Form, query: Value, key: Value, value: Value,
                  *rest: Value) -> list[Value]:
    config = _config(form, query, key, {"bmm1": (3, 3, (0, 2), (0, 2)), "bmm2": (3, 1, (0, 1), (0, 2))})
    name = "__cudnn$fmhaScaleBiasSoftmax" if form.has_bias else "__cudnn$fmhaSoftmax"
    return _call(b, name, [query, key, value, *rest], outs, config, by_heads=1)


def _call_backward(b: Builder, outs: Sequence[ShapedArray], form: _Form, *args: Value) -> list[Value]:
    (query, key, value), bias = args[:3], args[3:3 + form.has_bias]
    lengths, (out, sums, ct) = args[3 + form.has_bias:form.operands], args[form.operands:]
    config = _config(form, query, key, {
        "bmm1_grad_gemm1": (2, 1, (0, 1), (0, 2)), "bmm1_grad_gemm2": (3, 1, (0, 1), (0, 2)),
        "bmm2_grad_gemm1": (2, 1, (0, 1), (0, 2)), "bmm2_grad_gemm2": (3, 3, (0, 2), (0, 2))})
    name = "__cudnn$fmhaScaleBiasSoftmaxBackward" if form.has_bias else "__cudnn$fmhaSoftmaxBackward"
    return _call(b, name, [query, key, value, sums, ct, *bias, out, *lengths], outs, config, by_heads=3)


_WORKSPACE = ShapedArray((0,), np.dtype(np.uint8))      # XLA replaces it by the size that cuDNN requires


def _call(b: Builder, target: str, operands: Sequence[Value], outs: Sequence[ShapedArray], config: dict[str, Any],
          by_heads: int) -> list[Value]:
    """A call whose first `by_heads` results are [batch, heads, positions, features], stored in the order of `outs`."""
    first = [aval.update(shape=tuple(aval.shape[i] for i in (0, 2, 1, 3))) for aval in outs[:by_heads]]
    types = [*first, *outs[by_heads:], _WORKSPACE]
    layouts = [[3, 1, 2, 0]] * by_heads + [_in_order(aval) for aval in types[by_heads:]]
    results = b.generic("stablehlo.custom_call", operands, types,
                      f'call_target_name = "{target}", api_version = 2 : i32, '
                      f"backend_config = {hlo.string(json.dumps(config))}, "
                      f"operand_layouts = [{_layouts(_in_order(x.aval) for x in operands)}], "
                      f"result_layouts = [{_layouts(layouts)}]")
    by_position = [b.op(f"stablehlo.transpose {y}, dims = [0, 2, 1, 3] : ({y.type}) -> {hlo.tensor_type(aval)}", aval)
                   for y, aval in zip(results[:by_heads], outs[:by_heads], strict=True)]
    return [*by_position, *results[by_heads:-1]]


def _in_order(aval: ShapedArray) -> list[int]:
    return list(range(aval.ndim))[::-1]


def _layouts(orders: Sequence[Sequence[int]]) -> str:
    return ", ".join(f"dense<{order}> : tensor<{len(order)}xindex>" for order in orders)


def _config(form: _Form, query: Value, key: Value, products: dict[str, tuple]) -> dict[str, Any]:
    """The options that XLA's compiler reads. `products`: contracted axes and batch axes of each matrix product."""
    (batch, targets, heads, _), sources = query.aval.shape, key.aval.shape[1]
    numbers = {f"{name}_dot_dimension_numbers": {
        "lhs_contracting_dimensions": [str(lhs)], "rhs_contracting_dimensions": [str(rhs)],
        "lhs_batch_dimensions": [*map(str, lhs_batch)], "rhs_batch_dimensions": [*map(str, rhs_batch)]}
        for name, (lhs, rhs, lhs_batch, rhs_batch) in products.items()}
    return {"operation_queue_id": "0", "cudnn_fmha_backend_config": {
        "algorithm": {"algo_id": "0", "math_type": "TENSOR_OP_MATH", "tuning_knobs": {"17": "1", "24": "0"},
                      "is_cudnn_frontend": True, "workspace_size": "0"},
        "fmha_scale": form.scale,
        "intermediate_tensor_shape": {
            "element_type": _ELEMENTS[query.aval.dtype], "dimensions": [*map(str, (batch, heads, targets, sources))],
            "tuple_shapes": [],
            "layout": {"dim_level_types": [], "dim_unique": [], "dim_ordered": [],
                       "minor_to_major": ["3", "2", "1", "0"], "tiles": [], "element_size_in_bits": "0",
                       "memory_space": "0", "index_primitive_type": "PRIMITIVE_TYPE_INVALID",
                       "pointer_primitive_type": "PRIMITIVE_TYPE_INVALID",
                       "dynamic_shape_metadata_prefix_bytes": "0"},
            "is_dynamic_dimension": [False] * 4},
        "is_flash_attention": True, "mask_type": form.mask_type, **numbers, "dropout_rate": 0.0, "seed": 42,
        "sliding_window_length": form.sliding_window_length or 0, "max_seg_per_batch": 1,
        "is_paged_attention": False}}


# -- declarations ----------------------------------------------------------------------------------------------------

def _lower_tangent(b, outs, *args, **form):
    return lower_function(b, lambda *xs: _tangent(_Form(**form), *xs), args)


def _biases_of_tangent(form: _Form) -> list[int]:
    """The tangent of the bias, which follows those of query, key and value; and the bias."""
    return [3] * form.has_dbias + [form.inputs + 3] * form.has_bias


_NOT_LINEAR = Missing("attention is not linear")

forward_p = Primitive(
    "dot_product_attention_fwd", multiple_results=True, type_rule=_forward_type, jvp=_forward_jvp,
    lower=_lower_by(_forward), lower_on=_lower_on(_call_forward), transpose=_NOT_LINEAR,
    batch=_batch_by(lambda *xs, **params: forward_p.bind(*xs, **params), lambda form: [3] * form.has_bias, None,
                    shares_bias=True))

# Forward mode; reverse mode runs its transpose, `backward_p`.
tangent_p = Primitive(
    "dot_product_attention_tangent", multiple_results=True, lower=_lower_tangent,
    type_rule=lambda *avals, **form: (avals[0],), transpose=_tangent_transpose,
    jvp=_jvp_by(_tangent, lambda *xs, **form: tangent_p.bind(*xs, **form)),
    batch=_batch_by(lambda *xs, **form: tangent_p.bind(*xs, **form), _biases_of_tangent, None,
                    shares_bias=False))

backward_p = Primitive(
    "dot_product_attention_bwd", multiple_results=True, lower=_lower_by(_backward),
    lower_on=_lower_on(_call_backward), transpose=_NOT_LINEAR,
    type_rule=lambda *avals, **form: tuple(x.strong() for x in avals[:3 + form["has_dbias"]]),
    jvp=_jvp_by(_backward, lambda *xs, **form: backward_p.bind(*xs, **form)),
    batch=_batch_by(lambda *xs, **form: backward_p.bind(*xs, **form), lambda form: [3] * form.has_bias, 3,
                    shares_bias=False))
