"""Checked mode: programs and eager operations with checks, and the errors of failed ones. See `xjax.checking`.

`xjax.runtime` calls these functions while the option `check` is set.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.checks.errors import NO_FAILURE, Site
from xjax.checks.guards import checking, evaluate_guarded
from xjax.checks.keys import KEY_RULES, TABLE, report_created
from xjax.checks.produced import CHECKS
from xjax.checks.programs import PROGRAM_RULES, call_of
from xjax.checks.recorder import Checked, Plan, Recorder, Rule, checked_program, states
from xjax.core.cache import Cache
from xjax.core.config import DEFAULT_MODE, UNCHECKED, config
from xjax.core.context import context
from xjax.core.errors import KeyReuseError, Source, bad, position_text, scope_of, user_location
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, newest
from xjax.core.primitive import Primitive
from xjax.core.staging import hoist_consts
from xjax.lax.composite import composite_p
from xjax.runtime import xla
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.devices.in_flight import effects_barrier
from xjax.runtime.dispatch import eval_trace
from xjax.runtime.jit_primitive import jit_p
from xjax.runtime.programs.launch import Watch
from xjax.transforms.custom_jvp import custom_jvp_call_p
from xjax.transforms.custom_vjp import custom_vjp_call_p
from xjax.transforms.custom_vmap import custom_vmap_p
from xjax.transforms.remat import remat_p
from xjax.typing import ArrayLike

# Eagerly, these apply a function, whose operations are checked one by one.
_FUNCTIONS = frozenset((composite_p, custom_jvp_call_p, custom_vjp_call_p, custom_vmap_p))


# -- plans --------------------------------------------------------------------------------------------------------

@functools.cache
def plan_of(option: str) -> Plan:
    """The plan with the checks that the option names: "index,nan"."""
    names = option.split(",")
    checks: dict[Primitive, list] = {}
    for name in names:
        for p, check in CHECKS.get(name, {}).items():
            if check not in checks.setdefault(p, []):
                checks[p].append(check)
    keys = KEY_RULES if "keys" in names else {}
    again = _again(option) if keys else None
    rules = {**{p: checking(*of) for p, of in checks.items()}, **keys, **PROGRAM_RULES, remat_p: _remat(again)}
    return Plan(rules, frozenset(), evaluate_guarded, keys)


def _again(option: str) -> Plan:
    """The plan for computations that are repeated, where keys are used again."""
    return plan_of(",".join(name for name in option.split(",") if name != "keys"))


def _remat(again: Plan | None) -> Rule:
    def rule(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
        plan = again if again is not None and eqn.params["differentiated"] else recorder.plan
        return call_of(recorder, eqn, args, "jaxpr", plan)
    return rule


# -- programs and operations --------------------------------------------------------------------------------------

def of_program(program: ClosedJaxpr, is_library: bool) -> tuple[ClosedJaxpr, Watch | None, int]:
    """For `jit`: (the checked program, the function that inspects its results, the number of results it removes).

    Args: is_library: it is a function of this library, whose failures are those of the line that calls it.
    """
    checked = checked_program(program, plan_of(config.check))
    if not checked.active:
        return program, None, 0

    def watch(launch: Callable, args: Sequence[Array]) -> list[Array]:
        source = context.source or user_location()
        TABLE.begin(source, not is_library)
        return _inspected(checked, launch(args), source, not is_library)

    # Constants of the checked program, which are small, follow those of the program, its first inputs.
    return checked.program, watch, checked.count


def run_library(closed: ClosedJaxpr, name: str, args: Sequence[Array]) -> list[Any]:
    """Run a function of this library as a program; its failures are those of the user's line."""
    return _run(eval_trace.run_unwatched, closed, name, args, plan_of(config.check), context.source or user_location())


