"""Shapes of images: what `init` is given, and what a layer makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import xjax
from xjax.errors import bad


def check_image_shape(name: str, in_shape: Sequence[int], rank: int, batch: int) -> None:
    """Raises: TypeError if the shape has not so many axes, or another open one (-1) than the batch's."""
    if len(in_shape) == rank and min((*in_shape[:batch], *in_shape[batch + 1:])) >= 0:
        return
    raise bad(f"stax.{name}", f"init needs the shape of an input with {rank} axes, only axis {batch} open",
              {"in_shape": repr(in_shape)}, f"pass all {rank} sizes; -1 may stand for the batch.")


def shape_of_result(fun: Callable, in_shape: Sequence[int], dtype: Any, batch_axes: tuple[int, int]) -> tuple[int, ...]:
    """Shape of ``fun(x)`` for an x of this shape, whose batch may be -1.

    Args: batch_axes: where the batch stands in the input and in the result; `fun` must not change its size.
    """
    at, to = batch_axes
    known = [1 if axis == at else size for axis, size in enumerate(in_shape)]
    out = list(xjax.eval_shape(fun, xjax.ShapeDtypeStruct(tuple(known), dtype)).shape)
    out[to] = in_shape[at]
    return tuple(out)
