"""Policies of `checkpoint`, which select the values to save, and names for values.

A policy is a function `policy(primitive, *types, **params)`. It is called for each operation of the forward pass and
decides whether its results are saved for the backward pass (True or `Saveable`), recomputed (False or `Recompute`), or
saved in another memory (`Offloadable`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xjax.core import tree as trees
from xjax.core.aliases import alias
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.jaxpr import Eqn, Var
from xjax.core.memory_kinds import KINDS, in_memory
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray
from xjax.ops.checks import ANY
from xjax.ops.dot import dot_general_p
from xjax.ops.makers import unary
from xjax.typing import PyTree

# Values are named, their tangents are not.
name_p = unary("name", ANY, lambda b, out, x, *, name: x, lambda dx, y, x, *, name: dx)


def checkpoint_name(x: PyTree, name: str) -> PyTree:
    """`x`, a tree of arrays, marked with a name for policies; the values are unchanged."""
    return trees.tree_map(lambda leaf: name_p.bind(leaf, name=name), x)


# JAX has a second function, for the forward pass of its own rules; both do the same.
checkpoint_name_fwd = alias(checkpoint_name, "checkpoint_name_fwd")


# -- what a policy may return ---------------------------------------------------------------------------------------

class _Verdict:
    """An answer of a policy, with the name that it has in JAX."""

    def __init__(self, name: str, keep: bool):
        self._name, self._keep = name, keep

    def __bool__(self) -> bool:
        return self._keep

    def __repr__(self) -> str:
        return self._name


Saveable, Recompute = _Verdict("Saveable", True), _Verdict("Recompute", False)


class Offloadable(NamedTuple):
    """Answer of a policy: save in memory of kind `dst` ("pinned_host"), and move back to `src` in the backward pass.

    On CPUs both are the same memory.
    """

    src: str
    dst: str


Policy = Callable[..., "bool | _Verdict | Offloadable"]


def verdict(policy: Policy, prim: Primitive, avals: Sequence[ShapedArray], params: dict) -> bool | Offloadable:
    """Whether the results of an operation are saved, and in which memory."""
    answer = policy(prim, *avals, **params)
    if isinstance(answer, (bool, np.bool_, _Verdict)):
        return bool(answer)
    if not isinstance(answer, Offloadable):
        raise bad("checkpoint", "the policy returned neither a bool nor a verdict",
                  given={"operation": prim.name, "returned": repr(answer)[:80]},
                  fix="return True or False, or Saveable, Recompute or Offloadable(src=, dst=) of ad_checkpoint.")
    for field, kind in answer._asdict().items():
        if kind not in KINDS:
            raise bad("checkpoint", f"the policy names an unknown kind of memory as `{field}`",
                      given={field: repr(kind)}, fix=f"use one of {', '.join(KINDS)}.", exc=ValueError)
    return answer


def _offload_lower(b: Builder, out: ShapedArray, x: Value, *, src: str, dst: str) -> Value:
    return x if src == dst else in_memory(b, x, dst)


# Moves a saved value to the memory chosen by the policy, and back where it is used.
offload_p = unary("offload", ANY, _offload_lower, lambda dx, y, x, **_: dx)


def with_moves(first: Sequence[Eqn], saved: Mapping[Var, Offloadable | None],
               again: Sequence[Eqn]) -> tuple[list[Eqn], list[Var], list[Eqn]]:
    """Two passes over a program, with the equations that move saved values: away in the first, back in the second.

    Args: saved: the variables of `first` that are inputs of `again`, with the memory in which each is saved.
    """
    away, back, kept = [], [], []
    for v, memory in saved.items():
        if memory is not None:
            moved = Var(v.aval)
            away.append(Eqn([v], [moved], offload_p, {"src": memory.src, "dst": memory.dst}))
            back.append(Eqn([moved], [v], offload_p, {"src": memory.dst, "dst": memory.src}))
            v = moved
        kept.append(v)
    return [*first, *away], kept, [*back, *again]


# -- policies -------------------------------------------------------------------------------------------------------
# Policies with arguments compare by value: an equal policy, created again for each call, uses the same cached programs.

def everything_saveable(prim: Primitive, *_: object, **params: object) -> bool:
    """Keep all values, as without checkpoint."""
    return True


def nothing_saveable(prim: Primitive, *_: object, **params: object) -> bool:
    """Keep the inputs only, as without a policy."""
    return False


def dots_saveable(prim: Primitive, *_: object, **params: object) -> bool:
    """Keep the results of matrix products and convolutions."""
    return prim.name in ("dot_general", "conv_general_dilated", "ragged_dot_general")


def dots_with_no_batch_dims_saveable(prim: Primitive, *_: object, **params: Any) -> bool:
    """Keep the results of matrix products without batch dimensions, such as activation times weight."""
    return prim is dot_general_p and not params["dimension_numbers"][1][0]


checkpoint_dots, checkpoint_dots_with_no_batch_dims = dots_saveable, dots_with_no_batch_dims_saveable


@dataclass(frozen=True, slots=True)
class _ByName:
    """The answer for each name, for other names, and for values without a name."""

    names: frozenset[tuple[str, Any]]
    others: Any
    unnamed: Any

    def __call__(self, prim: Primitive, *_: object, **params: object) -> bool:
        if prim is not name_p:
            return self.unnamed
        return next((answer for name, answer in self.names if name == params["name"]), self.others)


def _by_name(names: Sequence[str], answer: bool, others: bool, unnamed: bool) -> Policy:
    return _ByName(frozenset((name, answer) for name in names), others, unnamed)


def save_only_these_names(*names: str) -> Policy:
    """Keep the values marked with one of these names by `checkpoint_name`."""
    return _by_name(names, True, False, False)


def save_any_names_but_these(*names: str) -> Policy:
    """Keep the values marked by `checkpoint_name`, except those with one of these names."""
    return _by_name(names, False, True, False)


def save_anything_except_these_names(*names: str) -> Policy:
    """Keep all values except those marked with one of these names by `checkpoint_name`."""
    return _by_name(names, False, True, True)


@dataclass(frozen=True, slots=True)
class _Either:
    first: Policy
    second: Policy

    def __call__(self, prim: Primitive, *avals: ShapedArray, **params: object) -> bool | _Verdict | Offloadable:
        return self.first(prim, *avals, **params) or self.second(prim, *avals, **params)


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep the values that either policy keeps; if both do, in the memory that the first one selects."""
    return _Either(policy_1, policy_2)


