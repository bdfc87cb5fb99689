"""Complex numbers and their parts: real, imag, complex, conj.

Derivatives follow JAX's convention: a complex function is differentiated as a function of its real and imaginary parts,
and gradients are not conjugated.
"""

from __future__ import annotations

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.primitive import LINEAR
from xjax.core.types import ShapedArray, Zero, is_linear, number_of, typeof
from xjax.ops.checks import COMPLEX, FLOAT
from xjax.ops.elementwise import neg
from xjax.ops.makers import binary_function, nary, unary, unary_function, unbroadcast
from xjax.ops.zeros import instantiate

_PART = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}
_WHOLE = {part: whole for whole, part in _PART.items()}


def part_dtype(dtype: np.dtype) -> np.dtype:
    """Dtype of the real part of a complex dtype."""
    return _PART[dtype]


def complex_dtype(caller: str, dtype: np.dtype) -> np.dtype:
    """The complex dtype whose parts have this float dtype; a complex dtype is returned unchanged."""
    if dtype in _PART:
        return dtype
    if dtype not in _WHOLE:
        raise bad(caller, f"there are no complex numbers with parts of dtype {dtype.name}",
                  fix="convert to float32 or float64 first.")
    return _WHOLE[dtype]


def _part_lower(name: str):
    def lower(b: Builder, out: ShapedArray, x: Value) -> Value:
        return b.op(f"stablehlo.{name} {x} : ({x.type}) -> {tensor_type(out)}", out)
    return lower


# -- parts --------------------------------------------------------------------------------------------------------

def _strong_zero(ct):
    """A strongly typed 0, since cotangents of complex numbers are strongly typed, as in JAX."""
    return number_of(typeof(ct).dtype, 0)


def _real_transpose(ct, x):
    return [complex(ct, _strong_zero(ct))]


real_p = unary("real", COMPLEX, _part_lower("real"), LINEAR, out_dtype=part_dtype, transpose=_real_transpose)
real = unary_function(real_p, "Real part, element-wise, of complex numbers.")


def _imag_transpose(ct, x):
    return [complex(_strong_zero(ct), neg(ct))]


imag_p = unary("imag", COMPLEX, _part_lower("imag"), LINEAR, out_dtype=part_dtype, transpose=_imag_transpose)
imag = unary_function(imag_p, "Imaginary part, element-wise, of complex numbers.")


# -- complex ------------------------------------------------------------------------------------------------------

def _complex_dtype(dtype: np.dtype) -> np.dtype:
    return complex_dtype("lax.complex", dtype)


def _complex_lower(b: Builder, out: ShapedArray, x: Value, y: Value) -> Value:
    return b.op(f"stablehlo.complex {x}, {y} : {tensor_type(out)}", out)


def _complex_jvp(primals, tangents):
    z = complex_p.bind(*primals)
    if all(type(t) is Zero for t in tangents):
        return z, Zero(z.aval.tangent())
    return z, complex_p.bind(*map(instantiate, tangents))


def _complex_transpose(ct, x, y):
    return [unbroadcast(real(ct), x.aval) if is_linear(x) else None,
            unbroadcast(imag(neg(ct)), y.aval) if is_linear(y) else None]


complex_p = nary("complex", FLOAT, _complex_lower, _complex_jvp, out_dtype=_complex_dtype,
                 transpose=_complex_transpose)
complex = binary_function(complex_p, "Complex number ``x + i y``, element-wise, from float32 or float64 parts.")


# -- conj ---------------------------------------------------------------------------------------------------------

def conj(x):
    """Complex conjugate, element-wise; a real array becomes complex.

    Args: x: complex[...], float32[...] or float64[...].
    """
    return conj_p.bind(x, input_dtype=typeof(x).dtype)


def _conj_dtype(dtype: np.dtype, input_dtype: np.dtype) -> np.dtype:
    return complex_dtype("lax.conj", dtype)


def _conj_lower(b: Builder, out: ShapedArray, x: Value, *, input_dtype) -> Value:
    part = ShapedArray(out.shape, part_dtype(out.dtype))
    if x.aval.dtype == part.dtype:
        return _complex_lower(b, out, x, b.constant(0, part))
    minus = b.unary("stablehlo.negate", _part_lower("imag")(b, part, x))
    return _complex_lower(b, out, _part_lower("real")(b, part, x), minus)


def _conj_transpose(ct, x, *, input_dtype):
    return [conj(ct) if dtypes.is_complex(input_dtype) else real(ct)]


conj_p = unary("conj", FLOAT + COMPLEX, _conj_lower, LINEAR, out_dtype=_conj_dtype, transpose=_conj_transpose)
