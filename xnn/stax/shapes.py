"""Shapes of images: a check of the argument of `init`, and the shape of a layer's result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import xjax
from xjax.errors import bad
from xjax.typing import DTypeLike


def check_image_shape(name: str, in_shape: Sequence[int], rank: int, batch: int) -> None:
    """Raises: TypeError if the shape does not have `rank` axes, or has a -1 outside the batch axis."""
    if len(in_shape) == rank and min((*in_shape[:batch], *in_shape[batch + 1:])) >= 0:
        return
    raise bad(f"stax.{name}", f"init needs the shape of an input with {rank} axes, where only axis {batch} may be -1",
              {"in_shape": repr(in_shape)}, f"pass all {rank} sizes; only the batch size may be -1.")


def shape_of_result(fun: Callable, in_shape: Sequence[int], dtype: DTypeLike,
                    batch_axes: tuple[int, int]) -> tuple[int, ...]:
    """Shape of ``fun(x)`` for x of this shape, where the batch size may be -1.

    Args: batch_axes: batch axis of the input and of the result; `fun` must not change the batch size.
    """
    at, to = batch_axes
    known = [1 if axis == at else size for axis, size in enumerate(in_shape)]
    out = list(xjax.eval_shape(fun, xjax.ShapeDtypeStruct(tuple(known), dtype)).shape)
    out[to] = in_shape[at]
    return tuple(out)