@dataclass(frozen=True, slots=True)
class _OffloadDots:
    memory: Offloadable

    def __call__(self, prim: Primitive, *avals: object, **params: object) -> _Verdict | Offloadable:
        return self.memory if dots_with_no_batch_dims_saveable(prim, *avals, **params) else Recompute


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Keep the results of matrix products without batch dimensions in another memory: see `Offloadable`."""
    return _OffloadDots(Offloadable(offload_src, offload_dst))


def save_and_offload_only_these_names(*, names_which_can_be_saved: Sequence[str],
                                      names_which_can_be_offloaded: Sequence[str], offload_src: str,
                                      offload_dst: str) -> Policy:
    """Keep the values marked with some names, and values marked with other names in another memory: see `Offloadable`.

    Raises: ValueError if a name is in both lists.
    """
    both = sorted({*names_which_can_be_saved} & {*names_which_can_be_offloaded})
    if both:
        raise bad("checkpoint_policies.save_and_offload_only_these_names", "names are in both lists",
                  given={"names in both": ", ".join(both)}, fix="list each name once.", exc=ValueError)
    memory = Offloadable(offload_src, offload_dst)
    return _ByName(frozenset([*((name, Saveable) for name in names_which_can_be_saved),
                              *((name, memory) for name in names_which_can_be_offloaded)]), Recompute, Recompute)