def operation(run: Callable, p: Primitive, args: Sequence[Any], params: dict) -> Array | list[Array]:
    """Run one operation eagerly, with its checks."""
    plan = plan_of(config.check)
    scope = f"{context.scope}{scope_of(context.source)}"
    rules = plan.always if UNCHECKED in scope else plan.rules
    if p not in rules or p in _FUNCTIONS:
        return run(p, args, params)
    arrays = [to_array(x) for x in args]
    source = context.source or user_location()
    mark = DEFAULT_MODE if DEFAULT_MODE in scope else ""
    closed = _equation(p, tuple([x.aval for x in arrays]), params, mark)
    outs = _run(run, closed, p.name, arrays, plan, source, own_lines=p in PROGRAM_RULES)
    return outs if p.multiple_results else outs[0]


_equations: Cache[ClosedJaxpr] = Cache()


def _equation(p: Primitive, avals: tuple, params: dict, mark: str) -> ClosedJaxpr:
    """A program of one equation, whose source has only the mark."""
    programs = [x for value in params.values() for x in (value if isinstance(value, tuple) else (value,))
                if isinstance(x, ClosedJaxpr)]
    cache: Any = newest(programs).memo if programs else _equations
    key = ("checked", p, avals, mark, *params.items())
    try:
        closed = cache.get(key)
    except TypeError:
        closed, cache = None, {}
    if closed is None:
        out = p.out_type(avals, params)
        invars = [Var(a) for a in avals]
        outvars = [Var(a) for a in (out if p.multiple_results else (out,))]
        source: Any = (_equation.__code__, 0, mark) if mark else None
        closed = cache[key] = ClosedJaxpr(Jaxpr((), invars, [Eqn(invars, outvars, p, params, source)], outvars))
    return closed


def _run(run: Callable, closed: ClosedJaxpr, name: str, args: Sequence[Any], plan: Plan, source: Source | None,
         own_lines: bool = False) -> list[Any]:
    checked = checked_program(closed, plan)
    program, consts = hoist_consts(checked.program)
    TABLE.begin(source, own_lines)
    outs = run(jit_p, (*consts, *args), {"name": name, "jaxpr": program})
    return _inspected(checked, outs, source, own_lines)


# -- failures -----------------------------------------------------------------------------------------------------

def created(words: ArrayLike) -> None:
    """Called with the words of each new key of a seed."""
    if "keys" in config.check:
        report_created(words)


def _inspected(checked: Checked, outs: Sequence[Any], source: Source | None, own_lines: bool = True) -> list[Any]:
    """The results without the state; raises the error of the check that failed first.

    Args: source: the line of the call, for checks without a line of their own, and with own_lines=False for all.
    """
    n = len(outs) - checked.count
    failed = [(int(xla.to_numpy(code._buf)), payload) for code, payload in states(checked.kinds, outs[n:])]
    failed = [(code, payload) for code, payload in failed if code != NO_FAILURE]
    if failed:
        code, payload = min(failed, key=lambda pair: pair[0])
        site = checked.sites[code]
        TABLE.take_reuse()
        raise _error(site, xla.to_numpy(payload[0]._buf), site.source if own_lines and site.source else source)
    if checked.observes:
        effects_barrier()
        if (reuse := TABLE.take_reuse()) is not None:
            raise bad("random", "a random key is used twice: both uses get the same numbers",
                      {"line": _line(reuse.source if own_lines and reuse.source else source),
                       "first use": _line(reuse.first)},
                      "split the key first: key, subkey = random.split(key); draw with subkey.", KeyReuseError)
    return list(outs[:n])


def _error(site: Site, values: np.ndarray, source: Source | None) -> Exception:
    check, name, detail = site.static
    line = {"line": _line(source)}
    if check == "index":
        index, axis, size = values.tolist()
        return bad(name, f"index {index} is out of bounds for axis {axis} with size {size}", {"array": detail, **line},
                   "pass an index inside of the array, or choose the meaning of others by mode=: x.at[i].get(mode="
                   "'clip'), .set(v, mode='drop').", IndexError)
    if check == "nan":
        return bad(name, f"made {detail} from arguments without one", line,
                   "keep the arguments inside of the domain of the operation: guard them with numpy.where before it.",
                   FloatingPointError)
    return bad(name, f"the result of an operation on {detail} does not fit the dtype", line,
               "use a wider dtype, or uint32, whose arithmetic is modular.", OverflowError)


def _line(source: Source | None) -> str:
    return "unknown" if source is None else position_text(source)
