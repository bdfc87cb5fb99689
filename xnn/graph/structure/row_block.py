"""`RowBlock`: one device's rows of a graph's adjacency, for training on a whole graph over several devices.

Each device owns a block of nodes. Inside `pmap` or `shard_map` a layer gets a RowBlock in place of the graph, and the
device's own rows in place of all features; it receives the rows of other nodes from the devices that own them. There
are two exchanges: every device sends all its rows to all devices ("gather", an all-gather), or sends to each device
only the rows that it needs ("halo", an all-to-all). `split_rows` chooses the exchange that moves fewer rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import xjax.numpy as jnp
from xjax import lax, tree_util
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.checks import type_text
from xnn.graph.structure.graph import Graph
from xnn.sparse import CSR, is_scipy_sparse
from xnn.sparse.rows import at

Exchange = Literal["gather", "halo"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RowBlock:
    """One device's rows of a square sparse matrix; a pytree with the static field `axis`.

    Attributes:
      local: the own rows of the matrix, as CSR [block, seen] with columns that index `seen(x)`; or a dense array,
        without halo.
      n_stored: int32[], number of stored values that are real: shorter lists of values are padded with zeros.
      halo: int32[devices, h], the own rows that each other device needs; None if every device gets all rows.
      axis: name of the mesh axis.
    """

    local: Any
    n_stored: Any
    halo: Any
    axis: str

    @property
    def n_nodes(self) -> int:
        """Number of own nodes, padding included."""
        return self.local.shape[-2]

    def seen(self, x: ArrayLike) -> Array:
        """[block, ...] -> [seen, ...]: the rows of x that the local edges read, exchanged between all devices."""
        if self.halo is None:
            return lax.all_gather(x, self.axis, tiled=True)
        received = lax.all_to_all(at(x, self.halo), self.axis, 0, 0)
        return jnp.concatenate([x, received.reshape(-1, *x.shape[1:])])

    def place(self, ids: Array | np.ndarray) -> Array | np.ndarray:
        """Positions of own rows `ids` within ``seen(x)``."""
        return ids + lax.axis_index(self.axis) * self.n_nodes if self.halo is None else ids

    def __matmul__(self, x: ArrayLike) -> Array:
        """[block, f] on each device -> [block, f]: this device's rows of the product with the whole matrix."""
        return self.local @ self.seen(x)

    def __repr__(self) -> str:
        exchange = "gather" if self.halo is None else "halo"
        return f"<RowBlock {type_text(self.local)} by {exchange} over {self.axis!r}>"


tree_util.register_dataclass(RowBlock, ["local", "n_stored", "halo"], ["axis"])


def split_rows(matrix: Any, devices: int, *, exchange: Exchange | None = None, axis: str = "devices") -> RowBlock:
    """Splits a matrix [n, n] into row blocks for `pmap`: NumPy arrays, each with a leading axis of devices.

    Device d owns the rows ``d * block .. (d + 1) * block - 1`` with ``block = ceil(n / devices)``; rows beyond n are
    empty. The features must be split in the same way.

    Args:
      matrix: concrete `Graph`, SciPy sparse matrix or `CSR`. Of a Graph, only edges and their weights are used.
      exchange: "gather" or "halo"; None chooses the exchange that moves fewer rows (`rows_moved`).
      axis: name of the axis in `pmap`.
    Raises: ValueError if the matrix is not square.
    """
    csr = _as_csr("graph.split_rows", matrix)
    n, n_cols = csr.shape
    if n != n_cols:
        raise bad("graph.split_rows", "the matrix is not square", {"matrix": type_text(csr)},
                  "pass one row and one column for each node.", ValueError)
    block = -(-n // devices)
    rows, cols, values = (np.asarray(part) for part in (csr.rows, csr.indices, csr.data))
    owner = rows // block if block else rows
    moved = rows_moved(csr, devices)
    exchange = exchange or ("halo" if moved["halo"] < moved["gather"] else "gather")
    halo, seen = None, devices * block
    if exchange == "halo":
        halo, cols, seen = _halo(owner, cols, devices, block)
    counts = np.bincount(owner, minlength=devices)
    most = counts.max(initial=1)
    parts = [_local(rows[owner == d] - d * block, cols[owner == d], values[owner == d], most, (block, seen))
             for d in range(devices)]
    # The number of blocks of unrolled rows depends on the lengths of the rows, so it would differ among devices.
    parts = [part.tune(form="segments") for part in parts] if devices > 1 else parts
    local = tree_util.tree_map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *parts)
    return RowBlock(local, counts.astype(np.int32), halo, axis)


def rows_moved(matrix: Any, devices: int) -> dict[str, int]:
    """Number of rows that each device receives in one product, for each exchange: "gather" and "halo".

    Halos are padded to the largest. A product receives this number times the bytes of a row; its gradient sends as
    many back.
    """
    csr = _as_csr("graph.rows_moved", matrix)
    block = -(-csr.shape[0] // devices)
    _, largest = _needed(np.asarray(csr.rows) // max(block, 1), np.asarray(csr.indices), devices, block)
    return {"gather": (devices - 1) * block, "halo": (devices - 1) * largest}


def _as_csr(caller: str, matrix: Any) -> CSR:
    if isinstance(matrix, CSR):
        return matrix
    if isinstance(matrix, Graph):
        return matrix.to_csr()
    if is_scipy_sparse(matrix):
        return CSR.from_scipy(matrix)
    raise bad(caller, "takes a sparse matrix", {"matrix": type_text(matrix)}, "pass a Graph, a CSR or a SciPy matrix.")


def _needed(owner: np.ndarray, cols: np.ndarray, devices: int, block: int) -> tuple[np.ndarray, int]:
    """(Pairs of a device and a node of another device that it reads, sorted; the most that one reads from another)."""
    foreign = cols // max(block, 1) != owner
    n = devices * block
    pairs = np.unique(owner[foreign].astype(np.int64) * n + cols[foreign])
    to, node = np.divmod(pairs, max(n, 1))
    sizes = np.bincount(to * devices + node // max(block, 1), minlength=devices * devices)
    return np.stack([to, node]), int(sizes.max(initial=0))


def _halo(owner: np.ndarray, cols: np.ndarray, devices: int, block: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(Own rows to send [sender, receiver, h], columns as positions in `seen`, number of rows in `seen`)."""
    (to, node), largest = _needed(owner, cols, devices, block)
    sender = node // max(block, 1)
    pair = to * devices + sender                                          # ascending, because the pairs are sorted
    rank = np.arange(len(pair)) - np.searchsorted(pair, pair)
    halo = np.zeros((devices, devices, largest), np.int32)
    halo[sender, to, rank] = node - sender * block
    # On device `to` the received rows follow its own, in the order of their senders.
    place = block + sender * largest + rank
    foreign = cols // max(block, 1) != owner
    n = devices * block
    positions = np.searchsorted(to * n + node, owner[foreign].astype(np.int64) * n + cols[foreign])
    local = cols - owner * block
    local[foreign] = place[positions]
    return halo, local, block + devices * largest


def _local(rows: np.ndarray, cols: np.ndarray, values: np.ndarray, stored: int, shape: tuple[int, int]) -> CSR:
    """A block padded to `stored` values, with zeros at its last position, so that all devices have equal shapes."""
    pad = (0, stored - len(rows))
    rows, cols = (np.pad(x, pad, constant_values=n - 1) for x, n in zip((rows, cols), shape, strict=True))
    return CSR.from_edges(rows, cols, np.pad(values, pad), shape=shape)
