"""`scan_p`, the primitive of `scan`, with its rules. See `xjax.lax.scan` for the function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core.context import current_trace
from xjax.core.flags import Flags, flagged, merge, nonzero_flags, unflagged
from xjax.core.forms import limits
from xjax.core.hlo import Argument, Builder, Value
from xjax.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, Var, inlined, program_cache
from xjax.core.lowering import lower_barrier, lower_closed
from xjax.core.primitive import Primitive
from xjax.core.pruning import Pruned, Saving, prune_program
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.symbolic.dims import is_symbolic_dim
from xjax.core.types import ShapedArray, is_linear, with_zeros
from xjax.lax.control import (
    dependent_outputs,
    fixpoint,
    instantiated,
    program_of,
    split_with_forced,
    with_all_residuals,
)
from xjax.lax.in_place import updating_in_place
from xjax.lax.scan_products import with_products, without_products
from xjax.lax.scan_residuals import without_cheap
from xjax.ops.identity import copy_p
from xjax.ops.makers import accumulate
from xjax.ops.text import concatenate_text, dynamic_slice_text, dynamic_update_slice_text, reshape_text, slice_text
from xjax.ops.zeros import instantiate, zeros_of
from xjax.transforms.batching import batch_program, place_axis
from xjax.transforms.checkpoint_policies import with_moves
from xjax.transforms.jvp import jvp_program
from xjax.transforms.linearize import linearize_program
from xjax.transforms.transpose import transpose_program
from xjax.typing import ArrayLike


def _sections(items: Sequence[Any], num_consts: int, num_carry: int) -> tuple[Sequence, Sequence, Sequence]:
    """Arguments of a scan as (constants, carry, xs)."""
    n = num_consts + num_carry
    return items[:num_consts], items[num_consts:n], items[n:]


def _bind(body: ClosedJaxpr, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], loop: dict) -> list[Any]:
    """Bind a body made by a rule; its own constants become constants of the loop. `loop`: length, reverse, unroll."""
    body, own = hoist_consts(body)
    return scan_p.bind(*own, *consts, *carry, *xs, jaxpr=body, num_consts=len(own) + len(consts),
                       num_carry=len(carry), **loop)


def _stacked(aval: ShapedArray, length: int) -> ShapedArray:
    return aval.update(shape=(length, *aval.shape))


def _type(*avals, jaxpr, length, num_consts, num_carry, reverse, unroll):
    outs = jaxpr.out_avals
    return (*outs[:num_carry], *(_stacked(a, length) for a in outs[num_carry:]))


# -- lowering -----------------------------------------------------------------------------------------------------

_INDEX = ShapedArray((), np.int32)


def _lower(b, outs, *args, jaxpr, length, num_consts, num_carry, reverse, unroll):
    """A while loop over (index, constants, xs, carry, ys); steps that do not fill an iteration follow one by one."""
    consts, carry, xs = _sections(list(args), num_consts, num_carry)
    jaxpr = updating_in_place(jaxpr, num_consts, num_carry)
    if is_symbolic_dim(length):
        unroll = 1
    elif length <= unroll:
        return _unrolled(b, outs, consts, carry, xs, jaxpr, length, reverse)
    ys = [b.constant(0, aval.strong()) for aval in outs[num_carry:]]

    def step(inner: Builder, i: Value, consts: Sequence[Value], xs: Sequence[Value], state: list[Value]) -> list[Value]:
        if reverse:
            i = inner.sub(inner.size(length - 1), i)
        results = lower_closed(inner, jaxpr, [*consts, *state[:num_carry], *(_row(inner, x, i) for x in xs)])
        rows = zip(state[num_carry:], results[num_carry:], strict=True)
        return [*results[:num_carry], *(_set_row(inner, y, row, i) for y, row in rows)]

    end, taken = length - length % unroll, rows_before_loop(b, jaxpr, consts)
    state = _loop(b, end, unroll, consts, xs, [*carry, *ys], step, taken)
    for i in (range(end, length) if unroll > 1 else ()):
        state = step(b, b.constant(i, _INDEX), consts, xs, state)
    return state


def _unrolled(b: Builder, outs, consts, carry, xs, jaxpr: ClosedJaxpr, length: int, reverse: bool) -> list[Value]:
    """The steps one after the other, without a loop.

    XLA simplifies static slices of a concatenation: a row of xs that was stacked by an unrolled scan is that row,
    without a copy. It does not simplify updates of a row.
    """
    stacks: list[list[Value]] = [[] for _ in outs[len(carry):]]
    apart = _rows_apart(b, xs, length)
    for i in reversed(range(length)) if reverse else range(length):
        rows = [apart[k][i] if k in apart else _static_row(b, x, i) for k, x in enumerate(xs)]
        results = lower_closed(b, jaxpr, [*consts, *carry, *rows])
        carry = results[:len(carry)]
        for stack, row in zip(stacks, results[len(carry):], strict=True):
            stack.append(reshape_text(b, row, (1, *row.aval.shape)))
    return [*carry, *(concatenate_text(b, stack[::-1] if reverse else stack, aval, 0) if stack
                      else b.constant(0, aval.strong()) for stack, aval in zip(stacks, outs[len(carry):], strict=True))]


def _rows_apart(b: Builder, xs: Sequence[Value], length: int) -> dict[int, list[Value]]:
    """Position in xs -> its rows, which are not fused with the steps: small rows of arguments on CPUs, such as biases.

    Equal steps then have equal loops, which XLA compiles once.
    """
    form = limits("rows of arguments apart", b.module.platform)
    if form is None or b.is_cut or length < 2:
        return {}
    small = {k: x for k, x in enumerate(xs)
             if isinstance(x, Argument) and math.prod(x.aval.shape[1:]) <= form["elements"]}
    rows = [_static_row(b, x, i) for x in small.values() for i in range(length)]
    stored = iter(lower_barrier(b, rows) if rows else ())
    return {k: [next(stored) for _ in range(length)] for k in small}


def _loop(b: Builder, end: int, unroll: int, consts, xs, state, step, taken: LoopRows) -> list[Value]:
    """`for i in range(0, end, unroll)`, with `unroll` steps per iteration."""
    start = [b.constant(0, _INDEX), *consts, *xs, *taken.rows, *state]
    n, rows = 1 + len(consts), 1 + len(consts) + len(xs)
    m = rows + len(taken.rows)

    def cond(inner: Builder, i: Value, *rest: Value) -> list[Value]:
        return [inner.compare("LT", i, inner.size(end))]

    def body(inner: Builder, i: Value, *rest: Value) -> list[Value]:
        values = [i, *rest]
        taken.enter(inner, values[1:n], values[rows:m])
        state = values[m:]
        for k in range(unroll):
            at = i if k == 0 else inner.add(i, k)
            state = step(inner, at, values[1:n], values[n:rows], state)
        return [inner.add(i, unroll), *values[1:m], *state]

    return b.while_loop(start, cond, body)[m:]


def _row(b: Builder, x: Value, i: Value) -> Value:
    """``x[i]`` for an index known at run time."""
    row = x.aval.shape[1:]
    return reshape_text(b, dynamic_slice_text(b, x, [i, *[b.constant(0, _INDEX)] * len(row)], (1, *row)), row)


def _set_row(b: Builder, y: Value, row: Value, i: Value) -> Value:
    """`y` with ``y[i] = row``."""
    shape = row.aval.shape
    return dynamic_update_slice_text(b, y, reshape_text(b, row, (1, *shape)),
                                     [i, *[b.constant(0, _INDEX)] * len(shape)])


# -- rows of constants of an outer loop -----------------------------------------------------------------------------


class LoopRows(NamedTuple):
    """Rows of some constants of a loop, taken before it, as further constants.

    A body may apply layers with stacked parameters by a scan without a loop, as `xnn.repeat` does when it generates
    tokens. Each step of that scan reads a row of the stack. XLA for CPUs would copy the row in each iteration of the
    outer loop, since its products need an array of their own.

    Attributes: lengths: {position of a constant: number of its rows}; rows: those of all these constants, in order.
    """

    lengths: dict[int, int]
    rows: list[Value]

    def enter(self, inner: Builder, consts: Sequence[Value], rows: Sequence[Value]) -> None:
        """Lets `_static_row` find the rows in the region of the loop.  Args: the values in that region."""
        left = iter(rows)
        for k, length in self.lengths.items():
            inner.rows[consts[k].name] = [next(left) for _ in range(length)]


def rows_before_loop(b: Builder, body: ClosedJaxpr, consts: Sequence[Value]) -> LoopRows:
    """The rows of the constants that scans without a loop read in the body of a loop; its first inputs are `consts`."""
    measured, lengths = limits("rows before loops", b.module.platform), {}
    if measured is None or b.is_cut:
        return LoopRows({}, [])
    positions = {v: k for k, v in enumerate(body.jaxpr.invars[:len(consts)])}
    for eqn in body.jaxpr.eqns:
        if eqn.primitive is scan_p and eqn.params["length"] <= eqn.params["unroll"]:
            for v in eqn.invars[eqn.params["num_consts"] + eqn.params["num_carry"]:]:
                if v in positions and math.prod(v.aval.shape[1:]) >= measured["elements"]:
                    lengths[positions[v]] = eqn.params["length"]
    return LoopRows(lengths, [_static_row(b, consts[k], i) for k, length in lengths.items() for i in range(length)])


def _static_row(b: Builder, x: Value, i: int) -> Value:
    """``x[i]`` for a static index."""
    if x.name in b.rows:
        return b.rows[x.name][i]
    shape = x.aval.shape
    return reshape_text(b, slice_text(b, x, (i, *[0] * (len(shape) - 1)), (i + 1, *shape[1:])), shape[1:])


# -- jvp ----------------------------------------------------------------------------------------------------------

def _jvp(primals, tangents, *, jaxpr, num_consts, num_carry, **loop):
    body, nonzero, has = _jvp_body(jaxpr, num_consts, num_carry, nonzero_flags(tangents))
    parts = [(*p, *d) for p, d in zip(_sections(primals, num_consts, num_carry),
                                      _sections_of_flagged(tangents, nonzero, num_consts, num_carry), strict=True)]
    results = _bind(body, *parts, loop)
    n = len(jaxpr.out_avals)
    d_carry = has[:num_carry].count(True)
    outs = [*results[:num_carry], *results[num_carry + d_carry:n + d_carry]]
    douts = [*results[num_carry:num_carry + d_carry], *results[n + d_carry:]]
    return outs, with_zeros(has, douts, _type(jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry, **loop))


def _sections_of_flagged(tangents, flags, num_consts, num_carry) -> list[list[Any]]:
    """The flagged tangents of constants, carry and xs, with symbolic zeros instantiated."""
    return [instantiated(t, f) for t, f in zip(_sections(tangents, num_consts, num_carry),
                                               _sections(flags, num_consts, num_carry), strict=True)]


@program_cache
def _jvp_body(jaxpr: ClosedJaxpr, num_consts: int, num_carry: int,
              nonzero: Flags) -> tuple[ClosedJaxpr, Flags, Flags]:
    """The body for values and tangents, in the argument order of a scan; flags of inputs and outputs with a tangent."""
    consts, carry, xs = _sections(nonzero, num_consts, num_carry)
    no_ys = (False,) * (len(jaxpr.out_avals) - num_carry)
    carry = fixpoint(carry, lambda c: jvp_program(jaxpr, (*consts, *c, *xs), (*c, *no_ys))[1][:num_carry])
    nonzero = (*consts, *carry, *xs)
    program, has = jvp_program(jaxpr, nonzero, (*carry, *no_ys))
    j, n, m = program.jaxpr, len(jaxpr.in_avals), len(jaxpr.out_avals)
    in_tangents, out_tangents = iter(j.invars[n:]), iter(j.outvars[m:])
    d_ins = [next(in_tangents) if flag else None for flag in nonzero]
    invars = [v for p, d in zip(_sections(j.invars[:n], num_consts, num_carry), _sections(d_ins, num_consts, num_carry),
                                strict=True) for v in [*p, *(v for v in d if v is not None)]]
    d_outs = [next(out_tangents) if flag else None for flag in has]
    outvars = [*j.outvars[:num_carry], *flagged(d_outs[:num_carry], has[:num_carry]),
               *j.outvars[num_carry:m], *flagged(d_outs[num_carry:], has[num_carry:])]
    return ClosedJaxpr(Jaxpr(j.constvars, invars, j.eqns, outvars), program.consts), nonzero, has


# -- two passes: values with residuals, then the linear part ------------------------------------------------------

class _TwoPasses(NamedTuple):
    """A scan split in two.

    `before` computes residuals that are equal in every step from the constants; it runs once. `known` takes these and
    the known inputs, and stacks the other residuals after its own outputs. `unknown` takes residuals and tangents.
    """

    before: ClosedJaxpr                 # constants -> invariant residuals.
    known: ClosedJaxpr                  # (invariant residuals, constants), carry, xs -> carry, ys, residuals.
    unknown: ClosedJaxpr                # (residuals, constants), carry, (residuals, xs) -> carry, ys.
    own_consts: list[Any]               # Leading constants that rules added.
    from_consts: tuple[int, ...]        # Positions of invariant residuals in (results of `before`, constants).
    from_xs: tuple[int, ...]            # Positions of the residuals that are known xs.
    count: int                          # Number of outputs of the first pass, without residuals.
    inputs: Flags                       # Inputs of the scan that belong to the second pass.
    outputs: Flags                      # Outputs of the scan that belong to the second pass.


def _two_passes(known: ClosedJaxpr, unknown: ClosedJaxpr, known_sizes: tuple[int, int, int],
                unknown_sizes: tuple[int, int], inputs: Flags, outputs: Flags) -> _TwoPasses:
    """Sort the residuals of a body that has been split in two.

    Args:
      known: (constants, carry, xs) -> outputs, residuals; `known_sizes`: numbers of constants, carry, outputs.
      unknown: (residuals, constants, carry, xs) -> outputs; `unknown_sizes`: numbers of constants and carry.
    """
    known, own = hoist_consts(known)
    num_consts, num_carry, count = known_sizes[0] + len(own), *known_sizes[1:]
    j = known.jaxpr
    consts, carry, xs = _sections(j.invars, num_consts, num_carry)
    residuals, u = without_cheap(j, j.outvars[count:], unknown.jaxpr)
    computed = _invariant(j, consts, residuals)
    once = {v: k for k, v in enumerate([*computed, *consts])}
    row = {v: k for k, v in enumerate(xs)}

    fixed, from_rows, stacked = [], [], []          # pairs (variable of the second pass, residual)
    for inner, v in zip(u.invars[:len(residuals)], residuals, strict=True):
        (fixed if v in once else from_rows if v in row else stacked).append((inner, v))
    t_consts, t_carry, t_xs = _sections(u.invars[len(residuals):], *unknown_sizes)
    second = Jaxpr(u.constvars, [*(a for a, _ in fixed), *t_consts, *t_carry, *(a for a, _ in from_rows),
                                 *(a for a, _ in stacked), *t_xs], u.eqns, u.outvars)
    ready = [v if type(v) is Var else Var(v.aval) for v in computed]        # a literal needs an input too
    return _TwoPasses(
        before=program_of(j, consts, computed),
        known=program_of(j, [*ready, *consts, *carry, *xs], [*j.outvars[:count], *(v for _, v in stacked)], True),
        unknown=ClosedJaxpr(second, unknown.consts), own_consts=own, from_consts=tuple(once[v] for _, v in fixed),
        from_xs=tuple(row[v] for _, v in from_rows), count=count, inputs=inputs, outputs=outputs)


def _invariant(j: Jaxpr, consts: Sequence[Var], residuals: Sequence[Atom]) -> list[Atom]:
    """Residuals that depend on constants only, and not on effects; includes all results of their equations."""
    fixed, wanted = set(consts), set(residuals)
    invariant: list[Atom] = [v for v in wanted if type(v) is Literal]
    for eqn in j.eqns:
        if all(type(v) is Literal or v in fixed for v in eqn.invars) and not eqn.effects:
            fixed.update(eqn.outvars)
            if not wanted.isdisjoint(eqn.outvars):
                invariant += eqn.outvars
    return invariant


class _Known(NamedTuple):
    """Results of the first pass: outputs of the scan, and the residuals for the second pass, constants and rows."""

    outs: list[Any]
    consts: list[Any]
    rows: list[Any]


def _run_first(passes: _TwoPasses, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any],
               loop: dict) -> _Known:
    consts = [*passes.own_consts, *consts]
    once = [*passes.before(*consts), *consts]
    results = _bind(passes.known, once, carry, xs, loop)
    return _Known(results[:passes.count], [once[k] for k in passes.from_consts],
                  [*(xs[k] for k in passes.from_xs), *results[passes.count:]])


def _run_second(passes: _TwoPasses, first: _Known, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any],
                loop: dict) -> list[Any]:
    return _bind(passes.unknown, [*first.consts, *consts], carry, [*first.rows, *xs], loop)


# -- linearization ------------------------------------------------------------------------------------------------

def _linearize(trace, primals, tangents, *, jaxpr, num_consts, num_carry, **loop):
    jaxpr, idle = _without_idle_carries(jaxpr, num_consts, num_carry)
    if not any(idle):
        return _linearize_scan(trace, primals, tangents, jaxpr, num_consts, num_carry, loop)

    def moved(items: Sequence[Any]) -> list[Any]:
        consts, carry, xs = _sections(items, num_consts, num_carry)
        return [*consts, *flagged(carry, idle), *unflagged(carry, idle), *xs]

    count = idle.count(True)
    outs, douts = _linearize_scan(trace, moved(primals), moved(tangents), jaxpr, num_consts + count,
                                  num_carry - count, loop)
    kept, d_kept = (flagged(_sections(v, num_consts, num_carry)[1], idle) for v in (primals, tangents))
    kept = [x if hasattr(x, "aval") else copy_p.bind(x) for x in kept]          # results are never host values
    flags = (*idle, *[False] * (len(outs) - num_carry + count))
    return merge(flags, kept, outs), merge(flags, d_kept, douts)


@program_cache
def _without_idle_carries(jaxpr: ClosedJaxpr, num_consts: int, num_carry: int) -> tuple[ClosedJaxpr, Flags]:
    """The body with carries that it returns unchanged as its last constants, and flags of these carries.

    Otherwise weights in the carry would be stored for every step. Calls are inlined, to show which values are constant.
    """
    closed = inlined(jaxpr)
    j = closed.jaxpr
    consts, carry, xs = _sections(j.invars, num_consts, num_carry)
    idle = tuple(before is after for before, after in zip(carry, j.outvars[:num_carry], strict=True))
    if not any(idle):
        return closed, idle
    invars = [*consts, *flagged(carry, idle), *unflagged(carry, idle), *xs]
    outvars = [*unflagged(j.outvars[:num_carry], idle), *j.outvars[num_carry:]]
    return ClosedJaxpr(Jaxpr(j.constvars, invars, j.eqns, outvars), closed.consts), idle


def _linearize_scan(trace, primals, tangents, jaxpr, num_consts, num_carry, loop):
    passes = _linearize_body(jaxpr, num_consts, num_carry, nonzero_flags(tangents))
    first = _run_first(passes, *_sections(primals, num_consts, num_carry), loop)
    with current_trace(trace.tangent):
        d_ins = _sections_of_flagged(tangents, passes.inputs, num_consts, num_carry)
        douts = _run_second(passes, first, *d_ins, loop)
    avals = _type(jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry, **loop)
    return first.outs, with_zeros(passes.outputs, douts, avals)


@program_cache
def _linearize_body(jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, active: Flags) -> _TwoPasses:
    consts, carry, xs = _sections(active, num_consts, num_carry)
    no_ys = (False,) * (len(jaxpr.out_avals) - num_carry)
    carry = fixpoint(carry, lambda c: linearize_program(jaxpr, (*consts, *c, *xs), (*c, *no_ys)).nonzero[:num_carry])
    active = (*consts, *carry, *xs)
    lin = linearize_program(jaxpr, active, (*carry, *no_ys))
    n = len(jaxpr.out_avals)
    return _two_passes(with_all_residuals(lin, n), lin.tangent, (num_consts, num_carry, n),
                       (consts.count(True), carry.count(True)), active, lin.nonzero)


def _split(trace, args, params):
    """A scan on tangents, from a derivative rule that calls `scan`."""
    return _split_args(args, tuple(trace.is_tangent(x) for x in args), trace.tangent, **params)


def _split_args(args, tangent, trace, *, jaxpr, num_consts, num_carry, **loop):
    passes = _split_body(jaxpr, num_consts, num_carry, tangent)
    parts = _sections(args, num_consts, num_carry)
    flags = _sections(passes.inputs, num_consts, num_carry)
    first = _run_first(passes, *map(unflagged, parts, flags), loop)
    with current_trace(trace):
        results = _run_second(passes, first, *map(flagged, parts, flags), loop)
    return merge(passes.outputs, results, first.outs)


@program_cache
def _split_body(jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, tangent: Flags) -> _TwoPasses:
    tangent = _dependent_inputs(jaxpr, num_consts, num_carry, tangent)
    consts, carry, _ = _sections(tangent, num_consts, num_carry)
    forced = (*carry, *[False] * (len(jaxpr.out_avals) - num_carry))
    known, unknown, outputs = split_with_forced(jaxpr, tangent, forced)
    return _two_passes(known, unknown, (consts.count(False), carry.count(False), outputs.count(False)),
                       (consts.count(True), carry.count(True)), tangent, outputs)


def _dependent_inputs(jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, flags: Flags) -> Flags:
    """The flags, extended by the carries that depend on flagged inputs after some steps."""
    consts, carry, xs = _sections(flags, num_consts, num_carry)
    carry = fixpoint(carry, lambda c: dependent_outputs(jaxpr, (*consts, *c, *xs))[:num_carry])
    return (*consts, *carry, *xs)


# -- transposition ------------------------------------------------------------------------------------------------

def _transpose(cts, *args, jaxpr, num_consts, num_carry, **loop):
    linear = tuple(is_linear(x) for x in args)
    linear_after = _dependent_inputs(jaxpr, num_consts, num_carry, linear)
    _, carry, _ = _sections(linear_after, num_consts, num_carry)
    if not all(carry):
        return _transpose_mixed(cts, args, linear, jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry, **loop)
    nonzero = nonzero_flags(cts[num_carry:])
    body, has, reached = _transposed_body(jaxpr, num_consts, num_carry, linear_after,
                                          nonzero_flags(cts[:num_carry]), nonzero)
    consts, carry, xs = _sections(args, num_consts, num_carry)
    lin_consts, lin_carry, lin_xs = _sections(linear, num_consts, num_carry)
    has_consts, _, has_xs = _sections(has, lin_consts.count(True), num_carry)
    known, summed = unflagged(consts, lin_consts), flagged(flagged(consts, lin_consts), has_consts)
    count = len(summed) + reached.count(True)
    body, products = without_products(body, len(known), len(summed), count)
    sums = [zeros_of(x.aval) for x, product in zip(summed, products, strict=True) if product is None]
    rows = [*flagged(cts[num_carry:], nonzero), *unflagged(xs, lin_xs)]
    results = _bind(body, known, [*sums, *map(instantiate, flagged(cts[:num_carry], reached))], rows,
                    {**loop, "reverse": not loop["reverse"]})
    sums, ct_carry, ys = _sections(results, len(sums), reached.count(True))
    ct_consts, ct_carry, ct_xs = with_products(products, sums, [*rows, *ys]), iter(ct_carry), iter(ys)
    ct_carry = [next(ct_carry) if flag else None for flag in reached]
    flags_consts, flags_xs = iter(has_consts), iter(has_xs)
    # A carry may start from a known value, such as zero, and be linear from then on.
    return [*(next(ct_consts) if lin and next(flags_consts) else None for lin in lin_consts),
            *(ct if lin else None for ct, lin in zip(ct_carry, lin_carry, strict=True)),
            *(next(ct_xs) if lin and next(flags_xs) else None for lin in lin_xs)]


@program_cache
def _transposed_body(jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, linear: Flags, reached: Flags,
                     nonzero: Flags) -> tuple[ClosedJaxpr, Flags, Flags]:
    """The reverse body: (residuals), (sums of cts of constants, cts of the carry), (cts of ys, residuals).

    The second result flags the linear inputs that get a cotangent, the third the carries that get one in any step. An
    instantiated zero for any other carry would become NaN where it is multiplied by an infinite derivative.
    """
    lin_consts, _, lin_xs = _sections(linear, num_consts, num_carry)

    def transposed(carry: Sequence[bool]) -> tuple[ClosedJaxpr, Flags]:
        return transpose_program(jaxpr, linear, (*carry, *nonzero))

    reached = tuple(fixpoint(reached, lambda c: _sections(transposed(c)[1], lin_consts.count(True), num_carry)[1]))
    program, has = transposed(reached)
    consts, carry, xs = _sections(jaxpr.in_avals, num_consts, num_carry)
    has_consts, _, has_xs = _sections(has, lin_consts.count(True), num_carry)
    sum_avals = flagged(flagged(consts, lin_consts), has_consts)
    res_consts, res_xs = unflagged(consts, lin_consts), unflagged(xs, lin_xs)
    outs = [a.tangent() for a in jaxpr.out_avals]
    ct_ys = flagged(outs[num_carry:], nonzero)
    linear_avals = [a.tangent() for a in flagged(jaxpr.in_avals, linear)]

    def run(*args: ArrayLike) -> list[Any]:
        known_consts, rest = args[:len(res_consts)], args[len(res_consts):]
        sums, cts, rows = _sections(rest, len(sum_avals), reached.count(True))
        results = program(*known_consts, *rows[len(ct_ys):], *cts, *rows[:len(ct_ys)])
        results = with_zeros(has, results, linear_avals)
        d_consts, d_carry, d_xs = _sections(results, lin_consts.count(True), num_carry)
        return [*(accumulate(s, d) for s, d in zip(sums, flagged(d_consts, has_consts), strict=True)),
                *map(instantiate, flagged(d_carry, reached)), *flagged(d_xs, has_xs)]

    avals = [*res_consts, *sum_avals, *flagged(outs[:num_carry], reached), *ct_ys, *res_xs]
    return trace_to_jaxpr(run, avals, "scan"), has, reached


def _transpose_mixed(cts, args, linear, *, jaxpr, num_consts, num_carry, **loop):
    """Transpose of a scan that also carries known values, such as a counter; the known values are computed first."""
    passes = _split_body(jaxpr, num_consts, num_carry, linear)
    parts = _sections(args, num_consts, num_carry)
    flags = _sections(passes.inputs, num_consts, num_carry)
    first = _run_first(passes, *map(unflagged, parts, flags), loop)
    consts, carry, xs = map(flagged, parts, flags)
    body, own = hoist_consts(passes.unknown)
    known = len(own) + len(first.consts)
    cts = _transpose(flagged(cts, passes.outputs), *own, *first.consts, *consts, *carry, *first.rows, *xs, jaxpr=body,
                     num_consts=known + len(consts), num_carry=len(carry), **loop)
    ct_consts, ct_carry, ct_xs = _sections(cts, known + len(consts), len(carry))
    cotangents = iter([*ct_consts[known:], *ct_carry, *ct_xs[len(first.rows):]])
    return [next(cotangents) if flag else None for flag in passes.inputs]


# -- batching -----------------------------------------------------------------------------------------------------

def _batch(axis, args, bdims, *, jaxpr, num_consts, num_carry, **loop):
    consts, carry, xs = _sections(args, num_consts, num_carry)
    c_dims, carry_dims, x_dims = _sections(bdims, num_consts, num_carry)
    in_rows = tuple(None if b is None else 0 for b in x_dims)
    no_ys = (False,) * (len(jaxpr.out_avals) - num_carry)

    def body(mapped: Flags) -> tuple[ClosedJaxpr, tuple]:
        dims = (*c_dims, *(0 if m else None for m in mapped), *in_rows)
        return batch_program(jaxpr, axis.mapped, dims, (*mapped, *no_ys))

    mapped = fixpoint([b is not None for b in carry_dims],
                      lambda m: [b is not None for b in body(m)[1][:num_carry]])
    program, out_dims = body(mapped)
    carry = [place_axis(x, b, 0, axis.size) if m else x for x, b, m in zip(carry, carry_dims, mapped, strict=True)]
    xs = [x if b is None else place_axis(x, b, 1, axis.size) for x, b in zip(xs, x_dims, strict=True)]
    outs = _bind(program, consts, carry, xs, loop)
    return outs, [*out_dims[:num_carry], *(None if b is None else b + 1 for b in out_dims[num_carry:])]


def _prune(used: Flags, *, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **loop: Any) -> Pruned:
    """A carry is kept if it is read after the loop, or in a step to compute a value that is kept."""
    carry, rows = used[:num_carry], used[num_carry:]
    while True:
        read = prune_program(jaxpr, (*carry, *rows))[1]
        consts, before, xs = _sections(read, num_consts, num_carry)
        wanted = tuple(a or b for a, b in zip(carry, before, strict=True))
        if wanted == carry:
            break
        carry = wanted
    body, operands = prune_program(jaxpr, (*carry, *rows), (*consts, *carry, *xs))
    params = {"jaxpr": body, "num_consts": sum(consts), "num_carry": sum(carry), **loop}
    return Pruned(params, operands, (*carry, *rows))


def _save(split: Callable, used: Flags, *, length: int, **params: Any) -> Saving | None:
    """Values that a policy saves in a step are rows: results of the first loop, operands of the second.

    A row for another memory is moved in its step, so that the device never holds all rows.
    """
    results = _prune(used, length=length, **params).results
    body, (eqns, saved, again) = split(params["jaxpr"], results)
    if not saved:
        return None
    eqns, saved, again = with_moves(eqns, saved, again)
    j, num_carry = body.jaxpr, params["num_carry"]
    _, _, xs = _sections(j.invars, params["num_consts"], num_carry)
    operands = (*[True] * params["num_consts"], *results[:num_carry], *[True] * len(xs))
    first = j.replace(eqns=eqns, outvars=[*j.outvars, *saved])
    second = Jaxpr(j.constvars, [*flagged(j.invars, operands), *saved], again, flagged(j.outvars, results))
    loop = {**params, "length": length}
    return Saving({**loop, "jaxpr": ClosedJaxpr(first, body.consts)},
                  {**loop, "jaxpr": ClosedJaxpr(second, body.consts), "num_carry": sum(results[:num_carry])},
                  operands, results, [(_stacked(v.aval, length), None) for v in saved])


scan_p = Primitive("scan", type_rule=_type, lower=_lower, jvp=_jvp, transpose=_transpose, batch=_batch,
                   linearize=_linearize, split=_split, prune=_prune, save=_save, multiple_results=True, vary=None,
                   cacheable=False)
