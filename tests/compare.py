"""The one comparison of the tests: is a result what JAX gives, or NumPy?

`assert_same` asks for everything that JAX promises: the containers, and of each leaf shape, dtype, weak type and value.
`assert_same_types` asks for all of these but the values, `difference` gives what differs in place of raising.
`assert_close` asks for shapes and values alone: NumPy has other dtypes, and a loop has other containers than `vmap`.
`assert_same_outcome` also compares calls that raise.

Values agree if they differ by at most `tol` times `tolerance(dtype)`, measured on the scale of their array: the largest
number in it, at least 1, because sums of numbers around 1 cancel. NaN equals NaN, and a zero has no sign.
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

# Two right programs for one result add up terms in another order, and each library rounds in its own places: sums of
# some 100 terms, or chains of a few elementary functions (1 to 4 units each), differ by this many units in the last
# place. Numbers of half precision and less are computed in single precision and rounded once for each operation, so
# that they differ by fewer of their own, much larger units. Tests of longer sums pass a larger `tol`, those of shorter
# ones a smaller one.
ULPS = 64
ULPS_OF_HALF = 4
ULPS_OF_BYTES = 1


def assert_same(ours: Any, theirs: Any, *, tol: float = 1.0, scale: float = 1.0, like: Any = None,
                what: str = "") -> None:
    """The same tree: containers, and of each leaf shape, dtype, weak type and value.

    Leaves that are no arrays (strings, functions, types) must print alike but for the library's name.

    Args: tol: tolerance relative to that of the dtype; with 0, values must be equal. scale: the smallest scale on which
    differences are measured. like: the dtype that the values were computed in, if it is not their own: its tolerance
    holds.
    """
    found = difference(ours, theirs, tol=tol, scale=scale, like=like)
    assert not found, f"{what}: {found.text}"


def assert_same_types(ours: Any, theirs: Any, *, what: str = "") -> None:
    """The same containers, and of each leaf shape, dtype and weak type; structs of `eval_shape` have them too."""
    found = _type_difference(ours, theirs)
    assert not found, f"{what}: {found}"


def assert_close(got: Any, want: Any, *, tol: float = 1.0, scale: float = 1.0, like: Any = None,
                 what: str = "") -> None:
    """The same leaves in shape and value, whatever their dtypes; the tolerance is that of the dtype of `got`.

    Args: as of `assert_same`.
    """
    a, b = leaves(got), leaves(want)
    assert len(a) == len(b), f"{what}: {len(a)} results, expected {len(b)}"
    for x, y in zip(a, b, strict=True):
        x, y = _host(x), _host(y)
        assert x.shape == y.shape, f"{what}: shape {x.shape}, expected {y.shape}"
        found = _value_difference(x, y, tol, scale, like)
        assert not found, f"{what}: {found}"


class Difference(NamedTuple):
    """kind: "type" (containers, shapes, dtypes, weak types) or "value"; text: what each library has."""

    kind: str
    text: str


def difference(ours: Any, theirs: Any, *, tol: float = 1.0, scale: float = 1.0, like: Any = None) -> Difference | None:
    """How two trees differ in what `assert_same` compares, with its arguments; None if they are the same."""
    found = _type_difference(ours, theirs)
    if found:
        return Difference("type", found)
    for k, (x, y) in enumerate(zip(leaves(ours), leaves(theirs), strict=True)):
        if _has_values(y):
            found = _value_difference(_host(x), _host(y), tol, scale, like)
        elif not _is_typed(y) and _printed(x) != _printed(y):
            found = f"{x!r}, expected {y!r}"
        if found:
            return Difference("value", f"leaf {k}: {found}")
    return None


# -- calls that may raise -----------------------------------------------------------------------------------------

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
        return next(c.__name__ for c in (bool, int, float, complex) if isinstance(x, c))      # also of a subclass
    weak = getattr(x, "weak_type", False) and x.dtype != np.bool_
    name = "float0" if x.dtype == xjax.float0 else str(x.dtype)
    return f"{name}{list(x.shape)}{' weak' * bool(weak)}"


def is_inexact(x: Any) -> bool:
    """Whether the values of an array are rounded; False for what is no array."""
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
    """Relative tolerance of a dtype; 0 for those that are exact."""
    dtype = np.dtype(dtype)
    if not _is_rounded(dtype):
        return 0.0
    info = ml_dtypes.finfo(dtype)
    ulps = ULPS if info.bits > 16 else ULPS_OF_HALF if info.bits == 16 else ULPS_OF_BYTES
    return tol * ulps * float(info.eps)


def _is_rounded(dtype: Any) -> bool:
    return getattr(dtype, "kind", "") in "fc" or "float" in dtype.name and dtype != xjax.float0


def _value_difference(x: np.ndarray, y: np.ndarray, tol: float, scale: float, like: Any = None) -> str:
    """What np.testing says of two arrays of one shape; "" if they agree."""
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
        # Rounded to our dtype, numbers too large for it are infinite.
        y = y.astype(x.dtype).astype(wide) if y.dtype.kind != "c" or x.dtype.kind == "c" else y
        x = x.astype(wide)
        scale = min(np.max(np.abs(y[np.isfinite(y)]), initial=scale), np.finfo(np.float64).max)
    np.testing.assert_allclose(x, y, rtol=0, atol=limit * scale)


# -- trees --------------------------------------------------------------------------------------------------------

def leaves(tree: Any) -> list[Any]:
    """The leaves of dicts, in the order of their keys, of lists, tuples and registered classes; None has none."""
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
        name = type(tree).__name__ if fields is None else f"fields {fields}"      # classes may be named otherwise
        return f"{name}({', '.join(map(_outline, tree))})"
    if tree is None:
        return "None"
    node = _registered(tree)
    return "*" if node is None else f"{node.structure}({', '.join(map(_outline, node.parts))})"


class Node(NamedTuple):
    """An object of a registered class: its parts, and the class with its static data."""

    parts: list[Any]
    structure: str


def _registered(tree: Any) -> Node | None:
    """An object of a class that is registered with xjax or JAX; None for a leaf, and for a function."""
    if isinstance(tree, (np.ndarray, np.generic, bool, int, float, complex, str)) or callable(tree):
        return None
    for library in filter(None, (xjax, sys.modules.get("jax"))):
        if not library.tree_util.all_leaves([tree]):
            parts, structure = library.tree_util.tree_flatten(tree, is_leaf=lambda x: x is not tree)
            return Node(parts, str(structure))
    return None


def _is_typed(x: Any) -> bool:
    """Whether a leaf has a shape and a dtype: an array, a number, or a struct of them."""
    return isinstance(x, (bool, int, float, complex)) or (hasattr(x, "dtype") and hasattr(x, "shape"))


def _has_values(x: Any) -> bool:
    return _is_typed(x) and (isinstance(x, (bool, int, float, complex)) or hasattr(x, "__array__") or _is_key(x))


def _is_key(x: Any) -> bool:
    """Whether `x` is an array of typed random keys."""
    return str(getattr(x, "dtype", "")).startswith("key<")


def _host(x: Any) -> np.ndarray:
    """Values on the host; of a typed random key its words."""
    if _is_key(x):
        return np.asarray((xjax if isinstance(x, xjax.Array) else real_jax()).random.key_data(x))
    return np.asarray(x)


def _printed(x: Any) -> str:
    return repr(x).replace("xjax", "jax")
