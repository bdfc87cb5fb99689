"""The options debug_nans and debug_infs, which check every result, no_execution, which raises, and check.

Checked mode (the option check) is implemented in `xjax.checks`, above this package; it is imported on first use.

Operations are watched after the first use of one of these options (`config.on_first_use`). Compiled functions are
watched by the kind of launcher that `jit` makes, since the options are part of its key. No cost while these options are
off.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.config import config, disable_jit
from xjax.core.context import context
from xjax.core.errors import bad, location_text, user_location
from xjax.core.jaxpr import ClosedJaxpr, Literal
from xjax.core.primitive import Primitive
from xjax.runtime import xla
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.dispatch import eval_trace
from xjax.runtime.programs.launch import Watch


def is_watching() -> bool:
    """Whether results are checked in this thread."""
    return config.debug_nans or config.debug_infs or config.no_execution or bool(config.check)


@functools.cache
def checker() -> Any:
    """The module of checked mode."""
    return importlib.import_module("xjax.checks.mode")


def refuse_execution(caller: str) -> None:
    """Raise RuntimeError under the option no_execution."""
    if config.no_execution:
        raise bad(caller, "would run, but the option jax_no_execution is set",
                  fix="trace without running (jax.eval_shape, jax.make_jaxpr, f.lower), or leave the block of "
                      "jax.no_execution().", exc=RuntimeError)


def bad_number(outs: Sequence[Any]) -> str:
    """'a NaN', 'an infinity' or '': the kind of the first bad number in `outs` that the options look for."""
    for x in outs:
        if type(x) is Array and dtypes.is_inexact(x.dtype):
            value = xla.to_numpy(x._buf)        # not x.numpy(), which a transfer guard may refuse
            if config.debug_nans and np.isnan(value).any():
                return "a NaN"
            if config.debug_infs and np.isinf(value).any():
                return "an infinity"
    return ""


def watch_call(caller: str, again: Callable[[Sequence[Array]], Any]) -> Watch:
    """For a compiled function: if its results contain a bad number, run it again, operation by operation.

    `again(args)` runs the Python function; it raises FloatingPointError at the operation, with the user's line.
    """
    def watch(launch: Callable, args: Sequence[Array]) -> list[Array]:
        refuse_execution(caller)
        outs = launch(args)
        if kind := bad_number(outs):
            with disable_jit():
                again(args)
            raise bad(caller, f"the compiled function made {kind}, but its operations one by one do not",
                      fix="look for sums of large numbers that XLA reorders; jax.config.update("
                          "'jax_disable_most_optimizations', True) stays closer to the written order.",
                      exc=FloatingPointError)
        return outs

    return watch


def watch_devices(caller: str) -> Watch:
    """For a program over several devices, which is not run again."""
    def watch(launch: Callable, args: Sequence[Array]) -> list[Array]:
        refuse_execution(caller)
        outs = launch(args)
        if kind := bad_number(outs):
            raise bad(caller, f"made {kind}", {f"argument {i}": _holding(x) for i, x in enumerate(args)},
                      "run it under jax.vmap(f, axis_name=...) in place of pmap to find the operation.",
                      FloatingPointError)
        return outs

    return watch


def _watched_operation(run: Callable, p: Primitive, args: Sequence[Any], params: dict) -> Any:
    """`run(p, args, params)`, with a check of its result."""
    if config.check:
        return checker().operation(run, p, args, params)
    if not is_watching():
        return run(p, args, params)
    refuse_execution(p.name)
    out = run(p, args, params)
    outs = out if p.multiple_results else [out]
    if kind := bad_number(outs):
        args = [to_array(x) for x in args]
        if (program := _called(p, params)) is not None:
            _find(run, program, args)
        raise _made(p, kind, args, location_text(context.source or user_location()) or "unknown")
    return out


def _called(p: Primitive, params: dict) -> ClosedJaxpr | None:
    """The program that an operation calls, or None."""
    program = None if p.calls is None else params[p.calls.param]
    return program if isinstance(program, ClosedJaxpr) else None


def _find(run: Callable, closed: ClosedJaxpr, args: Sequence[Any]) -> None:
    """Evaluate a program equation by equation; raise at the first one that makes a bad number."""
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, args, strict=True))
    for eqn in closed.eqns:
        ins = [to_array(v.val) if type(v) is Literal else env[v] for v in eqn.invars]
        out = run(eqn.primitive, tuple(ins), eqn.params)
        outs = out if eqn.primitive.multiple_results else [out]
        if kind := bad_number(outs):
            if (program := _called(eqn.primitive, eqn.params)) is not None:
                _find(run, program, ins)
            raise _made(eqn.primitive, kind, ins, location_text(eqn.source) or "unknown")
        env.update(zip(eqn.outvars, outs, strict=True))


def _made(p: Primitive, kind: str, args: Sequence[Array], line: str) -> Exception:
    given = {f"argument {i}": _holding(x) for i, x in enumerate(args)}
    fix = ("keep the arguments inside the domain of this operation; guard them with numpy.where before it, not its "
           "result after it.")
    if not p.cacheable:                             # it holds a program, such as the body of a loop
        fix = "run it under jax.disable_jit() to find the operation inside."
    return bad(p.name, f"made {kind}", given={**given, "line": line}, fix=fix, exc=FloatingPointError)


def _holding(x: Array) -> str:
    kind = bad_number([x])
    return x.aval.str_short() + (f", already contains {kind}" if kind else "")


for _name in ("debug_nans", "debug_infs", "no_execution", "check"):
    config.on_first_use(_name, functools.partial(eval_trace.watch_with, _watched_operation))
