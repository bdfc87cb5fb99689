"""Operations of JAX with custom rules: for derivatives, transposes and `vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core.tree import tree_structure
from xjax.core.types import Zero, typeof
from xjax.interop.real_jax import inside_jax, real_jax
from xjax.interop.reference import JaxEqn, aval_of, bind_again, has_jvp_rule, host_value, parts, spec_of
from xjax.interop.translate import RULES, replay, subprogram, translate
from xjax.ops.zeros import instantiate
from xjax.transforms.custom_jvp import custom_jvp_call_p
from xjax.transforms.custom_vjp import custom_vjp_call_p
from xjax.transforms.custom_vmap import custom_vmap_p
from xjax.transforms.linear_call import linear_call_p
from xjax.typing import ArrayLike


def _traced(f: Callable, specs: Sequence[Any], caller: str) -> Callable[[Sequence[Any]], list[Any]]:
    """The program of a JAX function of flat arrays, as a function of xjax values."""
    with inside_jax():
        program, consts = translate(real_jax().make_jaxpr(f)(*specs), caller)
    return lambda args: program(*consts, *args)


# -- custom derivatives -------------------------------------------------------------------------------------------
# JAX traces the derivative of the call, with the custom rule, and that program is replayed.

def _custom_jvp(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
    return _with_jvp(_CustomCall(eqn), args)


def _with_jvp(call: _CustomCall, args: Sequence[Any]) -> list[Any]:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        dxs = [instantiate(dx) for dx, smooth in zip(tangents, call.smooth_in, strict=True) if smooth]
        results = call.jvp([*primals, *dxs])
        outs, douts = results[:len(call.smooth_out)], iter(results[len(call.smooth_out):])
        return outs, [next(douts) if smooth else Zero(typeof(y).tangent())
                      for y, smooth in zip(outs, call.smooth_out, strict=True)]

    jvp.__name__ = call.name
    return custom_jvp_call_p.bind(*args, name=call.name, call_jaxpr=call.value, jvp=jvp, symbolic_zeros=False)


def _custom_vjp(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
    return _with_vjp(_CustomCall(eqn), args)


def _with_vjp(call: _CustomCall, args: Sequence[Any]) -> list[Any]:
    """A `custom_vjp` call whose residuals are the arguments: the backward program runs the forward rule again.

    XLA merges the two runs if both are in one program.
    """
    def fwd(perturbed: Sequence[bool], *xs: ArrayLike) -> tuple[list[Any], list[Any], Any]:
        return call.value(*xs), list(xs), tree_structure(list(xs))

    def bwd(residual_tree: Any, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        cts = [instantiate(ct) for ct, smooth in zip(cts, call.smooth_out, strict=True) if smooth]
        in_cts = iter(call.vjp([*residuals, *cts]))
        return [next(in_cts) if smooth else Zero(typeof(x).tangent())
                for x, smooth in zip(residuals, call.smooth_in, strict=True)]

    fwd.__name__ = bwd.__name__ = call.name
    return custom_vjp_call_p.bind(*args, name=call.name, call_jaxpr=call.value, fwd=fwd, bwd=bwd, symbolic_zeros=False)


def _class_of_rules(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
    """An operation that is defined by a Python class: JAX expands its value, and traces its derivatives."""
    program = real_jax().make_jaxpr(lambda *xs: eqn.primitive.to_lojax(*xs, **eqn.params))
    with inside_jax():
        call = _CustomCall(eqn, program(*[spec_of(aval_of(v.aval)) for v in eqn.invars]))
    return (_with_jvp if has_jvp_rule(eqn.params["_prim"]) else _with_vjp)(call, args)


class _CustomCall:
    """The call of a JAX function with a derivative rule: its value, and the programs of its derivatives."""

    def __init__(self, eqn: JaxEqn, program: Any = None):
        program = eqn.params["call_jaxpr"] if program is None else program
        self._eqn, self.name = eqn, parts(program).name or eqn.primitive.name
        self.value: Callable = lambda *xs: replay(program, xs)
        self._ins, self._outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
        self.smooth_in, self.smooth_out = list(map(_is_smooth, self._ins)), list(map(_is_smooth, self._outs))

    @functools.cached_property
    def jvp(self) -> Callable:
        """(primals, tangents of smooth primals) -> (values, tangents of smooth values), by the custom rule."""
        jax, n = real_jax(), len(self._ins)

        def derivative(*args: ArrayLike) -> list[Any]:
            outs, douts = jax.jvp(self._of_smooth(args[:n]), _chosen(args[:n], self.smooth_in), args[n:])
            return [*outs, *_chosen(douts, self.smooth_out)]

        specs = [spec_of(aval_of(a)) for a in [*self._ins, *_chosen(self._ins, self.smooth_in)]]
        return _traced(derivative, specs, f"the jvp rule of JAX's `{self.name}`")

    @functools.cached_property
    def vjp(self) -> Callable:
        """(primals, cotangents of the smooth results) -> cotangents of the smooth arguments, by the custom rule."""
        jax, n = real_jax(), len(self._ins)

        def derivative(*args: ArrayLike) -> Sequence[Any]:
            smooth_cts = iter(args[n:])
            cts = [next(smooth_cts) if smooth else np.zeros(a.shape, jax.dtypes.float0)
                   for a, smooth in zip(self._outs, self.smooth_out, strict=True)]
            return jax.vjp(self._of_smooth(args[:n]), *_chosen(args[:n], self.smooth_in))[1](cts)

        specs = [spec_of(aval_of(a)) for a in [*self._ins, *_chosen(self._outs, self.smooth_out)]]
        return _traced(derivative, specs, f"the vjp rule of JAX's `{self.name}`")

    def _of_smooth(self, xs: Sequence[Any]) -> Callable:
        """The call as a JAX function of the arguments that have a derivative."""
        def call(*chosen: ArrayLike) -> list[Any]:
            smooth_xs = iter(chosen)
            args = [next(smooth_xs) if smooth else x for x, smooth in zip(xs, self.smooth_in, strict=True)]
            return list(bind_again(self._eqn, args))
        return call

def _is_smooth(aval: Any) -> bool:
    ours = aval_of(aval)
    return ours.tangent() is ours


def _chosen(xs: Sequence[Any], flags: Sequence[bool]) -> tuple:
    return tuple(x for x, flag in zip(xs, flags, strict=True) if flag)


# -- transposes and vmap -----------------------------------------------------------------------------------------

def _linear_call(eqn: JaxEqn, args: Sequence[Any]) -> Sequence[Any]:
    def transpose() -> tuple[Any, Sequence[Any]]:
        program, consts = eqn.params["transpose_thunk"]()
        return subprogram(program), [host_value(x) for x in consts]

    rest = {name: eqn.params[name] for name in ("num_callee_consts", "num_res")}
    return linear_call_p.bind(*args, callee=subprogram(eqn.params["callee"]), transpose_thunk=transpose, **rest)


def _custom_vmap(eqn: JaxEqn, args: Sequence[Any]) -> Sequence[Any]:
    """JAX traces the mapped call, and that program is replayed."""
    p, params = eqn.primitive, eqn.params

    def rule(size: int, batched: Sequence[bool], xs: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        jax = real_jax()
        mapped = jax.vmap(lambda *xs: p.bind(*xs, **params), [0 if b else None for b in batched], axis_size=size)
        program = _traced(mapped, [spec_of(typeof(x)) for x in xs], "the rule of jax.custom_batching.custom_vmap")
        outs = program(xs)
        return outs, [True] * len(outs)

    call = subprogram(params["call"])
    rule.__name__ = "custom_vmap"
    return custom_vmap_p.bind(*args, call=call, rule=rule, in_tree=tree_structure(list(args)),
                              out_tree=tree_structure([*call.out_avals]))


RULES.update({"custom_jvp_call": _custom_jvp, "custom_vjp_call": _custom_vjp, "call_hi_primitive": _class_of_rules,
              "linear_call": _linear_call, "custom_vmap_call": _custom_vmap})
