"""`custom_vjp`: a function with a reverse-mode derivative rule of its own.

Differentiation runs `fwd` in the parent and puts one equation into the tangent program, `custom_lin`, which holds the
residuals and `bwd`. Only its transpose exists: it calls `bwd`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core import dtypes
from xjax.core.calls import Flat, flatten_function, function_name, merge_args, split_args
from xjax.core.errors import bad
from xjax.core.lowering import lower_call
from xjax.core.primitive import Missing, Primitive
from xjax.core.staging import StagingTrace, hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, keystr, tree_flatten_with_path, tree_mismatch, tree_unflatten
from xjax.core.types import Zero, typeof
from xjax.ops.shape import reduce_sum
from xjax.ops.zeros import instantiate
from xjax.transforms.batching import batch_flat, place_axis
from xjax.transforms.rule_functions import FunctionWithRule, batched_call, check_like, open_axis, positional_arguments


class custom_vjp(FunctionWithRule):
    """A function whose reverse-mode derivative is given by `defvjp(fwd, bwd)`.

    Args:
      nondiff_argnums: positions of arguments passed as they are: in place to `fwd`, first to `bwd`.

    >>> @xjax.custom_vjp
    ... def f(x):
    ...     return x * 2.0
    >>> f.defvjp(lambda x: (f(x), None), lambda residuals, ct: (10.0 * ct,))
    >>> float(xjax.grad(f)(3.0))
    10.0
    """

    transform = "custom_vjp"

    def __init__(self, fun: Callable, nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd, self.bwd = None, None

    def defvjp(self, fwd: Callable, bwd: Callable, symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Set the rule: `fwd(*args) -> (value, residuals)`, `bwd(*nondiff, residuals, ct) -> tuple of cotangents`.

        `bwd` returns one cotangent (or None for zero) for each differentiable argument.
        """
        if symbolic_zeros:
            raise bad(self._where, "symbolic_zeros is not supported in defvjp",
                      fix="leave it out: zero cotangents then come as arrays of zeros.", exc=NotImplementedError)
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise bad(self._where, "has no derivative rule", fix="define one with f.defvjp(fwd, bwd).",
                      exc=AttributeError)
        args = positional_arguments(self.fun, args, kwargs, self._where)
        static = self._static_positions(len(args))
        nums = tuple(i for i in range(len(args)) if i not in static)
        chosen, rest = split_args(args, nums)
        leaves, tree = flatten(chosen)
        count = len(args)
        flat = flatten_function(lambda *xs: self.fun(*merge_args(xs, rest, nums, count)), tree, where=self._where)
        fwd = _Forward(lambda *xs: self.fwd(*merge_args(xs, rest, nums, count)), flat, tree, function_name(self.fwd))
        bwd = _Backward(functools.partial(self.bwd, *rest), flat, tree, [typeof(x) for x in leaves],
                        function_name(self.bwd))
        outs = custom_vjp_call_p.bind(*leaves, name=function_name(self.fun), call_jaxpr=flat, fwd=fwd, bwd=bwd,
                                      symbolic_zeros=False)
        return tree_unflatten(flat.out_tree, outs)


class _Forward:
    """`fwd` on flat lists: (result leaves, residual leaves, structure of the residuals)."""

    def __init__(self, fwd: Callable, flat: Flat, in_tree: Any, name: str):
        self.fwd, self.flat, self.in_tree, self.__name__ = fwd, flat, in_tree, name

    def __call__(self, *leaves: Any) -> tuple[list[Any], list[Any], Any]:
        out = self.fwd(*tree_unflatten(self.in_tree, leaves))
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise bad(self.flat.where, "`fwd` must return a pair (value, residuals)",
                      given={"returned": f"{type(out).__name__} {out!r:.60}"}, fix="return f(x), (what bwd needs).")
        outs, self.flat.out_tree = flatten(out[0])
        residuals, tree = flatten(out[1])
        return outs, residuals, tree


