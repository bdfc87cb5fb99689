"""The cast of a value that devices share to a value that varies along mesh axes: only the type changes."""

from __future__ import annotations

from typing import Any, overload

from xjax.core import dtypes
from xjax.core.jaxpr import ClosedJaxpr, program_cache
from xjax.core.primitive import LINEAR, Primitive, primitive_called
from xjax.core.staging import trace_to_jaxpr
from xjax.core.types import Vma, typeof
from xjax.core.varying import axes_in_order
from xjax.typing import Array, ArrayLike


@overload
def vary_to(x: Array, vma: Vma) -> Array: ...
@overload
def vary_to(x: ArrayLike, vma: Vma) -> ArrayLike: ...


def vary_to(x: ArrayLike, vma: Vma) -> ArrayLike:
    """`x`, cast if necessary, so that it varies along the axes `vma`."""
    missing = vma - typeof(x).vma if vma else vma
    return pvary_p.bind(x, axes=axes_in_order(missing)) if missing else x


def vary_alike(values: list[Any]) -> list[Any]:
    """The values, cast so that all vary along the same axes."""
    vma = frozenset().union(*[typeof(x).vma for x in values])
    return [x if typeof(x).dtype == dtypes.float0 else vary_to(x, vma) for x in values] if vma else values


@program_cache
def cast_outputs(closed: ClosedJaxpr, vmas: tuple[Vma, ...]) -> ClosedJaxpr:
    """The program with its first outputs cast so that they vary along these mesh axes."""
    if all(a.vma == vma for a, vma in zip(closed.out_avals, vmas, strict=False)):
        return closed

    def run(*args: ArrayLike) -> list[Any]:
        outs = closed(*args)
        return [*map(vary_to, outs[:len(vmas)], vmas), *outs[len(vmas):]]

    return trace_to_jaxpr(run, closed.in_avals, "shard_map")


@program_cache
def cast_inputs(closed: ClosedJaxpr, vmas: tuple[Vma, ...]) -> ClosedJaxpr:
    """The program with first inputs that vary along these mesh axes."""
    avals = [a.update(vma=vma) for a, vma in zip(closed.in_avals, vmas, strict=False)]
    if all(a is b for a, b in zip(avals, closed.in_avals, strict=False)):
        return closed
    return trace_to_jaxpr(closed, [*avals, *closed.in_avals[len(vmas):]], "shard_map")


def _vary(vmas, *, axes):
    return vmas, vmas[0] | frozenset(axes)


def _stage(trace, args, params):
    """Record nothing where the value varies already, as in a program that is traced again for other types."""
    (x,) = args
    missing = axes_in_order(frozenset(params["axes"]) - typeof(x).vma)
    return trace.record(pvary_p, args, {"axes": missing}) if missing else x


def _transpose(ct, x, *, axes):
    return [primitive_called("psum_invariant").bind(ct, axes=axes)]


def _batch(axis, args, bdims, *, axes):
    return pvary_p.bind(*args, axes=axes), bdims[0]


pvary_p = Primitive("pvary", type_rule=lambda x, *, axes: x, lower=lambda b, out, x, *, axes: x, jvp=LINEAR,
                    transpose=_transpose, batch=_batch, stage=_stage, vary=_vary)
