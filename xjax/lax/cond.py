"""`cond` and `switch`: run one of several functions, chosen by a value.

    b:f32[] = cond[branches=({ lambda ; ... } { lambda ; ... })] index operands...

Branches are programs of the same operands, without constants: a value that a function captures is an operand too.
Branch 0 is the one for False. Derivatives are again conditionals. The first also returns the residuals of its branch
(zeros for residuals that only the other branches need); the second is linear.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import api_boundary, function_name
from xjax.core.config import config
from xjax.core.context import current_trace
from xjax.core.errors import bad
from xjax.core.flags import Flags, flagged
from xjax.core.hlo import Known
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr, Var, newest, program_cache
from xjax.core.lowering import lower_closed
from xjax.core.primitive import Primitive
from xjax.core.pruning import Pruned, Saving, prune_program
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import leaf_paths, tree_mismatch, tree_unflatten
from xjax.core.types import ShapedArray, Vma, typeof, with_zeros
from xjax.lax.control import (
    check_callable,
    flat_arrays,
    front,
    is_known,
    refuse_collectives,
    refuse_io,
    same_type,
    split_with_forced,
    takes,
    with_all_residuals,
)
from xjax.ops.compare import clamp, eq, select_n
from xjax.ops.convert import convert_element_type
from xjax.ops.identity import stop_gradient
from xjax.ops.pvary import cast_inputs, cast_outputs, vary_to
from xjax.ops.shape import broadcast_in_dim
from xjax.ops.zeros import instantiate, zeros_of
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.jit_primitive import jit_p
from xjax.transforms.batching import MappedAxis, batch_program, place_axis
from xjax.transforms.call_rules import CallRules, Split
from xjax.transforms.jvp import jvp_program
from xjax.transforms.linearize import LinearizedProgram, linearize_program
from xjax.transforms.refs import NO_REFS, Ref, Uses, read
from xjax.transforms.refs import typeof as type_of
from xjax.transforms.trace_cache import TracedFunction, remember, trace_function
from xjax.transforms.transpose import transpose_program
from xjax.typing import Array, ArrayLike, PyTree

_NOT_GIVEN = object()


# -- public functions ---------------------------------------------------------------------------------------------

@api_boundary
@takes(true_fun=("*operands",), false_fun=("*operands",))
def cond(pred: ArrayLike, true_fun: Callable, false_fun: Callable, *operands: PyTree,
         operand: Any = _NOT_GIVEN) -> PyTree:
    """``true_fun(*operands)`` if `pred` holds, else ``false_fun(*operands)``; only the chosen one runs.

    Args:
      pred: bool or number of rank 0.
      true_fun, false_fun: both are traced; their results must have the same structure, shapes and dtypes.
      operands: trees of arrays. `operand=x` is the older spelling for one operand, and
        `cond(pred, x, true_fun, y, false_fun)` that for one operand per function.

    Returns: the chosen function's result. Under `vmap` with a mapped `pred` both run, and the results are selected; no
      gradient flows through the branch that is not chosen, so its nan does not spread.
    Raises: TypeError if `pred` is not a scalar, or the results differ in structure or type.

    >>> float(cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 3.0))
    4.0
    """
    if not callable(true_fun) and callable(false_fun) and len(operands) == 2 and callable(operands[1]):
        return _cond_of_two(pred, true_fun, false_fun, *operands)
    check_callable("cond", "true_fun", true_fun)
    check_callable("cond", "false_fun", false_fun)
    if operand is not _NOT_GIVEN:
        operands = (operand, *operands)
    _check_scalar("cond", "the predicate", pred)
    if config.disable_jit and is_known(pred):
        return true_fun(*operands) if pred else false_fun(*operands)
    return choose("cond", _branch_number(pred), (false_fun, true_fun), ("false_fun", "true_fun"), operands)


def _cond_of_two(pred: bool, x: PyTree, true_fun: Callable, y: PyTree, false_fun: Callable) -> PyTree:
    """``true_fun(x)`` if `pred` holds, else ``false_fun(y)``."""
    return cond(pred, lambda x, _: true_fun(x), lambda _, y: false_fun(y), x, y)


@api_boundary
@takes(branches=("*operands",))
def switch(index: ArrayLike, branches: Sequence[Callable], *operands: PyTree, operand: Any = _NOT_GIVEN) -> PyTree:
    """``branches[index](*operands)``; an index out of range is clamped to the first or last branch.

    Args: index: integer of rank 0; branches: functions with results of the same structure, shapes and dtypes.
    Raises: TypeError if the index is not an integer scalar, ValueError if there are no branches.

    >>> float(switch(2, [lambda x: x, lambda x: 2 * x, lambda x: 3 * x], 5.0))
    15.0
    """
    if not isinstance(branches, Iterable):
        raise bad("switch", "`branches` must be a sequence of functions", given={"branches": repr(branches)[:80]},
                  fix="write switch(index, [f, g], *operands).")
    branches = tuple(branches)
    for i, f in enumerate(branches):
        check_callable("switch", f"branches[{i}]", f)
    if operand is not _NOT_GIVEN:
        operands = (operand, *operands)
    _check_scalar("switch", "the index", index)
    if not dtypes.is_int(typeof(index).dtype):
        raise bad("switch", "the index must be an integer", given={"index": typeof(index)},
                  fix="convert it with lax.convert_element_type(index, 'int32'), or use lax.cond for a bool.")
    if not branches:
        raise bad("switch", "there is no branch", fix="pass at least one function.", exc=ValueError)
    if len(branches) == 1:
        return branches[0](*operands)
    if config.disable_jit and is_known(index):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    index = clamp(np.int32(0), convert_element_type(index, np.int32), np.int32(len(branches) - 1))
    return choose("switch", index, branches, [f"branches[{i}]" for i in range(len(branches))], operands)


def _check_scalar(caller: str, name: str, x: ArrayLike) -> None:
    leaves, _, avals = flat_arrays(caller, name, x)
    if len(leaves) != 1 or leaves[0] is not x or avals[0].shape:
        raise bad(caller, f"{name} must be a scalar", given={name.removeprefix("the "): avals[0] if avals else repr(x)},
                  fix="reduce it with .any() or .all(), or use numpy.where to choose element by element.")


def _branch_number(pred: ArrayLike) -> ArrayLike:
    """0 for false, 1 for true, as int32."""
    if isinstance(pred, (bool, int, float, complex, np.generic, np.ndarray)):
        return np.int32(bool(pred))
    if not dtypes.is_bool(typeof(pred).dtype):
        pred = convert_element_type(pred, np.bool_)
    return convert_element_type(pred, np.int32)


def choose(caller: str, index: ArrayLike, funs: Sequence[Callable], names: Sequence[str], operands: tuple) -> PyTree:
    """Trace the functions and bind the conditional."""
    leaves, tree, _ = flat_arrays(caller, "operands", operands, refs=True)
    vma = typeof(index).vma                 # operands must vary at least along the axes along which the index does
    leaves = [x if type(x) is Ref else vary_to(x, vma) for x in leaves]
    avals = [type_of(x) if type(x) is Ref else typeof(x) for x in leaves]
    key = (caller, tree, tuple(avals))

    def trace(f: Callable) -> tuple[TracedFunction, list[Any]]:
        traced = trace_function(f, tree, avals, f"{caller} `{function_name(f)}`", refs=True)
        return traced, traced.captured

    traced = [remember(f, key, lambda f=f: trace(f)) for f in funs]
    for name, other in zip(names[1:], traced[1:], strict=True):
        _check_branches(caller, names[0], traced[0], name, other)
    traced, uses = _with_all_refs(traced)
    branches, consts = _vary_alike(caller, traced, vma)
    args = [*consts, *(leaves if uses is None else uses.values(caller, leaves))]
    shared, branches = _without_forwarded(newest(branches), branches)
    bound = iter(cond_p.bind(index, *args, branches=branches))
    outs = [next(bound) if i is None else _as_array(args[i]) for i in shared]
    if uses is not None:
        outs = uses.store(outs, leaves)
    return tree_unflatten(traced[0].out_tree, outs)


def _with_all_refs(traced: list[TracedFunction]) -> tuple[list[TracedFunction], Uses | None]:
    """The branches with the values of all refs that some branch uses, and these refs; None if there are none."""
    used = [t.uses for t in traced if t.uses is not None]
    if not used:
        return traced, None
    changed = tuple(dict.fromkeys([ref for u in used for ref in u.changed]))
    read_only = tuple(dict.fromkeys([ref for u in used for ref in u.read_only if ref not in changed]))
    uses = Uses((*read_only, *changed), len(changed), tuple(sorted({i for u in used for i in u.arguments})))
    avals = tuple([typeof(read(ref)) for ref in uses.outer])
    programs = [_with_refs(t.program, len(t.consts), t.uses or NO_REFS, uses, avals) for t in traced]
    return [t._replace(program=p) for t, p in zip(traced, programs, strict=True)], uses


@program_cache
def _with_refs(closed: ClosedJaxpr, count: int, own: Uses, uses: Uses, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    """A branch with `count` captured values that uses the refs in `own`, as one that uses those in `uses`."""
    j, first = closed.jaxpr, count + len(own.outer)
    given, args = dict(zip(own.outer, j.invars[count:first], strict=True)), j.invars[first:]
    outer = {ref: given.get(ref) or Var(a) for ref, a in zip(uses.outer, avals, strict=True)}
    end = len(j.outvars) - len(own.arguments)
    new = dict(zip(own.changed, j.outvars, strict=False))
    new_args = dict(zip(own.arguments, j.outvars[end:], strict=True))
    outvars = [*[new.get(ref, outer[ref]) for ref in uses.changed], *j.outvars[own.written:end],
               *[new_args.get(i, args[i]) for i in uses.arguments]]
    return ClosedJaxpr(Jaxpr((), [*j.invars[:count], *outer.values(), *args], j.eqns, outvars))


def _as_array(x: Array) -> Array:
    return x if hasattr(x, "aval") else to_array(x)


def _vary_alike(caller: str, traced: Sequence[TracedFunction], vma: Vma) -> tuple[tuple[ClosedJaxpr, ...], list[Any]]:
    """Branches whose results all vary along the same mesh axes, which include `vma`, the axes of the choice.

    Everything that the branches read must already vary along `vma`. A cast inside a branch would be a sum over devices
    in its transpose, in which some devices would wait while others run another branch.
    """
    programs, consts = [t.program for t in traced], [t.consts for t in traced]
    if vma:
        for program in programs:
            refuse_collectives(caller, program, vma, "the predicate")
        consts = [[vary_to(c, vma | typeof(c).vma) for c in own] for own in consts]
        programs = [cast_inputs(p, tuple([typeof(c).vma for c in own]))
                    for p, own in zip(programs, consts, strict=True)]
    wanted = tuple([vma.union(*[a.vma for a in column])
                    for column in zip(*[p.out_avals for p in programs], strict=True)])
    return join_consts([cast_outputs(p, wanted) for p in programs], consts)


@program_cache
def _without_forwarded(holder: ClosedJaxpr,
                       branches: tuple[ClosedJaxpr, ...]) -> tuple[tuple[int | None, ...], tuple[ClosedJaxpr, ...]]:
    """For each result, the operand that it equals in all branches, or None; and the branches without these results.

    Such a result does not depend on the choice: under `vmap` it is mapped only if the operand is.
    """
    columns = zip(*[_forwards(b, 0) for b in branches], strict=True)
    shared = tuple(column[0] if len(set(column)) == 1 else None for column in columns)
    if all(i is None for i in shared):
        return shared, branches
    return shared, tuple(ClosedJaxpr(Jaxpr(b.jaxpr.constvars, b.jaxpr.invars, b.jaxpr.eqns,
                                           [v for v, i in zip(b.jaxpr.outvars, shared, strict=True) if i is None]),
                                     b.consts) for b in branches)


def _check_branches(caller: str, first: str, a: TracedFunction, second: str, b: TracedFunction) -> None:
    if a.out_tree != b.out_tree:
        raise bad(caller, f"{caller} branch outputs must have the same pytree structure; `{first}` and `{second}` "
                  "return different structures",
                  given=tree_mismatch(f"result of {second}", a.out_tree, b.out_tree),
                  fix="return the same containers from each function.")
    paths = leaf_paths("result", a.out_tree)
    wrong = {path: f"{first} {x.str_short()}   {second} {y.str_short()}"
             for path, x, y in zip(paths, a.results, b.results, strict=True)
             if not same_type(x.plain, y.plain)}
    if wrong:
        raise bad(caller, f"`{first}` and `{second}` return different types", given=wrong,
                  fix="return arrays of the same shape and dtype from each function, for example with x.astype(...).")


def join_consts(programs: Sequence[ClosedJaxpr], consts: Sequence[Sequence[Any]]) -> tuple[tuple, list[Any]]:
    """Programs of (their own constants, operands) as programs of (the constants of all, operands)."""
    if not any(consts):
        return tuple(programs), []
    position: dict[int, int] = {}
    union: list[Any] = []
    for own in consts:
        for c in own:
            if id(c) not in position:
                position[id(c)] = len(union)
                union.append(c)
    avals = tuple(typeof(c) for c in union)
    return tuple(_widened(p, tuple(position[id(c)] for c in own), avals)
                 for p, own in zip(programs, consts, strict=True)), union


@program_cache
def _widened(closed: ClosedJaxpr, own: tuple[int, ...], avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    """A program with inputs of types `avals` first, of which it reads only those at the positions `own`."""
    j = closed.jaxpr
    where = {k: v for k, v in zip(own, j.invars, strict=False)}
    invars = [where.get(k) or Var(a) for k, a in enumerate(avals)]
    return ClosedJaxpr(Jaxpr((), [*invars, *j.invars[len(own):]], j.eqns, j.outvars))


# -- rules --------------------------------------------------------------------------------------------------------

def _cond_type(index, *operands, branches):
    return branches[0].out_avals                # branches may differ in weak types; the first one decides, as in JAX


def _cond_lower(b, outs, index, *operands, branches):
    if isinstance(index, Known):
        return lower_closed(b, branches[index.number], operands)
    return b.case(index, [lambda inner, branch=branch: lower_closed(inner, branch, operands) for branch in branches],
                  outs)


@program_cache
def hoist_branches(holder: ClosedJaxpr, branches: tuple[ClosedJaxpr, ...]) -> tuple[tuple, list[Any]]:
    """The branches with the constants that derivative rules added, if any, as their first operands."""
    if not any(b.consts for b in branches):
        return branches, []
    return join_consts([hoist_consts(b)[0] for b in branches], [b.consts for b in branches])


def _union(flags: Sequence[Flags]) -> Flags:
    return tuple(any(column) for column in zip(*flags, strict=True))


@program_cache
def _jvp_branches(holder, branches, nonzero):
    has = _union([jvp_program(b, nonzero, (False,) * len(b.out_avals))[1] for b in branches])
    return [jvp_program(b, nonzero, has)[0] for b in branches], has


# -- linearization ------------------------------------------------------------------------------------------------

def _two_passes(known: Sequence[ClosedJaxpr], unknown: Sequence[ClosedJaxpr],
                count: int) -> tuple[list[ClosedJaxpr], list[ClosedJaxpr], tuple[int, ...], int]:
    """Convert the passes of all branches to the same types.

    `known`: operands -> `count` outputs, residuals of this branch; `unknown`: these residuals, tangents -> outputs.
    Residuals of the same type share a slot across branches, because only one branch runs.

    Returns: (first passes: operands -> outputs, slots; second passes: slots, forwarded operands, tangents -> outputs;
      which operands are forwarded; the number of slots).
    """
    forwarded = sorted({i for k in known for i in _forwards(k, count) if i is not None})
    slots: list[ShapedArray] = []
    owned = [_take_slots(slots, k, count) for k in known]
    firsts = [_first_pass(k, count, slots, own) for k, own in zip(known, owned, strict=True)]
    seconds = [_second_pass(u, slots, own, _forwards(k, count), forwarded, [known[0].in_avals[i] for i in forwarded])
               for k, u, own in zip(known, unknown, owned, strict=True)]
    return firsts, seconds, tuple(forwarded), len(slots)


def _forwards(known: ClosedJaxpr, count: int) -> list[int | None]:
    """For each result after the first `count`: the operand that it equals, or None."""
    position = {v: i for i, v in enumerate(known.jaxpr.invars)}
    return [position.get(v) if type(v) is Var else None for v in known.jaxpr.outvars[count:]]


def _take_slots(slots: list[ShapedArray], known: ClosedJaxpr, count: int) -> list[int | None]:
    """A slot for each computed residual of a branch: a free one of its type, else a new one."""
    own: list[int | None] = []
    for aval, forward in zip(known.out_avals[count:], _forwards(known, count), strict=True):
        free = [k for k, a in enumerate(slots) if a is aval and k not in own]
        if forward is None and not free:
            slots.append(aval)
        own.append(None if forward is not None else free[0] if free else len(slots) - 1)
    return own


def _first_pass(known, count, slots, own) -> ClosedJaxpr:
    def run(*operands: ArrayLike) -> list[Any]:
        outs = known(*operands)
        at = {k: x for k, x in zip(own, outs[count:], strict=True) if k is not None}
        return [*outs[:count], *(at[k] if k in at else zeros_of(a) for k, a in enumerate(slots))]
    return trace_to_jaxpr(run, known.in_avals, "cond")


def _second_pass(unknown, slots, own, forwards, forwarded, forwarded_avals) -> ClosedJaxpr:
    n = len(slots)

    def run(*args: ArrayLike) -> list[Any]:
        operands = dict(zip(forwarded, args[n:n + len(forwarded)], strict=True))
        residuals = [args[k] if k is not None else operands[i] for k, i in zip(own, forwards, strict=True)]
        return unknown(*residuals, *args[n + len(forwarded):])
    return trace_to_jaxpr(run, [*slots, *forwarded_avals, *unknown.in_avals[len(own):]], "cond")


@program_cache
def _linearize_branches(holder, branches, active) -> LinearizedProgram:
    nonzero = _union([linearize_program(b, active).nonzero for b in branches])
    linearized = [linearize_program(b, active, nonzero) for b in branches]
    n = len(holder.out_avals)
    first, second, forwarded, slots = _two_passes([with_all_residuals(lin, n) for lin in linearized],
                                                  [lin.tangent for lin in linearized], n)
    return LinearizedProgram(first, second, nonzero, (*[None] * slots, *forwarded))


@program_cache
def _split_branches(holder, branches, tangent) -> Split:
    no = (False,) * len(holder.out_avals)
    forced = _union([split_with_forced(b, tangent, no)[2] for b in branches])
    splits = [split_with_forced(b, tangent, forced) for b in branches]
    known, unknown, forwarded, _ = _two_passes([c[0] for c in splits], [c[1] for c in splits], forced.count(False))
    return Split(known, unknown, forwarded, forced)


# -- transposition ------------------------------------------------------------------------------------------------

@program_cache
def _transpose_branches(holder, branches, linear, nonzero):
    transposed = [transpose_program(b, linear, nonzero) for b in branches]
    has = _union([flags for _, flags in transposed])
    avals = [a.tangent() for a in flagged(holder.in_avals, linear)]
    return [_with_zero_outputs(p, flags, has, avals) for p, flags in transposed], has


def _with_zero_outputs(program: ClosedJaxpr, has: Flags, wanted: Flags, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """A program with zeros added for the outputs in `wanted` that are missing from `has`."""
    if has == wanted:
        return program

    def run(*args: ArrayLike) -> list[Any]:
        return [instantiate(x) for x in flagged(with_zeros(has, program(*args), avals), wanted)]
    return trace_to_jaxpr(run, program.in_avals, "transpose")


# -- batching -----------------------------------------------------------------------------------------------------

def _batch_branches(axis, branches, dims) -> tuple[list[ClosedJaxpr], tuple]:
    force = _union([tuple(d is not None for d in batch_program(b, axis.mapped, tuple(dims))[1])
                    for b in branches])
    return [batch_program(b, axis.mapped, tuple(dims), force)[0] for b in branches], front(force)


def _select_branches(axis, index, operands, dims, branches):
    """Run all branches for every element, and select one result each.

    In each branch the operands of elements that chose another branch are constants for derivatives: their derivatives,
    which could be nan there, are masked out.
    """
    refuse_io("cond", branches, "a conditional whose predicate differs between the elements of a vmap",
              "use lax.map in place of vmap, or call it outside the conditional.")
    operands = [place_axis(x, d, 0, axis.size) for x, d in zip(operands, dims, strict=True)]
    if config.check:                # a check ignores what a selection drops, if both are operations of one program
        avals = (typeof(index), *map(typeof, operands))
        program, consts = hoist_consts(_selection(newest(branches), branches, axis.mapped, avals))
        results = jit_p.bind(*consts, index, *operands, name="cond", jaxpr=program)
    else:
        results = _selected(index, *operands, branches=branches, axis=axis.mapped)
    return results, [0] * len(results)


@program_cache
def _selection(holder: ClosedJaxpr, branches: tuple[ClosedJaxpr, ...], axis: MappedAxis,
               avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    """The program of `_selected`; it is cached on `holder`."""
    return trace_to_jaxpr(functools.partial(_selected, branches=branches, axis=axis), avals, "cond")


def _selected(index: Array, *operands: Array, branches: tuple[ClosedJaxpr, ...], axis: MappedAxis) -> list[Array]:
    zeros = tuple(0 for _ in operands)
    results = []
    for i, branch in enumerate(branches):
        chosen = eq(index, np.int32(i))
        program, _ = batch_program(branch, axis, zeros, True)
        results.append(program(*[_constant_unless(chosen, x) for x in operands]))
    index = index if len(branches) > 2 else convert_element_type(index, np.bool_)
    return [select_n(_spread(index, ys[0]), *ys) for ys in zip(*results, strict=True)]


def _constant_unless(chosen: Array, x: Array) -> Array:
    if not dtypes.is_inexact(typeof(x).dtype):
        return x
    return select_n(_spread(chosen, x), stop_gradient(x), x)


def _spread(flags: Array, like: Array) -> Array:
    """A vector with one entry for each mapped element, repeated to the shape of `like`."""
    return broadcast_in_dim(flags, typeof(like).shape, (0,))


# -- the primitive ------------------------------------------------------------------------------------------------

class _CondRules(CallRules):
    """The index, which has no derivative, is one of the parameters; all branches are differentiated."""

    def bind(self, program, args, params):
        branches, consts = hoist_branches(newest(program), tuple(program))
        return cond_p.bind(params["index"], *consts, *args, branches=branches)

    def jvp_of(self, program, nonzero, params):
        return _jvp_branches(newest(program), program, nonzero)

    def linearized(self, program, active, params):
        return _linearize_branches(newest(program), program, active)

    def split_of(self, program, tangent, params):
        return _split_branches(newest(program), program, tangent)

    def transposed_of(self, program, linear, nonzero, params):
        return _transpose_branches(newest(program), program, linear, nonzero)

    def batched_of(self, program, axis, bdims, params):
        return _batch_branches(axis, program, bdims)

    def jvp(self, primals, tangents, **params):
        return super().jvp(primals[1:], tangents[1:], **params, index=primals[0])

    def linearize(self, trace, primals, tangents, **params):
        return super().linearize(trace, primals[1:], tangents[1:], **params, index=primals[0])

    def split(self, trace, args, params):
        if trace.is_tangent(args[0]):
            with current_trace(trace.tangent):
                return cond_p.bind(*args, **params)
        return super().split(trace, args[1:], {**params, "index": args[0]})

    def transpose(self, cts, *args, **params):
        return [None, *super().transpose(cts, *args[1:], **params, index=args[0])]

    def batch(self, axis, args, bdims, **params):
        if bdims[0] is not None:
            return _select_branches(axis, args[0], args[1:], bdims[1:], **params)
        return super().batch(axis, args[1:], bdims[1:], **params, index=args[0])


def _prune(used: Flags, *, branches: Sequence[ClosedJaxpr]) -> Pruned:
    read = _union([prune_program(branch, used)[1] for branch in branches])
    pruned = tuple(prune_program(branch, used, read)[0] for branch in branches)
    same = all(map(operator.is_, pruned, branches))
    return Pruned({"branches": branches if same else pruned}, (True, *read), used)


def _save(split: Callable, used: Flags, *, branches: Sequence[ClosedJaxpr]) -> Saving | None:
    """A value that a policy saves in one branch is zero if another branch runs."""
    parts = [split(branch, used) for branch in branches]
    saved = [(i, v, memory) for i, (_, passes) in enumerate(parts) for v, memory in passes.saved.items()]
    if not saved:
        return None
    first, again = [], []
    for k, (branch, passes) in enumerate(parts):
        j = branch.jaxpr
        whole = ClosedJaxpr(j.replace(eqns=passes.first, outvars=[*j.outvars, *passes.saved]), branch.consts)

        def run(*args: ArrayLike, k: int = k, whole: ClosedJaxpr = whole) -> list[Any]:
            outs = whole(*args)
            own = iter(outs[len(used):])
            return [*outs[:len(used)], *(next(own) if i == k else zeros_of(v.aval) for i, v, _ in saved)]

        first.append(trace_to_jaxpr(run, branch.in_avals, "checkpoint"))
        invars = [*j.invars, *(v if i == k else Var(v.aval) for i, v, _ in saved)]
        again.append(ClosedJaxpr(Jaxpr(j.constvars, invars, passes.again, flagged(j.outvars, used)), branch.consts))
    operands = (True,) * (1 + len(branches[0].in_avals))
    return Saving({"branches": tuple(first)}, {"branches": tuple(again)}, operands, used,
                  [(v.aval, memory) for _, v, memory in saved])


cond_p = Primitive("cond", type_rule=_cond_type, lower=_cond_lower, prune=_prune, save=_save,
                   **_CondRules("branches").fields())
