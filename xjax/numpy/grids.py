"""Arrays written as an index: coordinate grids `mgrid` and `ogrid`, and joined arrays `r_` and `c_`."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.numpy.creation import arange, array, asarray, linspace, meshgrid
from xjax.numpy.joining import concatenate, stack
from xjax.numpy.manipulate import expand_dims, moveaxis
from xjax.numpy.promote import promote
from xjax.typing import Array


def _points(caller: str, part: Any) -> Array:
    """The vector `start:stop:step`; an imaginary step is the number of points, both ends included."""
    if not isinstance(part, slice) or part.stop is None:
        raise bad(caller, "takes slices with an end", given={"index": repr(part)[:80]}, fix="write [0:3] or [0:1:5j].")
    start, step = 0 if part.start is None else part.start, 1 if part.step is None else part.step
    if isinstance(step, (complex, np.complexfloating)):
        return linspace(start, part.stop, int(abs(step)))
    return arange(start, part.stop, step)


class Grid:
    """`mgrid` (all coordinates in one array) or `ogrid` (vectors that broadcast to them)."""

    __slots__ = ("name", "sparse")

    def __init__(self, name: str, sparse: bool):
        self.name, self.sparse = name, sparse

    def __repr__(self) -> str:
        return f"xjax.numpy.{self.name}"

    def __getitem__(self, key: Any) -> Any:
        """Coordinates of the grid whose axes are the slices of `key`.

        Returns: for one slice a vector; for d slices [d, ...] (mgrid), or a list of d arrays (ogrid).
        Raises: TypeError for an item that is not a slice with an end.

        >>> mgrid[0:2, 0:1:2j]
        Array([[[0., 0.],
                [1., 1.]],
               [[0., 1.],
                [0., 1.]]], dtype=float32)
        """
        caller = f"numpy.{self.name}"
        if isinstance(key, slice):
            return _points(caller, key)
        vectors = [_points(caller, part) for part in (key if isinstance(key, tuple) else (key,))]
        if not vectors:
            return [] if self.sparse else arange(0)
        grids = meshgrid(*promote(caller, *vectors), indexing="ij", sparse=self.sparse)
        return list(grids) if self.sparse else stack(grids)


class Joined:
    """`r_` (vectors end to end) or `c_` (vectors as columns): arrays, numbers and ranges joined by an index."""

    __slots__ = ("axis", "name", "rank", "start")

    def __init__(self, name: str, axis: int, rank: int, start: int):
        self.name, self.axis, self.rank, self.start = name, axis, rank, start

    def __repr__(self) -> str:
        return f"xjax.numpy.{self.name}"

    def __getitem__(self, key: Any) -> Array:
        """The parts of `key` joined along an axis.

        A leading string "axis", "axis,rank" or "axis,rank,start" sets the axis of the joining, the minimum rank of each
        part, and the first axis in the result of a part of lower rank. "r" and "c" make the result a row or a column.
        Raises: ValueError for an unknown string, or without parts.

        >>> r_[0:3, 7]
        Array([0, 1, 2, 7], dtype=int32)
        """
        caller = f"numpy.{self.name}"
        parts = key if isinstance(key, tuple) else (key,)
        axis, rank, start, matrix = self.axis, self.rank, self.start, ""
        if parts and isinstance(parts[0], str):
            directive, *parts = parts
            if directive in ("r", "c"):
                matrix = directive
            else:
                axis, rank, start = _directive(caller, directive, (axis, rank, start))
        if not parts:
            raise bad(caller, "nothing to join", fix="pass at least one array, number or slice.", exc=ValueError)
        out = concatenate(promote(caller, *[_raised(caller, part, rank, start) for part in parts]), axis)
        if matrix and out.ndim == 1:
            out = expand_dims(out, 0 if matrix == "r" else 1)
        return out


def _directive(caller: str, text: str, default: tuple[int, int, int]) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not 1 <= len(numbers) <= len(default):
        raise bad(caller, f"unknown directive {text!r}", fix='write "r", "c" or "axis,rank,start", like "0,2".',
                  exc=ValueError)
    return numbers + default[len(numbers):]


def _raised(caller: str, part: Any, rank: int, start: int) -> Array:
    """A part as an array of at least `rank` axes; its own axes begin at position `start`."""
    if isinstance(part, slice):
        part = _points(caller, part)
    out = array(part, ndmin=rank) if isinstance(part, (list, tuple)) or not np.ndim(part) else asarray(part)
    own = np.ndim(part)
    if out.ndim >= rank and (own >= rank or not own):
        return out
    out = out if out.ndim == rank else expand_dims(out, range(rank - own))
    first = start + (rank - own + 1 if start < 0 else 0)                    # -1: the last position that fits
    return moveaxis(out, range(rank - own, rank), range(first, first + own))


mgrid, ogrid = Grid("mgrid", sparse=False), Grid("ogrid", sparse=True)
r_, c_ = Joined("r_", 0, 1, -1), Joined("c_", -1, 2, 0)

__all__ = ["c_", "mgrid", "ogrid", "r_"]
