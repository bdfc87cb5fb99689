"""`infer_by_layers`: the outputs for all nodes of a large graph, computed layer by layer and in parts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xjax
from xjax.errors import bad
from xjax.typing import Array, ArrayLike, Params, PyTree
from xnn.checks import check_entries, type_text
from xnn.graph.samplers.blocks import take_rows
from xnn.graph.samplers.prefetching import prefetch
from xnn.graph.samplers.sampling import NeighbourSampler
from xnn.graph.structure.graph import Graph
from xnn.layer import Layer, as_layer

_PROBED = 16                                                  # number of nodes on which `reach` is checked
Allocate = Callable[[tuple[int, ...], Any], np.ndarray]


def infer_by_layers(layers: Sequence[Any], params: Sequence[Any], graph: Graph, x: ArrayLike, batch_size: int = 4096, *,
                    reach: int | Sequence[int] = 1, state: Sequence[Any] | None = None, allocate: Allocate = np.empty,
                    threads: int = 1) -> np.ndarray:
    """The output of a chain of layers for all nodes, equal to the output on the whole graph.

    Each layer runs over all nodes, `batch_size` at a time with all their neighbours, before the next layer starts, so
    no node is computed twice. The device holds one part at a time; the host holds the input and the output of one
    layer. A layer is compiled once: all its parts are padded to the size of the largest.

    Args:
      layers, params: for a `serial`, ``model.layers`` and its params. A layer without the input `graph` is applied to
        the rows only.
      graph: one `Graph` on the host.
      x: [n, ...] features, which may be stored in a file.
      reach: number of hops that a layer reads, one number for all layers or one for each: 2 if it uses the degree of
        the senders, such as ``GraphConvolution(norm="symmetric")``; K for a polynomial of degree K of the adjacency. As
        a check, some nodes are also computed with one hop more. Layers that read all nodes at once (norms over the
        graph, pooling) cannot be computed in parts.
      state: one entry for each layer, as from `init_state` of the composite; used for layers with a state.
      allocate: ``(shape, dtype) -> array`` for the output of each layer, for example a ``np.memmap``.
      threads: number of threads that prepare parts ahead, as in `prefetch`.
    Returns: [n, ...], allocated by `allocate`.
    Raises: ValueError if the numbers of layers, params and rows are inconsistent, or a layer reads further than
      `reach`.
    """
    caller = "infer_by_layers"
    layers = [as_layer(layer, caller) for layer in layers]
    check_entries(caller, "params", params, range(len(layers)))
    reach = _checked(caller, layers, graph, x, batch_size, reach)
    n, values = graph.n_nodes, _host(x)
    parts = [np.arange(i, min(i + batch_size, n)) for i in range(0, n, batch_size)] or [np.arange(0)]
    structure, samplers = graph.replace(nodes=None), {}
    for i, (layer, hops) in enumerate(zip(layers, reach, strict=True)):
        call = _call(layer, None if state is None else state[i])
        sampler = None
        if "graph" in layer.extra_inputs:
            sampler = samplers[hops] = samplers.get(hops) or _sampler(structure, hops, parts, batch_size)
            _check_reach(f"{caller}: layer {i} ({layer.name})", call, params[i], structure, hops, values)
        make = functools.partial(_part, sampler, values, batch_size)
        out: np.ndarray | None = None
        for ids, (rows, block) in zip(parts, prefetch(make, parts, threads=threads), strict=True):
            y = np.asarray(call(params[i], rows, block))
            out = allocate((n, *y.shape[1:]), y.dtype) if out is None else out
            out[ids] = y[:len(ids)]
        assert out is not None                             # there is at least one part
        values = out
    return values


def _checked(caller: str, layers: Sequence[Layer], graph: Graph, x: ArrayLike, batch_size: int,
             reach: int | Sequence[int]) -> list[int]:
    """The number of hops of each layer, after checks of all arguments."""
    reach = [reach] * len(layers) if isinstance(reach, int) else list(reach)
    if batch_size < 1 or len(reach) != len(layers) or min(reach, default=1) < 1:
        raise bad(caller, "needs a batch size, and a number of hops for each layer",
                  {"batch_size": batch_size, "reach": reach, "layers": len(layers)},
                  "pass for example batch_size=4096, reach=1.", ValueError)
    if not isinstance(graph, Graph):
        raise bad(caller, "takes one Graph", {"graph": type_text(graph)},
                  "make one with Graph.from_edges(senders, receivers).")
    if not hasattr(x, "shape") or x.shape[:1] != (graph.n_nodes,):
        raise bad(caller, "x needs one row for each node", {"x": type_text(x), "nodes": graph.n_nodes},
                  "pass [n, ...].", ValueError)
    return reach


def _call(layer: Layer, state: PyTree) -> Callable[..., Any]:
    """The jitted apply function of the layer, in evaluation mode."""
    state_input = {} if layer.state is None else {"state": state}

    def call(params, x, graph):
        return layer.apply(params, x, **({} if graph is None else {"graph": graph}), **state_input)

    return xjax.jit(call)


def _sampler(graph: Graph, hops: int, parts: Sequence[np.ndarray], batch_size: int) -> NeighbourSampler:
    """A sampler of all neighbours up to `hops` hops, with blocks padded to the size of the largest part."""
    sampler = NeighbourSampler(graph, (None,) * hops, batch_size=batch_size)
    sizes = [sampler.size_of(ids) for ids in parts]
    return NeighbourSampler(graph, (None,) * hops, batch_size=batch_size,
                            sizes=[tuple(max(counts) for counts in zip(*sizes, strict=True))])


def _check_reach(caller: str, call: Callable, params: Params, graph: Graph, hops: int, x: np.ndarray) -> None:
    """Raises: ValueError if the outputs of a few nodes, spread over the graph, change with one hop more."""
    ids = np.unique(np.linspace(0, graph.n_nodes - 1, _PROBED).astype(np.int64)) if graph.n_nodes else np.arange(0)
    near, far = (np.asarray(call(params, *_part(_sampler(graph, h, [ids], len(ids)), x, len(ids), ids)),
                            np.float64)[:len(ids)] for h in (hops, hops + 1))
    size = np.max(np.abs(far), initial=0, where=np.isfinite(far))
    if not np.allclose(near, far, rtol=1e-2, atol=1e-2 * size, equal_nan=True):
        raise bad(caller, f"the layer reads further than {hops} hop{'s' * (hops > 1)}",
                  {"largest difference with one more": f"{np.nanmax(np.abs(near - far)):.3g}"},
                  f"pass reach={hops + 1} or more; a layer that reads all nodes cannot be computed in parts.",
                  ValueError)


def _part(sampler: NeighbourSampler | None, x: np.ndarray, batch_size: int,
          ids: np.ndarray) -> tuple[np.ndarray, Graph | None]:
    """(Rows of x, graph of the block); the rows of `ids` come first. Without a sampler, (these rows, None)."""
    if sampler is None:
        return take_rows(x, ids, batch_size), None
    block = sampler.sample(ids)
    rows = take_rows(x, block.ids[:int(block.graph.n_node[0])], len(block.ids))
    return rows, block.graph.replace(nodes=rows)


def _host(x: Array | np.ndarray) -> np.ndarray:
    return np.asarray(x) if isinstance(x, xjax.Array) else x
