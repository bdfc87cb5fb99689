"""Which values `checkpoint` keeps: names for values, and policies.

A policy is a function `policy(primitive, *types, **params) -> bool` that is asked about each operation of the forward
pass: are its results kept for the backward pass, or computed again?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core import tree as trees
from xjax.core.errors import bad, did_you_mean
from xjax.core.primitive import Primitive
from xjax.ops.checks import ANY
from xjax.ops.dot import dot_general_p
from xjax.ops.makers import unary

Policy = Callable[..., bool]

# Values are named, their tangents are not.
name_p = unary("name", ANY, lambda b, out, x, *, name: x, lambda dx, y, x, *, name: dx)


def checkpoint_name(x: Any, name: str) -> Any:
    """`x` (a tree of arrays) under a name by which policies know it; the value is the same."""
    return trees.tree_map(lambda leaf: name_p.bind(leaf, name=name), x)


# JAX has a second function for the forward pass of rules of its own; they do the same.
checkpoint_name_fwd = checkpoint_name


def everything_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep all values, as without checkpoint."""
    return True


def nothing_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep the inputs only, as without a policy."""
    return False


def dots_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep the results of matrix products and convolutions."""
    return prim.name in ("dot_general", "conv_general_dilated", "ragged_dot_general")


def dots_with_no_batch_dims_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep the results of matrix products without batch dimensions, such as activation times weight."""
    return prim is dot_general_p and not params["dimension_numbers"][1][0]


def save_only_these_names(*names: str) -> Policy:
    """Keep the values marked with one of these names by `checkpoint_name`."""
    chosen = frozenset(names)
    return lambda prim, *_, **params: prim is name_p and params["name"] in chosen


def save_any_names_but_these(*names: str) -> Policy:
    """Keep the values marked by `checkpoint_name`, except those with one of these names."""
    other = frozenset(names)
    return lambda prim, *_, **params: prim is name_p and params["name"] not in other


def save_anything_except_these_names(*names: str) -> Policy:
    """Keep all values except those marked with one of these names by `checkpoint_name`."""
    other = frozenset(names)
    return lambda prim, *_, **params: prim is not name_p or params["name"] not in other


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep the values that one of two policies keeps."""
    return lambda prim, *avals, **params: policy_1(prim, *avals, **params) or policy_2(prim, *avals, **params)


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Not supported: what JAX does here is to move those results to another memory."""
    raise _no_offloading("offload_dot_with_no_batch_dims", "dots_with_no_batch_dims_saveable")


def save_and_offload_only_these_names(*, names_which_can_be_saved: Sequence[str],
                                      names_which_can_be_offloaded: Sequence[str], offload_src: str,
                                      offload_dst: str) -> Policy:
    """Not supported: what JAX does here is to move some of those values to another memory."""
    raise _no_offloading("save_and_offload_only_these_names",
                         f"save_only_these_names({', '.join(map(repr, names_which_can_be_saved))})")


def _no_offloading(name: str, instead: str) -> Exception:
    return bad(f"checkpoint_policies.{name}", "values cannot be moved to another memory between the passes; they are "
               "kept on the device or computed again",
               fix=f"use {instead}, which keeps them on the device, or a policy that keeps less.",
               exc=NotImplementedError)


# -- what a policy may return besides a bool ------------------------------------------------------------------------

class _Verdict:
    """The answer of a policy under the name that JAX gives it."""

    def __init__(self, name: str, keep: bool):
        self._name, self._keep = name, keep

    def __bool__(self) -> bool:
        return self._keep

    def __repr__(self) -> str:
        return self._name


Saveable, Recompute = _Verdict("Saveable", True), _Verdict("Recompute", False)


def Offloadable(src: str, dst: str) -> Any:
    """Not supported, see `offload_dot_with_no_batch_dims`."""
    raise _no_offloading("Offloadable", "Saveable")


# -- the policies by name -------------------------------------------------------------------------------------------

class _Policies:
    """The policies by name, as `checkpoint_policies.dots_saveable`."""

    everything_saveable = staticmethod(everything_saveable)
    nothing_saveable = staticmethod(nothing_saveable)
    dots_saveable = checkpoint_dots = staticmethod(dots_saveable)
    dots_with_no_batch_dims_saveable = checkpoint_dots_with_no_batch_dims = staticmethod(
        dots_with_no_batch_dims_saveable)
    save_only_these_names = staticmethod(save_only_these_names)
    save_any_names_but_these = staticmethod(save_any_names_but_these)
    save_anything_except_these_names = staticmethod(save_anything_except_these_names)
    save_from_both_policies = staticmethod(save_from_both_policies)

    offload_dot_with_no_batch_dims = staticmethod(offload_dot_with_no_batch_dims)
    save_and_offload_only_these_names = staticmethod(save_and_offload_only_these_names)

    def __getattr__(self, name: str) -> Any:
        known = [k for k in vars(_Policies) if not k.startswith("_")]
        raise bad("checkpoint_policies", f"there is no policy {name!r}", fix=did_you_mean(name, known)
                  or f"choose one of {', '.join(known)}.", exc=AttributeError)


checkpoint_policies = _Policies()
