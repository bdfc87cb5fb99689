"""Operations of JAX that hold programs or rules: calls, custom derivatives, rematerialisation, callbacks.

Control flow (`cond`, `while`, `scan`) needs no rule: its programs are parameters, translated like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.tree import tree_structure
from xjax.core.types import Zero, typeof
from xjax.interop.real_jax import inside_jax, real_jax
from xjax.interop.translate import RULES, Unsupported, aval_of, replay, translate
from xjax.ops.zeros import instantiate
from xjax.transforms.custom_jvp import custom_jvp_call_p
from xjax.transforms.custom_vjp import custom_vjp_call_p


# -- calls --------------------------------------------------------------------------------------------------------

def _call(parameter: str) -> Callable:
    """A call of a program, written in place."""
    def rule(eqn: Any, args: Sequence[Any]) -> list[Any]:
        program = eqn.params[parameter]
        jaxpr, consts = (program.jaxpr, program.consts) if hasattr(program, "consts") else (program, ())
        return replay(jaxpr, consts, args)
    return rule


def _identity(eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Where a value lies is no part of a program of ours."""
    return args


# -- custom derivatives -------------------------------------------------------------------------------------------
# JAX itself says what the rule does: it is asked to trace the derivative of the call, and that program is replayed.

def _custom_jvp(eqn: Any, args: Sequence[Any]) -> list[Any]:
    closed, name = eqn.params["call_jaxpr"], _name(eqn)
    active = [v.aval.dtype.kind in "fcV" and aval_of(v.aval).tangent() is aval_of(v.aval) for v in eqn.invars]

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        dxs = [instantiate(dx) for dx, flag in zip(tangents, active, strict=True) if flag]
        outs = _program(eqn, "jvp", lambda: _trace_jvp(eqn, active))([*primals, *dxs])
        n = len(outs) // 2
        return outs[:n], [dy if typeof(dy).dtype == typeof(y).dtype else Zero(typeof(y).tangent())
                          for y, dy in zip(outs[:n], outs[n:], strict=True)]

    jvp.__name__ = name
    return custom_jvp_call_p.bind(*args, name=name, call_jaxpr=lambda *xs: replay(closed.jaxpr, closed.consts, xs),
                                  jvp=jvp, symbolic_zeros=False)


def _trace_jvp(eqn: Any, active: Sequence[bool]) -> Any:
    """JAX's program (primals, tangents of the active ones) -> (values, tangents), by the custom rule."""
    jax = real_jax()
    avals = [v.aval for v in eqn.invars]

    def derivative(*args: Any) -> list[Any]:
        xs, given = args[:len(avals)], iter(args[len(avals):])
        chosen = [x for x, flag in zip(xs, active, strict=True) if flag]
        outs, douts = jax.jvp(_of_active(eqn, xs, active), tuple(chosen), tuple(given))
        return [*outs, *(y if dy.dtype == jax.dtypes.float0 else dy for y, dy in zip(outs, douts, strict=True))]

    return _make_jaxpr(derivative, [*avals, *(a for a, flag in zip(avals, active, strict=True) if flag)])


def _custom_vjp(eqn: Any, args: Sequence[Any]) -> list[Any]:
    """The residuals are the arguments: the backward program runs the forward rule again, which XLA merges with the
    first run where both are in one program.
    """
    closed, name = eqn.params["call_jaxpr"], _name(eqn)
    active = [aval_of(v.aval).tangent() is aval_of(v.aval) for v in eqn.invars]

    def call(*xs: Any) -> list[Any]:
        return replay(closed.jaxpr, closed.consts, xs)

    def fwd(*xs: Any) -> tuple[list[Any], list[Any], Any]:
        return call(*xs), list(xs), tree_structure(list(xs))

    def bwd(residual_tree: Any, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        found = iter(_program(eqn, "vjp", lambda: _trace_vjp(eqn, active))([*residuals, *map(instantiate, cts)]))
        return [next(found) if flag else Zero(typeof(x).tangent()) for x, flag in zip(residuals, active, strict=True)]

    fwd.__name__ = bwd.__name__ = name
    return custom_vjp_call_p.bind(*args, name=name, call_jaxpr=call, fwd=fwd, bwd=bwd, symbolic_zeros=False)


def _trace_vjp(eqn: Any, active: Sequence[bool]) -> Any:
    """JAX's program (primals, cotangents of the results) -> cotangents of the active arguments."""
    jax = real_jax()
    avals, out_avals = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]

    def derivative(*args: Any) -> Sequence[Any]:
        xs, cts = args[:len(avals)], args[len(avals):]
        chosen = [x for x, flag in zip(xs, active, strict=True) if flag]
        return jax.vjp(_of_active(eqn, xs, active), *chosen)[1](list(cts))

    return _make_jaxpr(derivative, [*avals, *out_avals])


def _of_active(eqn: Any, xs: Sequence[Any], active: Sequence[bool]) -> Callable:
    """The call as a function of the arguments that have a derivative."""
    def call(*chosen: Any) -> list[Any]:
        given = iter(chosen)
        args = [next(given) if flag else x for x, flag in zip(xs, active, strict=True)]
        return list(eqn.primitive.bind(*args, **eqn.primitive.get_bind_params(eqn.params)))
    return call


def _make_jaxpr(f: Callable, avals: Sequence[Any]) -> Any:
    jax = real_jax()
    with inside_jax():
        return jax.make_jaxpr(f)(*[jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals])


_PROGRAMS = "_xjax_programs"


def _program(eqn: Any, which: str, trace: Callable[[], Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """The translated derivative of a call; traced once, and kept with the closure of its rule."""
    found = _derivatives.setdefault(id(eqn), (eqn, {}))[1]
    if which not in found:
        found[which] = translate(trace(), f"the {which} rule of JAX's `{_name(eqn)}`")
    program, consts = found[which]
    return lambda args: program(*consts, *args)


_derivatives: dict[int, tuple[Any, dict]] = {}


def _name(eqn: Any) -> str:
    info = getattr(eqn.params["call_jaxpr"].jaxpr, "debug_info", None)
    return getattr(info, "func_name", None) or eqn.primitive.name


# -- what cannot be replayed --------------------------------------------------------------------------------------

def _callback(eqn: Any, args: Sequence[Any]) -> Any:
    raise Unsupported(eqn, f"the function calls back into Python (`{eqn.primitive.name}`)",
                      fix="remove the jax.debug.print, jax.pure_callback or checkify call from the function.")


RULES.update({
    **dict.fromkeys(("jit", "pjit", "closed_call", "core_call", "custom_lin"), _call("jaxpr")),
    **dict.fromkeys(("closed_call", "core_call"), _call("call_jaxpr")),
    **dict.fromkeys(("checkpoint", "remat", "remat2"), _call("jaxpr")),
    **dict.fromkeys(("device_put", "sharding_constraint", "copy_p", "pvary", "layout_constraint"), _identity),
    **dict.fromkeys(("debug_callback", "debug_print", "pure_callback", "io_callback", "python_callback"), _callback),
    "custom_jvp_call": _custom_jvp,
    "custom_vjp_call": _custom_vjp,
    "custom_vjp_call_jaxpr": _custom_vjp,
})
