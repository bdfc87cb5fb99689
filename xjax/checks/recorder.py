"""Derivation of checked programs.

`checked_program(program, plan)` has the inputs and results of `program`, and the state of its checks as further
results. A checked program does not take the state as an input: the state of a call, or of one step of a loop, is
merged after it into the state before it. So it is derived once for each program, and cached on it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.checks.errors import NO_FAILURE, Kind, Site, State
from xjax.core.context import context
from xjax.core.errors import Source
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Literal, Var, program_cache
from xjax.core.primitive import Primitive
from xjax.core.staging import trace_to_jaxpr
from xjax.core.types import ShapedArray, typeof
from xjax.ops.arrange import stack
from xjax.ops.bitwise import bitwise_or
from xjax.ops.compare import ne, select_n
from xjax.ops.elementwise import add
from xjax.ops.reduce import argmin
from xjax.ops.shape import broadcast_in_dim
from xjax.ops.slice import dynamic_index_in_dim
from xjax.ops.zeros import zeros_of
from xjax.typing import ArrayLike

# rule(recorder, equation, arguments) -> results: applies the operation and records its checks.
Rule = Callable[["Recorder", Eqn, list[Any]], Sequence[Any]]
_STACKED = 64               # the largest number of values of a check that are stacked
# guards(recorder, program, arguments) -> results: evaluates a program in place of `evaluate`.
Guards = Callable[["Recorder", ClosedJaxpr, Sequence[Any]], list[Any]]


class Plan:
    """The checks to make: a rule for each operation that has some, or holds a program. Compared by identity.

    `categories` selects the checks of users. With `guards`, values that a selection drops do not fail a check, and
    operations marked as unchecked have only the rules of `always`.
    """

    __slots__ = ("rules", "categories", "guards", "always")

    def __init__(self, rules: Mapping[Primitive, Rule], categories: frozenset, guards: Guards | None = None,
                 always: Mapping[Primitive, Rule] | None = None):
        self.rules, self.categories, self.guards, self.always = rules, categories, guards, always or {}


class Recorder:
    """The state of the checks of a program while its equations are evaluated."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.sites: list[Site] = []
        self._parts: dict[Kind, list[State]] = {}
        self.observes = False               # whether the program reports to the host while it runs
        self.guarded: frozenset[Var] = frozenset()          # of the program that is evaluated; see `guards`
        self.doubts: dict[Var, Any] = {}
        self.tests: Any = None
        self.waiting: dict[ShapedArray, tuple[ArrayLike, int]] = {}

    def fail_if(self, pred: ArrayLike, category: type, source: Source | None, static: tuple = (),
                payload: Sequence[Any] = ()) -> None:
        """Record a check, which fails where `pred`, bool[], is true."""
        kind = Kind(category, tuple([typeof(x).strong() for x in payload]))
        code = select_n(pred, np.int32(NO_FAILURE), np.int32(len(self.sites)))
        self.sites.append(Site(kind, source, static))
        self.add(kind, code, payload)

    def add(self, kind: Kind, code: ArrayLike, payload: Sequence[ArrayLike]) -> None:
        """Record a check whose site, if it failed, is `code`, else NO_FAILURE."""
        self._parts.setdefault(kind, []).append((code, list(payload)))

    def include(self, kinds: Sequence[Kind], sites: Sequence[Site], leaves: Sequence[Any]) -> None:
        """Record the checks of a program whose state is `leaves`."""
        for kind, (code, payload) in zip(kinds, states(kinds, leaves), strict=True):
            self.add(kind, shifted(code, len(self.sites)), payload)
        self.sites += sites

    def take(self, checked: Checked, outs: Sequence[Any]) -> list[Any]:
        """The results of the program itself, after recording its state."""
        n = len(outs) - checked.count
        self.include(checked.kinds, checked.sites, outs[n:])
        self.observes = self.observes or checked.observes
        return list(outs[:n])

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(self._parts)

    def leaves(self) -> list[Any]:
        """The state of all checks so far: for each kind, the check that failed first."""
        return [x for kind, parts in self._parts.items() for code, payload in [_first_of(kind, parts)]
                for x in (code, *payload)]


