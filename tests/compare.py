"""The single comparison of the tests: is a result equal to JAX's or NumPy's?

`assert_same` compares everything that JAX promises: the containers, and the shape, dtype, weak type and value of each
leaf. `assert_same_types` compares all of these except the values. `difference` returns the difference instead of
raising. `assert_close` compares shapes and values only: NumPy has other dtypes, and a loop has other containers than
`vmap`. `assert_same_outcome` also compares calls that raise.

Values agree if they differ by at most `tol` times `tolerance(dtype)`, relative to the scale of their array: the largest
number in it, at least 1, because sums of numbers around 1 cancel. NaN equals NaN, and 0 equals -0.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import xjax
from tests.oracle import real_jax

# Two correct programs for one result add terms in different orders, and each library rounds at different operations:
# sums of some 100 terms, or chains of a few elementary functions (1 to 4 units each), differ by this many units in the
# last place. Numbers of half precision and below are computed in single precision and rounded once per operation, so
# they differ by fewer of their own, much larger units. Tests of longer sums pass a larger `tol`, tests of shorter sums
# a smaller one.
ULPS = 64
ULPS_OF_HALF = 4
ULPS_OF_BYTES = 1


def assert_same(ours: Any, theirs: Any, *, tol: float = 1.0, scale: float = 1.0, like: Any = None,
                what: str = "") -> None:
    """Assert that two trees have the same containers, and leaves of the same shape, dtype, weak type and value.

    Leaves that are not arrays (strings, functions, types) must print alike except for the name of the library.

    Args: tol: tolerance relative to that of the dtype; with 0, values must be equal. scale: the smallest scale on which
    differences are measured. like: the dtype in which the values were computed, if it is not their own; its tolerance
    is used.
    """
    unequal = difference(ours, theirs, tol=tol, scale=scale, like=like)
    assert not unequal, f"{what}: {unequal.text}"


def assert_same_types(ours: Any, theirs: Any, *, what: str = "") -> None:
    """Assert the same containers, and leaves of the same shape, dtype and weak type; also of `eval_shape` structs."""
    unequal = _type_difference(ours, theirs)
    assert not unequal, f"{what}: {unequal}"


def assert_close(got: Any, want: Any, *, tol: float = 1.0, scale: float = 1.0, like: Any = None,
                 what: str = "") -> None:
    """Assert that leaves have the same shapes and values, whatever their dtypes.

    Args: as for `assert_same`; the tolerance is that of the dtype of `got`.
    """
    a, b = leaves(got), leaves(want)
    assert len(a) == len(b), f"{what}: {len(a)} results, expected {len(b)}"
    for x, y in zip(a, b, strict=True):
        x, y = _host(x), _host(y)
        assert x.shape == y.shape, f"{what}: shape {x.shape}, expected {y.shape}"
        unequal = _value_difference(x, y, tol, scale, like)
        assert not unequal, f"{what}: {unequal}"


class Difference(NamedTuple):
    """kind: "type" (containers, shapes, dtypes, weak types) or "value"; text: the result of each library."""

    kind: str
    text: str


def difference(ours: Any, theirs: Any, *, tol: float = 1.0, scale: float = 1.0, like: Any = None) -> Difference | None:
    """The first difference that `assert_same` would raise for, as a `Difference`; None if the trees are the same."""
    unequal = _type_difference(ours, theirs)
    if unequal:
        return Difference("type", unequal)
    for k, (x, y) in enumerate(zip(leaves(ours), leaves(theirs), strict=True)):
        if _has_values(y):
            unequal = _value_difference(_host(x), _host(y), tol, scale, like)
        elif not _is_typed(y) and _printed(x) != _printed(y):
            unequal = f"{x!r}, expected {y!r}"
        if unequal:
            return Difference("value", f"leaf {k}: {unequal}")
    return None


# -- calls that may raise -----------------------------------------------------------------------------------------

class Outcome(NamedTuple):
    """The outcome of a call: a value or an error."""

    value: Any = None
    error: Exception | None = None


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """The result of a call, or the exception that it raised; its warnings are suppressed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return Outcome(call(*args, **kwargs))
        except Exception as error:
            return Outcome(error=error)


def assert_same_outcome(ours: Outcome, theirs: Outcome, *, tol: float = 1.0, what: str = "") -> None:
    """Assert the same value, or an error of the class that an `except` clause for JAX's error would catch."""
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
    """The nearest built-in class in the bases of an error's class."""
    return next(c for c in type(error).__mro__ if c.__module__ == "builtins")


# -- types --------------------------------------------------------------------------------------------------------

def type_text(x: Any) -> str:
    """Shape, dtype and weak type; a Python number's class. The weak type of a bool is ignored: it has no effect."""
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        return next(c.__name__ for c in (bool, int, float, complex) if isinstance(x, c))      # also for a subclass
    weak = getattr(x, "weak_type", False) and x.dtype != np.bool_
    name = "float0" if x.dtype == xjax.float0 else str(x.dtype)
    return f"{name}{list(x.shape)}{' weak' * bool(weak)}"


