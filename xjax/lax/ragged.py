"""Products of a matrix whose rows (or contracted axis) form groups of sizes known only at run time.

The products are dense: for each group, the elements of the operand outside the group are set to zero. The work is that
of all groups on all rows, as in JAX on CPU. They are composed of other operations, which provide all their rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xjax.core.calls import constrained
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.ops.arrange import broadcasted_iota
from xjax.ops.bitwise import bitwise_and
from xjax.ops.checks import canonical_axis, kind_of
from xjax.ops.compare import ge, lt, select
from xjax.ops.cumulative import cumsum
from xjax.ops.dot import DotDimensionNumbers, PrecisionLike, dot_general
from xjax.ops.elementwise import sub
from xjax.ops.shape import broadcast, broadcast_in_dim, transpose
from xjax.ops.zeros import zeros_of
from xjax.typing import Array, ArrayLike, DTypeLike

_WHERE = "lax.ragged_dot_general"


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """Axes of a ragged product.

    Args:
      dot_dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)).
      lhs_ragged_dimensions: the one axis of lhs that is divided into groups.
      rhs_group_dimensions: the axis of rhs with one entry per group, if a free axis of lhs is ragged.
    """

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]

    def __post_init__(self) -> None:
        numbers = tuple(tuple(tuple(axes) for axes in pair) for pair in self.dot_dimension_numbers)
        for name, value in (("dot_dimension_numbers", numbers),
                            ("lhs_ragged_dimensions", tuple(self.lhs_ragged_dimensions)),
                            ("rhs_group_dimensions", tuple(self.rhs_group_dimensions))):
            object.__setattr__(self, name, value)


_MATRICES = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike, precision: PrecisionLike = None,
               preferred_element_type: DTypeLike | None = None, group_offset: None = None,
               out_sharding: object = None) -> Array:
    """Matrix product in which each group of consecutive rows of `lhs` is multiplied with its own matrix.

    Args:
      lhs: number[m, k]; rhs: number[g, k, n].
      group_sizes: int[g]: number of rows of each group; the result is zero for rows after the last group.
      precision, preferred_element_type: as in `dot_general`.
      group_offset: must be None; JAX has the parameter, and defines no other value.
    Returns: number[m, n].

    >>> ragged_dot(jnp.ones((3, 1)), jnp.array([[[2.0]], [[5.0]]]), jnp.array([1, 2])).tolist()
    [[2.0], [5.0], [5.0]]
    """
    if out_sharding is not None:
        y = ragged_dot(lhs, rhs, group_sizes, precision, preferred_element_type, group_offset)
        return constrained("lax.ragged_dot", y, out_sharding)
    return ragged_dot_general(lhs, rhs, group_sizes, _MATRICES, precision, preferred_element_type, group_offset)


def ragged_dot_general(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike,
                       ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, precision: PrecisionLike = None,
                       preferred_element_type: DTypeLike | None = None, group_offset: None = None,
                       out_sharding: object = None) -> Array:
    """`dot_general` with one axis of `lhs` that is divided into groups of consecutive entries. The axis may be

    - free: each group is multiplied with its part of `rhs`, which has an axis of groups;
    - contracted: each group is summed separately, and the result has a leading axis of groups;
    - a batch axis: this is `dot_general`.

    Args:
      group_sizes: int[g], or int[..., g]. The leading axes are the batch axes, then the axes before the ragged axis of
        the same kind.
    Raises: TypeError if axes or sizes do not match.
    """
    if out_sharding is not None:
        y = ragged_dot_general(lhs, rhs, group_sizes, ragged_dot_dimension_numbers, precision, preferred_element_type,
                               group_offset)
        return constrained("lax.ragged_dot_general", y, out_sharding)
    numbers = ragged_dot_dimension_numbers
    sizes, axis, kind = _check(lhs, rhs, group_sizes, numbers, group_offset)
    (l_contract, r_contract), (l_batch, r_batch) = numbers.dot_dimension_numbers
    rest = {"precision": precision, "preferred_element_type": preferred_element_type}
    if kind == "batch":
        return dot_general(lhs, rhs, numbers.dot_dimension_numbers, **rest)
    before = _before(lhs, axis, kind, numbers)
    groups = _split_groups(lhs, axis, sizes, before)
    if kind == "free":
        contract = ((*_shifted(l_contract), 0), (*r_contract, *numbers.rhs_group_dimensions))
        return dot_general(groups, rhs, (contract, (_shifted(l_batch), r_batch)), **rest)
    position = l_contract.index(axis)
    r_before = (*r_batch, *r_contract[:position])
    # Both sides are masked, so that an infinity outside a group is not multiplied by zero.
    r_groups = _split_groups(rhs, r_contract[position], sizes, r_before)
    return dot_general(groups, r_groups, ((_shifted(l_contract), _shifted(r_contract)),
                                          ((0, *_shifted(l_batch)), (0, *_shifted(r_batch)))), **rest)


def _shifted(axes: Sequence[int]) -> tuple[int, ...]:
    """The same axes after a new leading axis."""
    return tuple(a + 1 for a in axes)


def _before(lhs: ArrayLike, axis: int, kind: str, numbers: RaggedDotDimensionNumbers) -> tuple[int, ...]:
    """Axes of lhs along which `group_sizes` may differ: batch axes, then axes before the ragged axis of its kind."""
    (contract, _), (batch, _) = numbers.dot_dimension_numbers
    if kind == "batch":
        return tuple(batch[:batch.index(axis)])
    free = tuple(a for a in range(typeof(lhs).ndim) if a not in contract and a not in batch)
    own = contract if kind == "contracted" else free
    return (*batch, *own[:own.index(axis)])


def _split_groups(x: ArrayLike, axis: int, sizes: ArrayLike, before: Sequence[int]) -> Array:
    """[g, *x.shape]: for each group, `x` with zeros outside the group's part of `axis`.

    `sizes`: int[*sizes of the axes `before`, g].
    """
    aval, last = typeof(x), len(before)
    shape = (typeof(sizes).shape[-1], *aval.shape)
    ends = cumsum(sizes, axis=last)
    order = sorted(range(last), key=before.__getitem__)
    at = (0, *(before[k] + 1 for k in order))

    def spread(bounds: Array) -> Array:
        return broadcast_in_dim(transpose(bounds, (last, *order)), shape, at)

    position = broadcasted_iota(typeof(sizes).dtype, shape, axis + 1)
    inside = bitwise_and(ge(position, spread(sub(ends, sizes))), lt(position, spread(ends)))
    return select(inside, broadcast_in_dim(x, shape, range(1, aval.ndim + 1)), zeros_of(aval.update(shape=shape)))


def _check(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike, numbers: RaggedDotDimensionNumbers,
           group_offset: None) -> tuple[Any, int, str]:
    """(group sizes with all their axes, the ragged axis, its kind); raises unless the arguments match."""
    x, y, sizes = typeof(lhs), typeof(rhs), typeof(group_sizes)
    types = {"lhs": x, "rhs": y, "group_sizes": sizes}
    if group_offset is not None:
        raise bad(_WHERE, "`group_offset` is not supported, as in JAX", fix="leave it out.", exc=NotImplementedError)
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise bad(_WHERE, "exactly one axis of lhs must be ragged", given=types, fix="name one axis.")
    if kind_of(sizes.dtype) != "i" or not sizes.ndim:
        raise bad(_WHERE, "`group_sizes` must be an array of integers with one entry for each group", given=types,
                  fix="pass int[g].")
    axis = canonical_axis(numbers.lhs_ragged_dimensions[0], x.ndim, _WHERE, "lhs_ragged_dimensions")
    (contract, _), (batch, _) = numbers.dot_dimension_numbers
    kind = "contracted" if axis in contract else "batch" if axis in batch else "free"
    groups = [y.shape[canonical_axis(a, y.ndim, _WHERE, "rhs_group_dimensions")] for a in numbers.rhs_group_dimensions]
    if groups != ([sizes.shape[-1]] if kind == "free" else []):
        raise bad(_WHERE, "rhs must have one group axis, with one entry for each group, if a free axis of lhs is "
                  "ragged, and no group axis otherwise", given={**types, "rhs_group_dimensions": str(groups)},
                  fix="name the axis of rhs in rhs_group_dimensions.")
    before = tuple(x.shape[a] for a in _before(lhs, axis, kind, numbers))
    if sizes.ndim == 1:
        return broadcast(group_sizes, before), axis, kind
    if sizes.shape[:-1] != before:
        raise bad(_WHERE, f"`group_sizes` must have the shape {(*before, sizes.shape[-1])}", given=types,
                  fix=f"pass that, or int[{sizes.shape[-1]}].")
    return group_sizes, axis, kind
