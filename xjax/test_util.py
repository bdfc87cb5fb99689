"""Checks of derivatives against finite differences: the public namespace `xjax.test_util`.

Each check uses one random direction, so it costs two further calls of the function, independent of the size of its
arguments. Tolerances are a number, or a dict from dtypes to numbers; None: the tolerances in `_TOLERANCES`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.tree import flatten, leaf_paths, tree_leaves, tree_map
from xjax.core.types import typeof
from xjax.transforms.autodiff import jvp, vjp
from xjax.typing import ArrayLike, DTypeLike, PyTree

__all__ = ["check_grads", "check_jvp", "check_vjp"]

_STEP = 1e-4
_TOLERANCES = {"float16": 1e-2, "bfloat16": 1e-1, "float32": 2e-3, "float64": 1e-5, "complex64": 1e-3,
               "complex128": 1e-5}
_MODES = ("fwd", "rev")
Tolerance = float | dict[Any, float] | None             # by dtype, in a dict; None: the default for the dtype


def check_grads(f: Callable, args: Sequence[Any], order: int, modes: str | Sequence[str] = _MODES,
                atol: Tolerance = None, rtol: Tolerance = None, eps: float | None = None) -> None:
    """Check the derivatives of `f` at `args` up to `order`, by central differences.

    Args:
      args: tuple of trees of float or complex arrays.
      modes: "fwd" checks `jvp`, "rev" checks `vjp`; for higher orders, every sequence of the two.
      eps: the step of the differences, 1e-4 by default.

    Raises: AssertionError if a derivative is not within the tolerances; its message names the derivative.

    >>> check_grads(xjax.numpy.sin, (1.0,), order=2)
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    for mode in modes:
        if mode not in _MODES:
            raise bad("test_util.check_grads", "there is no such mode", given={"modes": repr(modes)},
                      fix="pass 'fwd', 'rev' or both.", exc=ValueError)
    _check_order(f, tuple(args), order, modes, atol, rtol, _STEP if eps is None else eps, "")


def _check_order(f: Callable, args: tuple, order: int, modes: tuple[str, ...], atol: Tolerance, rtol: Tolerance,
                 eps: float, name: str) -> None:
    if "fwd" in modes:
        of_jvp = functools.partial(jvp, f)
        words = f"{name} jvp".strip()
        check_jvp(f, of_jvp, args, atol, rtol, eps, words)
        if order > 1:
            _check_order(lambda *xs: of_jvp(xs, _direction(args))[1], args, order - 1, modes, atol, rtol, eps, words)
    if "rev" in modes:
        of_vjp = functools.partial(vjp, f)
        words = f"{name} vjp".strip()
        check_vjp(f, of_vjp, args, atol, rtol, eps, words)
        if order > 1:
            def pulled_back(*xs: PyTree) -> PyTree:
                value, back = of_vjp(*xs)
                return back(_direction(value))

            _check_order(pulled_back, args, order - 1, modes, atol, rtol, eps, words)


def check_jvp(f: Callable, f_jvp: Callable, args: Sequence[Any], atol: Tolerance = None, rtol: Tolerance = None,
              eps: float = _STEP, err_msg: str = "") -> None:
    """Check `f_jvp(args, tangents) -> (value, tangent)`, such as ``partial(jvp, f)``, by central differences of `f`.

    Raises: AssertionError if the value or the tangent differs from that of `f` in dtype or by more than the tolerances.

    >>> check_jvp(xjax.numpy.sin, functools.partial(jvp, xjax.numpy.sin), (1.0,))
    """
    args = tuple(args)
    along = _direction(args)
    value, tangent = f_jvp(args, along)
    expected = f(*args)
    for name, got in (("tangent", tangent), ("primal", value)):
        _check_dtypes(got, expected, f"{err_msg} {name}".strip())
    _check_close(value, expected, atol, rtol, f"{err_msg} primal".strip())
    _check_close(tangent, _difference(f, args, along, eps), atol, rtol, f"{err_msg} tangent".strip())


