"""`jax.interpreters.batching`: rules for `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xjax.compat.primitive import Rules
from xjax.core.primitive import Primitive
from xjax.core.trace import Tag
from xjax.core.types import typeof
from xjax.lax import reshape
from xjax.transforms.batching import BatchAxis, BatchTrace, BatchTracer, Bdim, place_axis
from xjax.typing import ArrayLike

__all__ = ["BatchTrace", "BatchTracer", "axis_primitive_batchers", "bdim_at_front", "broadcast", "defbroadcasting",
           "defreducer", "defvectorized", "fancy_primitive_batchers", "not_mapped", "primitive_batchers"]

not_mapped = None


class AxisData(NamedTuple):
    """The mapped axis as rules of `fancy_primitive_batchers` get it."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


def _axis_of(args: Sequence[Any], dims: Sequence[Bdim]) -> BatchAxis:
    size = next((typeof(x).shape[d] for x, d in zip(args, dims, strict=True) if d is not None), 1)
    return BatchAxis(size, None, Tag("vmap"))


primitive_batchers = Rules(
    "batch", lambda rule: lambda axis, args, dims, **params: rule(args, dims, **params),
    lambda rule: lambda args, dims, **params: rule(_axis_of(args, dims), args, dims, **params))
axis_primitive_batchers = Rules(
    "batch", lambda rule: lambda axis, args, dims, **params: rule(axis.size, axis.name, None, args, dims, **params),
    lambda rule: lambda size, name, kind, args, dims, **params: rule(BatchAxis(size, name, Tag("vmap")), args, dims,
                                                                     **params))
fancy_primitive_batchers = Rules(
    "batch", lambda rule: lambda axis, args, dims, **params: rule(AxisData(axis.name, axis.size), args, dims, **params),
    lambda rule: lambda data, args, dims, **params: rule(BatchAxis(data.size, data.name, Tag("vmap")), args, dims,
                                                         **params))


def defvectorized(prim: Primitive) -> None:
    """The operation of one operand acts on each element of the mapped axis as it does on others."""
    primitive_batchers[prim] = lambda args, dims, **params: (prim.bind(*args, **params), dims[0])


def defbroadcasting(prim: Primitive) -> None:
    """The operation acts on elements of all operands, which are broadcast together."""
    def rule(args: Sequence[Any], dims: Sequence[Bdim], **params: object) -> tuple[Any, Bdim]:
        rank = max(typeof(x).ndim - (d is not None) for x, d in zip(args, dims, strict=True))

        def aligned(x: ArrayLike, dim: Bdim) -> ArrayLike:
            if dim is None:
                return x
            x = place_axis(x, dim, 0, typeof(x).shape[dim])
            shape = typeof(x).shape
            return reshape(x, (shape[0], *(1,) * (rank - len(shape) + 1), *shape[1:]))

        return prim.bind(*map(aligned, args, dims), **params), 0

    primitive_batchers[prim] = rule


def defreducer(prim: Primitive) -> None:
    """The operation of one operand reduces the axes in its parameter `axes`."""
    def rule(args: Sequence[Any], dims: Sequence[Bdim], *, axes: Sequence[int], **params: object) -> tuple[Any, Bdim]:
        (x,), (dim,) = args, dims
        assert dim is not None
        moved = tuple(a + (a >= dim) for a in axes)
        return prim.bind(x, axes=moved, **params), dim - sum(a < dim for a in moved)

    primitive_batchers[prim] = rule


def bdim_at_front(x: ArrayLike, bdim: Bdim, size: int, mesh_axis: object = None) -> ArrayLike:
    """`x` with its mapped axis first; an unmapped value is repeated."""
    return place_axis(x, bdim, 0, size)


def broadcast(x: ArrayLike, sz: int, axis: int, mesh_axis: object = None) -> ArrayLike:
    """`x` repeated along a new axis."""
    return place_axis(x, None, axis, sz)


def register_vmappable(*args: Callable) -> None:
    """Types of values that are not arrays cannot be mapped."""
    raise NotImplementedError("jax.interpreters.batching.register_vmappable: xjax maps arrays only\n"
                              "  fix: register the type with jax.tree_util.register_pytree_node.")
