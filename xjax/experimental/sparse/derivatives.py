"""Derivatives of functions of sparse arrays: `sparse.grad` differentiates with respect to the entries."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.calls import function_name
from xjax.core.errors import bad
from xjax.core.tree import tree_map
from xjax.experimental.sparse.arrays import BCOO
from xjax.transforms import autodiff
from xjax.typing import PyTree


def _is_sparse(x: object) -> bool:
    return isinstance(x, BCOO)


def _of_entries(transform: Callable, rebuild: Callable) -> Callable:
    def transformed(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False,
                    **options: object) -> Callable:
        """`{name}` of a function of sparse and dense arrays; the derivative by a sparse array has its indices."""
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

        @functools.wraps(fun)
        def derivative(*args: PyTree, **kwargs: object) -> PyTree:
            if any(not -len(args) <= k < len(args) for k in numbers):
                raise bad(f"sparse derivative of `{function_name(fun)}`", "argnums names an argument that is missing",
                          {"argnums": argnums, "arguments": len(args)}, "pass positions of the arguments.",
                          exc=ValueError)
            chosen = [args[k] for k in numbers]
            entries = [tree_map(lambda x: x.data if _is_sparse(x) else x, x, is_leaf=_is_sparse) for x in chosen]

            def of_entries(*entries: PyTree) -> PyTree:
                full = [*args]
                for k, like, new in zip(numbers, chosen, entries, strict=True):
                    full[k] = tree_map(lambda x, d: x.with_entries(d) if _is_sparse(x) else d, like, new,
                                       is_leaf=_is_sparse)
                return fun(*full, **kwargs)

            result = transform(of_entries, argnums=tuple(range(len(numbers))), has_aux=has_aux,
                               **options)(*entries)
            return rebuild(result, chosen, isinstance(argnums, int), has_aux)

        return derivative
    return transformed


def _like_arguments(gradients: Sequence[Any], chosen: Sequence[Any], single: bool) -> PyTree:
    out = tuple([tree_map(lambda x, g: x.with_entries(g) if _is_sparse(x) else g, x, g, is_leaf=_is_sparse)
                 for x, g in zip(chosen, gradients, strict=True)])
    return out[0] if single else out


def _gradient(result: PyTree, chosen: Sequence[Any], single: bool, has_aux: bool) -> PyTree:
    if has_aux:
        return _like_arguments(result[0], chosen, single), result[1]
    return _like_arguments(result, chosen, single)


def _value_and_gradient(result: PyTree, chosen: Sequence[Any], single: bool, has_aux: bool) -> PyTree:
    return result[0], _like_arguments(result[1], chosen, single)


grad = _of_entries(autodiff.grad, _gradient)
grad.__name__ = grad.__qualname__ = "grad"
grad.__doc__ = """The gradient of a function of sparse and dense arrays, as `xjax.grad`.

>>> m = BCOO.fromdense(np.array([[0., 2.], [3., 0.]], "float32"))
>>> grad(lambda m: (m.T @ np.ones(2)).sum() ** 2)(m).data
Array([10., 10.], dtype=float32)
"""
value_and_grad = _of_entries(autodiff.value_and_grad, _value_and_gradient)
value_and_grad.__name__ = value_and_grad.__qualname__ = "value_and_grad"
value_and_grad.__doc__ = "The value and the gradient, as `xjax.value_and_grad`; see `sparse.grad`."