def is_inexact(x: Any) -> bool:
    """Whether `x` is an array whose values are rounded."""
    return hasattr(x, "dtype") and _is_rounded(x.dtype)


def _type_difference(ours: Any, theirs: Any) -> str:
    if _outline(ours) != _outline(theirs):
        return f"{_outline(ours)}, expected {_outline(theirs)}"
    for k, (x, y) in enumerate(zip(leaves(ours), leaves(theirs), strict=True)):
        if _is_typed(y) and not _is_typed(x):
            return f"leaf {k}: {x!r}, expected {y!r}"
        if _is_typed(y) and type_text(x) != type_text(y):
            return f"leaf {k}: {type_text(x)}, expected {type_text(y)}"
    return ""


# -- values -------------------------------------------------------------------------------------------------------

def tolerance(dtype: Any, tol: float = 1.0) -> float:
    """Relative tolerance of a dtype; 0 for exact dtypes."""
    dtype = np.dtype(dtype)
    if not _is_rounded(dtype):
        return 0.0
    info = ml_dtypes.finfo(dtype)
    ulps = ULPS if info.bits > 16 else ULPS_OF_HALF if info.bits == 16 else ULPS_OF_BYTES
    return tol * ulps * float(info.eps)


def _is_rounded(dtype: Any) -> bool:
    return getattr(dtype, "kind", "") in "fc" or "float" in dtype.name and dtype != xjax.float0


def _value_difference(x: np.ndarray, y: np.ndarray, tol: float, scale: float, like: Any = None) -> str:
    """The report of np.testing about two arrays of one shape; "" if they agree."""
    if x.dtype.itemsize == 0:                                          # float0 has no values
        return ""
    try:
        if is_inexact(x):
            _check_rounded(x, y, tolerance(like or x.dtype, tol), scale)
        else:
            np.testing.assert_array_equal(x, y)
    except AssertionError as error:
        return str(error)
    return ""


def _check_rounded(x: np.ndarray, y: np.ndarray, limit: float, scale: float) -> None:
    with np.errstate(all="ignore"):
        wide = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
        # Numbers too large for our dtype become infinite when rounded to it.
        y = y.astype(x.dtype).astype(wide) if y.dtype.kind != "c" or x.dtype.kind == "c" else y
        x = x.astype(wide)
        scale = min(np.max(np.abs(y[np.isfinite(y)]), initial=scale), np.finfo(np.float64).max)
    np.testing.assert_allclose(x, y, rtol=0, atol=limit * scale)


# -- trees --------------------------------------------------------------------------------------------------------

def leaves(tree: Any) -> list[Any]:
    """The leaves of dicts (in key order), lists, tuples and registered classes; None has no leaves."""
    if isinstance(tree, dict):
        return [x for k in sorted(tree, key=str) for x in leaves(tree[k])]
    if isinstance(tree, (list, tuple)):
        return [x for part in tree for x in leaves(part)]
    if tree is None:
        return []
    node = _registered(tree)
    return [tree] if node is None else [x for part in node.parts for x in leaves(part)]


def _outline(tree: Any) -> str:
    """The containers of a tree."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{k!r}: {_outline(tree[k])}" for k in sorted(tree, key=str)) + "}"
    if isinstance(tree, (list, tuple)):
        fields = getattr(tree, "_fields", None)
        name = type(tree).__name__ if fields is None else f"fields {fields}"      # class names may differ
        return f"{name}({', '.join(map(_outline, tree))})"
    if tree is None:
        return "None"
    node = _registered(tree)
    return "*" if node is None else f"{node.structure}({', '.join(map(_outline, node.parts))})"


class Node(NamedTuple):
    """An object of a registered class: its children, and the class with its static data."""

    parts: list[Any]
    structure: str


def _registered(tree: Any) -> Node | None:
    """The parts of an object whose class is registered with xjax or JAX; None for a leaf or a function."""
    if isinstance(tree, (np.ndarray, np.generic, bool, int, float, complex, str)) or callable(tree):
        return None
    for library in filter(None, (xjax, sys.modules.get("jax"))):
        if not library.tree_util.all_leaves([tree]):
            parts, structure = library.tree_util.tree_flatten(tree, is_leaf=lambda x: x is not tree)
            return Node(parts, str(structure))
    return None


def _is_typed(x: Any) -> bool:
    """Whether a leaf has a shape and a dtype: an array, a number, or a struct of these."""
    return isinstance(x, (bool, int, float, complex)) or (hasattr(x, "dtype") and hasattr(x, "shape"))


def _has_values(x: Any) -> bool:
    return _is_typed(x) and (isinstance(x, (bool, int, float, complex)) or hasattr(x, "__array__") or _is_key(x))


def _is_key(x: Any) -> bool:
    """Whether `x` is an array of typed random keys."""
    return str(getattr(x, "dtype", "")).startswith("key<")


def _host(x: Any) -> np.ndarray:
    """Values on the host; for typed random keys, the words of the keys."""
    if _is_key(x):
        return np.asarray((xjax if isinstance(x, xjax.Array) else real_jax()).random.key_data(x))
    return np.asarray(x)


def _printed(x: Any) -> str:
    return repr(x).replace("xjax", "jax")