def check_vjp(f: Callable, f_vjp: Callable, args: Sequence[Any], atol: Tolerance = None, rtol: Tolerance = None,
              eps: float = _STEP, err_msg: str = "") -> None:
    """Check `f_vjp(*args) -> (value, function of a cotangent)`, such as ``partial(vjp, f)``, by differences of `f`.

    The change of `f` along a direction, projected onto a cotangent, is compared with the pulled-back cotangent,
    projected onto the direction.

    Raises: AssertionError if the value or the projections differ by more than the tolerances.

    >>> check_vjp(xjax.numpy.sin, functools.partial(vjp, xjax.numpy.sin), (1.0,))
    """
    args = tuple(args)
    value, back = f_vjp(*args)
    _check_close(value, f(*args), atol, rtol, f"{err_msg} primal".strip())
    along, ct = _direction((args, value))
    pulled_back = tree_map(np.conj, back(tree_map(np.conj, ct)))
    _check_close(_projection(along, pulled_back), _projection(_difference(f, args, along, eps), ct), atol, rtol,
                 f"{err_msg} cotangent projection".strip())


def _direction(tree: PyTree) -> PyTree:
    """Normally distributed numbers with the shapes and dtypes of a tree of arrays, the same in each call.

    They are those of JAX: the rounding of a steep `f`, divided by the step, comes near the tolerances, and a check must
    have one verdict in both libraries.
    """
    rng = np.random.RandomState(0)

    def like(x: ArrayLike) -> np.ndarray:
        aval = typeof(x)
        if not dtypes.is_inexact(aval.dtype):
            return np.zeros(aval.shape, dtypes.float0)
        value = rng.normal(size=aval.shape)
        if dtypes.is_complex(aval.dtype):
            value = value + 1j * rng.normal(size=aval.shape)
        return np.asarray(value, aval.dtype)

    return tree_map(like, tree)


def _difference(f: Callable, args: tuple, along: tuple, eps: float) -> PyTree:
    """The central difference of `f`; 0 for infinite values that are equal."""
    def moved(step: float) -> PyTree:
        return f(*tree_map(lambda x, dx: x if dx.dtype == dtypes.float0 else
                           np.asarray(np.asarray(x) + step * dx, dx.dtype), args, along))

    def slope(above: ArrayLike, below: ArrayLike) -> np.ndarray:
        above, below = np.asarray(above), np.asarray(below)
        if not dtypes.is_inexact(above.dtype):
            return np.zeros(above.shape, dtypes.float0)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(above == below, 0, above - below) * (0.5 / eps), above.dtype)

    return tree_map(slope, moved(eps), moved(-eps))


def _projection(a: PyTree, b: PyTree) -> np.floating:
    """The real inner product of two trees."""
    pairs = zip(map(np.asarray, tree_leaves(a)), map(np.asarray, tree_leaves(b)), strict=True)
    return sum(((np.conj(x).ravel() @ y.ravel()).real for x, y in pairs if x.dtype != dtypes.float0), np.float32(0))


def _check_dtypes(got: PyTree, expected: PyTree, what: str) -> None:
    leaves, others = flatten(got)[0], flatten(expected)[0]
    assert len(leaves) == len(others), f"{what}: {len(leaves)} results, expected {len(others)}"
    for x, y in zip(leaves, others, strict=True):
        a, b = typeof(x), typeof(y).tangent() if what.endswith("tangent") else typeof(y)
        assert a.dtype == b.dtype, f"{what}: {a.str_short()}, expected {b.str_short()}"


def _check_close(got: PyTree, expected: PyTree, atol: Tolerance, rtol: Tolerance, what: str) -> None:
    leaves, tree = flatten(got)
    for x, y, path in zip(leaves, flatten(expected)[0], leaf_paths("", tree), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype == dtypes.float0:
            continue
        absolute, relative = (max(_tolerance(v.dtype, tol) for v in (x, y)) for tol in (atol, rtol))
        wide = np.complex128 if dtypes.is_complex(x.dtype) else np.float64
        np.testing.assert_allclose(x.astype(wide), y.astype(wide), atol=absolute * x.size, rtol=relative * x.size,
                                   err_msg=f"{what}{path}")


def _tolerance(dtype: DTypeLike, tol: Tolerance) -> float:
    if tol is not None and not isinstance(tol, dict):
        return tol
    by_name = {np.dtype(key).name: value for key, value in (tol or {}).items()}
    name = np.dtype(dtype).name
    return by_name.get(name, _TOLERANCES.get(name, 0.0 if not dtypes.is_inexact(dtype) else 1.0))


__getattr__ = attributes_of(__name__)
