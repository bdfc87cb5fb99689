"""Recurrent layers over [batch, time, features]: `bidirectional`, and the stacks `RNN`, `LSTM` and `GRU`."""

from collections.abc import Callable, Mapping
from typing import Any

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import PyTree
from xnn.checks import type_text
from xnn.composites import combine, dict_of
from xnn.layer import Layer, recorded
from xnn.layers.cells import GRUCell, LSTMCell, RNNCell
from xnn.layers.dropout import Dropout
from xnn.layers.scan import check_cell, scan_over_time


@recorded("forward", "backward")
def bidirectional(forward: Layer, backward: Layer, *, unroll: int = 1, return_carry: bool = False) -> Layer:
    """Two cells over a sequence, one from each end, with concatenated outputs (Schuster and Paliwal, 1997).

    The backward cell starts at the last position that counts, as in PyTorch's packed sequences.

    Shape: [batch, time, n_in] -> y [batch, time, features of both]; with return_carry (y, the pair of last carries).
    Inputs: as in `scan_over_time`; carry is a pair.
    Params: ``{"forward": ..., "backward": ...}``.
    """
    scan_options = {"unroll": unroll, "return_carry": True}
    scans = {"forward": scan_over_time(check_cell("bidirectional", forward), **scan_options),
             "backward": scan_over_time(check_cell("bidirectional", backward), reverse=True, **scan_options)}
    return _two_ways(scans, return_carry)


def _two_ways(scans: Mapping[str, Layer], return_carry: bool) -> Layer:
    def walk(visit, in_shape, shapes):
        (y, carry), (other_y, other_carry) = (visit(key, in_shape) for key in scans)
        y = (*y[:-1], y[-1] + other_y[-1])
        return (y, (carry, other_carry)) if return_carry else y

    def forward(call, x, values):
        carries = _one_for_each("bidirectional", values["carry"], 2)
        runs = [call(key, x, carry=carry) for key, carry in zip(scans, carries, strict=True)]
        y = jnp.concatenate([y for y, _ in runs], -1)
        return (y, tuple(carry for _, carry in runs)) if return_carry else y

    return combine("bidirectional", scans, walk, forward, dict_of(scans),
                   rebuild=lambda some: _two_ways(some, return_carry), has_kernel=False)


def _one_for_each(caller: str, carry: PyTree, n: int) -> PyTree:
    """The carries of n layers, from the carry of the whole layer."""
    if carry is None:
        return (None,) * n
    if not isinstance(carry, tuple | list) or len(carry) != n:
        raise bad(caller, f"the carry needs one entry for each of its {n} scans", {"carry": type_text(carry)},
                  fix="pass the carry that this layer returned, or None for zeros.")
    return carry


@recorded()
def RNN(features: int, *, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0, unroll: int = 1,
        return_carry: bool = False, **cell: Any) -> Layer:
    """Layers of `RNNCell` over a sequence, as in PyTorch's RNN; see `LSTM`."""
    return _stack("RNN", RNNCell, features, cell, layers, bidirectional, dropout, unroll, return_carry)


@recorded()
def GRU(features: int, *, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0, unroll: int = 1,
        return_carry: bool = False, **cell: Any) -> Layer:
    """Layers of `GRUCell` over a sequence, as in PyTorch's GRU; see `LSTM`."""
    return _stack("GRU", GRUCell, features, cell, layers, bidirectional, dropout, unroll, return_carry)


@recorded()
def LSTM(features: int, *, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0, unroll: int = 1,
         return_carry: bool = False, **cell: Any) -> Layer:
    """Layers of `LSTMCell` over a sequence, each on the outputs of the one before, as in PyTorch's LSTM.

    Shape: [batch, time, n_in] -> y [batch, time, features], or twice the features if bidirectional; with return_carry
    (y, the last carries).
    Args:
      features: number of output features of each layer and direction.
      layers: number of layers.
      bidirectional: whether each layer reads the sequence from both ends.
      dropout: rate of dropout between layers, in training.
      unroll: as in `scan_over_time`.
      return_carry: whether to return the carries: a tuple with one entry for each layer, which is a pair if
        bidirectional.
      cell: options of `LSTMCell`.
    Inputs: as in `scan_over_time`; carry has the structure of the returned carries.
    Params: ``{"layer_0": those of the cell, "layer_1": ...}``; if bidirectional each is ``{"forward", "backward"}``.
    Cache: the carries, unless bidirectional.
    Raises: ValueError for dropout with a single layer, because dropout is applied between layers.
    """
    return _stack("LSTM", LSTMCell, features, cell, layers, bidirectional, dropout, unroll, return_carry)


def _stack(name: str, make_cell: Callable, features: int, options: Mapping[str, Any], layers: int,
           both_ways: bool, dropout: float, unroll: int, return_carry: bool) -> Layer:
    cell = make_cell(features, **options)
    if layers < 1 or (dropout and layers == 1):
        raise bad(name, "dropout is applied between layers" if layers == 1 else "layers must be at least 1",
                  {"layers": layers, "dropout": dropout}, "pass layers=2, or serial(..., Dropout(rate)).", ValueError)
    scan_options = {"unroll": unroll, "return_carry": True}
    one = bidirectional(cell, cell, **scan_options) if both_ways else scan_over_time(cell, **scan_options)
    children = {f"layer_{i}": one for i in range(layers)}
    if dropout:
        children["dropout"] = Dropout(dropout)
    return _chain(name, children, return_carry)


def _chain(name: str, children: Mapping[str, Layer], return_carry: bool) -> Layer:
    """Scans one after another, with dropout between them if there is a child "dropout"."""
    scans = [key for key in children if key != "dropout"]

    def walk(visit, shape, shapes):
        carries = []
        for key in scans:
            shape, carry = visit(key, shape)
            carries.append(carry)
        if "dropout" in children:
            visit("dropout", shape)
        return (shape, tuple(carries)) if return_carry else shape

    def forward(call, x, values):
        carries = []
        for key, carry in zip(scans, _one_for_each(name, values["carry"], len(scans)), strict=True):
            x = call("dropout", x) if carries and "dropout" in children else x
            x, last = call(key, x, carry=carry)
            carries.append(last)
        return (x, tuple(carries)) if return_carry else x

    return combine(name, children, walk, forward, dict_of(children),
                   rebuild=lambda some: _chain(name, some, return_carry), has_kernel=False)
