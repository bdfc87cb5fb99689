"""Operations of JAX that hold programs or rules: calls, custom derivatives, rematerialisation, callbacks.

Control flow (`cond`, `while`, `scan`) needs no rule: its programs are parameters, translated like all others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax import lax
from xjax.core.tree import tree_structure
from xjax.core.types import Zero, typeof
from xjax.interop.real_jax import inside_jax, real_jax
from xjax.interop.reference import UnknownFeature, aval_of, parameter, parts
from xjax.interop.translate import RULES, Unsupported, replay, subprogram, translate
from xjax.ops.zeros import instantiate
from xjax.transforms.checkpoint_policies import checkpoint_policies
from xjax.transforms.custom_jvp import custom_jvp_call_p
from xjax.transforms.custom_vjp import custom_vjp_call_p
from xjax.transforms.remat import checkpoint

# -- calls --------------------------------------------------------------------------------------------------------

def _call(*names: str) -> Callable:
    """A call of a program, written in place; the parameter that holds it has one of these names."""
    def rule(eqn: Any, args: Sequence[Any]) -> list[Any]:
        program = next((eqn.params[name] for name in names if name in eqn.params), None)
        if program is None:
            raise UnknownFeature(f"it holds no program under the name {' or '.join(names)}")
        return replay(program, args)
    return rule


def _checkpoint(eqn: Any, args: Sequence[Any]) -> list[Any]:
    """Rematerialisation; a policy is known by its name, since it is asked about operations of ours."""
    params = eqn.params
    policy = params["policy"]
    if policy is not None:
        name = getattr(policy, "__name__", type(policy).__name__)
        policy = getattr(checkpoint_policies, name, None)
        if policy is None:
            raise Unsupported(eqn, f"jax.checkpoint has a policy (`{name}`) that cannot be translated",
                              fix="use everything_saveable, nothing_saveable or one of the dots_ policies.")
    run = checkpoint(lambda *xs: replay(params["jaxpr"], xs), prevent_cse=params["prevent_cse"], policy=policy)
    return run(*args)


def _by_function(f: Callable) -> Callable:
    """An operation that is no primitive here but a function made of several."""
    def rule(eqn: Any, args: Sequence[Any]) -> list[Any]:
        params = {name: parameter(value, subprogram) for name, value in eqn.params.items() if value is not None}
        return [f(*args, **params)]
    return rule


def _scaled_dot(lhs: Any, rhs: Any, lhs_scale: Any, rhs_scale: Any, **rest: Any) -> Any:
    return lax.scaled_dot(lhs, rhs, lhs_scale=lhs_scale, rhs_scale=rhs_scale, **rest)


def _identity(eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Where a value is placed is no part of a program of ours."""
    return args


# -- custom derivatives -------------------------------------------------------------------------------------------
# JAX itself says what the rule does: it is asked to trace the derivative of the call, and that program is replayed.

def _custom_jvp(eqn: Any, args: Sequence[Any]) -> list[Any]:
    call = _CustomCall(eqn)

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        dxs = [instantiate(dx) for dx, smooth in zip(tangents, call.smooth_in, strict=True) if smooth]
        found = call.jvp([*primals, *dxs])
        outs, douts = found[:len(call.smooth_out)], iter(found[len(call.smooth_out):])
        return outs, [next(douts) if smooth else Zero(typeof(y).tangent())
                      for y, smooth in zip(outs, call.smooth_out, strict=True)]

    jvp.__name__ = call.name
    return custom_jvp_call_p.bind(*args, name=call.name, call_jaxpr=call.value, jvp=jvp, symbolic_zeros=False)


