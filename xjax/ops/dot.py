"""Products of arrays: `dot_general` and its short forms."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.config import config
from xjax.core.errors import bad, did_you_mean
from xjax.core.hlo import Builder, Value, element_type
from xjax.core.primitive import Primitive
from xjax.core.promotion import promote_types
from xjax.core.types import ShapedArray, is_linear, typeof
from xjax.ops.checks import ANY, canonical_axes, check_kinds
from xjax.ops.convert import convert_element_type
from xjax.ops.cpu.dot import fast_product
from xjax.ops.dot_operands import as_matrices, free_axes
from xjax.ops.makers import bilinear_jvp, match_scalars
from xjax.ops.shape import transpose
from xjax.ops.text import dot_text
from xjax.typing import Array, ArrayLike, DTypeLike

Axes = tuple[int, ...]
DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


# -- precision ----------------------------------------------------------------------------------------------------

class Precision(enum.Enum):
    """Accuracy of float32 products on hardware with narrower units; no effect on CPU."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


class DotAlgorithm(NamedTuple):
    """The steps of a product: element types of factors and sum, and the number of parts that a factor is split into."""

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False

    def text(self, operands: Sequence[str] = ()) -> str:
        """The attribute in StableHLO text; `operands`: element types of lhs, rhs and result, in place of None."""
        types = [operands[k] if name is None else name if isinstance(name, str) else element_type(np.dtype(name))
                 for k, name in enumerate(self[:3])]
        return (f"algorithm = <lhs_precision_type = {types[0]}, rhs_precision_type = {types[1]}, accumulation_type = "
                f"{types[2]}, lhs_component_count = {self.lhs_component_count}, rhs_component_count = "
                f"{self.rhs_component_count}, num_primitive_operations = {self.num_primitive_operations}, "
                f"allow_imprecise_accumulation = {str(self.allow_imprecise_accumulation).lower()}>")


def _algorithm(factor: str | None, total: str | None, operations: int = 1, fast: bool = False) -> DotAlgorithm:
    return DotAlgorithm(factor, factor, total, 1, 1, operations, fast)


class DotAlgorithmPreset(enum.Enum):
    """Named algorithms: FACTOR_FACTOR_SUM, and the number of partial products.

    ANY is the type of the operands or of the result; FAST_ACCUM allows sums of lower precision. A CPU supports only
    some of the algorithms; lowering a program with another one for a CPU raises ValueError.
    """

    DEFAULT = None
    ANY_F8_ANY_F8_F32 = _algorithm(None, "f32")
    ANY_F8_ANY_F8_F32_FAST_ACCUM = _algorithm(None, "f32", fast=True)
    ANY_F8_ANY_F8_ANY = _algorithm(None, None)
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = _algorithm(None, None, fast=True)
    F16_F16_F16 = _algorithm("f16", "f16")
    F16_F16_F32 = _algorithm("f16", "f32")
    BF16_BF16_BF16 = _algorithm("bf16", "bf16")
    BF16_BF16_F32 = _algorithm("bf16", "f32")
    BF16_BF16_F32_X3 = _algorithm("bf16", "f32", 3)
    BF16_BF16_F32_X6 = _algorithm("bf16", "f32", 6)
    BF16_BF16_F32_X9 = _algorithm("bf16", "f32", 9)
    TF32_TF32_F32 = _algorithm("tf32", "f32")
    TF32_TF32_F32_X3 = _algorithm("tf32", "f32", 3)
    F32_F32_F32 = _algorithm("f32", "f32")
    F64_F64_F64 = _algorithm("f64", "f64")

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    def __str__(self) -> str:
        return self.name


_ON_CPU = ("DEFAULT", "F16_F16_F16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "F32_F32_F32",
           "F64_F64_F64")


_NAMES = {"default": Precision.DEFAULT, "fastest": Precision.DEFAULT, "bfloat16": Precision.DEFAULT,
          "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
          "highest": Precision.HIGHEST, "float32": Precision.HIGHEST}

PrecisionLike = None | str | Precision | tuple[str, str] | tuple[Precision, Precision] | DotAlgorithm \
    | DotAlgorithmPreset


