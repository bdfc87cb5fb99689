"""The public derivative functions: grad, value_and_grad, vjp, jvp, linearize, Jacobians and Hessians."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import (
    Flat,
    canonical_argnums,
    flatten_function,
    function_name,
    merge_args,
    split_args,
)
from xjax.core.context import context
from xjax.core.errors import bad
from xjax.core.jaxpr import eval_jaxpr
from xjax.core.tree import flatten, keystr, tree_flatten_with_path, tree_map, tree_mismatch, tree_unflatten
from xjax.core.tree_nodes import Partial
from xjax.core.types import LinearInput, Zero, is_array_like, typeof
from xjax.ops.convert import convert_element_type
from xjax.ops.shape import broadcast_in_dim, reshape
from xjax.ops.zeros import instantiate
from xjax.transforms.jvp import jvp_flat
from xjax.transforms.linearize import Linearized, linearize_flat
from xjax.transforms.transpose import backward
from xjax.transforms.vmap import vmap


def grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
         allow_int: bool = False) -> Callable:
    """Function that returns the gradient of the scalar function `fun`.

    Args:
      argnums: which positional arguments to differentiate; an int gives one tree, a sequence a tuple of trees.
      has_aux: `fun` returns (value, anything); the result is then (gradient, anything).
      holomorphic: `fun` is complex-differentiable, inputs and output are complex.
      allow_int: integer inputs get a gradient of dtype float0 instead of an error.

    Raises: TypeError if the result is not a real scalar, or an input is an integer.

    >>> float(xjax.grad(lambda x: x ** 3)(2.0))
    12.0
    """
    value_and_grad_f = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, _where="grad")

    @functools.wraps(fun)
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        value, g = value_and_grad_f(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return grad_f


def value_and_grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False,
                   holomorphic: bool = False, allow_int: bool = False, *, _where: str = "value_and_grad") -> Callable:
    """Function that returns (value, gradient) of the scalar function `fun`; arguments as in `grad`.

    With `has_aux` it returns ((value, aux), gradient).
    """
    name = f"{_where} of `{function_name(fun)}`"

    @functools.wraps(fun)
    def value_and_grad_f(*args: Any, **kwargs: Any) -> Any:
        nums = canonical_argnums(argnums, len(args), name)
        chosen, rest = split_args(args, nums)
        leaves, treedef = flatten(chosen)
        paths = _paths(args, nums) if leaves else []
        for x, path in zip(leaves, paths, strict=True):
            _check_input(name, x, path, holomorphic, allow_int)
        flat = flatten_function(lambda *xs: fun(*merge_args(xs, rest, nums, len(args)), **kwargs), treedef,
                                has_aux=has_aux, where=name)
        active = [dtypes.is_inexact(typeof(x).dtype) for x in leaves]
        lin = linearize_flat(flat, leaves, active, name)
        value = _check_scalar(name, lin.outs, flat, holomorphic)
        g = _gradients(lin, [typeof(value).dtype.type(1)], leaves)
        g = tree_unflatten(treedef, g)
        g = g[0] if isinstance(argnums, int) else tuple(g)
        value = tree_unflatten(flat.out_tree, lin.outs)
        return ((value, flat.aux), g) if has_aux else (value, g)

    return value_and_grad_f


def _gradients(lin: Linearized, cts: Sequence[Any], primals: Sequence[Any]) -> list[Any]:
    """Cotangents of all inputs from cotangents of the outputs, zeros made real."""
    cts = [ct for ct, flag in zip(cts, lin.nonzero, strict=True) if flag]
    j = lin.program.jaxpr
    found = iter(backward(j, lin.program.consts, [LinearInput(v.aval) for v in j.invars], cts))
    return [_as_result(next(found) if flag else Zero(typeof(x).tangent()))
            for x, flag in zip(primals, lin.active, strict=True)]


def _as_result(ct: Any) -> Any:
    """A cotangent as the user gets it: never a symbolic zero, and no host value where values are computed."""
    if type(ct) is Zero:
        return instantiate(ct)
    if context.trace.parent is None and not hasattr(ct, "aval"):
        aval = typeof(ct)
        return broadcast_in_dim(ct, aval.shape, range(aval.ndim))
    return ct


def _paths(args: Sequence[Any], nums: Sequence[int]) -> list[str]:
    """Where each differentiated leaf stands: `argument 0['w']`."""
    return [f"argument {n}{keystr(path)}" for n in nums for path, _ in tree_flatten_with_path(args[n])[0]]


def _check_input(where: str, x: Any, path: str, holomorphic: bool, allow_int: bool) -> None:
    if not is_array_like(x):
        raise bad(where, f"{path} is not an array", given={"value": f"{type(x).__name__} {x!r:.60}"},
                  fix="pass arrays or numbers, or choose other arguments with argnums.")
    dtype = typeof(x).dtype
    if holomorphic and not dtypes.is_complex(dtype):
        raise bad(where, f"holomorphic=True needs complex inputs, but {path} has dtype {dtype.name}",
                  fix="convert the input to complex, or drop holomorphic.")
    if dtypes.is_complex(dtype) or dtypes.is_float(dtype):
        return
    if not allow_int:
        raise bad(where, f"needs real floating-point inputs, but {path} has dtype {dtype.name}",
                  given={path: typeof(x).str_short()},
                  fix="pass a float (2.0 instead of 2), choose other arguments with argnums, or use allow_int=True.")


def _check_scalar(where: str, outs: Sequence[Any], flat: Flat, holomorphic: bool) -> Any:
    if len(outs) != 1 or not is_array_like(outs[0]):
        raise bad(where, "the function must return one scalar", given={"result": str(flat.out_tree)},
                  fix="return the loss alone, or (loss, other) with has_aux=True.")
    aval = typeof(outs[0])
    if aval.shape:
        raise bad(where, f"the function must return a scalar, but it returned {aval.str_short()}",
                  fix="reduce it with .sum() or .mean(), or use jacrev for the derivative of an array.")
    if holomorphic and not dtypes.is_complex(aval.dtype):
        raise bad(where, f"holomorphic=True needs a complex result, but it has dtype {aval.dtype.name}",
                  fix="drop holomorphic.")
    if not holomorphic and not dtypes.is_float(aval.dtype):
        raise bad(where, f"the function must return a real floating-point scalar, but it returned {aval.str_short()}",
                  fix="return a float; for a complex-differentiable function use holomorphic=True.")
    return outs[0]


# -- vjp, jvp, linearize ------------------------------------------------------------------------------------------

def vjp(fun: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """(value, function from a cotangent of the value to the tuple of cotangents of `primals`).

    With `has_aux`, `fun` returns (value, aux) and the result is (value, vjp_function, aux).

    >>> y, back = xjax.vjp(xjax.numpy.sin, 0.0)
    >>> float(back(2.0)[0])
    2.0
    """
    where = f"vjp of `{function_name(fun)}`"
    leaves, treedef = flatten(primals)
    for x in leaves:
        typeof(x)
    flat = flatten_function(fun, treedef, has_aux=has_aux, where=where)
    active = [dtypes.is_inexact(typeof(x).dtype) for x in leaves]
    lin = linearize_flat(flat, leaves, active, where)
    value = tree_unflatten(flat.out_tree, lin.outs)
    back = Partial(_VjpFunction(lin, leaves, treedef, flat.out_tree, where))
    return (value, back, flat.aux) if has_aux else (value, back)


class _VjpFunction:
    """Maps a cotangent of the value to cotangents of the inputs."""

    def __init__(self, lin: Linearized, primals: Sequence[Any], in_tree: Any, out_tree: Any, where: str):
        self.lin, self.in_tree, self.out_tree, self.where = lin, in_tree, out_tree, where
        self.in_avals = [typeof(x) for x in primals]
        self.out_avals = [typeof(y) for y in lin.outs]

    def __call__(self, ct: Any) -> tuple:
        leaves, tree = flatten(ct)
        if tree != self.out_tree:
            raise bad(self.where, "the cotangent has another structure than the value",
                      given=tree_mismatch("cotangent", self.out_tree, tree), fix="pass one cotangent for each result.")
        cts = [_check_tangent(self.where, "cotangent", ct, aval)
               for ct, aval in zip(leaves, self.out_avals, strict=True)]
        found = _gradients(self.lin, cts, self.in_avals)
        return tree_unflatten(self.in_tree, found)


def _check_tangent(where: str, what: str, x: Any, aval: Any) -> Any:
    """A tangent or cotangent checked against the type it must have; Python numbers take its dtype."""
    want, got = aval.tangent(), typeof(x)
    if want.dtype == dtypes.float0:
        return Zero(want)
    if got.shape != want.shape or (got.dtype != want.dtype and not got.weak_type):
        raise bad(where, f"a {what} has the wrong type", given={"expected": want.str_short(), "given": got.str_short()},
                  fix=f"pass a {what} with the shape and dtype of the value.",
                  exc=ValueError if got.shape != want.shape else TypeError)
    return x if got.dtype == want.dtype else convert_element_type(x, want.dtype)


def jvp(fun: Callable, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """(value, derivative of `fun` at `primals` along `tangents`); with `has_aux`, (value, tangent, aux).

    >>> y, dy = xjax.jvp(xjax.numpy.sin, (0.0,), (3.0,))
    >>> float(dy)
    3.0
    """
    where = f"jvp of `{function_name(fun)}`"
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise bad(where, "primals and tangents must be tuples or lists of arguments",
                  given={"primals": type(primals).__name__, "tangents": type(tangents).__name__},
                  fix="write jvp(f, (x,), (dx,)).")
    xs, tree = flatten(tuple(primals))
    dxs, dtree = flatten(tuple(tangents))
    if tree != dtree:
        raise bad(where, "primals and tangents must have the same structure",
                  given=tree_mismatch("tangents", tree, dtree), fix="pass one tangent for each primal.")
    flat = flatten_function(fun, tree, has_aux=has_aux, where=where)
    dxs = [_check_tangent(where, "tangent", dx, typeof(x)) for x, dx in zip(xs, dxs, strict=True)]
    ys, dys = jvp_flat(flat, xs, dxs)
    out = tree_unflatten(flat.out_tree, ys), tree_unflatten(flat.out_tree, [instantiate(dy) for dy in dys])
    return (*out, flat.aux) if has_aux else out


def linearize(fun: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """(value, function that maps tangents of `primals` to the tangent of the value), computed once.

    >>> y, f_lin = xjax.linearize(xjax.numpy.sin, 0.0)
    >>> float(f_lin(3.0))
    3.0
    """
    where = f"linearize of `{function_name(fun)}`"
    leaves, treedef = flatten(primals)
    flat = flatten_function(fun, treedef, has_aux=has_aux, where=where)
    active = [dtypes.is_inexact(typeof(x).dtype) for x in leaves]
    lin = linearize_flat(flat, leaves, active, where)
    avals = [typeof(x) for x in leaves]

    def f_lin(*tangents: Any) -> Any:
        dxs, tree = flatten(tangents)
        if tree != treedef:
            raise bad(where, "tangents must have the structure of the primals",
                      given=tree_mismatch("tangents", treedef, tree), fix="pass one tangent for each primal.")
        dxs = [_check_tangent(where, "tangent", dx, a) for dx, a in zip(dxs, avals, strict=True)]
        dxs = [dx for dx, flag in zip(dxs, active, strict=True) if flag]
        dys = iter(eval_jaxpr(lin.program.jaxpr, lin.program.consts, *dxs))
        out = [next(dys) if flag else instantiate(Zero(typeof(y).tangent()))
               for y, flag in zip(lin.outs, lin.nonzero, strict=True)]
        return tree_unflatten(flat.out_tree, out)

    value = tree_unflatten(flat.out_tree, lin.outs)
    return (value, f_lin, flat.aux) if has_aux else (value, f_lin)


# -- Jacobians ----------------------------------------------------------------------------------------------------

def jacfwd(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False,
           holomorphic: bool = False) -> Callable:
    """Jacobian by forward mode, one pass for each input element: good for few inputs.

    The result has, for each output leaf of shape s and each input leaf of shape t, an array of shape s + t.
    """
    name = f"jacfwd of `{function_name(fun)}`"

    @functools.wraps(fun)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        f, chosen, restore = _partial(fun, args, kwargs, argnums, name)
        leaves, treedef = flatten(chosen)
        for x, path in zip(leaves, _paths(args, canonical_argnums(argnums, len(args), name)), strict=True):
            _check_input(name, x, path, holomorphic, allow_int=False)

        def push(basis: Any) -> Any:
            return jvp(f, chosen, tree_unflatten(treedef, basis), has_aux=has_aux)

        _, columns, *aux = vmap(push, out_axes=(None, -1, None) if has_aux else (None, -1))(_basis(leaves))
        jac = tree_map(lambda c: restore(tree_unflatten(treedef, _pieces(c, leaves, axis=-1))), columns)
        return (jac, aux[0]) if has_aux else jac

    return jacobian


def jacrev(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
           allow_int: bool = False) -> Callable:
    """Jacobian by reverse mode, one pass for each output element: good for few outputs. See `jacfwd`."""
    name = f"jacrev of `{function_name(fun)}`"

    @functools.wraps(fun)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        f, chosen, restore = _partial(fun, args, kwargs, argnums, name)
        for x, path in zip(flatten(chosen)[0], _paths(args, canonical_argnums(argnums, len(args), name)), strict=True):
            _check_input(name, x, path, holomorphic, allow_int)
        y, pull, *aux = vjp(f, *chosen, has_aux=has_aux)
        out_leaves, out_tree = flatten(y)
        rows = vmap(lambda basis: pull(tree_unflatten(out_tree, basis)))(_basis(out_leaves))
        in_leaves, in_tree = flatten(rows)
        per_input = [_pieces(r, out_leaves, axis=0) for r in in_leaves]
        jac = [restore(tree_unflatten(in_tree, [pieces[k] for pieces in per_input])) for k in range(len(out_leaves))]
        jac = tree_unflatten(out_tree, jac)
        return (jac, aux[0]) if has_aux else jac

    return jacobian


def hessian(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False,
            holomorphic: bool = False) -> Callable:
    """Hessian of a function: forward mode over reverse mode."""
    return jacfwd(jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic), argnums, has_aux=has_aux,
                  holomorphic=holomorphic)


def _partial(fun, args, kwargs, argnums, where):
    """`fun` of the chosen arguments alone, those arguments, and the map from their tuple to the user's form."""
    nums = canonical_argnums(argnums, len(args), where)
    chosen, rest = split_args(args, nums)

    def f(*xs: Any) -> Any:
        return fun(*merge_args(xs, rest, nums, len(args)), **kwargs)

    return f, chosen, (lambda t: t[0]) if isinstance(argnums, int) else (lambda t: tuple(t))


def _basis(leaves: Sequence[Any]) -> list[Any]:
    """The identity on the concatenation of all leaves, as one array [total, *shape] for each leaf."""
    avals = [typeof(x) for x in leaves]
    total, start, out = sum(a.size for a in avals), 0, []
    for a in avals:
        rows = np.zeros((total, a.size), a.dtype)
        rows[np.arange(a.size) + start, np.arange(a.size)] = 1
        out.append(rows.reshape(total, *a.shape))
        start += a.size
    return out


def _pieces(x: Any, leaves: Sequence[Any], axis: int) -> list[Any]:
    """Cut the basis axis (first, or last) of `x` into one piece for each leaf, of the leaf's shape."""
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
