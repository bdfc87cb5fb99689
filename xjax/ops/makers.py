"""Makers of primitives: dtype checks, broadcasting of scalars, and the rules that families of primitives share.

An element-wise primitive accepts operands of one dtype. Their shapes must be equal, except for operands of rank 0 and
axes of size 1 (`mul f32[3] f32[]`); the lowering expands these, so that programs stay short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xjax.core.calls import name_function
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import ZERO, JVPRule, Missing, Primitive
from xjax.core.types import LinearInput, ShapedArray, Zero, is_linear, number_of, scalar_of, type_of_numbers, typeof
from xjax.ops.checks import NOT_LINEAR, NUMBER, check_kinds, check_same_dtype, kind_of
from xjax.ops.shape import broadcast_in_dim, expand_dims, move_axis_to_front, reduce_sum, reshape
from xjax.typing import Array, ArrayLike

LowerOn = Mapping[str, Callable] | None


def broadcast_shape(caller: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Common shape of element-wise operands: rank 0 and size 1 expand, other ranks must be equal."""
    ranked = [s for s in shapes if s]
    if not ranked:
        return ()
    first = ranked[0]
    if all(s == first for s in ranked):
        return first
    if len({len(s) for s in ranked}) == 1:
        sizes = [{n for n in axis if n != 1} for axis in zip(*ranked, strict=True)]
        if all(len(s) <= 1 for s in sizes):
            return tuple(s.pop() if s else 1 for s in sizes)
    raise bad(f"lax.{caller}", "incompatible shapes for broadcasting",
              given={f"argument {i}": str(tuple(s)) for i, s in enumerate(shapes)},
              fix="make the ranks and sizes equal (size 1 and rank 0 expand), for example with x[:, None] or "
                  "lax.broadcast_in_dim.")


