"""Operations of JAX that are not primitives here: calls of programs, reductions over mapped axes, and functions.

Control flow (`cond`, `while`, `scan`) needs no rule: its programs are parameters, and are translated as such.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax import lax
from xjax.core.dtypes import is_float
from xjax.core.errors import bad
from xjax.core.primitive import Primitive
from xjax.core.types import typeof
from xjax.interop.reference import JaxEqn, UnknownFeature, is_saved, parameter, primitives
from xjax.interop.translate import RULES, replay, subprogram
from xjax.transforms.remat import checkpoint
from xjax.typing import Array


def _call(*names: str) -> Callable:
    """The rule of a call, which inlines the program; the parameter that holds it has one of these names."""
    def rule(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
        program = next((eqn.params[name] for name in names if name in eqn.params), None)
        if program is None:
            raise UnknownFeature(f"it has no program in a parameter named {' or '.join(names)}")
        return replay(program, args)
    return rule


def _checkpoint(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
    params = eqn.params
    policy = None if params["policy"] is None else _Policy(eqn)
    run = checkpoint(lambda *xs: replay(params["jaxpr"], xs), prevent_cse=params["prevent_cse"], policy=policy)
    return run(*args)


class _Policy:
    """A policy of `jax.checkpoint` for xjax operations: it is called with JAX's operation of the same name."""

    def __init__(self, eqn: JaxEqn):
        self._policy, self._primitives = eqn.params["policy"], primitives(eqn.params["jaxpr"])

    def __call__(self, p: Primitive, *avals: object, **params: object) -> bool:
        saved = is_saved(self._policy(self._primitives.get(p.name, p), *avals, **params))
        if saved is None:
            raise bad("from_jax", "a policy of jax.checkpoint moves values to another memory",
                      given={"operation": p.name}, fix="use a policy that keeps values on the device or recomputes "
                      "them.", exc=NotImplementedError)
        return saved


def _by_function(f: Callable) -> Callable:
    """The rule of an operation that is a function of several primitives here."""
    def rule(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
        params = {name: parameter(value, subprogram) for name, value in eqn.params.items() if value is not None}
        return [f(*args, **params)]
    return rule


def _scaled_dot(lhs: Array, rhs: Array, lhs_scale: Array, rhs_scale: Array, **rest: Any) -> Array:
    return lax.scaled_dot(lhs, rhs, lhs_scale=lhs_scale, rhs_scale=rhs_scale, **rest)


def _reshape(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
    """With `dimensions`, JAX's reshape also transposes."""
    return [lax.reshape(*args, eqn.params["new_sizes"], eqn.params["dimensions"])]


def _identity(eqn: JaxEqn, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments unchanged: placements are not part of xjax programs."""
    return args


def _reduced(reduction: Primitive) -> Callable:
    """The rule of a collective over axes mapped by `jax.vmap`, which are positions in the program: a reduction."""
    def rule(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
        axes = eqn.params["axes"]
        positions = tuple(a for a in axes if isinstance(a, int))
        if len(positions) < len(axes) or eqn.params["axis_index_groups"] is not None:
            raise UnknownFeature("its axis names do not belong to a jax.vmap inside the function")
        return [reduction.bind(x, axes=positions) for x in args]
    return rule


def _in_total_order(compare: Callable) -> Callable:
    """A comparison in the order -NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN: it compares the bits as integers."""
    def rule(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
        return [compare(*map(_ordered_bits, args))]
    return rule


def _ordered_bits(x: Array) -> Array:
    dtype = typeof(x).dtype
    if not is_float(dtype):
        return x
    signed = np.dtype(f"int{8 * dtype.itemsize}")
    bits = lax.bitcast_convert_type(x, signed)
    # The bits of negative numbers increase with their magnitude, so all bits but the sign are inverted.
    return lax.select(bits < 0, bits ^ signed.type(np.iinfo(signed).max), bits)


RULES.update({
    **dict.fromkeys(("jit", "pjit", "composite", "closed_call", "core_call", "eval_jaxpr"),
                    _call("jaxpr", "call_jaxpr")),
    **dict.fromkeys(("device_put", "sharding_constraint"), _identity),
    **dict.fromkeys(("checkpoint", "remat", "remat2"), _checkpoint),
    "ragged_dot_general": _by_function(lax.ragged_dot_general),
    "scaled_dot": _by_function(_scaled_dot),
    "reshape": _reshape,
    "lt_to": _in_total_order(lax.lt),
    "le_to": _in_total_order(lax.le),
    "eq_to": _in_total_order(lax.eq),
    "psum": _reduced(lax.reduce_sum_p),
    "pmax": _reduced(lax.reduce_max_p),
    "pmin": _reduced(lax.reduce_min_p),
})
