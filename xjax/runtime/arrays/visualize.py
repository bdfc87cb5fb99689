"""Text pictures of shardings: which device holds which part of an array.

    ┌───────┬───────┐
    │ CPU 0 │ CPU 1 │
    └───────┴───────┘
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core import array_type
from xjax.core.errors import bad
from xjax.runtime.arrays.array import Array
from xjax.runtime.placement.sharding import Sharding


def visualize_sharding(shape: Sequence[int], sharding: Sharding, *, use_color: bool = True, scale: float = 1.0,
                       min_width: int = 9, max_width: int = 80, color_map: Callable | None = None) -> None:
    """Print how an array of this shape is sharded.

    Args:
      shape: of one or two axes.
      scale: height of the picture in units of ten lines; its width follows from the shape of the array.
      min_width, max_width: bounds on the width of a part, in columns.
      use_color, color_map: accepted as in JAX; the picture has no colors.

    Raises: ValueError for an array of another rank, or without elements.

    >>> xjax.debug.visualize_sharding((4,), xjax.numpy.zeros(4).sharding)
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    if len(shape) not in (1, 2) or 0 in shape:
        raise bad("debug.visualize_sharding", "only arrays of one or two axes, none of size 0, can be shown",
                  given={"shape": tuple(shape)}, fix="print x.sharding, or sharding.devices_indices_map(shape).",
                  exc=ValueError)
    parts, grid = _parts(shape, sharding)
    lines = int(10 * scale)
    columns = int(lines * (shape[1] if len(shape) == 2 else 1) / shape[0])
    width = min(max(int(columns * 2.5 / grid[1]), min_width), max_width)
    height = int(lines / grid[0]) if len(shape) == 2 else 1
    kind = sharding.devices[0].platform.upper()
    names = [[f"{kind} {','.join(map(str, sorted(parts[i, j])))}" for j in range(grid[1])] for i in range(grid[0])]
    sys.stdout.write(_boxes(names, width, height))


def visualize_array_sharding(arr: array_type.Array, **kwargs: Any) -> None:
    """Print how an array is sharded over devices; options as in `visualize_sharding`.

    Raises: TypeError for a traced value, whose sharding is chosen by the compiler.
    """
    if not isinstance(arr, Array):
        raise bad("debug.visualize_array_sharding", "only a concrete array has a sharding",
                  given={"arr": arr if hasattr(arr, "aval") else type(arr).__name__},
                  fix="return the value from the compiled function, and inspect the result.")
    visualize_sharding(arr.shape, arr.sharding, **kwargs)


def _parts(shape: Sequence[int], sharding: Sharding) -> tuple[dict[tuple[int, int], set[int]], tuple[int, int]]:
    """Device ids by the position of their part in the grid of parts, and the shape of the grid."""
    device_ids: dict[tuple[int, int], set[int]] = {}
    for device, index in sharding.devices_indices_map(tuple(shape)).items():
        spans = [s.indices(n) for s, n in zip(index, shape, strict=True)]
        place = [start // max(stop - start, 1) for start, stop, _ in spans]
        device_ids.setdefault((*([0] * (2 - len(place))), *place), set()).add(device.id)
    rows, columns = zip(*device_ids, strict=True)
    return device_ids, (max(rows) + 1, max(columns) + 1)


def _boxes(names: Sequence[Sequence[str]], width: int, height: int) -> str:
    """A table with lines around its cells, each at least as large as requested."""
    cells, widths = [], [0] * len(names[0])
    for row in names:
        cells.append([_padded(name, width) for name in row])
        widths = [max(w, len(cell)) for w, cell in zip(widths, cells[-1], strict=True)]
    blank = [" " * w for w in widths]
    above, rest = divmod(max(height - 2, 0), 2)

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * w for w in widths) + right

    def line(texts: Sequence[str]) -> str:
        return "│" + "│".join(texts) + "│"

    lines = [rule("┌", "┬", "┐")]
    for i, row in enumerate(cells):
        texts = [cell.rjust((w + len(cell)) // 2).ljust(w) for cell, w in zip(row, widths, strict=True)]
        lines += [rule("├", "┼", "┤")] * (i > 0)
        lines += [line(blank)] * above + [line(texts)] + [line(blank)] * (above + rest)
    return "\n".join([*lines, rule("└", "┴", "┘")]) + "\n"


def _padded(name: str, width: int) -> str:
    left, rest = divmod(width - len(name) - 2, 2)
    return " " * max(left, 0) + name + " " * max(left + rest, 0)
