"""The one comparison of the tests: is a result what JAX gives, or NumPy?

`assert_same` asks for everything that JAX promises: the containers, and of each leaf shape, dtype, weak type and value.
`assert_close` asks for shapes and values alone: NumPy has other dtypes, and a loop has other containers than `vmap`.
`assert_same_outcome` also compares calls that raise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import xjax

# Two right programs for one result add up terms in another order, and each library rounds in its own places: sums of
# some 100 terms, or chains of a few elementary functions (1 to 4 units each), differ by this many units in the last
# place. Tests of longer sums pass a larger `tol`.
ULPS = 64


def assert_same(ours: Any, theirs: Any, *, tol: float = 1.0, what: str = "") -> None:
    """The same tree: containers, and of each leaf shape, dtype, weak type and value.

    Leaves that are no arrays (strings, functions, types) must print alike but for the library's name.

    Args: tol: tolerance relative to that of the dtype (`ULPS` units in the last place of the largest number of a leaf).
    """
    a, b = _leaves(ours), _leaves(theirs)
    assert _outline(ours) == _outline(theirs), f"{what}: {_outline(ours)}, JAX has {_outline(theirs)}"
    for x, y in zip(a, b, strict=True):
        if not _is_number(y):
            assert _printed(x) == _printed(y), f"{what}: {x!r}, JAX has {y!r}"
            continue
        assert _is_number(x), f"{what}: {x!r}, JAX has {y!r}"
        assert type_text(x) == type_text(y), f"{what}: {type_text(x)}, JAX has {type_text(y)}"
        _check_values(_host(x), _host(y), tol, what)


def assert_close(got: Any, want: Any, *, tol: float = 1.0, what: str = "") -> None:
    """The same leaves in shape and value, whatever their dtypes; the tolerance is that of the dtype of `got`."""
    a, b = _leaves(got), _leaves(want)
    assert len(a) == len(b), f"{what}: {len(a)} results, expected {len(b)}"
    for x, y in zip(a, b, strict=True):
        x, y = _host(x), _host(y)
        assert x.shape == y.shape, f"{what}: shape {x.shape}, expected {y.shape}"
        _check_values(x, y, tol, what)


class Outcome(NamedTuple):
    """What a call gave: a value, or an error."""

    value: Any = None
    error: Exception | None = None


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """The result of a call, or the exception it raised; its warnings are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return Outcome(call(*args, **kwargs))
        except Exception as error:
            return Outcome(error=error)


def assert_same_outcome(ours: Outcome, theirs: Outcome, *, tol: float = 1.0, what: str = "") -> None:
    """The same value, or an error of the class that an `except` clause for JAX's error would catch."""
    if theirs.error is None:
        if ours.error is not None:
            raise AssertionError(f"{what}: JAX computes it; here {type(ours.error).__name__}") from ours.error
        assert_same(ours.value, theirs.value, tol=tol, what=what)
        return
    assert ours.error is not None, f"{what}: JAX raises {theirs.error!r}; here {ours.value!r}"
    expected = builtin_class(theirs.error)
    if not isinstance(ours.error, expected):
        raise AssertionError(f"{what}: {type(ours.error).__name__}, in JAX a {expected.__name__}") from ours.error


def builtin_class(error: BaseException) -> type[BaseException]:
    """The built-in class that an error is of."""
    return next(c for c in type(error).__mro__ if c.__module__ == "builtins")


# -- types --------------------------------------------------------------------------------------------------------

def type_text(x: Any) -> str:
    """Shape, dtype and weak type; a bool has none: JAX marks some, to no effect. Python numbers are what they are."""
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        return type(x).__name__
    weak = getattr(x, "weak_type", False) and x.dtype != np.bool_
    name = "float0" if x.dtype == xjax.float0 else str(x.dtype)
    return f"{name}{list(x.shape)}{' weak' * bool(weak)}"


def is_inexact(x: Any) -> bool:
    """Whether the values of an array are rounded."""
    return x.dtype.kind in "fc" or "float" in x.dtype.name


# -- values -------------------------------------------------------------------------------------------------------

def tolerance(dtype: Any, tol: float = 1.0) -> float:
    """Relative tolerance of a dtype; 0 for those that are exact."""
    dtype = np.dtype(dtype)
    exact = dtype.kind not in "fc" and "float" not in dtype.name
    return 0.0 if exact else ULPS * tol * float(ml_dtypes.finfo(dtype).eps)


def _check_values(x: np.ndarray, y: np.ndarray, tol: float, what: str) -> None:
    if x.dtype.itemsize == 0:                                          # float0 has no values
        return
    if not is_inexact(x):
        np.testing.assert_array_equal(x, y, err_msg=what)
        return
    limit = tolerance(x.dtype, tol)
    with np.errstate(all="ignore"):
        wide = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
        # Rounded to our dtype, numbers too large for it are infinite.
        y = y.astype(x.dtype).astype(wide) if y.dtype.kind != "c" or x.dtype.kind == "c" else y
        x = x.astype(wide)
        # Differences are measured on the scale of the array: sums cancel.
        scale = min(np.max(np.abs(y[np.isfinite(y)]), initial=1.0), np.finfo(np.float64).max)
    np.testing.assert_allclose(x, y, rtol=limit, atol=limit * scale, err_msg=what)


# -- trees --------------------------------------------------------------------------------------------------------

def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [x for k in sorted(tree, key=str) for x in _leaves(tree[k])]
    if isinstance(tree, (list, tuple)):
        return [x for part in tree for x in _leaves(part)]
    return [] if tree is None else [tree]


def _outline(tree: Any) -> str:
    """The containers of a tree."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{k!r}: {_outline(tree[k])}" for k in sorted(tree, key=str)) + "}"
    if isinstance(tree, (list, tuple)):
        fields = getattr(tree, "_fields", None)
        name = type(tree).__name__ if fields is None else f"fields {fields}"      # classes may be named otherwise
        return f"{name}({', '.join(map(_outline, tree))})"
    return "None" if tree is None else "*"


def _is_number(x: Any) -> bool:
    return isinstance(x, (bool, int, float, complex)) or (hasattr(x, "dtype") and hasattr(x, "shape"))


def _host(x: Any) -> np.ndarray:
    """Values on the host; of a typed random key its words."""
    if str(getattr(x, "dtype", "")).startswith("key<"):
        import jax
        return np.asarray((xjax if isinstance(x, xjax.Array) else jax).random.key_data(x))
    return np.asarray(x)


def _printed(x: Any) -> str:
    return repr(x).replace("xjax", "jax")