def canonical_precision(precision: PrecisionLike) -> Any:
    """The meaning of `precision=`: None, a pair of `Precision`, a `DotAlgorithm` or a preset.

    None means the option `default_matmul_precision`.
    """
    if precision is None:
        precision = config.default_matmul_precision
        if precision is None:
            return None
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, str) and precision in DotAlgorithmPreset.__members__:
        return DotAlgorithmPreset[precision]
    pair = tuple(precision) if isinstance(precision, (tuple, list)) else (precision, precision)
    if len(pair) != 2:
        raise _unknown_precision(precision)
    return tuple(_one_precision(p) for p in pair)


def _one_precision(p: Any) -> Precision:
    if isinstance(p, Precision):
        return p
    if p is None:
        return Precision.DEFAULT
    if isinstance(p, str) and p in _NAMES:
        return _NAMES[p]
    raise _unknown_precision(p)


def _unknown_precision(p: str) -> Exception:
    names = [*_NAMES, *DotAlgorithmPreset.__members__]
    hint = did_you_mean(p, names) if isinstance(p, str) else None
    return bad("precision", f"unknown precision {p!r}", given={"known": ", ".join(names)},
               fix=hint or "pass 'default', 'high' or 'highest', a pair of them, or the name of an algorithm.",
               exc=ValueError)


def _precision_text(precision: Any, operands: Sequence[str]) -> str:
    if precision is None:
        return ""
    if isinstance(precision, DotAlgorithmPreset):
        _check_preset(precision, operands)
        precision = precision.value
        if precision is None:
            return ""
    if isinstance(precision, DotAlgorithm):
        return f", precision = [DEFAULT, DEFAULT], {precision.text(operands)}"
    return f", precision = [{', '.join(p.name for p in precision)}]"


def _check_preset(preset: DotAlgorithmPreset, operands: Sequence[str]) -> None:
    if "ANY_F8" in preset.name and not all(t.startswith("f8") for t in operands[:2]):
        raise bad("lax.dot_general", f"the algorithm {preset.name} is for 8-bit floats",
                  given={"lhs": operands[0], "rhs": operands[1]},
                  fix="convert the operands, or pass another algorithm.", exc=ValueError)


# -- dot_general --------------------------------------------------------------------------------------------------

def dot_general(lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: DotDimensionNumbers, precision: PrecisionLike = None,
                preferred_element_type: DTypeLike | None = None, *, out_sharding: object = None) -> Array:
    """Sum of products over the contracted axes, for each index of the batch axes.

    Args:
      lhs, rhs: arrays any[...]; their dtypes may differ.
      dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)).
      precision: see `Precision`; None means the option `default_matmul_precision`.
      preferred_element_type: dtype of the sum and the result.
    Returns: array with the batch axes, then the other axes of lhs, then the other axes of rhs.
    Raises: TypeError if contracted or batch axes differ in number or size.
    """
    if out_sharding is not None:
        y = dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)
        return constrained("lax.dot_general", y, out_sharding)
    lhs, rhs = match_scalars(lhs, rhs)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    where, ndims = "lax.dot_general", (typeof(lhs).ndim, typeof(rhs).ndim)
    numbers = ((canonical_axes(tuple(lhs_contract), ndims[0], where, "contracting axes"),
                canonical_axes(tuple(rhs_contract), ndims[1], where, "contracting axes")),
               (canonical_axes(tuple(lhs_batch), ndims[0], where, "batch axes"),
                canonical_axes(tuple(rhs_batch), ndims[1], where, "batch axes")))
    if preferred_element_type is not None and not isinstance(preferred_element_type, np.dtype):     # else: checked
        preferred_element_type = dtypes.canonicalize_dtype(preferred_element_type)
    return dot_general_p.bind(lhs, rhs, dimension_numbers=numbers, precision=canonical_precision(precision),
                              preferred_element_type=preferred_element_type)


