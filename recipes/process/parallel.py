"""Rows split over devices: padding and placement.

Every device owns one block of ``ceil(n / devices)`` rows, in order; the last blocks are padded with
rows of weight zero.  This works for any number of devices, one included.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.errors import RecipeError
from recipes.lazy import jnp, lax, sp, tree_util, xjax, xnn

if TYPE_CHECKING:
    from xjax.typing import Array, ArrayLike, PyTree

AXIS = "devices"                                              # the one pmap axis of the recipes
DENSE = 128 * 128                                             # the most entries of a matrix that becomes dense
MOST_VIRTUAL = 64                                             # devices of one CPU; a larger number is a mistake


def choose_devices(count: int | None, processes: int = 1) -> list[Any]:
    """The first ``count`` devices, the same number of each process; None: all devices.

    A CPU is split into virtual devices, unless the backend has started or XLA_FLAGS sets their number.

    Raises: RecipeError if there are fewer, or the processes cannot have the same number.
    """
    if count is not None and count % processes:
        raise RecipeError("devices", "the devices cannot be divided among the processes.",
                          {"devices": count, "processes": processes}, fix=f"a multiple of {processes}.")
    wanted = None if count is None else count // processes
    if wanted is not None and wanted > MOST_VIRTUAL and os.environ.get("JAX_PLATFORMS", "cpu") == "cpu":
        raise RecipeError("devices", f"a CPU is split into {MOST_VIRTUAL} devices at most.", {"devices": wanted},
                          fix="a smaller `devices`: more devices than processors are not faster.")
    if wanted is not None and "host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with contextlib.suppress(RuntimeError):  # the backend has started: use its devices
            xjax.config.update("jax_num_cpu_devices", wanted)
    devices = xjax.local_devices()
    if wanted is not None and len(devices) < wanted:
        raise RecipeError("devices", "the config needs more devices than there are.",
                          {"devices": count, "here": f"{len(devices)} ({devices[0].platform})"},
                          fix=f"XLA_FLAGS=--xla_force_host_platform_device_count={wanted} for virtual CPU devices, or "
                              "a smaller `devices`.")
    return [device for process in range(processes) for device in xjax.local_devices(process)[:wanted]]


class Placer:
    """Moves trees of arrays from host to devices and back: split along a leading axis of devices, or replicated.

    With several processes, each has the slices of its own devices.

    Attributes:
      own_devices: the devices of this process.
      form: how products with the last `row_block` are computed: "dense", "segments" or "unrolled", see `xnn.CSR.tune`;
        None before a call of `row_block`. Forms add in different orders, so their results differ in the last bits.
    """

    def __init__(self, devices: list[Any], *, steps: int = 200, noted: str | None = None) -> None:
        """Args: steps: number of steps of the run; noted: the `form` before a resume, which is kept where possible."""
        self._steps, self._noted, self.form = steps, noted, None
        self.devices = devices
        self.count = len(devices)
        self.processes = len({device.process_index for device in devices})
        own = [i for i, device in enumerate(devices) if device.process_index == xjax.process_index()]
        self._own = slice(own[0], own[-1] + 1)
        self.own_devices = devices[self._own]
        mesh = xjax.sharding.Mesh(np.array(self.own_devices), (AXIS,))
        self._sharded, self._whole = (xjax.NamedSharding(mesh, xjax.P(*names)) for names in ((AXIS,), ()))
        self._copy = xjax.pmap(lambda tree: tree, in_axes=None, out_axes=None, axis_size=len(own),
                               devices=self.own_devices)

    def pmap(self, fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """``xjax.pmap`` over these devices, on the axis AXIS."""
        return xjax.pmap(fun, axis_name=AXIS, axis_size=self.count, devices=self.devices, **options)

    def block(self, n: int) -> int:
        """Number of rows of one device, of ``n`` rows in all."""
        return -(-n // self.count)

    def split(self, rows: np.ndarray, n: int = 0, axis: int = 0) -> np.ndarray:
        """An axis of rows, split: ``[m, ...]`` as ``[devices, block, ...]``, padded with zeros to at least ``n`` rows.

        The axis of devices is always the first.
        """
        return _split_rows(rows, self.count, self.block(max(rows.shape[axis], n)), axis)

    def own(self, ids: np.ndarray, n: int) -> np.ndarray:
        """The ids of rows on this process's devices.  Args: ids: [..., at most n], one id for each row."""
        block = self.block(n)
        return ids[..., self._own.start * block:self._own.stop * block]

    def split_own(self, rows: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
        """`split` for the rows of this process's devices, if all processes together have ``n`` rows."""
        return _split_rows(rows, self._own.stop - self._own.start, self.block(n), axis)

    def split_matrix(self, matrix: sp.spmatrix) -> xnn.CSR | np.ndarray:
        """Sparse ``[n, m]`` as blocks ``[block, m]`` with a leading axis ``devices``.

        A small matrix becomes dense: the several operations of a sparse product cost more than its zeros.
        All CSR blocks are padded to the number of stored values of the fullest, with zeros at the last row and column.
        """
        n_rows, n_cols = self.block(matrix.shape[0]), matrix.shape[1]
        if matrix.shape[0] * n_cols <= DENSE:
            return self.split(matrix.toarray())
        values = matrix.tocoo()
        owner = values.row // n_rows
        size = np.bincount(owner, minlength=self.count).max(initial=1)
        blocks = []
        for device in range(self.count):
            mine = owner == device
            pad = (0, size - mine.sum())
            blocks.append(xnn.CSR.from_edges(
                np.pad(values.row[mine] - device * n_rows, pad, constant_values=n_rows - 1),
                np.pad(values.col[mine], pad, constant_values=n_cols - 1),
                np.pad(values.data[mine], pad), shape=(n_rows, n_cols)).tune(form="segments"))
        return tree_util.tree_map(lambda *parts: np.stack(parts), *map(self.host, blocks))

    def row_block(self, matrix: sp.spmatrix, width: int) -> xnn.graph.RowBlock:
        """A square sparse matrix in blocks of rows, whose product with `width` columns reads the rows of all devices.

        A small matrix becomes dense. On one device, `xnn.CSR.tune` chooses the form for this width and number of steps.
        """
        n = matrix.shape[0]
        if n * n <= DENSE:
            self.form = "dense"
            local = self.split(np.pad(matrix.toarray(), [(0, 0), (0, self.count * self.block(n) - n)]))
            return xnn.graph.RowBlock(local, np.zeros(self.count, np.int32), None, AXIS)
        if self.count > 1:
            self.form = "segments"
            return tree_util.tree_map(self.host, xnn.graph.split_rows(matrix, self.count, axis=AXIS))
        form = self._noted if self._noted in ("segments", "unrolled") else None
        csr = xnn.CSR.from_scipy(matrix).tune(columns=width, steps=self._steps, form=form)
        self.form = csr.form
        local = tree_util.tree_map(lambda leaf: np.asarray(leaf)[None], csr)
        return xnn.graph.RowBlock(local, np.array([csr.nnz], np.int32), None, AXIS)

    def put(self, tree: PyTree) -> PyTree:
        """Places a host tree with leading axis ``devices``, each slice on its device."""
        return self.put_own(tree_util.tree_map(lambda x: x[self._own], tree))

    def put_own(self, tree: PyTree) -> PyTree:
        """`put` for the slices of this process's devices."""
        return xjax.device_put(tree, self._sharded)

    def replicate(self, tree: PyTree) -> PyTree:
        """Places the same host tree on every device."""
        return xjax.device_put(self.host(tree), self._whole)

    def copy(self, tree: PyTree) -> PyTree:
        """The same values in new arrays; needed because the training step donates its arguments."""
        return self._copy(tree)

    @staticmethod
    def host(tree: PyTree) -> PyTree:
        """A tree with its leaves as NumPy arrays; of a replicated leaf, one copy."""
        return tree_util.tree_map(np.array, xjax.device_get(tree))


def _split_rows(rows: np.ndarray, devices: int, block: int, axis: int) -> np.ndarray:
    m = rows.shape[axis]
    if devices * block > m:
        pads = [(0, 0)] * rows.ndim
        pads[axis] = (0, devices * block - m)
        rows = np.pad(rows, pads)
    blocks = rows.reshape(*rows.shape[:axis], devices, block, *rows.shape[axis + 1:])
    return np.moveaxis(blocks, axis, 0) if axis else blocks


def my_rows(block: int) -> Array:
    """i32[]: the global id of this device's first row; inside pmap only."""
    return lax.axis_index(AXIS) * block


def weighted(values: ArrayLike, weight: ArrayLike) -> tuple[Any, Any]:
    """A metric as (sum, weight) over this device's rows; `recipes.training.step` adds those of all devices."""
    return jnp.sum(values * weight), jnp.sum(weight)
