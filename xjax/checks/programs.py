"""Rules of checked programs for operations that hold programs: calls, loops, conditionals, custom rules, shard_map.

A program without any check keeps its operation as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.checks.errors import Kind
from xjax.checks.recorder import (
    Checked,
    Plan,
    Recorder,
    Rule,
    apply,
    checked_program,
    evaluate,
    first_failure,
    has_failed,
    no_failure,
    shifted,
    states,
)
from xjax.core.jaxpr import ClosedJaxpr, Eqn, newest, program_cache
from xjax.core.primitive import Primitive
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.core.varying import INVARIANT
from xjax.lax.composite import composite_p
from xjax.lax.cond import cond_p, hoist_branches
from xjax.lax.scan_rules import scan_p
from xjax.lax.while_loop import while_p
from xjax.ops.arrange import iota
from xjax.ops.compare import select_n
from xjax.ops.convert import convert_element_type_p
from xjax.ops.pvary import vary_to
from xjax.ops.reduce import argmax, reduce_max
from xjax.ops.shape import broadcast_in_dim, reshape
from xjax.ops.slice import dynamic_index_in_dim
from xjax.runtime.jit_primitive import jit_p
from xjax.runtime.placement.partition_spec import PartitionSpec
from xjax.runtime.shard_map import Region, bind_shard_map, shard_map_p
from xjax.transforms.custom_jvp import custom_jvp_call_p
from xjax.transforms.custom_vjp import custom_vjp_call_p
from xjax.transforms.custom_vmap import custom_vmap_p
from xjax.transforms.remat import remat_p
from xjax.typing import Array, ArrayLike


def _call(param: str) -> Rule:
    """The rule of a call of the program in `param`."""
    return lambda recorder, eqn, args: call_of(recorder, eqn, args, param, recorder.plan)


def call_of(recorder: Recorder, eqn: Eqn, args: list[Any], param: str, plan: Plan) -> Sequence[Any]:
    """The call, of the program with the checks of `plan`."""
    checked = checked_program(eqn.params[param], plan)
    if not checked.active:
        return apply(eqn, args)
    program, consts = hoist_consts(checked.program)
    return recorder.take(checked, eqn.primitive.bind(*consts, *args, **{**eqn.params, param: program}))


def _inline(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
    return evaluate(recorder, eqn.params["jaxpr"], args)


# -- custom rules -------------------------------------------------------------------------------------------------
# The derivative rules are the user's; the checks of the function itself are made along with them.

def _custom_jvp(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
    checked, jvp = checked_program(eqn.params["call_jaxpr"], recorder.plan), eqn.params["jvp"]
    if not checked.active:
        return apply(eqn, args)
    n = len(eqn.outvars)

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        outs, along = jvp(primals, tangents)
        state = checked.program(*primals)[n:]
        return [*outs, *state], [*along, *[Zero(typeof(x).tangent()) for x in state]]

    return recorder.take(checked, custom_jvp_call_p.bind(*args, **{
        **eqn.params, "call_jaxpr": checked.program, "jvp": functools.wraps(jvp, updated=())(rule)}))


def _custom_vjp(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
    checked, fwd, bwd = checked_program(eqn.params["call_jaxpr"], recorder.plan), eqn.params["fwd"], eqn.params["bwd"]
    if not checked.active:
        return apply(eqn, args)
    n = len(eqn.outvars)

    def forward(perturbed: Sequence[bool], *xs: ArrayLike) -> tuple[list[Any], list[Any], Any]:
        outs, residuals, tree = fwd(perturbed, *xs)
        return [*outs, *checked.program(*xs)[n:]], residuals, tree

    def backward(tree: object, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        return bwd(tree, residuals, cts[:n])

    forward.__name__, backward.__name__ = getattr(fwd, "__name__", "fwd"), getattr(bwd, "__name__", "bwd")
    return recorder.take(checked, custom_vjp_call_p.bind(*args, **{
        **eqn.params, "call_jaxpr": checked.program, "fwd": forward, "bwd": backward}))


def _custom_vmap(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
    """The call, written out: `vmap` of a checked function maps its operations, not the user's rule."""
    checked = checked_program(eqn.params["call"], recorder.plan)
    return apply(eqn, args) if not checked.active else evaluate(recorder, eqn.params["call"], args)