class _Backward:
    """`bwd` on flat lists, with its result checked against the arguments."""

    def __init__(self, bwd: Callable, flat: Flat, in_tree: Any, in_avals: Sequence[Any], name: str):
        self.bwd, self.flat, self.in_tree, self.in_avals = bwd, flat, in_tree, in_avals
        self.__name__ = name

    def __call__(self, residual_tree: Any, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        where = self.flat.where
        ct = tree_unflatten(self.flat.out_tree, [instantiate(ct) for ct in cts])
        out = self.bwd(tree_unflatten(residual_tree, residuals), ct)
        slots = tree_unflatten(self.in_tree, range(self.in_tree.num_leaves))
        if not isinstance(out, (tuple, list)) or len(out) != len(slots):
            raise bad(where, f"`bwd` must return a tuple of {len(slots)} cotangents, one for each argument",
                      given={"returned": f"{type(out).__name__} of {len(out)}" if isinstance(out, (tuple, list))
                             else type(out).__name__}, fix="return (ct,) for one argument; None stands for zero.")
        found = []
        for k, (ct_arg, slot) in enumerate(zip(out, slots, strict=True)):
            found += self._argument(k, ct_arg, slot)
        return found

    def _argument(self, k: int, ct: Any, slot: Any) -> list[Any]:
        """Cotangents of the leaves of argument `k`."""
        where = self.flat.where
        pairs, tree = tree_flatten_with_path(slot)
        avals = [self.in_avals[i].tangent() for _, i in pairs]
        if ct is None:
            return [Zero(a) for a in avals]
        leaves, got = flatten(ct, lambda x: x is None)
        if got != tree:
            raise bad(where, f"`bwd` returned a cotangent for argument {k} with another structure than the argument",
                      given=tree_mismatch("cotangent", tree, got), fix="return the argument's structure.")
        found = [Zero(a) if x is None or a.dtype == dtypes.float0 else x for x, a in zip(leaves, avals, strict=True)]
        real = [i for i, x in enumerate(found) if type(x) is not Zero]
        check_like(where, "cotangent", [f" of argument {k}{keystr(pairs[i][0])}" for i in real],
                   [found[i] for i in real], [avals[i] for i in real],
                   fix="return cotangents with the shape and dtype of the arguments.")
        return found


# -- the primitive of the call ------------------------------------------------------------------------------------
# `call_jaxpr` is a flat function: the user's when it comes from Python, a ClosedJaxpr once staged.

def _evaluate(*args, name, call_jaxpr, fwd, bwd, symbolic_zeros):
    return call_jaxpr(*args)


def _type(*avals, name, call_jaxpr, fwd, bwd, symbolic_zeros):
    return call_jaxpr.out_avals


def _stage(trace: StagingTrace, args, params):
    call = trace_to_jaxpr(params["call_jaxpr"], [typeof(x) for x in args], f"custom_vjp `{params['name']}`")
    closed, consts = hoist_consts(call)
    fwd, bwd, count = params["fwd"], params["bwd"], len(consts)
    if consts:
        user_fwd, user_bwd = fwd, bwd
        fwd = _named(lambda *xs: user_fwd(*xs[count:]), user_fwd)
        bwd = _named(lambda tree, res, cts: [None] * count + list(user_bwd(tree, res, cts)), user_bwd)
    return trace.record(custom_vjp_call_p, [*consts, *args], {**params, "call_jaxpr": closed, "fwd": fwd, "bwd": bwd})


def _named(f: Callable, like: Callable) -> Callable:
    f.__name__ = getattr(like, "__name__", "rule")
    return f


def _jvp(primals, tangents, *, name, call_jaxpr, fwd, bwd, symbolic_zeros):
    outs, residuals, tree = fwd(*primals)
    out_avals = tuple(typeof(y).tangent() for y in outs)
    active = tuple(type(dx) is not Zero for dx in tangents)
    douts = custom_lin_p.bind(*residuals, *[dx for dx in tangents if type(dx) is not Zero], name=name, bwd=bwd,
                              residual_tree=tree, active=active, out_avals=out_avals)
    return outs, [Zero(a) if a.dtype == dtypes.float0 else dy for dy, a in zip(douts, out_avals, strict=True)]


def _batch(axis, args, bdims, *, name, call_jaxpr, fwd, bwd, symbolic_zeros):
    def batched_fwd(*xs: Any) -> tuple[list[Any], list[Any], Any]:
        tree, count = None, 0

        def run(*inner: Any) -> list[Any]:
            nonlocal tree, count
            outs, residuals, tree = fwd(*inner)
            count = len(outs)
            return [*outs, *residuals]

        flat = batched_call(run, axis, bdims)(*xs)
        return flat[:count], flat[count:], tree

    def batched_bwd(tree: Any, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        zeros: list[Any] = []

        def run(*inner: Any) -> list[Any]:
            found = bwd(tree, inner[:len(residuals)], inner[len(residuals):])
            zeros[:] = [type(ct) is Zero or ct is None for ct in found]
            return [ct for ct, zero in zip(found, zeros, strict=True) if not zero]

        flat = [*residuals, *map(instantiate, cts)]
        values, dims = batch_flat(run, open_axis(axis), flat, [0] * len(flat))
        given = iter([_fit_cotangent(ct, d, b, axis.size) for ct, d, b in
                      zip(values, dims, [b for b, zero in zip(bdims, zeros, strict=True) if not zero], strict=True)])
        return [None if zero else next(given) for zero in zeros]

    outs = custom_vjp_call_p.bind(*args, name=name, call_jaxpr=batched_call(call_jaxpr, axis, bdims),
                                  fwd=_named(batched_fwd, fwd), bwd=_named(batched_bwd, bwd),
                                  symbolic_zeros=symbolic_zeros)
    return outs, [0] * len(outs)


def _fit_cotangent(ct: Any, found: int | None, wanted: int | None, size: int) -> Any:
    """A cotangent mapped as its argument is; an argument that all elements share gets the sum over them."""
    if wanted is None:
        return reduce_sum(place_axis(ct, found, 0, size), (0,))
    return place_axis(ct, found, wanted, size)


def _lower(b, outs, *args, name, call_jaxpr, fwd, bwd, symbolic_zeros):
    return lower_call(b, call_jaxpr, args, name)


custom_vjp_call_p = Primitive(
    "custom_vjp_call", type_rule=_type, lower=_lower, jvp=_jvp, batch=_batch, evaluate=_evaluate, stage=_stage,
    transpose=Missing("a derivative rule called a function with a custom rule on a tangent, where only linear "
                      "operations may stand"), multiple_results=True, cacheable=False)


# -- its derivative, which exists only to be transposed -----------------------------------------------------------

_FORWARD_MODE = Missing("forward-mode differentiation (jvp, jacfwd, hessian) of a function with a custom_vjp rule",
                        fix="use reverse mode (grad, vjp, jacrev), or give the function a custom_jvp rule.")


def _lin_type(*avals, name, bwd, residual_tree, active, out_avals):
    return out_avals


def _lin_evaluate(*args, name, **params):
    raise bad(f"custom_vjp `{name}`", _FORWARD_MODE.why, fix=_FORWARD_MODE.fix)


def _lin_transpose(cts, *args, name, bwd, residual_tree, active, out_avals):
    n = residual_tree.num_leaves
    found = bwd(residual_tree, args[:n], cts)
    return [None] * n + [ct for ct, flag in zip(found, active, strict=True) if flag]


custom_lin_p = Primitive("custom_lin", type_rule=_lin_type, lower=_FORWARD_MODE, jvp=_FORWARD_MODE,
                         batch=_FORWARD_MODE, transpose=_lin_transpose, evaluate=_lin_evaluate, multiple_results=True,
                         cacheable=False)