def expand(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    """A lowered operand, expanded to the shape of the result."""
    if x.aval.shape == shape:
        return x
    dims = range(len(shape)) if x.aval.shape else ()
    kept = [d for d in dims if x.aval.shape[d] == shape[d]]
    if x.aval.shape and len(kept) < len(shape):
        flat = ShapedArray(tuple(shape[d] for d in kept), x.aval.dtype)
        x = b.op(f"stablehlo.reshape {x} : ({x.type}) -> {Value('', flat).type}", flat)
        dims = kept
    return b.broadcast(x, ShapedArray(shape, x.aval.dtype), tuple(dims))


# -- element-wise -------------------------------------------------------------------------------------------------

def elementwise_lower(emit: str | Callable) -> Callable:
    """Lowering of an element-wise operation: an operation's name, or `emit(b, out, *expanded operands, **params)`."""
    if isinstance(emit, str):
        def lower_named(b: Builder, out: ShapedArray, *xs: Value, **params: object) -> Value:
            operands = [x if x.aval.shape == out.shape else expand(b, x, out.shape) for x in xs]
            return b.op(f"{emit} {', '.join(x.name for x in operands)} : {Value('', out).type}", out)
        return lower_named

    def lower(b: Builder, out: ShapedArray, *xs: Value, **params: object) -> Value:
        return emit(b, out, *[x if x.aval.shape == out.shape else expand(b, x, out.shape) for x in xs], **params)
    return lower


def chlo(name: str) -> Callable:
    """Emitter of an operation of the CHLO dialect, whose types have a syntax of their own."""
    def emit(b: Builder, out: ShapedArray, *xs: Value) -> Value:
        return b.op(f"chlo.{name} {', '.join(x.name for x in xs)} : {', '.join(x.type for x in xs)} -> "
                    f"{Value('', out).type}", out)
    return emit


def elementwise_batch(p: Callable[[], Primitive]) -> Callable:
    """Batch rule of an element-wise operation: all batch axes are moved to the front."""
    def rule(axis, args, bdims, **params):
        ranks = [typeof(x).ndim - (b is not None) for x, b in zip(args, bdims, strict=True)]
        mapped = {(b, r) for b, r in zip(bdims, ranks, strict=True) if b is not None}
        if len(mapped) == 1 and all(b is not None or r == 0 for b, r in zip(bdims, ranks, strict=True)):
            return p().bind(*args, **params), next(iter(mapped))[0]
        rank = max(ranks)
        aligned = [line_up(x, b, rank) if b is not None or r else x
                   for x, b, r in zip(args, bdims, ranks, strict=True)]
        return p().bind(*aligned, **params), 0
    return rule


def line_up(x: ArrayLike, bdim: int | None, rank: int) -> Array:
    """The array with its batch axis, or a new axis of size 1, followed by `rank` axes."""
    ndim = typeof(x).ndim
    if bdim is None:
        return expand_dims(x, tuple(range(rank + 1 - ndim)))
    return expand_dims(move_axis_to_front(x, bdim), tuple(range(1, 2 + rank - ndim)))


def unbroadcast(ct: ArrayLike, aval: ShapedArray) -> ArrayLike:
    """The adjoint of the implicit expansion: `ct` summed to the shape of `aval`."""
    shape = typeof(ct).shape
    if shape == aval.shape:
        return ct
    if not aval.shape:
        return reduce_sum(ct, tuple(range(len(shape))))
    axes = tuple(i for i, (n, m) in enumerate(zip(shape, aval.shape, strict=True)) if n != m)
    return reshape(reduce_sum(ct, axes), aval.shape)


def scalar_like(x: ArrayLike, value: complex) -> np.generic | int | float | complex:
    """The number `value` with the dtype of `x`: a NumPy scalar, or a Python number if `x` is weakly typed."""
    return scalar_of(typeof(x), value)


def filled_like(x: ArrayLike, value: complex) -> ArrayLike:
    """An array with the shape and dtype of `x`, filled with one value; for rank 0, only the number."""
    scalar, shape = scalar_like(x, value), typeof(x).shape
    return broadcast_in_dim(scalar, shape, ()) if shape else scalar


def strong_like(x: ArrayLike, value: complex) -> Array:
    """Like `filled_like`, but always strongly typed, for derivative rules that are strongly typed in JAX."""
    aval = typeof(x)
    scalar = number_of(aval.dtype, value)
    return broadcast_in_dim(scalar, aval.shape, ()) if aval.shape else scalar


def fill(tangent: ArrayLike, out: ShapedArray) -> ArrayLike:
    """A tangent, expanded to the shape of the result."""
    aval = typeof(tangent)
    if aval.shape == out.shape:
        return tangent
    return broadcast_in_dim(tangent, out.shape, tuple(range(out.ndim)) if aval.shape else ())


def unary(name: str, kinds: str, emit: str | Callable, jvp: JVPRule, *, lower_on: LowerOn = None,
          out_dtype: Callable | None = None, transpose: Callable | Missing = NOT_LINEAR) -> Primitive:
    """An element-wise primitive of one operand.

    `lower_on`: as in `Primitive`.
    `jvp(dx, y, x, **params)` computes the tangent from the operand's tangent, the result and the operand; or ZERO,
    LINEAR. `out_dtype(dtype, **params)` is the result's dtype; None keeps the operand's.
    """
    def type_rule(x, **params):
        check_kinds(name, kinds, x)
        if out_dtype is None:
            return x
        return ShapedArray(x.shape, out_dtype(x.dtype, **params), x.weak_type and out_dtype is not to_bool)

    def jvp_rule(primals, tangents, **params):
        (x,), (dx,) = primals, tangents
        y = p.bind(x, **params)
        return y, Zero(y.aval.tangent()) if type(dx) is Zero else jvp(dx, y, x, **params)

    def batch(axis, args, bdims, **params):
        return p.bind(*args, **params), bdims[0]

    p = Primitive(name, type_rule=type_rule, lower=elementwise_lower(emit), lower_on=lower_on,
                  jvp=jvp_rule if callable(jvp) else jvp, transpose=transpose, batch=batch, fusible=True)
    return p


def to_bool(*_: object, **__: object) -> np.dtype:
    """`out_dtype` of a primitive with a bool result."""
    return np.dtype(np.bool_)


def nary(name: str, kinds: str, emit: str | Callable, jvps: Sequence[Callable | None] | JVPRule, *,
         lower_on: LowerOn = None, out_dtype: Callable | None = None,
         transpose: Callable | Missing = NOT_LINEAR) -> Primitive:
    """An element-wise primitive of several operands of one dtype, unless a parameter `out_dtype` is passed.

    `lower_on`: as in `Primitive`, with rules that are called like `emit`.
    `jvps`: for each operand `jvp(dx, y, *operands)`, its share of the tangent (None: zero); or ZERO.
    """
    def type_rule(*avals, **params):
        check_kinds(name, kinds, *avals)
        if "out_dtype" not in params:
            check_same_dtype(name, *avals)
        shape = broadcast_shape(name, *[a.shape for a in avals])
        dtype = avals[0].dtype if out_dtype is None else out_dtype(avals[0].dtype, **params)
        return ShapedArray(shape, dtype, out_dtype is not to_bool and all(a.weak_type for a in avals))

    def jvp_rule(primals, tangents, **params):
        y = p.bind(*primals, **params)
        total = None
        for dx, rule in zip(tangents, jvps, strict=True):
            if type(dx) is not Zero and rule is not None:
                share = fill(rule(dx, y, *primals, **params), y.aval)
                total = share if total is None else accumulate_p.bind(total, share)
        return y, Zero(y.aval.tangent()) if total is None else total

    p = Primitive(name, type_rule=type_rule, lower=elementwise_lower(emit),
                  lower_on=lower_on and {platform: elementwise_lower(rule) for platform, rule in lower_on.items()},
                  jvp=jvps if not isinstance(jvps, Sequence) else jvp_rule,
                  transpose=transpose, batch=elementwise_batch(lambda: p), fusible=True)
    return p


def comparison(name: str, kinds: str, emit: Callable) -> Primitive:
    """An element-wise primitive of two operands with a bool result."""
    return nary(name, kinds, emit, ZERO, out_dtype=to_bool)


def add_transpose(ct: ArrayLike, *args: ArrayLike | LinearInput) -> list[Any]:
    """Transpose of a sum: every linear term gets the cotangent."""
    return [unbroadcast(ct, x.aval) if is_linear(x) else None for x in args]


# Sum of cotangents or tangents. A separate primitive, so that programs show the sums that differentiation added.
accumulate_p = nary("add_any", NUMBER, "stablehlo.add", (lambda dx, y, a, b: dx, lambda dx, y, a, b: dx),
                    transpose=add_transpose)


def accumulate(x: ArrayLike | Zero, y: ArrayLike) -> ArrayLike:
    """Sum of two tangents or cotangents, either of which may be Zero."""
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else accumulate_p.bind(x, y)


def bilinear_jvp(p: Callable[[], Primitive]) -> Callable:
    """jvp rule of an operation that is linear in each of its two operands."""
    def jvp(primals, tangents, **params):
        (x, y), (dx, dy) = primals, tangents
        out = p().bind(x, y, **params)
        total: Any = Zero(out.aval.tangent())
        if type(dx) is not Zero:
            total = p().bind(dx, y, **params)
        if type(dy) is not Zero:
            total = accumulate(total, p().bind(x, dy, **params))
        return out, total
    return jvp


# -- public functions ---------------------------------------------------------------------------------------------

SCALARS = (bool, int, float, complex)


def match_scalars(*xs: ArrayLike) -> list[Any]:
    """Convert Python numbers to NumPy scalars of the dtype of the first array among the arguments.

    A number that already has this dtype is left as it is, because it is weakly typed.
    """
    for array in xs:
        if type(array) not in SCALARS:
            dtype = typeof(array).dtype
            return [scalar_like(array, x) if type(x) in SCALARS and _must_convert(x, dtype) else x for x in xs]
    return list(xs)


def _must_convert(x: ArrayLike, dtype: np.dtype) -> bool:
    """Whether a Python number is converted to a dtype; float to int, and complex to real, are not done silently."""
    order = "kbifc"                                     # nothing is converted to a key
    fits = order.index(kind_of(dtype) or "b") >= order.index(_KIND_OF_SCALAR[type(x)])
    return fits and type_of_numbers(type(x)).dtype != dtype


_KIND_OF_SCALAR = {bool: "b", int: "i", float: "f", complex: "c"}


def unary_function(p: Primitive, doc: str, name: str = "") -> Callable[..., Array]:
    """The public function of a primitive of one operand."""
    def apply(x: ArrayLike) -> Array:
        return p.bind(x)

    return _named(apply, name or p.name, doc)


def binary_function(p: Primitive, doc: str, name: str = "") -> Callable[..., Array]:
    """The public function of a primitive of two operands. A Python number takes the dtype of the array operand."""
    def apply(x: ArrayLike, y: ArrayLike) -> Array:
        if type(x) in SCALARS or type(y) in SCALARS:
            x, y = match_scalars(x, y)
        return p.bind(x, y)

    return _named(apply, name or p.name, doc)


def _named(f: Callable, name: str, doc: str) -> Callable:
    name_function(f, name, "xjax.lax")
    f.__code__ = f.__code__.replace(co_name=name, co_qualname=name)         # the name in tracebacks
    f.__doc__ = doc
    return f
