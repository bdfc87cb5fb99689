"""`scan_over_time`: a cell applied along a sequence [batch, time, ..., features]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax, tree_util
from xjax.errors import bad
from xjax.typing import Array, ArrayLike, DTypeLike, Params, PyTree
from xnn.checks import at_least_int32, check_float, check_shape, type_text
from xnn.composites import extra_values, init_child
from xnn.inputs import Input, bind, map_shapes
from xnn.layer import CacheFns, Layer, Parts, as_layer, note_path, recorded
from xnn.layers.cells import Recurrence, check_carry
from xnn.rng import Rng, fold_in

_LENGTHS = Input("lengths", None, "int[batch], number of positions that count, from the first one")
_MASK = Input("mask", None, "bool[batch, time], True at positions that count")
_CARRY = Input("carry", None, "carry before the first step; None: zeros")


def init_carry(cell: Layer, params: Params, x: PyTree, **extra: PyTree) -> PyTree:
    """The initial carry of a cell: zeros, for the input x of one step, or its type.

    Args: extra: extra inputs of the cell by name.

    >>> from xnn import LSTMCell
    >>> cell = LSTMCell(4)
    >>> _, params = cell.init(xjax.random.key(0), (-1, 3))
    >>> h, c = init_carry(cell, params, xjax.ShapeDtypeStruct((2, 3), "float32"))
    >>> y, (h, c) = cell.apply(params, jnp.ones((2, 3)), (h, c))
    >>> c.shape
    (2, 4)
    """
    types = xjax.eval_shape(lambda params, x, extra: cell.apply(params, x, **extra)[1], params, x, extra)
    return tree_util.tree_map(lambda one: jnp.zeros(one.shape, one.dtype), types)


@recorded("cell")
def scan_over_time(cell: Layer, *, reverse: bool = False, unroll: int = 1, return_carry: bool = False) -> Layer:
    """A cell applied at each position of a sequence, in one loop.

    For the cells of xnn, the part that depends on the input only is one product for all positions, before the loop.

    Shape: [batch, time, ..., n_in] -> y [batch, time, ..., features]; with return_carry (y, the last carry).
    Args:
      cell: a layer ``apply(params, x, carry=None) -> (y, carry)``. Its other inputs are the same at each position.
      reverse: whether to start from the last position.
      unroll: number of positions in one iteration of the loop.
      return_carry: whether to return the carry of each sequence after its last position that counts.
    Inputs: lengths, integers [batch]; mask, bools [batch, time]; carry, the carry before the first step.
      At a position that lengths or mask leave out, x may be NaN, the output is 0 and the carry does not change.
      Without both, all positions count. With a cache, `carry` replaces the carry of the cache, as an encoder's in the
      first call.
    Params: those of the cell.  Cache, unless `reverse` or for a cell of xnn with spatial axes: the carry; None at first
      for other cells.
    Raises: TypeError for a layer without an input `carry`, or with running statistics.
    """
    cell = check_cell("scan_over_time", cell)
    inputs = (_LENGTHS, _MASK, _CARRY, *(one for one in cell.inputs if one.name != "carry"))

    def walk(visit, in_shape, shapes):
        batch, time, *rest = check_shape("scan_over_time", in_shape, min_rank=3)
        y_shape, carry_shape = visit(None, (batch, *rest))
        y_shape = map_shapes(lambda shape: (shape[0], time, *shape[1:]), y_shape)
        return (y_shape, carry_shape) if return_carry else y_shape

    def init(rng, in_shape, **shapes):
        made = []

        def visit(key, shape):
            shape, params = init_child("scan_over_time", cell, rng, shape, shapes)
            made.append(params)
            return shape

        return walk(visit, in_shape, shapes), made[0]

    def run(params, x, values, rng=None, train=False):
        x = check_float("scan_over_time", x, 3)
        try:
            return _scan(cell, params, x, values, {"rng": rng, "train": train}, reverse, unroll)
        except Exception as err:
            note_path(err, "scan_over_time", cell, x)
            raise

    def apply(params, x, *extra, rng=None, train=False, **named):
        y, carry = run(params, x, bind("scan_over_time", inputs, extra, named), rng, train)
        return (y, carry) if return_carry else y

    if isinstance(cell.apply, Recurrence):
        # The cell is not a child here, so that `with_precision` converts its weights once instead of in each step.
        has_cache = cell.apply.spatial == 0 and not reverse
        return Layer(init, apply, "scan_over_time", inputs, {"cell": cell},
                     cache=_carry_as_cache(run, inputs, return_carry, cell.apply) if has_cache else None)

    def rebuild(some):
        return scan_over_time(some[None], reverse=reverse, unroll=unroll, return_carry=return_carry)

    return Layer(init, apply, "scan_over_time", inputs, parts=Parts({None: cell}, walk, rebuild),
                 cache=None if reverse else _carry_as_cache(run, inputs, return_carry), sized_by=cell.sized_by)


def check_cell(caller: str, cell: Layer) -> Layer:
    cell = as_layer(cell, caller)
    if "carry" not in cell.extra_inputs:
        raise bad(caller, f"{cell.name} is not a cell, because it has no input `carry`",
                  {"inputs": ", ".join(("x", *cell.extra_inputs))},
                  fix="pass a cell such as LSTMCell(8), or a layer apply(params, x, carry=None) -> (y, carry).")
    if cell.state:
        raise bad(caller, "running statistics of a cell would change at each position", {"cell": cell.name},
                  fix="normalise in the cell with LayerNorm, or use BatchNorm before or after the scan.")
    return cell


def _carry_as_cache(run: Callable, inputs: Sequence[Input], return_carry: bool,
                    recurrence: Recurrence | None = None) -> CacheFns:
    """The functions of a cache that is the carry.

    Args: recurrence: that of a cell of xnn, whose first carry does not depend on parameters; its cache keeps the dtype.
    """

    def init_cache(batch, length):
        return recurrence.first(jnp.zeros((batch, 0))) if recurrence else None

    def apply_with_cache(params, cache, x, *extra, **named):
        values = bind("scan_over_time", inputs, extra, named)
        if _is_left_out(values["carry"]):
            values["carry"] = _cast(cache, x.dtype) if recurrence else cache
        y, carry = run(params, x, values)
        cache = tree_util.tree_map(lambda new, old: new.astype(old.dtype), carry, cache) if recurrence else carry
        return (y, carry) if return_carry else y, cache

    return CacheFns(init_cache, apply_with_cache)


def _cast(tree: PyTree, dtype: DTypeLike) -> PyTree:
    return tree_util.tree_map(lambda leaf: leaf.astype(dtype), tree)


def _scan(cell: Layer, params: Params, x: Array, values: Mapping[str, Any], options: Mapping[str, Any], reverse: bool,
          unroll: int) -> tuple[Any, Any]:
    """(Outputs, last carry) of a cell over the positions of x."""
    counts = _positions_that_count(x, values["lengths"], values["mask"])
    if counts is not None:                              # padding may be NaN, and gradients of weights contain x
        x = _chosen(_axes_swapped(counts), x, jnp.zeros_like(x))
    inputs, step, carry = _steps(cell, params, x, values, **options)
    if not _is_left_out(values["carry"]):
        carry = check_carry(cell.name, values["carry"], carry)

    def body(carry, at):
        one, i, count = at
        y, new = step(carry, one, i)
        if count is None:
            return new, y
        return _chosen(count, new, carry), _chosen(count, y, tree_util.tree_map(jnp.zeros_like, y))

    carry, y = lax.scan(body, carry, (inputs, jnp.arange(x.shape[1]), counts), reverse=reverse, unroll=unroll)
    return tree_util.tree_map(_axes_swapped, y), carry


def _is_left_out(carry: PyTree) -> bool:
    """Whether a carry is None or, as a result of `whole` in generation, has None in place of each of its arrays."""
    return not tree_util.tree_leaves(carry)


def _steps(cell: Layer, params: Params, x: Array, values: Mapping[str, Any], rng: Rng, train: bool) -> tuple:
    """(Inputs of the steps, with time first; ``step(carry, input, i) -> (y, carry)``; the initial carry)."""
    xs = _axes_swapped(x)
    of_one_step = xjax.ShapeDtypeStruct(xs.shape[1:], x.dtype)
    if isinstance(cell.apply, Recurrence):
        recurrence = cell.apply
        recurrence.check(params, x, min_rank=3)
        return (recurrence.project(params, xs), lambda carry, z, i: recurrence.advance(params, z, carry),
                recurrence.first(of_one_step))
    others = {one.name: values[one.name] for one in cell.inputs if one.name != "carry"}

    def step(carry, x, i):
        return cell.apply(params, x, *extra_values(cell, {**others, "carry": carry}), rng=fold_in(rng, i), train=train)

    return xs, step, init_carry(cell, params, of_one_step, **others)


def _axes_swapped(x: Array) -> Array:
    return jnp.swapaxes(x, 0, 1)


def _positions_that_count(x: Array, lengths: ArrayLike | None, mask: Array | None) -> Array | None:
    """bool[time, batch], or None if all positions count."""
    batch, time = x.shape[:2]
    counts = None
    if mask is not None:
        counts = _checked_input("mask", mask, x, (batch, time), np.bool_)
    if lengths is not None:
        lengths = at_least_int32(_checked_input("lengths", lengths, x, (batch,), np.integer))
        within = jnp.arange(time, dtype=lengths.dtype)[None] < lengths[:, None]
        counts = within if counts is None else within & counts
    return None if counts is None else _axes_swapped(counts)


def _checked_input(name: str, value: ArrayLike, x: Array, shape: tuple[int, ...], kind: type) -> Array:
    value = jnp.asarray(value)
    if value.shape != shape or not jnp.issubdtype(value.dtype, kind):
        expected = f"{'bools' if kind is np.bool_ else 'integers'} [{','.join(map(str, shape))}]"
        raise bad("scan_over_time", f"`{name}` does not match the input",
                  {"x": type_text(x), name: type_text(value), "expected": expected},
                  fix="pass one length for each sequence, or one bool for each of its positions.")
    return value


def _chosen(choice: Array, one: PyTree, other: PyTree) -> PyTree:
    """Rows of `one` where `choice`, bools of the leading axes, is True, and of `other` elsewhere, leaf by leaf."""

    def choose(a, b):
        rows = jnp.reshape(choice, choice.shape + (1,) * (a.ndim - choice.ndim))
        return jnp.where(jnp.broadcast_to(rows, a.shape), a, b)

    return tree_util.tree_map(choose, one, other)
