"""`jax.interpreters.partial_eval`: tracing of flat functions to programs, with some inputs known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.compat.linear_util import WrappedFun
from xjax.core.context import context, current_trace
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr
from xjax.core.pruning import prune
from xjax.core.staging import StagingTrace, trace_to_jaxpr
from xjax.core.staging import StagingTracer as DynamicJaxprTracer
from xjax.core.types import ShapedArray
from xjax.transforms.linearize import SplitTrace, split_program
from xjax.typing import ArrayLike

__all__ = ["DynamicJaxprTracer", "JaxprTracer", "PartialVal", "abstract_eval_fun", "close_jaxpr",
           "convert_constvars_jaxpr", "dce_jaxpr", "partial_eval_jaxpr_nounits", "trace_to_jaxpr_dynamic",
           "trace_to_jaxpr_nounits"]

# JAX has one class for the recorded values of partial evaluation and one for those of tracing; here it is the same.
JaxprTracer = DynamicJaxprTracer


class PartialVal(tuple):
    """An input or a result of partial evaluation: (None, value) if it is known, else (type, None)."""

    def __new__(cls, pair: tuple[ShapedArray | None, Any]) -> PartialVal:
        return super().__new__(cls, pair)

    @classmethod
    def known(cls, const: ArrayLike) -> PartialVal:
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None

    def get_known(self) -> ArrayLike | None:
        return self[1] if self.is_known() else None

    def get_aval(self) -> ShapedArray:
        from_value = self[0]
        return ShapedArray(self[1].shape, self[1].dtype) if from_value is None else from_value


def trace_to_jaxpr_dynamic(fun: WrappedFun, in_avals: Sequence[ShapedArray],
                           **options: object) -> tuple[Jaxpr, list[ShapedArray], list[Any]]:
    """Record a flat function.  Returns: (program, types of its results, values of its `constvars`)."""
    closed = trace_to_jaxpr(fun.call_wrapped, in_avals, fun.__name__)
    return closed.jaxpr, list(closed.out_avals), closed.consts


def trace_to_jaxpr_nounits(fun: WrappedFun, pvals: Sequence[PartialVal],
                           instantiate: bool | Sequence[bool] = False) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Run a flat function on known values and placeholders; operations on placeholders are recorded.

    Args: instantiate: results to treat as unknown though they are known.
    Returns: (the program of the unknown inputs and results, all results, values of its `constvars`).
    """
    inner = StagingTrace(context.trace, fun.__name__)
    split = SplitTrace(context.trace, inner)
    args = [const if aval is None else inner.new_arg(aval) for aval, const in pvals]
    with current_trace(split):
        outs = fun.call_wrapped(*args)
    flags = [instantiate] * len(outs) if isinstance(instantiate, bool) else instantiate
    unknown = [flag or split.is_tangent(y) for y, flag in zip(outs, flags, strict=True)]
    closed = inner.finish([x for x, (aval, _) in zip(args, pvals, strict=True) if aval is not None],
                          [y for y, flag in zip(outs, unknown, strict=True) if flag])
    types = iter(closed.out_avals)
    results = [PartialVal.unknown(next(types)) if flag else PartialVal.known(y)
               for y, flag in zip(outs, unknown, strict=True)]
    return closed.jaxpr, results, closed.consts


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: bool | Sequence[bool], instantiate: bool | Sequence[bool] = False,
              live_inputs: bool | Sequence[bool] = True) -> tuple[Jaxpr, list[bool]]:
    """The program of the used results without what only others need, and for each input whether it is kept.

    Args: instantiate: inputs to keep though they are not used.
    """
    used = [used_outputs] * len(jaxpr.outvars) if isinstance(used_outputs, bool) else used_outputs
    pruned, read = prune(jaxpr.jaxpr, used)
    kept = [instantiate] * len(read) if isinstance(instantiate, bool) else instantiate
    flags = [a or b for a, b in zip(read, kept, strict=True)]
    return pruned.replace(invars=[v for v, flag in zip(pruned.invars, flags, strict=True) if flag]), flags


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The program with its `constvars` as first inputs."""
    return jaxpr.replace(constvars=[], invars=jaxpr.all_invars)


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A program without constants."""
    return ClosedJaxpr(jaxpr)


def abstract_eval_fun(fun: Callable[..., Sequence[Any]], *avals: ShapedArray, debug_info: object = None,
                      **params: object) -> list[ShapedArray]:
    """Types of the results of a flat function."""
    return list(trace_to_jaxpr(lambda *xs: fun(*xs, **params), avals).out_avals)


def partial_eval_jaxpr_nounits(jaxpr: ClosedJaxpr, unknowns: Sequence[bool], instantiate: bool | Sequence[bool]
                               ) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[ShapedArray]]:
    """Split a program into the part that known inputs determine, and the rest.

    Returns: (known inputs -> known results, residuals; unknown inputs, residuals -> unknown results; flags of unknown
      results; types of the residuals).
    """
    known, rest, from_unknown = split_program(jaxpr, tuple(unknowns))
    count = len(known.out_avals) - sum(not flag for flag in from_unknown)
    variables = rest.jaxpr.invars
    moved = rest.jaxpr.replace(invars=[*variables[count:], *variables[:count]])
    return known, ClosedJaxpr(moved), list(from_unknown), [v.aval for v in variables[:count]]