# -- conditionals -------------------------------------------------------------------------------------------------

def _cond(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
    branches = eqn.params["branches"]
    checked, programs, consts = _checked_branches(newest(branches), branches, recorder.plan)
    if not checked.active:
        return apply(eqn, args)
    return recorder.take(checked, cond_p.bind(args[0], *consts, *args[1:], branches=programs))


@program_cache
def _checked_branches(holder: ClosedJaxpr, branches: tuple[ClosedJaxpr, ...],
                      plan: Plan) -> tuple[Checked, tuple[ClosedJaxpr, ...], list[Any]]:
    """All branches, with one state for the checks of all of them."""
    parts = [checked_program(branch, plan) for branch in branches]
    kinds = tuple(dict.fromkeys(kind for part in parts for kind in part.kinds))
    offsets = np.cumsum([0, *[len(part.sites) for part in parts]]).tolist()
    programs = [_with_kinds(part, kinds, offset) for part, offset in zip(parts, offsets, strict=False)]
    joined, consts = hoist_branches(newest(programs), tuple(programs))
    checked = Checked(programs[0], kinds, tuple(site for part in parts for site in part.sites),
                      any(part.observes for part in parts))
    return checked, joined, consts


def _with_kinds(checked: Checked, kinds: tuple[Kind, ...], offset: int) -> ClosedJaxpr:
    """The program with a state of these kinds, whose codes start at `offset`."""
    n = len(checked.program.out_avals) - checked.count

    def run(*args: ArrayLike) -> list[Any]:
        outs = checked.program(*args)
        own = dict(zip(checked.kinds, states(checked.kinds, outs[n:]), strict=True))
        leaves = outs[:n]
        for kind in kinds:
            if kind in own:
                leaves += [shifted(own[kind][0], offset), *own[kind][1]]
            else:
                leaves += no_failure([kind])
        return leaves

    return trace_to_jaxpr(run, checked.program.in_avals, "checkify")


# -- loops --------------------------------------------------------------------------------------------------------

def _carried(checked: Checked, shape: tuple[int, ...] = ()) -> list[ShapedArray]:
    """The types of the state in a loop: all parts vary along the axes along which one of them does."""
    vma = INVARIANT.union(*[a.vma for a in checked.state_avals])
    avals = [a for kind in checked.kinds for a in (ShapedArray((), np.dtype(np.int32)), *kind.avals)]
    return [a.strong().update(shape=(*shape, *a.shape), vma=vma) for a in avals]


def _start(checked: Checked, avals: Sequence[ShapedArray]) -> list[Any]:
    return [vary_to(broadcast_in_dim(x, a.shape, range(a.ndim - len(typeof(x).shape), a.ndim)), a.vma)
            for x, a in zip(no_failure(checked.kinds), avals, strict=True)]


def _merged(kinds: Sequence[Kind], old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    pairs = zip(states(kinds, old), states(kinds, new), strict=True)
    return [x for before, after in pairs for code, payload in [first_failure(before, after)] for x in (code, *payload)]


def _scan(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
    """The loop, which is not unrolled: the checks of one step are many operations, and compile for long."""
    params, body = eqn.params, eqn.params["jaxpr"]
    checked = checked_program(body, recorder.plan)
    if not checked.active:
        return apply(eqn, args)
    n, m = params["num_consts"], checked.count
    step, consts = hoist_consts(_checked_step(body, recorder.plan, n, params["num_carry"]))
    start = _start(checked, _carried(checked))
    outs = scan_p.bind(*consts, *args[:n], *start, *args[n:], **{
        **params, "unroll": 1, "jaxpr": step, "num_consts": len(consts) + n, "num_carry": m + params["num_carry"]})
    return recorder.take(checked, [*outs[m:], *outs[:m]])


@program_cache
def _checked_step(body: ClosedJaxpr, plan: Plan, num_consts: int, num_carry: int) -> ClosedJaxpr:
    """The body of a scan, (constants, state, carry, x) -> (state, carry, y)."""
    checked = checked_program(body, plan)
    m, avals = checked.count, checked.program.in_avals

    def run(*args: ArrayLike) -> list[Any]:
        n = num_consts + m
        outs = checked.program(*args[:num_consts], *args[n:])
        k = len(outs) - m
        return [*_merged(checked.kinds, args[num_consts:n], outs[k:]), *outs[:k]]

    return trace_to_jaxpr(run, [*avals[:num_consts], *_carried(checked), *avals[num_consts:]], "checkify")


def _while(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
    """The condition is checked with the body: it is computed before the loop and after each iteration.

    The loop carries (condition, state, carry). Where a condition has one entry for each mapped element, so has the
    state.
    """
    params = eqn.params
    test, body, sizes = params["cond_jaxpr"], params["body_jaxpr"], (params["cond_nconsts"], params["body_nconsts"])
    checked_test = checked_program(test, recorder.plan)
    checked = _checked_iteration(newest((test, body)), test, body, recorder.plan, sizes)
    if not checked.active:
        return apply(eqn, args)
    n, shape = sum(sizes), test.out_avals[0].shape
    condition, = recorder.take(checked_test, checked_test.program(*args[:sizes[0]], *args[n:]))
    avals = _carried(checked, shape)
    step, consts = hoist_consts(checked.program)
    unfinished = _first_input(newest((test, body)), (typeof(condition), *avals, *[typeof(x) for x in args[n:]]))
    outs = while_p.bind(*consts, *args[:n], vary_to(condition, step.out_avals[0].vma), *_start(checked, avals),
                        *args[n:], cond_jaxpr=unfinished, cond_nconsts=0, body_jaxpr=step, body_nconsts=len(consts) + n)
    m = 1 + checked.count
    state = outs[1:m] if not shape else _of_one_element(checked.kinds, outs[1:m], len(shape))
    recorder.include(checked.kinds, checked.sites, state)
    return [_as_weak_as(v.aval, x) for v, x in zip(eqn.outvars, outs[m:], strict=True)]


def _as_weak_as(aval: ShapedArray, x: ArrayLike) -> ArrayLike:
    """`x` with the weak type of `aval`: the checked loop carries strong types."""
    if aval.weak_type == typeof(x).weak_type:
        return x
    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type)


@program_cache
def _first_input(holder: ClosedJaxpr, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    """A program that returns its first input."""
    return trace_to_jaxpr(lambda *args: [args[0]], avals, "checkify")


@program_cache
def _checked_iteration(holder: ClosedJaxpr, test: ClosedJaxpr, body: ClosedJaxpr, plan: Plan,
                       sizes: tuple[int, int]) -> Checked:
    """(constants of the condition and of the body, condition, state, carry) -> (condition, state, carry)."""
    checked_body, checked_test = checked_program(body, plan), checked_program(test, plan)
    shape, n = test.out_avals[0].shape, sum(sizes)

    def one(*args: ArrayLike) -> list[Any]:
        recorder = Recorder(plan)
        carry = recorder.take(checked_body, checked_body.program(*args[sizes[0]:]))
        condition = recorder.take(checked_test, checked_test.program(*args[:sizes[0]], *carry))
        recorders.append(recorder)
        return [*condition, *carry, *recorder.leaves()]

    recorders: list[Recorder] = []
    carry_avals = [a.strong() if a.weak_type else a for a in body.in_avals[sizes[1]:]]
    avals = [*test.in_avals[:sizes[0]], *body.in_avals[:sizes[1]], *carry_avals]
    iteration = trace_to_jaxpr(one, avals, "checkify")
    recorder = recorders[-1]
    checked = Checked(iteration, recorder.kinds, tuple(recorder.sites), recorder.observes)
    m = 1 + checked.count

    def run(*args: ArrayLike) -> list[Any]:
        condition, state, carry = args[n], args[n + 1:n + m], args[n + m:]
        if shape:
            carry = [_only_active(condition, x, len(shape)) for x in carry]
        outs = iteration(*args[:n], *carry)
        k = len(outs) - checked.count
        new = outs[k:]
        if shape:
            new = [broadcast_in_dim(x, (*shape, *typeof(x).shape), range(len(shape), len(shape) + typeof(x).ndim))
                   for x in new]
        return [outs[0], *_merged(checked.kinds, state, new), *outs[1:k]]

    condition = test.out_avals[0].update(vma=iteration.out_avals[0].vma)
    whole = trace_to_jaxpr(run, [*avals[:n], condition, *_carried(checked, shape), *avals[n:]], "checkify")
    return checked._replace(program=whole)


def _only_active(active: ArrayLike, x: ArrayLike, axes: int) -> Array:
    """`x`, with the elements that have left the loop replaced by one that has not, so that their checks do not fail."""
    shape, size = typeof(x).shape, int(np.prod(typeof(active).shape))
    flat = reshape(x, (size, *shape[axes:]))
    chosen = dynamic_index_in_dim(flat, argmax(reshape(active, (size,)), 0, np.int32), 0, keepdims=False)
    return select_n(broadcast_in_dim(active, shape, range(axes)),
                    broadcast_in_dim(chosen, shape, range(axes, len(shape))), x)


def _of_one_element(kinds: Sequence[Kind], leaves: Sequence[Any], axes: int) -> list[Any]:
    out: list[Any] = []
    for code, payload in states(kinds, leaves):
        size = int(np.prod(typeof(code).shape))
        out += one_of(reshape(code, (size,)), [reshape(x, (size, *typeof(x).shape[axes:])) for x in payload])
    return out


def one_of(code: ArrayLike, payload: Sequence[ArrayLike]) -> list[Array]:
    """The state of the last failed element of a mapped axis, which is axis 0 of `code` and of the values."""
    n = typeof(code).shape[0]
    index = reduce_max(select_n(has_failed(code), np.zeros(n, np.int32), iota(np.int32, n)), (0,))
    return [dynamic_index_in_dim(x, index, 0, keepdims=False) for x in (code, *payload)]


# -- several devices ----------------------------------------------------------------------------------------------

def _shard_map(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
    """Each device returns the state of its checks, as one row."""
    params = eqn.params
    region = Region.of(params)
    with region.scope():
        checked = checked_program(params["jaxpr"], recorder.plan)
        if not checked.active:
            return apply(eqn, args)
        program = _with_rows(params["jaxpr"], recorder.plan)
    axes = [tuple(a for a in region.in_order if not region.check_vma or a in aval.vma) for aval in checked.state_avals]
    specs = [*params["out_specs"], *[PartitionSpec(a) if a else PartitionSpec() for a in axes]]
    outs = bind_shard_map(program, args, region, params["in_specs"], specs)
    n = len(eqn.outvars)
    rows: list[Any] = []
    for code, payload in states(checked.kinds, outs[n:]):
        size = max(typeof(x).shape[0] for x in (code, *payload))
        rows += one_of(*_same_rows(size, code, payload))
    return recorder.take(checked, [*outs[:n], *rows])


def _same_rows(size: int, code: ArrayLike, payload: Sequence[ArrayLike]) -> tuple[ArrayLike, list[ArrayLike]]:
    """A state whose parts have `size` rows each; a part that is equal on all devices has one."""
    def rows(x: ArrayLike) -> ArrayLike:
        shape = typeof(x).shape
        return x if shape[0] == size else broadcast_in_dim(x, (size, *shape[1:]), range(len(shape)))
    return rows(code), [rows(x) for x in payload]


@program_cache
def _with_rows(closed: ClosedJaxpr, plan: Plan) -> ClosedJaxpr:
    checked = checked_program(closed, plan)
    n = len(checked.program.out_avals) - checked.count

    def run(*args: ArrayLike) -> list[Any]:
        outs = checked.program(*args)
        return [*outs[:n], *[reshape(x, (1, *typeof(x).shape)) for x in outs[n:]]]

    return trace_to_jaxpr(run, checked.program.in_avals, "checkify")


PROGRAM_RULES: dict[Primitive, Rule] = {
    jit_p: _call("jaxpr"), remat_p: _call("jaxpr"), composite_p: _inline, custom_jvp_call_p: _custom_jvp,
    custom_vjp_call_p: _custom_vjp, custom_vmap_p: _custom_vmap, cond_p: _cond, scan_p: _scan, while_p: _while,
    shard_map_p: _shard_map}
