"""Values that a selection drops: `where(x > 0, log(x), 0)` does not fail the check of log.

A variable is guarded if every use of it leads, through operations on single elements, to a selection, or to a test such
as isnan. A wrong element of a guarded variable is a doubt. Doubts are masks; they follow the value through these
operations, and become a failure where the selection chooses the element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xjax.checks.errors import CheckError
from xjax.checks.produced import Check, Wrong, any_true, is_finite, spread
from xjax.checks.recorder import Recorder, Rule, apply
from xjax.core import dtypes
from xjax.core.config import UNCHECKED
from xjax.core.context import context
from xjax.core.errors import Source, scope_of
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Literal, Var, program_cache
from xjax.core.primitive import Primitive
from xjax.core.types import typeof
from xjax.ops import arrange, bitwise, compare, convert, elementwise, identity, piecewise, shape, slice, transcendental
from xjax.ops.bitwise import bitwise_and, bitwise_not, bitwise_or
from xjax.ops.compare import eq, select_n_p

_TESTS = frozenset((compare.eq_p, compare.ne_p, elementwise.is_finite_p))
# They move elements: a mask moves in the same way.
_MOVING = frozenset((shape.broadcast_in_dim_p, shape.reshape_p, shape.squeeze_p, shape.transpose_p, slice.slice_p,
                     arrange.rev_p, identity.copy_p, identity.stop_gradient_p))
_ELEMENTWISE = frozenset((
    elementwise.add_p, elementwise.sub_p, elementwise.mul_p, elementwise.div_p, elementwise.neg_p,
    elementwise.integer_pow_p, elementwise.square_p, elementwise.floor_p, elementwise.ceil_p, elementwise.round_p,
    elementwise.one_minus_square_p, piecewise.sign_p, piecewise.abs_p, piecewise.max_p, piecewise.min_p,
    piecewise.rem_p, convert.convert_element_type_p, transcendental.exp_p, transcendental.exp2_p,
    transcendental.expm1_p, transcendental.log_p, transcendental.log2_p, transcendental.log1p_p, transcendental.sqrt_p,
    transcendental.rsqrt_p, transcendental.cbrt_p, transcendental.pow_p, transcendental.sin_p, transcendental.cos_p,
    transcendental.tan_p, transcendental.tanh_p, transcendental.atan_p, transcendental.logistic_p,
    bitwise.and_p, bitwise.or_p, bitwise.xor_p, bitwise.shift_left_p, bitwise.shift_right_logical_p,
    bitwise.shift_right_arithmetic_p))


class ModeError(CheckError):
    """A failed check of checked mode: static is (check, operation, detail), the payload int32[3]."""


class _Doubt(NamedTuple):
    mask: Any
    source: Source | None
    static: tuple
    values: Any


@program_cache
def guarded(closed: ClosedJaxpr) -> frozenset[Var]:
    """The guarded variables of a program."""
    uses: dict[Var, list[tuple[Eqn, int]]] = {}
    for eqn in closed.eqns:
        for k, v in enumerate(eqn.invars):
            if type(v) is Var:
                uses.setdefault(v, []).append((eqn, k))
    outs, result = {v for v in closed.jaxpr.outvars if type(v) is Var}, set()

    def drops(eqn: Eqn, k: int) -> bool:
        p = eqn.primitive
        return p in _TESTS or (p is select_n_p and k > 0) or (
            (p in _ELEMENTWISE or p in _MOVING) and eqn.outvars[0] in result)

    for eqn in reversed(closed.eqns):
        for v in eqn.outvars:
            if v not in outs and all(drops(*use) for use in uses.get(v, ())):
                result.add(v)
    return frozenset(result)


def checking(*checks: Check) -> Rule:
    """The rule that applies the operation and makes these checks."""
    def rule(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
        outs = apply(eqn, args)
        for check in checks:
            if (wrong := check(eqn, args, outs)) is not None:
                _fail(recorder, eqn, wrong)
        return outs
    return rule


def _fail(recorder: Recorder, eqn: Eqn, wrong: Wrong) -> None:
    static = (wrong.check, eqn.primitive.name, wrong.detail)
    size = typeof(wrong.mask).shape
    if wrong.check != "index" and eqn.outvars[0] in recorder.guarded:
        recorder.doubts.setdefault(eqn.outvars[0], []).append(_Doubt(wrong.mask, context.source, static, wrong.values))
    else:
        recorder.fail_if(any_true(wrong.mask) if size else wrong.mask, ModeError, context.source, static,
                         [wrong.values])


def evaluate_guarded(recorder: Recorder, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a program with its checks, in the current trace."""
    jaxpr, plan = closed.jaxpr, recorder.plan
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    saved = context.source, recorder.guarded, recorder.doubts
    recorder.guarded, recorder.doubts = guarded(closed), {}
    try:
        for eqn in jaxpr.eqns:
            ins = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
            context.source = eqn.source or saved[0]
            rules = plan.always if UNCHECKED in scope_of(eqn.source) else plan.rules
            rule = rules.get(eqn.primitive)
            outs = apply(eqn, ins) if rule is None else rule(recorder, eqn, ins)
            env.update(zip(eqn.outvars, outs, strict=True))
            if recorder.doubts and eqn.outvars:
                _pass_on(recorder, eqn, ins, outs[0])
    finally:
        context.source, recorder.guarded, recorder.doubts = saved
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def _pass_on(recorder: Recorder, eqn: Eqn, args: Sequence[Any], out: Any) -> None:
    """The doubts about the arguments of an equation become doubts about its result, or failures."""
    p, result, size = eqn.primitive, eqn.outvars[0], typeof(out).shape
    if p in _TESTS:
        return
    merged: dict[tuple, _Doubt] = {}
    for k, v in enumerate(eqn.invars):
        for doubt in recorder.doubts.get(v, ()) if type(v) is Var else ():
            mask = _moved(p, eqn, k, doubt.mask, args, out, size)
            key = (doubt.source, doubt.static, id(doubt.values))
            if key in merged:
                mask = bitwise_or(mask, merged[key].mask)
            merged[key] = doubt._replace(mask=mask)
    if not merged:
        return
    if result in recorder.guarded:
        recorder.doubts.setdefault(result, []).extend(merged.values())
        return
    for doubt in merged.values():
        recorder.fail_if(any_true(doubt.mask), ModeError, doubt.source, doubt.static, [doubt.values])


def _moved(p: Primitive, eqn: Eqn, k: int, mask: Any, args: Sequence[Any], out: Any, size: tuple[int, ...]) -> Any:
    """A mask over argument `k` as a mask over the result."""
    if p in _MOVING:
        return p.bind(mask, **eqn.params)
    mask = spread(mask, size)
    if p is select_n_p:
        which = args[0]
        chosen = eq(which, typeof(which).dtype.type(k - 1))
        return bitwise_and(mask, spread(chosen, size))
    if dtypes.is_inexact(typeof(out).dtype):            # such as 1 / infinity
        return bitwise_and(mask, bitwise_not(is_finite(out)))
    return mask
