"""Changes of the representation of numbers: dtype conversion, reinterpretation of bits, reduced precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.array_type import converted
from xjax.core.errors import bad, warn
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.jaxpr import Literal
from xjax.core.primitive import LINEAR, ZERO, Primitive
from xjax.core.staging import StagingTracer
from xjax.core.types import ShapedArray, Zero, number_of, type_of_numbers, typeof
from xjax.ops.checks import ANY, FLOAT, NOT_LINEAR, check_kinds, static_int
from xjax.ops.makers import unary
from xjax.ops.shape import move_axis_to_front
from xjax.typing import Array, ArrayLike, DTypeLike

_PYTHON_NUMBERS = (bool, int, float, complex)


# -- convert_element_type -----------------------------------------------------------------------------------------

def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike, weak_type: bool = False) -> Array:
    """`lax.convert_element_type` for internal use.

    A `numpy.dtype` is taken from an array, or has been checked: a 64-bit dtype is used as is, whatever the options are.
    Other spellings of dtypes come from users.
    """
    operand = converted(operand)
    aval = type_of_numbers(int) if type(operand) is int and new_dtype is not None else typeof(operand)  # any size
    dtype = aval.dtype if new_dtype is None else new_dtype
    if not isinstance(dtype, np.dtype):
        dtype = dtypes.user_dtype(dtype, "lax.convert_element_type")
    if aval.dtype == dtype and aval.weak_type == weak_type and isinstance(operand, Array):
        return operand
    if dtypes.is_complex(aval.dtype) and not dtypes.is_complex(dtype) and dtype != np.bool_:
        warn("Casting complex values to real discards the imaginary part", np.exceptions.ComplexWarning)
    if isinstance(operand, (*_PYTHON_NUMBERS, np.generic)):
        operand = convert_number(operand, dtype)
    return convert_element_type_p.bind(operand, new_dtype=dtype, weak_type=weak_type)


def convert_number(x: ArrayLike, dtype: np.dtype) -> np.generic:
    """A Python or NumPy number as a NumPy scalar of `dtype`, by the rules of `convert_element_type`."""
    if isinstance(dtype, dtypes.ExtendedDType):
        raise _no_key(dtype)
    value = np.asarray(x)
    if dtypes.is_complex(value.dtype) and not dtypes.is_complex(dtype):
        value = value != 0 if dtype == np.bool_ else value.real
    if dtypes.is_int(dtype) and dtypes.is_float(value.dtype):       # NumPy leaves this undefined, XLA saturates
        info = dtypes.iinfo(dtype)
        value = np.asarray(_saturated(float(value), int(info.min), int(info.max)))
    scalar: Any = value.astype(dtype)[()]
    return scalar if dtypes.is_canonical(dtype) else number_of(dtype, scalar)


def size_as(size: Any, dtype: np.dtype) -> Any:
    """The size of an axis as a number of a dtype: a NumPy scalar, or an array if the size is symbolic."""
    return dtype.type(size) if type(size) is int else convert_element_type(converted(size), dtype)


def _no_key(dtype: DTypeLike) -> Exception:
    return bad("lax.convert_element_type", f"a number cannot be converted to a random key of dtype {dtype}",
               fix="create a key with random.key(seed), or from its bits with random.wrap_key_data(words).")


def _saturated(x: float, low: int, high: int) -> int:
    if x != x:
        return 0
    return low if x <= low else high if x >= high else int(x)


def _convert_type(x, *, new_dtype, weak_type):
    check_kinds("convert_element_type", ANY, x)
    if isinstance(new_dtype, dtypes.ExtendedDType):
        raise _no_key(new_dtype)
    return ShapedArray(x.shape, new_dtype, weak_type)


def _convert_lower(b: Builder, out: ShapedArray, x: Value, *, new_dtype, weak_type) -> Value:
    if dtypes.is_bool(out.dtype) and not dtypes.is_bool(x.aval.dtype):
        return b.compare("NE", x, b.constant(0, x.aval.strong()))
    if dtypes.is_complex(x.aval.dtype) and not dtypes.is_complex(out.dtype):
        part = ShapedArray(x.aval.shape, dtypes.finfo(x.aval.dtype).dtype)
        x = b.op(f"stablehlo.real {x} : ({x.type}) -> {tensor_type(part)}", part)
    return b.convert(x, out.dtype)


def _convert_jvp(primals, tangents, *, new_dtype, weak_type):
    (x,), (dx,) = primals, tangents
    y = convert_element_type_p.bind(x, new_dtype=new_dtype, weak_type=weak_type)
    if type(dx) is Zero or not dtypes.is_inexact(new_dtype):
        return y, Zero(y.aval.tangent())
    return y, convert_element_type_p.bind(dx, new_dtype=new_dtype, weak_type=weak_type)


def _convert_transpose(ct, x, *, new_dtype, weak_type):
    aval = x.aval
    if typeof(ct).dtype == aval.dtype and typeof(ct).weak_type == aval.weak_type:
        return [ct]
    return [convert_element_type_p.bind(ct, new_dtype=aval.dtype, weak_type=aval.weak_type)]


def _convert_batch(axis, args, bdims, **params):
    return convert_element_type_p.bind(*args, **params), bdims[0]


def _convert_stage(trace, args, params):
    """Convert a number while tracing, so that programs contain `add a 2.0:f32[]`."""
    (x,) = args
    if not isinstance(x, (*_PYTHON_NUMBERS, np.generic)):
        return trace.record(convert_element_type_p, args, params)
    aval = ShapedArray((), params["new_dtype"], params["weak_type"])
    number = convert_number(x, aval.dtype)
    # A NumPy number is strongly typed. When the program runs again, only a Python number is weakly typed as `aval`.
    python = number.item() if aval.weak_type else number
    return StagingTracer(trace.tag, Literal(python if typeof(python) is aval else number, aval))


convert_element_type_p = Primitive(
    "convert_element_type", type_rule=_convert_type, lower=_convert_lower, jvp=_convert_jvp,
    transpose=_convert_transpose, batch=_convert_batch, fusible=True, stage=_convert_stage)


# -- bitcast_convert_type -----------------------------------------------------------------------------------------

def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The same bits read as another dtype.

    Args: operand: any[...]. To a dtype k times narrower, the result has a new last axis of size k (low bits
      first). To a dtype k times wider, the operand's last axis must have size k, and is removed.
    Raises: ValueError if the sizes do not fit; TypeError for bool and complex, unless the dtypes are equal.
    """
    dtype = new_dtype if isinstance(new_dtype, np.dtype) else dtypes.user_dtype(new_dtype, "lax.bitcast_convert_type")
    return bitcast_convert_type_p.bind(operand, new_dtype=dtype)