def _dot_type(lhs, rhs, *, dimension_numbers, precision, preferred_element_type):
    check_kinds("dot_general", ANY, lhs, rhs)
    contract, batch = dimension_numbers
    for pair, verb, kind in ((contract, "contracts", "contracting dimensions"), (batch, "batches", "batch dimensions")):
        _check_pairs(lhs, rhs, pair, verb, kind, bool(batch[0] or batch[1]))
    for aval, contracted, group in ((lhs, contract[0], batch[0]), (rhs, contract[1], batch[1])):
        if {*contracted} & {*group}:
            raise bad("lax.dot_general", "an axis is both contracted and a batch axis",
                      given={"operand": aval.str_short(), "contracted": str(contracted), "batch": str(group)},
                      fix="name each axis once.")
    shape = (*(lhs.shape[a] for a in batch[0]), *(lhs.shape[a] for a in free_axes(lhs.ndim, contract[0], batch[0])),
             *(rhs.shape[a] for a in free_axes(rhs.ndim, contract[1], batch[1])))
    dtype = preferred_element_type
    if dtype is None:
        dtype = lhs.dtype if lhs.dtype == rhs.dtype else promote_types(lhs.dtype, rhs.dtype)
    return ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type)


def _check_pairs(lhs: ShapedArray, rhs: ShapedArray, pair: tuple[Axes, Axes], verb: str, kind: str,
                 batched: bool) -> None:
    """Raise unless the axes match in number and size."""
    if len(pair[0]) != len(pair[1]):
        raise bad("lax.dot_general", f"{kind} differ in number",
                  given={"lhs": f"{lhs.str_short()}   {verb} {pair[0]}",
                         "rhs": f"{rhs.str_short()}   {verb} {pair[1]}"},
                  fix="give the same number of axes for lhs and rhs.")
    for a, b in zip(*pair, strict=True):
        n, m = lhs.shape[a], rhs.shape[b]
        if n != m:
            fix = "make the sizes equal, or name other axes in dimension_numbers."
            swap = 1 - b
            if verb == "contracts" and not batched and rhs.ndim == 2 and rhs.shape[swap] == n and len(pair[0]) == 1:
                fix = f"transpose rhs, or pass dimension_numbers=((({a},), ({swap},)), ((), ()))."
            width = max(len(lhs.str_short()), len(rhs.str_short()))
            raise bad("lax.dot_general", f"{kind} differ in size",
                      given={"lhs": f"{lhs.str_short():{width}}   {verb} axis {a}, size {n}",
                             "rhs": f"{rhs.str_short():{width}}   {verb} axis {b}, size {m}"}, fix=fix)


def _dot_lower(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, *, dimension_numbers, precision,
               preferred_element_type) -> Value:
    p = as_matrices(b, out, lhs, rhs, dimension_numbers)
    text = _precision_text(precision, [element_type(t) for t in (p.lhs.aval.dtype, p.rhs.aval.dtype, p.out.dtype)])
    return p.result(b, dot_text(b, p.lhs, p.rhs, p.out, p.contract, p.batch, text), out)


def _dot_on_cpu(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, *, dimension_numbers, precision,
                preferred_element_type) -> Value | None:
    """The product in the fast order of operands. Products with an algorithm are left to XLA, which has only some."""
    if precision is None or type(precision) is tuple:               # no algorithm
        return fast_product(b, out, lhs, rhs, dimension_numbers)
    if isinstance(precision, DotAlgorithmPreset) and precision.name not in _ON_CPU:
        raise bad("lax.dot_general", f"the algorithm {precision.name} is not available on CPU",
                  given={"on CPU": ", ".join(_ON_CPU)}, fix="pass one of these, or leave `precision` out.",
                  exc=ValueError)
    return None


def _dot_transpose(ct, x, y, *, dimension_numbers, precision, preferred_element_type):
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    rest = {"precision": precision, "preferred_element_type": preferred_element_type}
    if is_linear(x):
        return [_pull_back(ct, x.aval, y, (x_contract, y_contract), (x_batch, y_batch), False, rest), None]
    return [None, _pull_back(ct, y.aval, x, (y_contract, x_contract), (y_batch, x_batch), True, rest)]


