"""The rules of operations that hold programs and apply them to their operands: calls, checkpoints, conditionals.

Derivatives, parts and batched forms of such an operation are operations of the same kind, on programs derived from its
own program. The arguments of these programs and their order are the same for all operations and are defined here. A
subclass of `CallRules` defines how its operation is applied to a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from xjax.core.context import current_trace
from xjax.core.flags import Flags, flagged, merge, nonzero_flags, unflagged
from xjax.core.trace import Trace
from xjax.core.types import LinearInput, is_linear, typeof, with_zeros
from xjax.transforms.batching import BatchAxis, Bdim, batch_program
from xjax.transforms.jvp import jvp_program
from xjax.transforms.linearize import LinearizedProgram, linearize_program, split_program
from xjax.transforms.transpose import transpose_program
from xjax.typing import ArrayLike

_NO_SCOPE = nullcontext()


class Split(NamedTuple):
    """A program, split into a part that does not depend on tangents and a part that does.

    `known` maps the inputs that are not tangents to (outputs that do not depend on tangents, residuals). `unknown` maps
    (residuals, the known inputs at positions `forwarded`, tangents) to the other outputs, which `from_tangent` flags.
    """

    known: Any
    unknown: Any
    forwarded: tuple[int, ...]
    from_tangent: Flags


class CallRules:
    """Rules of an operation whose parameter named `program` holds a program.

    `bind` applies the operation to another program. There is a method `bind_...` for each kind of derived program; an
    operation overrides it if other parameters change with the program.
    """

    def __init__(self, program: str = "jaxpr"):
        self.program = program

    def fields(self) -> dict[str, Any]:
        """These rules as arguments of `Primitive`."""
        return {"jvp": self.jvp, "linearize": self.linearize, "split": self.split, "transpose": self.transpose,
                "batch": self.batch, "multiple_results": True, "vary": None, "cacheable": False}

    # -- defined by subclasses -------------------------------------------------------------------------------------

    def bind(self, program: Any, args: Sequence[Any], params: dict) -> list[Any]:
        """Apply the operation to `program`, whose constants become leading arguments.

        Args: params: the parameters of the operation from which `program` was derived.
        """
        raise TypeError(f"{type(self).__name__} does not define how to apply its operation")

    def bind_jvp(self, program: Any, args: Sequence[Any], params: dict, nonzero: Flags, has: Flags) -> list[Any]:
        """Apply `program`: inputs, tangents of inputs in `nonzero` -> outputs, tangents of outputs in `has`."""
        return self.bind(program, args, params)

    def bind_forward(self, lin: LinearizedProgram, args: Sequence[Any], params: dict) -> list[Any]:
        """Apply `lin.forward`: inputs -> outputs, residuals."""
        return self.bind(lin.forward, args, params)

    def bind_tangent(self, lin: LinearizedProgram, args: Sequence[Any], params: dict, active: Flags) -> list[Any]:
        """Apply `lin.tangent`: residuals, tangents of the inputs flagged `active` -> tangents of `lin.nonzero`."""
        return self.bind(lin.tangent, args, params)

    def bind_known(self, cut: Split, args: Sequence[Any], params: dict, tangent: Flags) -> list[Any]:
        return self.bind(cut.known, args, params)

    def bind_unknown(self, cut: Split, args: Sequence[Any], params: dict, tangent: Flags) -> list[Any]:
        return self.bind(cut.unknown, args, params)

    def bind_transposed(self, program: Any, args: Sequence[Any], params: dict, linear: Flags, nonzero: Flags,
                        has: Flags) -> list[Any]:
        """Apply `program`: other inputs, cotangents of outputs flagged `nonzero` -> those of linear inputs in `has`."""
        return self.bind(program, args, params)

    # -- derivation of programs: a conditional has several, which must agree ---------------------------------------

    def scope(self, params: dict) -> AbstractContextManager:
        """The context in which programs are derived: the named axes of the operation, if it has any."""
        return _NO_SCOPE

    def jvp_of(self, program: Any, nonzero: Flags, params: dict) -> tuple[Any, Flags]:
        return jvp_program(program, nonzero, (False,) * len(program.out_avals))

    def linearized(self, program: Any, active: Flags, params: dict) -> LinearizedProgram:
        return linearize_program(program, active)

    def split_of(self, program: Any, tangent: Flags, params: dict) -> Split:
        known, unknown, from_tangent = split_program(program, tangent)
        return Split(known, unknown, (), from_tangent)

    def transposed_of(self, program: Any, linear: Flags, nonzero: Flags, params: dict) -> tuple[Any, Flags]:
        """(the transposed program, flags of the linear inputs for which it computes a cotangent)"""
        return transpose_program(program, linear, nonzero)

    def batched_of(self, program: Any, axis: BatchAxis, bdims: Sequence[Bdim],
                   params: dict) -> tuple[Any, tuple[Bdim, ...]]:
        return batch_program(program, axis.mapped, tuple(bdims))

    # -- the rules -------------------------------------------------------------------------------------------------

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> tuple[list[Any], list[Any]]:
        closed = params[self.program]
        nonzero = nonzero_flags(tangents)
        with self.scope(params):
            program, has = self.jvp_of(closed, nonzero, params)
        results = self.bind_jvp(program, [*primals, *flagged(tangents, nonzero)], params, nonzero, has)
        outs, dys = results[:len(has)], results[len(has):]
        return outs, with_zeros(has, dys, map(typeof, outs))

    def linearize(self, trace: Any, primals: Sequence[Any], tangents: Sequence[Any],
                  **params: object) -> tuple[list[Any], list[Any]]:
        closed = params[self.program]
        active = nonzero_flags(tangents)
        with self.scope(params):
            lin = self.linearized(closed, active, params)
        results = self.bind_forward(lin, primals, params)
        outs, computed = results[:len(lin.nonzero)], iter(results[len(lin.nonzero):])
        residuals = [next(computed) if k is None else primals[k] for k in lin.forwarded]
        with current_trace(trace.tangent):
            dys = self.bind_tangent(lin, [*residuals, *flagged(tangents, active)], params, active)
        return outs, with_zeros(lin.nonzero, dys, map(typeof, outs))

    def split(self, trace: Trace, args: Sequence[Any], params: dict) -> list[Any]:
        """The operation, if a derivative rule applies it to tangents: the part without tangents runs in the parent."""
        closed = params[self.program]
        tangent = tuple(trace.is_tangent(x) for x in args)
        with self.scope(params):
            cut = self.split_of(closed, tangent, params)
        known = unflagged(args, tangent)
        results = self.bind_known(cut, known, params, tangent)
        n = cut.from_tangent.count(False)
        with current_trace(trace.tangent):
            others = self.bind_unknown(cut, [*results[n:], *(known[k] for k in cut.forwarded), *flagged(args, tangent)],
                                       params, tangent)
        return merge(cut.from_tangent, others, results[:n])

    def transpose(self, cts: Sequence[Any], *args: ArrayLike | LinearInput, **params: object) -> list[Any]:
        closed = params[self.program]
        linear = tuple(map(is_linear, args))
        nonzero = nonzero_flags(cts)
        with self.scope(params):
            program, has = self.transposed_of(closed, linear, nonzero, params)
        in_cts = iter(self.bind_transposed(program, [*unflagged(args, linear), *flagged(cts, nonzero)], params, linear,
                                           nonzero, has))
        flags = iter(has)
        return [next(in_cts) if lin and next(flags) else None for lin in linear]

    def batch(self, axis: BatchAxis, args: Sequence[Any], bdims: Sequence[Bdim],
              **params: object) -> tuple[list[Any], Sequence[Bdim]]:
        closed = params[self.program]
        with self.scope(params):
            program, out_dims = self.batched_of(closed, axis, bdims, params)
        return self.bind(program, args, params), out_dims