def _custom_vjp(eqn: Any, args: Sequence[Any]) -> list[Any]:
    """The residuals are the arguments: the backward program runs the forward rule again, which XLA merges with the
    first run where both are in one program.
    """
    call = _CustomCall(eqn)

    def fwd(perturbed: Sequence[bool], *xs: Any) -> tuple[list[Any], list[Any], Any]:
        return call.value(*xs), list(xs), tree_structure(list(xs))

    def bwd(residual_tree: Any, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        cts = [instantiate(ct) for ct, smooth in zip(cts, call.smooth_out, strict=True) if smooth]
        found = iter(call.vjp([*residuals, *cts]))
        return [next(found) if smooth else Zero(typeof(x).tangent())
                for x, smooth in zip(residuals, call.smooth_in, strict=True)]

    fwd.__name__ = bwd.__name__ = call.name
    return custom_vjp_call_p.bind(*args, name=call.name, call_jaxpr=call.value, fwd=fwd, bwd=bwd, symbolic_zeros=False)


class _CustomCall:
    """The call of a JAX function with a derivative rule: its value, and the programs of its derivatives."""

    def __init__(self, eqn: Any):
        self._eqn, self._program = eqn, eqn.params["call_jaxpr"]
        self.name = parts(self._program).name or eqn.primitive.name
        self._ins, self._outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
        self.smooth_in, self.smooth_out = list(map(_is_smooth, self._ins)), list(map(_is_smooth, self._outs))

    def value(self, *xs: Any) -> list[Any]:
        return replay(self._program, xs)

    @functools.cached_property
    def jvp(self) -> Callable:
        """(primals, tangents of the smooth ones) -> (values, tangents of the smooth ones), by the custom rule."""
        jax, n = real_jax(), len(self._ins)

        def derivative(*args: Any) -> list[Any]:
            outs, douts = jax.jvp(self._of_smooth(args[:n]), _chosen(args[:n], self.smooth_in), args[n:])
            return [*outs, *_chosen(douts, self.smooth_out)]

        return self._program(derivative, [*self._ins, *_chosen(self._ins, self.smooth_in)], "jvp")

    @functools.cached_property
    def vjp(self) -> Callable:
        """(primals, cotangents of the smooth results) -> cotangents of the smooth arguments, by the custom rule."""
        jax, n = real_jax(), len(self._ins)

        def derivative(*args: Any) -> Sequence[Any]:
            given = iter(args[n:])
            cts = [next(given) if smooth else np.zeros(a.shape, jax.dtypes.float0)
                   for a, smooth in zip(self._outs, self.smooth_out, strict=True)]
            return jax.vjp(self._of_smooth(args[:n]), *_chosen(args[:n], self.smooth_in))[1](cts)

        return self._program(derivative, [*self._ins, *_chosen(self._outs, self.smooth_out)], "vjp")

    def _of_smooth(self, xs: Sequence[Any]) -> Callable:
        """The call as a JAX function of the arguments that have a derivative."""
        def call(*chosen: Any) -> list[Any]:
            given = iter(chosen)
            args = [next(given) if smooth else x for x, smooth in zip(xs, self.smooth_in, strict=True)]
            p = self._eqn.primitive
            return list(p.bind(*args, **p.get_bind_params(self._eqn.params)))
        return call

    def _program(self, f: Callable, avals: Sequence[Any], rule: str) -> Callable[[Sequence[Any]], list[Any]]:
        jax = real_jax()
        with inside_jax():
            specs = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]
            closed = jax.make_jaxpr(f)(*specs)
        program, consts = translate(closed, f"the {rule} rule of JAX's `{self.name}`")
        return lambda args: program(*consts, *args)


def _is_smooth(aval: Any) -> bool:
    ours = aval_of(aval)
    return ours.tangent() is ours


def _chosen(xs: Sequence[Any], flags: Sequence[bool]) -> tuple:
    return tuple(x for x, flag in zip(xs, flags, strict=True) if flag)


# -- what cannot be replayed --------------------------------------------------------------------------------------

def _callback(eqn: Any, args: Sequence[Any]) -> Any:
    raise Unsupported(eqn, f"the function calls back into Python (`{eqn.primitive.name}`)",
                      fix="remove the jax.debug.print, jax.pure_callback or checkify call from the function.")


RULES.update({
    **dict.fromkeys(("jit", "pjit", "composite", "closed_call", "core_call"), _call("jaxpr", "call_jaxpr")),
    **dict.fromkeys(("device_put", "sharding_constraint"), _identity),
    **dict.fromkeys(("debug_callback", "debug_print", "pure_callback", "io_callback"), _callback),
    **dict.fromkeys(("checkpoint", "remat", "remat2"), _checkpoint),
    "ragged_dot_general": _by_function(lax.ragged_dot_general),
    "scaled_dot": _by_function(_scaled_dot),
    "custom_jvp_call": _custom_jvp,
    "custom_vjp_call": _custom_vjp,
})