def _pull_back(ct: ArrayLike, x: ShapedArray, y: ArrayLike, contract: tuple[Axes, Axes], batch: tuple[Axes, Axes],
               x_last: bool, rest: dict) -> Array:
    """Cotangent of the operand of type `x`; `y` is the other operand. `x_last`: x was the right-hand side."""
    x_free = free_axes(x.ndim, contract[0], batch[0])
    y_free = free_axes(typeof(y).ndim, contract[1], batch[1])
    n, first, last = len(batch[0]), len(x_free), len(y_free)
    ct_y = range(n, n + last) if x_last else range(n + first, n + first + last)
    result = dot_general_p.bind(ct, y, dimension_numbers=((tuple(ct_y), y_free), (tuple(range(n)), batch[1])), **rest)
    # The result has x's batch axes, x's free axes, then the contracted axes in the order of y.
    by_y = [a for _, a in sorted(zip(contract[1], contract[0], strict=True))]
    order = [*batch[0], *x_free, *by_y]
    result = transpose(result, sorted(range(len(order)), key=order.__getitem__))
    return result if result.aval.dtype == x.dtype else convert_element_type(result, x.dtype)


def _dot_batch(axis, args, bdims, *, dimension_numbers, **params):
    (x, y), (x_bdim, y_bdim) = args, bdims
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    if x_bdim is not None:
        x_contract, x_batch = _after(x_bdim, x_contract), _after(x_bdim, x_batch)
    if y_bdim is not None:
        y_contract, y_batch = _after(y_bdim, y_contract), _after(y_bdim, y_batch)
    if x_bdim is not None and y_bdim is not None:       # one more batch axis, the first
        x_batch, y_batch, position = (x_bdim, *x_batch), (y_bdim, *y_batch), 0
    elif x_bdim is not None:                            # one more free axis of lhs
        position = len(x_batch) + free_axes(typeof(x).ndim, x_contract, x_batch).index(x_bdim)
    else:                                               # one more free axis of rhs
        position = (len(x_batch) + len(free_axes(typeof(x).ndim, x_contract, x_batch))
                    + free_axes(typeof(y).ndim, y_contract, y_batch).index(y_bdim))
    numbers = ((x_contract, y_contract), (x_batch, y_batch))
    return dot_general_p.bind(x, y, dimension_numbers=numbers, **params), position


def _after(bdim: int, axes: Axes) -> Axes:
    return tuple(a + (a >= bdim) for a in axes)


dot_general_p = Primitive("dot_general", type_rule=_dot_type, lower=_dot_lower, lower_on={"cpu": _dot_on_cpu},
                          jvp=bilinear_jvp(lambda: dot_general_p),
                          transpose=_dot_transpose, batch=_dot_batch)


# -- short forms --------------------------------------------------------------------------------------------------

def dot(lhs: ArrayLike, rhs: ArrayLike, *, dimension_numbers: DotDimensionNumbers | None = None,
        precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None,
        out_sharding: object = None) -> Array:
    """Product of vectors and matrices, or `dot_general` if `dimension_numbers` are given.

    Args: lhs: any[n] or any[m, n]; rhs: any[n] or any[n, k].
    """
    if out_sharding is not None:
        y = dot(lhs, rhs, dimension_numbers=dimension_numbers, precision=precision,
                preferred_element_type=preferred_element_type)
        return constrained("lax.dot", y, out_sharding)
    x, y = typeof(lhs), typeof(rhs)
    if dimension_numbers is None:
        if x.ndim not in (1, 2) or y.ndim not in (1, 2):
            raise bad("lax.dot", "takes vectors and matrices", given={"lhs": x.str_short(), "rhs": y.str_short()},
                      fix="pass dimension_numbers, or use numpy.matmul or numpy.einsum.", exc=ValueError)
        dimension_numbers = (((x.ndim - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None) -> Array:
    """Matrix product of the last two axes; the other axes are batch axes, which must be equal."""
    x, y = typeof(lhs), typeof(rhs)
    if x.ndim < 2 or x.ndim != y.ndim:
        raise bad("lax.batch_matmul", "takes two arrays with the same number of axes, at least 2",
                  given={"lhs": x.str_short(), "rhs": y.str_short()}, fix="use numpy.matmul, which broadcasts.",
                  exc=ValueError)
    batch = tuple(range(x.ndim - 2))
    return dot_general(lhs, rhs, (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch)), precision)
