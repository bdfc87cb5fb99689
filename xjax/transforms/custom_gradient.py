"""`custom_gradient`: one function that returns the value and the gradient rule."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from xjax.core.errors import bad
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, tree_unflatten
from xjax.core.tree_nodes import Partial
from xjax.core.types import typeof
from xjax.transforms.custom_vjp import custom_vjp
from xjax.typing import ArrayLike, PyTree


def custom_gradient(fun: Callable | None = None, *, with_logs: bool = False, remat: bool = False,
                    with_accums: object = None) -> Callable:
    """Decorator of a function that returns (value, rule), where `rule(ct)` returns the cotangents of its arguments.

    The rule may use all values that the function computed; it is traced once, when the function is differentiated. It
    returns a tuple with one cotangent for each argument (None for zero); for a single argument, the cotangent itself is
    accepted too.

    Args: with_logs, remat, with_accums: not supported; the errors explain why.
    Raises: NotImplementedError for these options.

    >>> @xjax.custom_gradient
    ... def clipped(x):
    ...     return x, lambda ct: xjax.numpy.clip(ct, -1.0, 1.0)
    >>> float(xjax.grad(lambda x: 5.0 * clipped(x))(2.0))
    1.0
    """
    for option, is_set in (("with_logs", with_logs), ("remat", remat), ("with_accums", with_accums is not None)):
        if is_set:
            raise bad("custom_gradient", f"`{option}` is not supported: {_OPTIONS[option][0]}", fix=_OPTIONS[option][1],
                      exc=NotImplementedError)
    if fun is None:
        return custom_gradient

    def value(*args: PyTree) -> PyTree:
        return _pair(fun, args)[0]

    def forward(*args: PyTree) -> tuple[Any, Any]:
        out, rule = _pair(fun, args)
        leaves, out_tree = flatten(out)
        ct_tree = None

        def flat_rule(*cts: ArrayLike) -> list[Any]:
            nonlocal ct_tree
            in_cts = rule(tree_unflatten(out_tree, cts))
            if len(args) == 1 and not (isinstance(in_cts, (tuple, list)) and len(in_cts) == 1):
                in_cts = (in_cts,)
            cotangents, ct_tree = flatten(in_cts)
            return cotangents

        # The values that the rule closes over become the residuals.
        program, consts = hoist_consts(trace_to_jaxpr(flat_rule, [typeof(y).tangent() for y in leaves],
                                                      "custom_gradient"))

        def apply(*args: PyTree) -> PyTree:
            return tree_unflatten(ct_tree, program(*args))

        return out, Partial(apply, *consts)

    def backward(rule: Partial, ct: PyTree) -> PyTree:
        return rule(*flatten(ct)[0])

    wrapped = _WithGradient(functools.wraps(fun)(value))
    wrapped.defvjp(forward, backward)
    return wrapped


_OPTIONS = {
    "with_logs": ("the backward pass returns cotangents only",
                  "record values with debug.callback, or as the gradient of an argument of zeros."),
    "remat": ("checkpoint recomputes a custom rule as a whole",
              "use custom_vjp, with checkpoint_name and a policy that keeps values."),
    "with_accums": ("accumulators are mutable arrays, which are not in scope", "return the cotangents."),
}


class _WithGradient(custom_vjp):
    transform = "custom_gradient"


def _pair(fun: Callable, args: tuple) -> tuple[Any, Callable]:
    out = fun(*args)
    if not isinstance(out, tuple) or len(out) != 2 or not callable(out[1]):
        raise bad("custom_gradient", "the function must return (value, rule)",
                  given={"returned": type(out).__name__}, fix="return y, lambda ct: (cotangent of each argument).")
    return out
