"""Convolution and correlation of vectors, one of which slides along the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xjax.core.calls import name_function
from xjax.core.errors import bad, check_choice
from xjax.numpy.composed import conjugate
from xjax.numpy.contract import matmul
from xjax.numpy.creation import array
from xjax.numpy.manipulate import reshape, take_slices
from xjax.numpy.promote import promote_inexact
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.arrange import rev
from xjax.ops.dot import PrecisionLike
from xjax.ops.makers import scalar_like
from xjax.ops.slice import pad as lax_pad
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, DTypeLike


def _sliding(name: str, flip: bool, doc: str) -> Callable[..., Array]:
    caller = f"numpy.{name}"

    @one_launch(arrays=2)
    def sliding(a: ArrayLike, v: ArrayLike, mode: str = "full" if flip else "valid", *, precision: PrecisionLike = None,
                preferred_element_type: DTypeLike | None = None) -> Array:
        check_choice(caller, "mode", mode, ("full", "same", "valid"))
        a, v = (to_array_like(caller, x) for x in promote_inexact(caller, a, v))
        if a.ndim != 1 or v.ndim != 1 or not a.size or not v.size:
            raise bad(caller, "takes two vectors that are not empty", given={"a": a.aval, "v": v.aval},
                      fix="use ravel().", exc=ValueError)
        if flip:
            a, v = (a, v) if a.size >= v.size else (v, a)
            return _slide(a, rev(v, (0,)), mode, precision, preferred_element_type)
        if a.size >= v.size:
            return _slide(a, conjugate(v), mode, precision, preferred_element_type)
        # The correlation of the longer vector with the shorter one, reversed: so "same" keeps the same part as NumPy.
        return rev(conjugate(_slide(v, conjugate(a), mode, precision, preferred_element_type)), (0,))

    name_function(sliding, name)
    sliding.__doc__ = f"{doc} `mode`: \"full\", \"same\" or \"valid\" (only where they overlap completely)."
    return sliding


def _slide(a: Array, kernel: Array, mode: str, precision: PrecisionLike,
           preferred_element_type: DTypeLike | None) -> Array:
    """Sums of products of `kernel` with each window of `a`, the longer of the two."""
    n, m = a.size, kernel.size
    before, after = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}[mode]
    padded = lax_pad(a, scalar_like(a, 0), [(before, after, 0)])
    size = n + before + after - m + 1
    index = (np.arange(size)[:, None] + np.arange(m)[None, :]).astype(np.int32)
    windows = reshape(take_slices(padded, array(index.ravel()), 0), (size, m))
    return matmul(windows, kernel, precision=precision, preferred_element_type=preferred_element_type)


convolve = _sliding("convolve", True, "Convolution of two vectors.")
correlate = _sliding("correlate", False, "Correlation of two vectors, the second one conjugated.")


__all__ = ["convolve", "correlate"]
