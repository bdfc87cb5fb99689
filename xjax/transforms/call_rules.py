"""The rules of operations that hold programs and apply them to their operands: calls, checkpoints, conditionals.

Derivatives, parts and batched forms of such an operation are operations of the same kind, on programs that are made
from its own. Which arguments these programs take, and in which order, is the same for all and stands here; a subclass
of `CallRules` says how its operation is applied to a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from xjax.core.context import current_trace
from xjax.core.flags import Flags, flagged, merge, nonzero_flags, unflagged
from xjax.core.types import is_linear, typeof, with_zeros
from xjax.transforms.batching import Bdim, batch_program
from xjax.transforms.jvp import jvp_program
from xjax.transforms.linearize import LinearizedProgram, linearize_program, split_program
from xjax.transforms.transpose import transpose_program

_NO_SCOPE = nullcontext()


class Split(NamedTuple):
    """A program cut in two by which of its inputs are tangents.

    `known`: the other inputs -> outputs that do not depend on tangents, residuals. `unknown`: residuals, the known
    inputs `forwarded`, tangents -> the other outputs, which `from_tangent` flags.
    """

    known: Any
    unknown: Any
    forwarded: tuple[int, ...]
    from_tangent: Flags


class CallRules:
    """Rules of an operation whose parameter named `program` holds a program.

    `bind` applies the operation to another program; the methods `bind_...` say so for each way in which one is derived,
    for operations whose other parameters change with the program.
    """

    def __init__(self, program: str = "jaxpr"):
        self.program = program

    def fields(self) -> dict[str, Any]:
        """The arguments of `Primitive` that these rules are."""
        return {"jvp": self.jvp, "linearize": self.linearize, "split": self.split, "transpose": self.transpose,
                "batch": self.batch, "multiple_results": True, "vary": None, "cacheable": False}

    # -- what a subclass says --------------------------------------------------------------------------------------

    def bind(self, program: Any, args: Sequence[Any], params: dict) -> list[Any]:
        """Apply the operation to `program`, whose constants become leading arguments.

        Args: params: those of the operation that `program` was made from.
        """
        raise TypeError(f"{type(self).__name__} does not say how to apply its operation")

    def bind_jvp(self, program: Any, args: Sequence[Any], params: dict, nonzero: Flags, has: Flags) -> list[Any]:
        """`program`: inputs, tangents of those flagged `nonzero` -> outputs, tangents of those flagged `has`."""
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
        """`program`: other inputs, cotangents flagged `nonzero` -> those of the linear inputs flagged `has`."""
        return self.bind(program, args, params)

    # -- how programs are derived: a conditional has several, which must agree -------------------------------------

    def scope(self, params: dict) -> AbstractContextManager:
        """What programs are derived in: the named axes of the operation, if it has some."""
        return _NO_SCOPE

    def jvp_of(self, program: Any, nonzero: Flags, params: dict) -> tuple[Any, Flags]:
        return jvp_program(program, nonzero, (False,) * len(program.out_avals))

    def linearized(self, program: Any, active: Flags, params: dict) -> LinearizedProgram:
        return linearize_program(program, active)

    def split_of(self, program: Any, tangent: Flags, params: dict) -> Split:
        known, unknown, from_tangent = split_program(program, tangent)
        return Split(known, unknown, (), from_tangent)

    def transposed_of(self, program: Any, linear: Flags, nonzero: Flags, params: dict) -> tuple[Any, Flags]:
        """(the transposed program, which linear inputs it gives a cotangent)"""
        return transpose_program(program, linear, nonzero)

    def batched_of(self, program: Any, axis: Any, bdims: Sequence[Bdim], params: dict) -> tuple[Any, tuple[Bdim, ...]]:
        return batch_program(program, axis.mapped, tuple(bdims))

    # -- the rules -------------------------------------------------------------------------------------------------

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
        closed = params[self.program]
        nonzero = nonzero_flags(tangents)
        with self.scope(params):
            program, has = self.jvp_of(closed, nonzero, params)
        found = self.bind_jvp(program, [*primals, *flagged(tangents, nonzero)], params, nonzero, has)
        outs, dys = found[:len(has)], found[len(has):]
        return outs, with_zeros(has, dys, map(typeof, outs))

    def linearize(self, trace: Any, primals: Sequence[Any], tangents: Sequence[Any],
                  **params: Any) -> tuple[list[Any], list[Any]]:
        closed = params[self.program]
        active = nonzero_flags(tangents)
        with self.scope(params):
            lin = self.linearized(closed, active, params)
        found = self.bind_forward(lin, primals, params)
        outs, computed = found[:len(lin.nonzero)], iter(found[len(lin.nonzero):])
        residuals = [next(computed) if k is None else primals[k] for k in lin.forwarded]
        with current_trace(trace.tangent):
            dys = self.bind_tangent(lin, [*residuals, *flagged(tangents, active)], params, active)
        return outs, with_zeros(lin.nonzero, dys, map(typeof, outs))

    def split(self, trace: Any, args: Sequence[Any], params: dict) -> list[Any]:
        """The operation on tangents, from a derivative rule that applies it: what touches none is done at once."""
        closed = params[self.program]
        tangent = tuple(trace.is_tangent(x) for x in args)
        with self.scope(params):
            cut = self.split_of(closed, tangent, params)
        known = unflagged(args, tangent)
        found = self.bind_known(cut, known, params, tangent)
        n = cut.from_tangent.count(False)
        with current_trace(trace.tangent):
            others = self.bind_unknown(cut, [*found[n:], *(known[k] for k in cut.forwarded), *flagged(args, tangent)],
                                       params, tangent)
        return merge(cut.from_tangent, others, found[:n])

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        closed = params[self.program]
        linear = tuple(map(is_linear, args))
        nonzero = nonzero_flags(cts)
        with self.scope(params):
            program, has = self.transposed_of(closed, linear, nonzero, params)
        found = iter(self.bind_transposed(program, [*unflagged(args, linear), *flagged(cts, nonzero)], params, linear,
                                          nonzero, has))
        flags = iter(has)
        return [next(found) if lin and next(flags) else None for lin in linear]

    def batch(self, axis: Any, args: Sequence[Any], bdims: Sequence[Bdim],
              **params: Any) -> tuple[list[Any], Sequence[Bdim]]:
        closed = params[self.program]
        with self.scope(params):
            program, out_dims = self.batched_of(closed, axis, bdims, params)
        return self.bind(program, args, params), out_dims
