"""The discrete Fourier transform of the last one to three axes: `fft`, with four types of transform."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.types import ShapedArray, number_of, typeof
from xjax.ops.checks import check_kinds, static_int
from xjax.ops.complex_numbers import complex_dtype, conj, part_dtype
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import mul
from xjax.ops.makers import filled_like
from xjax.ops.shape import broadcast_in_dim, move_axis_to_front
from xjax.typing import Array, ArrayLike


class FftType(enum.IntEnum):
    """Types of transform: forward or inverse (I), of complex or of real (R) numbers; R keeps half of the spectrum.

    >>> FftType["RFFT"]
    <FftType.RFFT: 2>
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """Discrete Fourier transform of the last axes; inverse transforms are divided by the number of elements.

    Args:
      x: [..., *lengths]; complex64 or complex128 (FFT, IFFT; real arrays are converted), float32 or float64 (RFFT),
        or complex with ``n // 2 + 1`` elements on the last axis (IRFFT).
      fft_type: an `FftType` or its name.
      fft_lengths: sizes of the transformed axes in the time domain, 1 to 3 of them.
    Returns: complex[..., *lengths]; RFFT: ``n // 2 + 1`` elements on the last axis; IRFFT: real[..., *lengths].
    Raises: ValueError for lengths that do not match, TypeError for dtypes that the type does not accept.

    >>> fft(np.float32([1, 2, 3, 4]), "RFFT", [4])
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    kind = _as_type(fft_type)
    lengths = tuple(static_int(n, "fft_lengths", "lax.fft") for n in fft_lengths)
    aval = typeof(x)
    if kind is not FftType.RFFT and dtypes.is_float(aval.dtype):
        x = convert_element_type(x, complex_dtype("lax.fft", aval.dtype))
    return x if not lengths and isinstance(x, Array) else fft_p.bind(x, fft_type=kind, fft_lengths=lengths)


def _as_type(value: str | FftType) -> FftType:
    if isinstance(value, str) and value.upper() in FftType.__members__:
        return FftType[value.upper()]
    try:
        return FftType(value)
    except ValueError:
        raise bad("lax.fft", f"unknown type of transform {value!r}", fix="pass FFT, IFFT, RFFT or IRFFT.",
                  exc=ValueError) from None


def _fft_type(x, *, fft_type, fft_lengths):
    where, rank = "lax.fft", len(fft_lengths)
    check_kinds("fft", "f" if fft_type is FftType.RFFT else "c", x)
    if not 1 <= rank <= min(3, x.ndim):
        raise bad(where, f"cannot transform {rank} axes", given={"x": x.str_short()},
                  fix="pass 1 to 3 lengths, at most one for each axis.", exc=ValueError)
    halved = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
    before = halved if fft_type is FftType.IRFFT else fft_lengths
    if x.shape[-rank:] != before:
        raise bad(where, "the lengths do not match the last axes",
                  given={"x": x.str_short(), "fft_lengths": str(fft_lengths), "needs": f"[..., {str(before)[1:-1]}]"},
                  fix="pass the sizes of the axes; for other sizes, pad or slice the array first.", exc=ValueError)
    after = halved if fft_type is FftType.RFFT else fft_lengths
    dtype = {FftType.RFFT: lambda d: complex_dtype(where, d), FftType.IRFFT: part_dtype}.get(fft_type, lambda d: d)
    return ShapedArray((*x.shape[:-rank], *after), dtype(x.dtype))


def _fft_lower(b: Builder, out: ShapedArray, x: Value, *, fft_type, fft_lengths) -> Value:
    if not out.size or not x.aval.size:
        return b.constant(0, out)
    return b.op(f"stablehlo.fft {x}, type = {fft_type.name}, length = {list(fft_lengths)} : ({x.type}) -> "
                f"{tensor_type(out)}", out)


def _fft_transpose(ct, x, *, fft_type, fft_lengths):
    if fft_type in (FftType.FFT, FftType.IFFT):             # their matrices are symmetric
        return [fft(ct, fft_type, fft_lengths)]
    count = math.prod(fft_lengths)
    if fft_type is FftType.RFFT:
        spectrum = mul(conj(ct), _along_last(1 / _weights(fft_lengths[-1]), conj(ct)))
        out = fft(spectrum, FftType.IRFFT, fft_lengths)
        return [mul(out, number_of(typeof(out).dtype, count))]
    spectrum = conj(fft(ct, FftType.RFFT, fft_lengths))
    scaled = mul(spectrum, filled_like(spectrum, 1 / count))
    return [mul(scaled, _along_last(_weights(fft_lengths[-1]), scaled))]


def _weights(n: int) -> np.ndarray:
    """The number of times that each element of half a spectrum occurs in the whole spectrum of n elements."""
    weights = np.full(n // 2 + 1, 2, np.float32)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return weights


def _along_last(values: np.ndarray, like: Array) -> Array:
    aval = typeof(like)
    return broadcast_in_dim(convert_element_type(values, aval.dtype), aval.shape, (aval.ndim - 1,))


def _fft_batch(axis, args, bdims, **params):
    (x,), (bdim,) = args, bdims
    return fft_p.bind(move_axis_to_front(x, bdim), **params), 0


fft_p = Primitive("fft", type_rule=_fft_type, lower=_fft_lower, jvp=LINEAR, transpose=_fft_transpose, batch=_fft_batch)