def _bitcast_type(x, *, new_dtype):
    if x.dtype == new_dtype:
        return x.strong()
    for dtype in (x.dtype, new_dtype):
        if dtypes.is_bool(dtype) or dtypes.is_complex(dtype):
            raise bad("lax.bitcast_convert_type", "bool and complex numbers have no bits to reinterpret",
                      given={"operand": x.str_short(), "new_dtype": new_dtype.name},
                      fix="use x.view(dtype), which splits them into parts.")
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    if old == new:
        return ShapedArray(x.shape, new_dtype)
    if old % new == 0:
        return ShapedArray((*x.shape, old // new), new_dtype)
    if new % old == 0 and x.shape and x.shape[-1] == new // old:
        return ShapedArray(x.shape[:-1], new_dtype)
    raise bad("lax.bitcast_convert_type", f"{old}-bit elements cannot be combined into {new}-bit elements",
              given={"operand": x.str_short(), "new_dtype": new_dtype.name},
              fix=f"the last axis must have size {new // old}." if new % old == 0 else
              "choose a dtype whose width divides, or is a multiple of, the operand's.", exc=ValueError)


def _bitcast_lower(b: Builder, out: ShapedArray, x: Value, *, new_dtype) -> Value:
    return b.op(f"stablehlo.bitcast_convert {x} : ({x.type}) -> {tensor_type(out)}", out)


def _bitcast_batch(axis, args, bdims, *, new_dtype):
    (x,), (bdim,) = args, bdims
    if bdim == typeof(x).ndim - 1 and dtypes.itemsize_bits(typeof(x).dtype) < dtypes.itemsize_bits(new_dtype):
        # The last axis is removed, so it must not be the batch axis.
        x, bdim = move_axis_to_front(x, bdim), 0
    return bitcast_convert_type_p.bind(x, new_dtype=new_dtype), bdim


bitcast_convert_type_p = Primitive(
    "bitcast_convert_type", type_rule=_bitcast_type, lower=_bitcast_lower, jvp=ZERO, transpose=NOT_LINEAR,
    batch=_bitcast_batch, fusible=True)


# -- reduce_precision ---------------------------------------------------------------------------------------------

def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Floats rounded to a format with this number of exponent and mantissa bits; the dtype stays."""
    caller = "lax.reduce_precision"
    exponent_bits = static_int(exponent_bits, "exponent_bits", caller)
    mantissa_bits = static_int(mantissa_bits, "mantissa_bits", caller)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise bad(caller, "a float has at least 1 exponent bit and 0 mantissa bits",
                  given={"exponent_bits": str(exponent_bits), "mantissa_bits": str(mantissa_bits)},
                  fix="for bfloat16 pass 8 and 7, for float16 5 and 10.", exc=ValueError)
    return reduce_precision_p.bind(operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


def _reduce_precision_lower(b: Builder, out: ShapedArray, x: Value, *, exponent_bits, mantissa_bits) -> Value:
    return b.op(f"stablehlo.reduce_precision {x}, format = e{exponent_bits}m{mantissa_bits} : {x.type}", out)


def _reduce_precision_transpose(ct, x, **params):
    return [reduce_precision_p.bind(ct, **params)]


# Rounding is treated as linear: derivatives are rounded in the same way as values.
reduce_precision_p = unary("reduce_precision", FLOAT, _reduce_precision_lower, LINEAR,
                           transpose=_reduce_precision_transpose)
