"""Jacobians and Hessians: jacfwd, jacrev, hessian."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import (
    api_boundary,
    bounded,
    canonical_argnums,
    check_callable,
    function_name,
    merge_args,
    split_args,
)
from xjax.core.errors import bad
from xjax.core.tree import flatten, tree_map, tree_unflatten
from xjax.core.types import typeof
from xjax.ops.convert import convert_element_type
from xjax.ops.shape import reshape
from xjax.transforms.autodiff import argument_paths, check_input, check_output, jvp, vjp
from xjax.transforms.vmap import vmap
from xjax.typing import Array, PyTree


def jacfwd(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False,
           holomorphic: bool = False) -> Callable:
    """A function that returns the Jacobian by forward mode, one pass for each input element: fast for few inputs.

    The result has, for each output leaf of shape s and each input leaf of shape t, an array of shape s + t.
    """
    check_callable("jacfwd", fun)
    name = f"jacfwd of `{function_name(fun)}`"

    @functools.wraps(fun)
    @bounded
    def jacobian(*args: object, **kwargs: object) -> PyTree:
        f, chosen, restore = _partial(fun, args, kwargs, argnums, name)
        leaves, treedef = flatten(chosen)
        nums = canonical_argnums(argnums, len(args), name)
        for x, path in zip(leaves, argument_paths(args, nums), strict=True):
            check_input(name, x, path, holomorphic, allow_int=False)
            if dtypes.is_complex(typeof(x).dtype) and not holomorphic:
                raise bad(name, f"needs real inputs, but {path} is complex", given={path: typeof(x).str_short()},
                          fix="use holomorphic=True for a complex-differentiable function, jvp for other functions.")

        def push(basis: list[Array]) -> PyTree:
            return jvp(f, chosen, tree_unflatten(treedef, basis), has_aux=has_aux)

        y, columns, *aux = vmap(push, out_axes=(None, -1, None) if has_aux else (None, -1))(_basis(leaves))
        for leaf in flatten(y)[0] if holomorphic else ():
            check_output(name, typeof(leaf), holomorphic)
        jac = tree_map(lambda c: restore(tree_unflatten(treedef, _pieces(c, leaves, axis=-1))), columns)
        return (jac, aux[0]) if has_aux else jac

    return jacobian


def jacrev(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
           allow_int: bool = False) -> Callable:
    """A function that returns the Jacobian by reverse mode, one pass for each output element: fast for few outputs.

    The result has the structure of that of `jacfwd`.
    """
    check_callable("jacrev", fun)
    name = f"jacrev of `{function_name(fun)}`"

    @functools.wraps(fun)
    @bounded
    def jacobian(*args: object, **kwargs: object) -> PyTree:
        f, chosen, restore = _partial(fun, args, kwargs, argnums, name)
        nums = canonical_argnums(argnums, len(args), name)
        for x, path in zip(flatten(chosen)[0], argument_paths(args, nums), strict=True):
            check_input(name, x, path, holomorphic, allow_int)
        y, pull, *aux = vjp(f, *chosen, has_aux=has_aux)
        out_leaves, out_tree = flatten(y)
        for leaf in out_leaves:
            check_output(name, typeof(leaf), holomorphic)
        rows = vmap(lambda basis: pull(tree_unflatten(out_tree, basis)))(_basis(out_leaves))
        in_leaves, in_tree = flatten(rows)
        per_input = [_pieces(r, out_leaves, axis=0) for r in in_leaves]
        jac = [restore(tree_unflatten(in_tree, [pieces[k] for pieces in per_input])) for k in range(len(out_leaves))]
        jac = tree_unflatten(out_tree, jac)
        return (jac, aux[0]) if has_aux else jac

    return jacobian


@api_boundary
def jacobian(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
             allow_int: bool = False) -> Callable:
    """The same as `jacrev`."""
    return jacrev(fun, argnums, has_aux, holomorphic, allow_int)


def hessian(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False,
            holomorphic: bool = False) -> Callable:
    """A function that returns the Hessian of `fun`, by forward mode over reverse mode."""
    return jacfwd(jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic), argnums, has_aux=has_aux,
                  holomorphic=holomorphic)


def _partial(fun, args, kwargs, argnums, caller):
    """(`fun` of the chosen arguments only, these arguments, the map from a tuple to the form that the user expects)."""
    nums = canonical_argnums(argnums, len(args), caller)
    chosen, rest = split_args(args, nums)

    def f(*xs: PyTree) -> PyTree:
        return fun(*merge_args(xs, rest, nums, len(args)), **kwargs)

    return f, chosen, (lambda t: tuple(t)) if isinstance(argnums, (tuple, list)) else (lambda t: t[0])


def _basis(leaves: Sequence[Any]) -> list[Any]:
    """The identity on the concatenation of all leaves, as one array [total, *shape] for each leaf."""
    avals = [typeof(x) for x in leaves]
    total, start, out = sum(a.size for a in avals), 0, []
    for a in avals:
        rows = np.zeros((total, a.size), a.dtype)
        rows[np.arange(a.size) + start, np.arange(a.size)] = 1
        rows = rows.reshape(total, *a.shape)
        is_host = not a.weak_type and typeof(rows).dtype == a.dtype
        out.append(rows if is_host else convert_element_type(rows, a.dtype, weak_type=a.weak_type))
        start += a.size
    return out


def _pieces(x: Array, leaves: Sequence[Any], axis: int) -> list[Any]:
    """Split the basis axis (first, or last) of `x` into one piece for each leaf, with the shape of the leaf."""
    out, start = [], 0
    shape = typeof(x).shape
    for leaf in leaves:
        aval = typeof(leaf)
        stop = start + aval.size
        if axis == 0:
            out.append(reshape(x[start:stop], (*aval.shape, *shape[1:])))
        else:
            out.append(reshape(x[..., start:stop], (*shape[:-1], *aval.shape)))
        start = stop
    return out
