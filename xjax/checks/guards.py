"""Values that a selection drops: `where(x > 0, log(x), 0)` does not fail the check of log.

A variable is guarded if every use of it leads, through operations on single elements, to a selection, to a test such as
isnan, or to a function with a limit at infinity: the difference in `exp(x - max)` may be -inf, and the result 0 is
right. A wrong element of a guarded variable is a doubt. The doubts about a variable are an array of sites; they follow
the value through these operations, and end where a result is finite again. One becomes a failure where the selection
chooses its element, or the function returns NaN or an infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.checks.errors import NO_FAILURE, CheckError, Kind, Site
from xjax.checks.produced import Check, Tests, Wrong, filled, is_finite, spread
from xjax.checks.recorder import Recorder, Rule, apply
from xjax.core import dtypes
from xjax.core.config import UNCHECKED
from xjax.core.context import context
from xjax.core.errors import scope_of
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Literal, Var, program_cache
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray, typeof
from xjax.ops import (
    arrange,
    bitwise,
    compare,
    convert,
    elementwise,
    identity,
    piecewise,
    reduce,
    shape,
    slice,
    special,
    transcendental,
)
from xjax.ops.compare import eq, select_n, select_n_p
from xjax.typing import ArrayLike

_TESTS = frozenset((compare.eq_p, compare.ne_p, elementwise.is_finite_p))
_WITH_LIMITS = frozenset((transcendental.exp_p, transcendental.exp2_p, transcendental.expm1_p, transcendental.tanh_p,
                          transcendental.atan_p, transcendental.logistic_p, special.erf_p, special.erfc_p))
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


_KIND = Kind(ModeError, (ShapedArray((3,), np.dtype(np.int32)),))
_NO_VALUES = np.zeros(3, np.int32)
_TOGETHER = 8               # the most checks with one reduction: the values that they test are in memory until then


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
        return p in _TESTS or p in _WITH_LIMITS or (p is select_n_p and k > 0) or (
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
            if (wrong := check(eqn, args, outs, recorder.tests)) is not None:
                _fail(recorder, eqn, wrong)
        return outs
    return rule


def _fail(recorder: Recorder, eqn: Eqn, wrong: Wrong) -> None:
    size = typeof(wrong.masks[0][0]).shape
    codes: ArrayLike = filled(size, NO_FAILURE)
    for mask, detail in reversed(wrong.masks):
        codes = select_n(mask, codes, filled(size, len(recorder.sites)))
        recorder.sites.append(Site(_KIND, context.source, (wrong.check, eqn.primitive.name, detail)))
    if wrong.check == "index":
        recorder.add(_KIND, _lowest(codes), [wrong.values])
    else:
        _record(recorder, eqn.outvars[0], codes)


def _record(recorder: Recorder, result: Var, codes: ArrayLike) -> None:
    """Record the sites of a result: as doubts if it is guarded, else as failures.

    Failures wait for others of their type, since each reduction is a kernel to compile.
    """
    if result in recorder.guarded:
        recorder.doubts[result] = _first(recorder.doubts.get(result), codes)
        return
    aval = typeof(codes)
    before, count = recorder.waiting.pop(aval, (None, 0))
    codes = _first(before, codes)
    if count + 1 < _TOGETHER:
        recorder.waiting[aval] = codes, count + 1
    else:
        recorder.add(_KIND, _lowest(codes), [_NO_VALUES])


def _record_waiting(recorder: Recorder) -> None:
    for codes, _ in recorder.waiting.values():
        recorder.add(_KIND, _lowest(codes), [_NO_VALUES])


def _first(codes: ArrayLike | None, others: ArrayLike) -> ArrayLike:
    """Element by element, the first site of both."""
    return others if codes is None else piecewise.min(codes, others)


def _lowest(codes: ArrayLike) -> ArrayLike:
    """The first site of an array of sites."""
    return reduce.reduce_min(codes, tuple(range(len(typeof(codes).shape))))


def evaluate_guarded(recorder: Recorder, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a program with its checks, in the current trace."""
    jaxpr, plan = closed.jaxpr, recorder.plan
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    saved = context.source, recorder.guarded, recorder.doubts, recorder.tests, recorder.waiting
    recorder.guarded, recorder.doubts, recorder.tests, recorder.waiting = guarded(closed), {}, Tests(), {}
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
        _record_waiting(recorder)
    finally:
        context.source, recorder.guarded, recorder.doubts, recorder.tests, recorder.waiting = saved
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def _pass_on(recorder: Recorder, eqn: Eqn, args: Sequence[ArrayLike], out: ArrayLike) -> None:
    """The doubts about the arguments of an equation become doubts about its result, or failures."""
    p = eqn.primitive
    if p in _TESTS:
        return
    codes = None
    for k, v in enumerate(eqn.invars):
        if type(v) is Var and v in recorder.doubts:
            codes = _first(codes, _moved(p, eqn, k, recorder.doubts[v], args, out, recorder.tests))
    if codes is not None:
        _record(recorder, eqn.outvars[0], codes)


def _moved(p: Primitive, eqn: Eqn, k: int, codes: ArrayLike, args: Sequence[ArrayLike], out: ArrayLike,
           tests: Tests) -> ArrayLike:
    """The doubts about argument `k` as doubts about the result."""
    if p in _MOVING:
        return p.bind(codes, **eqn.params)
    size = typeof(out).shape
    codes, none = spread(codes, size), filled(size, NO_FAILURE)
    if p is select_n_p:
        which = args[0]
        chosen = eq(which, typeof(which).dtype.type(k - 1))
        return select_n(spread(chosen, size), none, codes)
    if dtypes.is_inexact(typeof(out).dtype):            # finite again, such as 1 / infinity
        return select_n(tests(is_finite, out), codes, none)
    return codes
