"""`PartitionSpec` (`P`): over which mesh axes each dimension of an array is sharded."""

from __future__ import annotations

import enum
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Any

from xjax.core.errors import bad
from xjax.runtime.placement.mesh_axes import AxisName
from xjax.typing import ArrayLike

Axis = AxisName


class _Unconstrained:
    """`PartitionSpec.UNCONSTRAINED`: the compiler chooses the sharding of this dimension."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()
# An entry of a spec: the axis or axes that split a dimension, None or UNCONSTRAINED.
Part = Hashable | Sequence[Hashable]


class UnreducedKind(enum.Enum):
    """The reduction over devices that an unreduced array still needs."""

    sum = enum.auto()
    max = enum.auto()
    min = enum.auto()


class PartitionSpec:
    """The mesh axes of each dimension of an array: an axis name, a tuple of names, or None (not split).

    Dimensions without an entry are not split. ``P("x")`` and ``P(("x",))`` are equal.

    Args:
      unreduced: set of axes along which the devices hold terms of a pending reduction.
      reduced: set of axes along which the cotangents are unreduced.
      unreduced_kind: the pending reduction, an `UnreducedKind`; the default is the sum.

    These three belong to JAX's typed shardings: a spec with them can be written, compared, hashed and printed; a
    sharding, `shard_map` or constraint with it raises NotImplementedError.

    Raises: TypeError if one of them has another type; ValueError if an axis is in a set and also elsewhere, or None.

    >>> PartitionSpec("x", None, ("y", "z"), unreduced={"w"})
    P('x', None, ('y', 'z'), unreduced={'w'}, unreduced_kind=sum)
    """

    __slots__ = ("__weakref__", "_parts", "reduced", "unreduced", "unreduced_kind")
    UNCONSTRAINED = UNCONSTRAINED

    def __init__(self, *parts: Part, unreduced: Collection[Any] = frozenset(),
                 reduced: Collection[Any] = frozenset(), unreduced_kind: UnreducedKind | None = None) -> None:
        self._parts = tuple(_canonical_part(p) for p in parts)
        self.unreduced, self.reduced, self.unreduced_kind = frozenset(), frozenset(), None
        _check_sets(unreduced, reduced)
        if unreduced or reduced or unreduced_kind is not None:
            self._set_reductions(unreduced, reduced, unreduced_kind)

    def __init_subclass__(cls, **_: object) -> None:
        raise bad("PartitionSpec", "PartitionSpec cannot be subclassed", {"class": cls.__qualname__},
                  "keep a spec as an attribute.", exc=TypeError)

    def _set_reductions(self, unreduced: Collection[Any], reduced: Collection[Any], kind: UnreducedKind | None) -> None:
        given = {"partitions": self._parts, "unreduced": _text_of(unreduced), "reduced": _text_of(reduced)}
        if kind is not None and (not isinstance(kind, UnreducedKind) or not unreduced):
            wrong_type = not isinstance(kind, UnreducedKind)
            raise bad("PartitionSpec", "`unreduced_kind` must be an UnreducedKind" if wrong_type
                      else "`unreduced_kind` needs unreduced axes", {**given, "unreduced_kind": repr(kind)},
                      "pass sharding.UnreducedKind.sum, max or min together with `unreduced`, or drop it.",
                      exc=TypeError if wrong_type else ValueError)
        parts = {name for part in self._parts for name in (part if isinstance(part, tuple) else (part,))}
        twice = (parts & {*unreduced, *reduced} | set(unreduced) & set(reduced)) - {None}
        if twice or None in unreduced or None in reduced:
            raise bad("PartitionSpec", f"an axis is named twice: {_text_of(twice)}" if twice else
                      "`unreduced` and `reduced` must be sets of axis names, without None", given,
                      "name each axis once: in a dimension, in `unreduced` or in `reduced`.", exc=ValueError)
        self.unreduced, self.reduced = frozenset(unreduced), frozenset(reduced)
        self.unreduced_kind = (kind or UnreducedKind.sum) if unreduced else None

    @property
    def partitions(self) -> tuple:
        """The entries of the dimensions as a tuple, also of a spec with `unreduced` or `reduced` axes."""
        return self._parts

    def update(self, partitions: Sequence[Part] | None = None, unreduced: Collection[Any] | None = None,
               reduced: Collection[Any] | None = None, **kind: UnreducedKind | None) -> PartitionSpec:
        """This spec with other partitions, `unreduced`, `reduced` or `unreduced_kind`; None keeps the present value."""
        return PartitionSpec(*(self._parts if partitions is None else partitions),
                             unreduced=self.unreduced if unreduced is None else unreduced,
                             reduced=self.reduced if reduced is None else reduced,
                             **{"unreduced_kind": self.unreduced_kind, **kind})

    def index(self, value: Part) -> int:
        """The first dimension with this entry. Raises: ValueError if there is none."""
        return self._parts.index(_canonical_part(value))

    def count(self, value: Part) -> int:
        """The number of dimensions with this entry."""
        return self._parts.count(_canonical_part(value))

    def __iter__(self) -> Iterator[Any]:
        self._refuse_losing_reductions("*spec")
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, index: ArrayLike) -> Any:
        self._refuse_losing_reductions("spec[...]")
        return self._parts[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartitionSpec):
            return self._key() == other._key()
        if isinstance(other, tuple):
            return self._key() == tuple(_canonical_part(p) for p in other)
        return NotImplemented

    def __add__(self, other: PartitionSpec | tuple) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            if self.unreduced_kind != other.unreduced_kind:
                raise bad("PartitionSpec", "specs of different `unreduced_kind` cannot be added",
                          {"left": repr(self), "right": repr(other)}, "use spec.update(...).", exc=TypeError)
            return PartitionSpec(*self._parts, *other._parts, unreduced=self.unreduced | other.unreduced,
                                 reduced=self.reduced | other.reduced, unreduced_kind=self.unreduced_kind)
        return self._joined_to_tuple(other, self._parts, other)

    def __radd__(self, other: PartitionSpec | tuple) -> PartitionSpec:
        return self._joined_to_tuple(other, other, self._parts)

    def _joined_to_tuple(self, other: PartitionSpec | tuple, left: PartitionSpec | tuple,
                         right: PartitionSpec | tuple) -> PartitionSpec:
        if not isinstance(other, tuple):
            return NotImplemented
        if self.unreduced or self.reduced:
            raise bad("PartitionSpec", "a spec with `unreduced` or `reduced` axes cannot be added to a tuple",
                      {"spec": repr(self), "tuple": repr(other)}, "use spec.update(partitions=...).", exc=TypeError)
        return PartitionSpec(*left, *right)

    def _key(self) -> tuple:
        if self.unreduced or self.reduced:
            return self._parts, self.unreduced, self.reduced, self.unreduced_kind
        return self._parts

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        parts = repr(self._parts)[1:-1]
        sets = [f"{name}={_text_of(value)}" for name, value in (("unreduced", self.unreduced),
                                                                 ("reduced", self.reduced)) if value]
        if self.unreduced_kind is not None:
            sets.append(f"unreduced_kind={self.unreduced_kind.name}")
        return f"P({parts})" if not sets else f"P({', '.join([*filter(None, [parts.rstrip(',')]), *sets])})"

    def __reduce__(self) -> tuple:
        return _rebuilt, (self._parts, self.unreduced, self.reduced, self.unreduced_kind)

    def axes(self, dimension: int) -> tuple[Axis, ...]:
        """Mesh axes that shard a dimension, slowest first; () for a dimension without an entry."""
        part = self._parts[dimension] if dimension < len(self._parts) else None
        if part is None or part is UNCONSTRAINED:
            return ()
        return part if isinstance(part, tuple) else (part,)

    def all_axes(self) -> tuple[Axis, ...]:
        """Every mesh axis that the spec names, in order; each function that shards arrays calls this.

        Raises: NotImplementedError for a spec with `unreduced` or `reduced` axes.
        """
        if self.unreduced or self.reduced:
            raise bad("PartitionSpec", "pending reductions over devices need typed shardings, which xjax does not have",
                      {"spec": repr(self)},
                      "sum with lax.psum in shard_map, or let the compiler of jit insert the sum.",
                      exc=NotImplementedError)
        return tuple(axis for i in range(len(self._parts)) for axis in self.axes(i))

    def _refuse_losing_reductions(self, what: str) -> None:
        if self.unreduced or self.reduced:
            raise bad("PartitionSpec", f"{what} would lose the `unreduced` and `reduced` axes", {"spec": repr(self)},
                      "use spec.partitions, or spec.update(partitions=...).", exc=ValueError)


PartitionSpec.__name__ = PartitionSpec.__qualname__ = "P"               # JAX's name of the class
P = PartitionSpec


def _rebuilt(parts: tuple, unreduced: frozenset, reduced: frozenset, kind: UnreducedKind | None) -> PartitionSpec:
    return PartitionSpec(*parts, unreduced=unreduced, reduced=reduced, unreduced_kind=kind)


def _check_sets(unreduced: object, reduced: object) -> None:
    for name, value in (("unreduced", unreduced), ("reduced", reduced)):
        if not isinstance(value, set | frozenset):
            raise bad("PartitionSpec", f"`{name}` must be a set of axis names", {name: repr(value)},
                      f'write {name}={{"x"}}.', exc=TypeError)


def _text_of(axes: Collection[Any]) -> str:
    return "{" + ", ".join(sorted(map(repr, axes))) + "}"


def _canonical_part(part: Part) -> Part:
    if isinstance(part, list | tuple):
        part = tuple(part)
        return None if not part else part[0] if len(part) == 1 else part
    return part
