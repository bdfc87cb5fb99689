"""Batching: `BatchTrace` stores the position of a mapped axis with each value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xjax.core.context import Axis, axes_in_scope, context
from xjax.core.depth import deep
from xjax.core.jaxpr import ClosedJaxpr, program_cache, subjaxprs
from xjax.core.primitive import Primitive
from xjax.core.staging import trace_to_jaxpr
from xjax.core.trace import Tag, Trace, Tracer
from xjax.core.types import ShapedArray, Vma, typeof
from xjax.core.varying import INVARIANT, typed_axes
from xjax.ops.pvary import vary_to
from xjax.ops.shape import broadcast_in_dim, move_axis
from xjax.typing import ArrayLike

Bdim = int | None


class MappedAxis(NamedTuple):
    """A mapped axis: its size, its name for collectives, and the mesh axes over which it is sharded.

    The mesh axes are the `spmd_axis_name` of `vmap`: sharding constraints and `shard_map`s inside add them to their
    specs.
    """

    size: int
    name: Any = None
    mesh_axes: tuple = ()


class BatchAxis(NamedTuple):
    """A mapped axis while a function is batched over it, with the tag of the batching trace."""

    size: int
    name: Any
    tag: Tag
    mesh_axes: tuple = ()

    @property
    def mapped(self) -> MappedAxis:
        """The axis without the tag, as a key of batched programs."""
        return MappedAxis(self.size, self.name, self.mesh_axes)


class BatchTracer(Tracer):
    """A value with a mapped axis at `bdim`; `aval` is the type of one element."""

    __slots__ = ("value", "bdim")

    def __init__(self, tag: Tag, value: ArrayLike, bdim: int):
        self.tag, self.value, self.bdim = tag, value, bdim
        self.aval = without_axis(typeof(value), bdim)

    def origin(self) -> str:
        return self.value.origin() if isinstance(self.value, Tracer) else super().origin()


def without_axis(aval: ShapedArray, bdim: Bdim) -> ShapedArray:
    """Type of one element of a mapped array."""
    if bdim is None:
        return aval
    return aval.update(shape=aval.shape[:bdim] + aval.shape[bdim + 1:])


def with_axis(aval: ShapedArray, bdim: Bdim, size: int, vma: Vma = INVARIANT) -> ShapedArray:
    """Type of an array of `size` elements of type `aval` along a new axis `bdim`; it varies along `vma` too."""
    if bdim is None:
        return aval
    return aval.update(shape=(*aval.shape[:bdim], size, *aval.shape[bdim:]), vma=aval.vma | vma)


class BatchTrace(Trace):
    """Runs the batch rule of every operation on a mapped value, and of collectives over the mapped axis."""

    __slots__ = ("axis",)

    parent: Trace

    def __init__(self, parent: Trace, axis: BatchAxis):
        super().__init__(parent, axis.tag)
        self.axis = axis

    def split(self, x: ArrayLike) -> tuple[Any, Bdim]:
        if type(x) is BatchTracer and x.tag is self.tag:
            return x.value, x.bdim
        return x, None

    def join(self, value: ArrayLike, bdim: Bdim) -> ArrayLike:
        return value if bdim is None else BatchTracer(self.tag, value, bdim)

    def process(self, p: Primitive, args: tuple, params: dict) -> Any:
        tag = self.tag
        if not any([type(x) is BatchTracer and x.tag is tag for x in args]) and not self._named_in(p, params):
            return self.parent.process(p, args, params)
        values, bdims = zip(*[self.split(x) for x in args], strict=True) if args else ((), ())
        saved, context.trace = context.trace, self.parent
        try:
            out, out_bdims = p.batch(self.axis, values, bdims, **params)
        finally:
            context.trace = saved
        if p.multiple_results:
            return [self.join(y, b) for y, b in zip(out, out_bdims, strict=True)]
        return self.join(out, out_bdims)

    def _named_in(self, p: Primitive, params: dict) -> bool:
        """Whether a collective, here or in a program among the parameters, is over the mapped axis."""
        name = self.axis.name
        return name is not None and (p.axis_param is not None or not p.cacheable) and name in axes_used(p, params)


@deep
def axes_used(p: Primitive, params: dict) -> set:
    """Names of the mapped axes over which an operation, or a program inside it, communicates."""
    used: set = set()
    if p.axis_param is not None:
        names = params[p.axis_param]
        used.update(names if isinstance(names, tuple) else (names,))
    for sub in subjaxprs(params):
        for eqn in sub.eqns:
            used |= axes_used(eqn.primitive, eqn.params)
    return used


# -- mapping a flat function --------------------------------------------------------------------------------------

@deep
def batch_flat(f: Callable[..., Sequence[Any]], axis: BatchAxis, args: Sequence[Any],
               in_dims: Sequence[Bdim]) -> tuple[list[Any], list[Bdim]]:
    """Results of `f(*flat) -> flat` on mapped arguments, with the position of the mapped axis in each."""
    trace = BatchTrace(context.trace, axis)
    size, name, tag, mesh_axes = axis
    scope = () if name is None else (Axis(name, size, tag, mesh_axes=mesh_axes),)
    if name is None and mesh_axes:
        scope = (Axis(("spmd_axis_name", *mesh_axes), size, None, mesh_axes=mesh_axes),)
    saved = context.trace
    with axes_in_scope(*scope):
        context.trace = trace
        try:
            outs = f(*[trace.join(x, b) for x, b in zip(args, in_dims, strict=True)])
            pairs = [trace.split(y) for y in outs]
        finally:
            context.trace = saved
    return [y for y, _ in pairs], [b for _, b in pairs]


def place_axis(x: ArrayLike, bdim: Bdim, destination: Bdim, size: int) -> ArrayLike:
    """`x` with its mapped axis moved to `destination`; an unmapped value is repeated."""
    if bdim is None:
        if destination is None:
            return x
        shape = typeof(x).shape
        kept = [i for i in range(len(shape) + 1) if i != destination]
        return broadcast_in_dim(x, (*shape[:destination], size, *shape[destination:]), kept)
    return move_axis(x, bdim, destination)


@program_cache
def batch_program(closed: ClosedJaxpr, mapped: MappedAxis, in_dims: tuple[Bdim, ...],
                  force_out: tuple[bool, ...] | bool = False, at: int = 0) -> tuple[ClosedJaxpr, tuple[Bdim, ...]]:
    """The program for arguments with a mapped axis at `in_dims`; the second result is its position in each output.

    Outputs flagged in `force_out` (True: all) are always mapped, at axis `at`.
    """
    out_dims: tuple[Bdim, ...] = ()
    size = mapped.size
    spread = typed_axes().intersection(mapped.mesh_axes)        # axes along which mapped values vary
    forced = (force_out,) * len(closed.out_avals) if isinstance(force_out, bool) else force_out

    def run(*args: ArrayLike) -> list[Any]:
        nonlocal out_dims
        outs, dims = batch_flat(closed, BatchAxis(size, mapped.name, Tag("vmap"), mapped.mesh_axes), args,
                                in_dims)
        outs = [vary_to(place_axis(y, b, at, size), typeof(y).vma | spread) if force else y
                for y, b, force in zip(outs, dims, forced, strict=True)]
        out_dims = tuple(at if force else b for b, force in zip(dims, forced, strict=True))
        return outs

    avals = [with_axis(a, b, size, spread) for a, b in zip(closed.in_avals, in_dims, strict=True)]
    return trace_to_jaxpr(run, avals, "vmap"), out_dims