class Checked(NamedTuple):
    """A checked program, with the kinds and sites of its state."""

    program: ClosedJaxpr
    kinds: tuple[Kind, ...]
    sites: tuple[Site, ...]
    observes: bool = False

    @property
    def active(self) -> bool:
        """Whether it makes any check."""
        return bool(self.kinds) or self.observes

    @property
    def count(self) -> int:
        """The number of arrays in the state."""
        return sum(1 + len(kind.avals) for kind in self.kinds)

    @property
    def state_avals(self) -> tuple[ShapedArray, ...]:
        return self.program.out_avals[len(self.program.out_avals) - self.count:]


def states(kinds: Sequence[Kind], leaves: Sequence[Any]) -> list[State]:
    """The arrays of a state, by kind."""
    rest = iter(leaves)
    return [(next(rest), [next(rest) for _ in kind.avals]) for kind in kinds]


def has_failed(code: ArrayLike) -> ArrayLike:
    """Where a check failed, by its code."""
    return ne(code, np.int32(NO_FAILURE))


def first_failure(old: State, new: State) -> State:
    """The earlier of two states if its check failed, else the later one; for each element, if they are mapped."""
    failed = has_failed(old[0])
    axes = range(len(typeof(failed).shape))
    return (select_n(failed, new[0], old[0]),
            [select_n(broadcast_in_dim(failed, typeof(a).shape, axes), b, a)
             for a, b in zip(old[1], new[1], strict=True)])


def _first_of(kind: Kind, parts: Sequence[State]) -> State:
    """The state of several whose failed site is the first. Small values are stacked: a chain of selections is slow."""
    if len(parts) > 1 and sum(a.size for a in kind.avals) <= _STACKED:
        codes = stack([code for code, _ in parts])
        first = argmin(codes, 0, np.int32)
        columns = [codes, *[stack(column) for column in zip(*[payload for _, payload in parts], strict=True)]]
        code, *payload = [dynamic_index_in_dim(x, first, 0, keepdims=False) for x in columns]
        return code, payload
    return functools.reduce(first_failure, parts)


def shifted(code: ArrayLike, offset: int) -> ArrayLike:
    """A code of a program as a code of a program that has `offset` sites before it."""
    return code if not offset else select_n(has_failed(code), code, add(code, np.int32(offset)))


def no_failure(kinds: Sequence[Kind]) -> list[Any]:
    """The arrays of the state before any check."""
    return [x for kind in kinds for x in (np.int32(NO_FAILURE), *map(zeros_of, kind.avals))]


def either(flags: Sequence[ArrayLike]) -> ArrayLike:
    """Whether one of several bool arrays is true, element by element."""
    out = flags[0]
    for flag in flags[1:]:
        out = bitwise_or(out, flag)
    return out


def evaluate(recorder: Recorder, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a program with its checks, in the current trace."""
    jaxpr, plan = closed.jaxpr, recorder.plan
    if plan.guards is not None:
        return plan.guards(recorder, closed, args)
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    saved = context.source
    try:
        for eqn in jaxpr.eqns:
            ins = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
            context.source = eqn.source or saved
            rule = plan.rules.get(eqn.primitive)
            outs = apply(eqn, ins) if rule is None else rule(recorder, eqn, ins)
            env.update(zip(eqn.outvars, outs, strict=True))
    finally:
        context.source = saved
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def apply(eqn: Eqn, args: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation, as a list."""
    out = eqn.primitive.bind(*args, **eqn.params)
    return out if eqn.primitive.multiple_results else [out]


@program_cache
def checked_program(closed: ClosedJaxpr, plan: Plan) -> Checked:
    """The program with the state of its checks as further results."""
    recorder = Recorder(plan)

    def run(*args: ArrayLike) -> list[Any]:
        outs = evaluate(recorder, closed, args)
        return [*outs, *recorder.leaves()]

    program = trace_to_jaxpr(run, closed.in_avals, "checkify")
    return Checked(program, recorder.kinds, tuple(recorder.sites), recorder.observes)
