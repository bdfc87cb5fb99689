"""`tiled_kernel`: a kernel that is computed in tiles, within a bound of memory, on several devices, into files."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.covariance.evaluation import KINDS, as_requested, kinds_of
from xnn.covariance.kernel import Parameterization
from xnn.layer import Layer
from xnn.sizes import bytes_of


def tiled_kernel(model: Layer, x1: ArrayLike, x2: ArrayLike | None = None, *, get: str | Sequence[str] = KINDS,
                 memory_budget: str | float = "1GB", devices: Sequence[Any] | None = None,
                 out: str | os.PathLike | None = None, progress: Callable[[int, int], None] | None = None,
                 parameterization: Parameterization = "standard", train: bool = False, **inputs: Any) -> Any:
    """``model.kernel(x1, x2, get=get)`` in tiles of rows, as NumPy arrays.

    Half of the tiles of a symmetric kernel are computed. The memory besides the result is at most `memory_budget` for
    each device, so a kernel of images may have any number of rows.

    Args:
      model: a layer with a kernel. Each row of its input must be an example of its own: not the nodes of a graph.
      get, parameterization, train: as in `Layer.kernel`.
      inputs: extra inputs as in `Layer.kernel`: arrays with a row for each example.
      memory_budget: bytes, or text such as "500MB" or "2GiB".
      devices: the devices that compute tiles at the same time, by pmap; None: the first one.
      out: a folder for the result, "nngp.npy" and "ntk.npy", which are memory-mapped. An interrupted computation
        continues there.
      progress: ``(tiles done, number of tiles)``, called after each step.
    Returns: an array [n1, n2, ...] for one kind, `Kernels` for both.
    Raises: ValueError if one row of each input needs more than `memory_budget`, or if `out` has another computation.

    >>> from xnn import Dense, Relu, serial
    >>> model = serial(Dense(64), Relu, Dense(1))
    >>> x = np.ones((5, 3), np.float32)
    >>> bool(np.allclose(tiled_kernel(model, x, get="ntk"), model.kernel(x, get="ntk")))
    True
    """
    kinds = kinds_of("tiled_kernel", get)
    devices = list(devices or xjax.devices()[:1])
    one, other = _examples(np.asarray(x1), None if x2 is None else np.asarray(x2), inputs)
    tiles = _Tiles(model, one, other, x2 is None, kinds, {"parameterization": parameterization, "train": train},
                   _bytes(memory_budget), devices)
    results = _Results(tiles, None if out is None else Path(out))
    pending = [tile for tile in tiles.all() if tile not in results.done]
    total, done = len(pending) + len(results.done), len(results.done)
    computed = None
    try:
        for start in range(0, len(pending) + len(devices), len(devices)):
            group, previous = pending[start:start + len(devices)], computed
            xjax.block_until_ready(previous and previous[1])
            computed = group, tiles.launch(group)                       # it runs while the previous tiles are stored
            if previous is not None and previous[0]:
                results.store(*previous)
                done += len(previous[0])
                if progress is not None:
                    progress(done, total)
    finally:
        results.write()
    return as_requested(get, results.kept)


class _Examples(NamedTuple):
    """The inputs of a model with a row for each example, and the names of those after x."""

    arrays: tuple[np.ndarray, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.arrays[0])

    def rows(self) -> _Rows:
        """Shape and dtype, on devices, of a row of each input."""
        return tuple((array.shape[1:], np.dtype(jnp.asarray(array[:0]).dtype)) for array in self.arrays)


def _examples(x1: np.ndarray, x2: np.ndarray | None, inputs: Mapping[str, Any]) -> tuple[_Examples, _Examples]:
    """The inputs for x1 and for x2. Raises: ValueError for an extra input without a row for each example."""
    sides = []
    for side, x in enumerate([x1] if x2 is None else [x1, x2]):
        arrays = [x]
        for name, value in inputs.items():
            if x2 is not None and not (isinstance(value, tuple) and len(value) == 2):
                raise bad("tiled_kernel", f"`{name}` must be a pair, for x1 and for x2", {name: type(value).__name__},
                          f"{name}=(value of x1, value of x2).")
            array = np.asarray(value if x2 is None else value[side])
            if array.shape[:1] != x.shape[:1] or array.dtype == object:
                raise bad("tiled_kernel", f"`{name}` must have a row for each example",
                          {name: str(array.shape), "examples": len(x)},
                          "pass arrays whose first axis is that of x; a graph has one kernel as a whole: model.kernel.",
                          ValueError)
            arrays.append(array)
        sides.append(_Examples(tuple(arrays), tuple(inputs)))
    return sides[0], sides[-1]


def _bytes(budget: str | float) -> float:
    try:
        return bytes_of(budget)
    except ValueError as err:
        raise bad("tiled_kernel", "the memory is not a number of bytes", {"memory_budget": repr(budget)},
                  'pass a number, or text such as "500MB" or "2GiB".', ValueError) from err


# Bytes of the fastest tiles on CPUs: the covariances of the layers stay in the caches. Larger products are not faster.
_FASTEST = 64e6


class _Program:
    """The compiled computation of a tile.

    Attributes: size: rows of a block; run_pair, run_equal: `of_pair` and `of_equal` on the devices.
    """

    def __init__(self, model: Layer, kinds: tuple[str, ...], options: dict[str, Any], names: tuple[str, ...],
                 devices: Sequence[Any]) -> None:
        self.model, self.kinds, self.options, self.names, self.devices = model, kinds, options, names, devices
        self.size, self.run_pair, self.run_equal = 0, self._on_devices(self.of_pair), self._on_devices(self.of_equal)

    def of_pair(self, a: tuple[Array, ...], b: tuple[Array, ...]) -> list[Array]:
        """A tile between two blocks of inputs, each a block of x and of the inputs `names`."""
        inputs = dict(zip(self.names, zip(a[1:], b[1:], strict=True), strict=True))
        return list(self.model.kernel(a[0], b[0], get=self.kinds, **self.options, **inputs))

    def of_equal(self, a: tuple[Array, ...]) -> list[Array]:
        """A tile between a block and itself."""
        inputs = dict(zip(self.names, a[1:], strict=True))
        return list(self.model.kernel(a[0], get=self.kinds, **self.options, **inputs))

    def fit(self, rows: Sequence[_Rows], most: int, budget: float) -> None:
        """Choose the number of rows with which a tile fits, estimated from smaller tiles and then checked.

        Args: rows: the types of a row of x1 and of x2; most: the number of rows at most.
        """
        aim = min(budget, _FASTEST)
        size, slope = min(most, 16), 0.0                                # bytes are about a constant + slope * size**2
        needed = self._memory(rows, size)
        while needed < aim / 4 and size < most:
            slope = slope if slope > 0 else needed / size**2
            larger = min(most, 8 * size if slope == 0 else int(math.sqrt(size**2 + (aim - needed) / slope)))
            if larger < 1.2 * size:
                break
            before, needed = needed, self._memory(rows, larger)
            slope, size = (needed - before) / (larger**2 - size**2), larger
        while needed > aim and size > 1:
            size = max(1, min(size - 1, int(size * math.sqrt(aim / needed))))
            needed = self._memory(rows, size)
        if needed > budget:
            raise bad("tiled_kernel", "one row of each input needs more memory than the budget",
                      {"bytes of a tile": f"{needed:.3g}", "memory_budget": f"{budget:.3g}"},
                      "raise memory_budget, or make the inputs smaller.", ValueError)
        self.size = -(-most // -(-most // size))                       # blocks of nearly equal sizes

    def _memory(self, rows: Sequence[_Rows], size: int) -> float:
        types = [_block_type(of_side, size) for of_side in rows]
        stats: Any = xjax.jit(self.of_pair).lower(*types).compile().memory_analysis()
        # One step runs while the results of the step before are stored. A tile of equal blocks needs less.
        return stats.temp_size_in_bytes + 2 * stats.output_size_in_bytes + stats.argument_size_in_bytes

    def _on_devices(self, fun: Callable[..., list[Array]]) -> Callable[..., Any]:
        return xjax.jit(fun) if len(self.devices) == 1 else xjax.pmap(fun, devices=self.devices)


_Rows: TypeAlias = tuple[tuple[tuple[int, ...], np.dtype], ...]         # shape and dtype of a row of each input


def _block_type(rows: _Rows, size: int) -> tuple[Any, ...]:
    return tuple(xjax.ShapeDtypeStruct((size, *shape), dtype) for shape, dtype in rows)


class _Tiles:
    """The tiles of a kernel: pairs of blocks of rows, all of one size.

    The last block of an input is filled up with copies of its last row.
    """

    def __init__(self, model: Layer, one: _Examples, other: _Examples, same: bool, kinds: tuple[str, ...],
                 options: dict[str, Any], budget: float, devices: list[Any]) -> None:
        self.one, self.other, self.same, self.kinds, self.devices = one, other, same, kinds, devices
        self.rows = [side.rows() for side in (one, other)]
        most = max(1, len(one), len(other))
        known, key = model._kernels, (kinds, *options.values(), one.names, *self.rows, same, most, budget, *devices)
        if key not in known:
            program = _Program(model, kinds, options, one.names, devices)
            program.fit(self.rows, most, budget)
            known[key] = program
        self.program: _Program = known[key]
        self.size = self.program.size

    def all(self) -> Iterator[tuple[int, int]]:
        """The numbers of the blocks of x1 and x2; for a symmetric kernel, those with the first at most the second."""
        rows, columns = (-(-len(x) // self.size) for x in (self.one, self.other))
        if self.same:                                                   # tiles of equal blocks have their own program
            yield from ((i, i) for i in range(rows))
        for i in range(rows):
            yield from ((i, j) for j in range(i + 1 if self.same else 0, columns))

    def launch(self, group: list[tuple[int, int]]) -> list[Any]:
        """Start the computation of tiles: for each, a list with an array for each kind."""
        results: list[Any] = [None] * len(group)
        for equal in (True, False):
            places = [k for k, (i, j) in enumerate(group) if (self.same and i == j) == equal]
            if not places:
                continue
            blocks = [[self._block(self.one, group[k][0])] + ([] if equal else [self._block(self.other, group[k][1])])
                      for k in places]
            run = self.program.run_equal if equal else self.program.run_pair
            if len(self.devices) == 1:
                made = [run(*block) for block in blocks]
            else:
                padded = blocks + [blocks[-1]] * (len(self.devices) - len(blocks))
                stacked = run(*(tuple(map(np.stack, zip(*side, strict=True))) for side in zip(*padded, strict=True)))
                made = [[array[k] for array in stacked] for k in range(len(blocks))]
            for k, arrays in zip(places, made, strict=True):
                results[k] = arrays
        return results

    def _block(self, examples: _Examples, i: int) -> tuple[np.ndarray, ...]:
        """Rows of each input, filled up to the size of a block with copies of the last row."""
        start, stop = i * self.size, (i + 1) * self.size
        rows: Any = slice(start, stop)
        if stop > len(examples):
            rows = np.minimum(np.arange(start, stop), len(examples) - 1)
        return tuple(array[rows] for array in examples.arrays)

    def shape(self) -> tuple[tuple[int, ...], np.dtype]:
        """The shape and dtype of the result."""
        first = xjax.eval_shape(self.program.of_pair, *(_block_type(rows, 1) for rows in self.rows))[0]
        return (len(self.one), len(self.other), *first.shape[2:]), np.dtype(first.dtype)

    def fingerprint(self) -> str:
        """A hash of everything that the result depends on; the program of a tile has the numbers of the model."""
        types = [_block_type(rows, self.size) for rows in self.rows]
        program = xjax.jit(self.program.of_pair).lower(*types).as_text()
        sha = hashlib.sha256(repr((program, self.kinds, self.same, len(self.one), len(self.other))).encode())
        for x in self.one.arrays if self.same else self.one.arrays + self.other.arrays:
            sha.update(repr((x.shape, x.dtype)).encode())
            sha.update(np.ascontiguousarray(x))
        return sha.hexdigest()


class _Results:
    """The arrays of the result, in memory or in files, and the tiles that they have.

    Attributes: folder: None for arrays in memory; kept: an array for each kind; done: the tiles that they have.
    """

    def __init__(self, tiles: _Tiles, folder: Path | None) -> None:
        self.tiles, self.folder, self.done, self.written = tiles, folder, set(), 0.0
        shape, dtype = tiles.shape()
        if folder is None:
            self.kept: list[np.ndarray] = [np.empty(shape, dtype) for _ in tiles.kinds]
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.record, self.fingerprint = folder / "tiles.json", tiles.fingerprint()
        is_there = self.record.exists()
        if is_there:
            state = json.loads(self.record.read_text())
            if state["fingerprint"] != self.fingerprint:
                raise bad("tiled_kernel", "the folder has the tiles of another computation", {"out": str(folder)},
                          "pass another folder, or the model, inputs, options and memory budget of the first call.",
                          ValueError)
            self.done = {tuple(tile) for tile in state["done"]}
        mode: Any = "r+" if is_there else "w+"
        self.kept = [np.lib.format.open_memmap(folder / f"{kind}.npy", mode, dtype, shape) for kind in tiles.kinds]
        self.write()

    def store(self, group: list[tuple[int, int]], computed: list[list[Array]]) -> None:
        """Write tiles, and for a symmetric kernel their mirror images."""
        size = self.tiles.size
        for (i, j), arrays in zip(group, computed, strict=True):
            for kept, array in zip(self.kept, arrays, strict=True):
                rows, columns = (slice(k * size, min((k + 1) * size, n)) for k, n in ((i, kept.shape[0]),
                                                                                      (j, kept.shape[1])))
                part = np.asarray(array)[:rows.stop - rows.start, :columns.stop - columns.start]
                kept[rows, columns] = part
                if self.tiles.same and i != j:
                    half = (part.ndim - 2) // 2
                    mirror = (1, 0, *range(2 + half, part.ndim), *range(2, 2 + half))
                    kept[columns, rows] = np.transpose(part, mirror)
            self.done.add((i, j))
        if time.monotonic() > self.written + 1:                         # the record has all tiles, so not after each
            self.write()

    def write(self) -> None:
        """Write the arrays to the disk, then the record of their tiles."""
        if self.folder is None:
            return
        for kept in self.kept:
            kept.flush()                                                # type: ignore[attr-defined]
        partial = self.record.with_suffix(".partial")
        partial.write_text(json.dumps({"fingerprint": self.fingerprint, "done": sorted(self.done)}))
        os.replace(partial, self.record)
        self.written = time.monotonic()
