"""Checks of inputs, shapes and parameters, and types as text for messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Array, ArrayLike, Params, PyTree


def check_entries(caller: str, what: str, tree: PyTree, keys: Sequence[Any]) -> None:
    """Raises: TypeError if a composite's parameters (or state, or cache) do not have one entry for each child."""
    if isinstance(tree, Mapping):
        entries, text = set(tree), f"dict with keys {sorted(tree, key=str)}"
    elif isinstance(tree, tuple | list):
        entries, text = set(range(len(tree))), f"{type(tree).__name__} of {len(tree)}"
    else:
        entries, text = None, type_text(tree)
    if entries != set(keys):
        maker = {"params": "init", "state": "init_state", "cache": "init_cache"}[what]
        raise bad(caller, f"needs {what} for {counted(len(keys), 'layer')}",
                  {what: text, "keys": ", ".join(map(repr, keys))}, fix=_fix_of_tree(what, maker, tree))


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: "1 layer", "2 layers"."""
    return f"{n} {noun if n == 1 else plural or noun + 's'}"


def check_features(caller: str, x: PyTree, n_in: int) -> None:
    """Raises: TypeError if the last axis of x does not have n_in features."""
    shape = np.shape(x) if not hasattr(x, "shape") else x.shape
    if not shape or shape[-1] != n_in:
        raise bad(caller, f"the weights take {n_in} features, the input has {shape[-1] if shape else 'no axes'}",
                  {"x": type_text(x), "w": f"for {n_in} features"},
                  fix="pass params made by init for this input shape, or an input of that many features.")


def check_float(caller: str, x: ArrayLike, min_rank: int = 1) -> Array:
    """x as an array of floats.

    Raises: TypeError for integers, bools and complex numbers, and for too few axes.
    """
    if isinstance(x, Mapping):
        raise bad(caller, "the input must be an array, not a dict", {"x": _arrays_text(x)},
                  fix="pass the parameters first: layer.apply(params, x).")
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, np.floating):
        raise bad(caller, "the input must be floating-point numbers", {"x": type_text(x)},
                  fix="convert it: x.astype('float32'); token ids go through an Embedding.")
    if x.ndim < min_rank:
        raise bad(caller, f"the input must have at least {counted(min_rank, 'axis', 'axes')}, features last",
                  {"x": type_text(x)}, fix="pass a batch: x[None] is a batch of one example.")
    return x


def at_least_int32(x: Array) -> Array:
    """Integers in int32 or wider, for comparisons with sizes: 256 is 0 in uint8, the dtype of many labels."""
    return x.astype(np.int32) if x.dtype.itemsize < 4 else x


def check_params(caller: str, params: Params, x: PyTree, **shapes: tuple[int, ...] | None) -> None:
    """Raises: TypeError unless params is a dict of arrays with these names and shapes, which the input x needs.

    The shape None means that the layer does not have this parameter.
    """
    _check_arrays(caller, "params", params, x, shapes)


def check_state(caller: str, state: PyTree, x: ArrayLike, **shapes: tuple[int, ...] | None) -> None:
    """As `check_params`, for the state."""
    _check_arrays(caller, "state", state, x, shapes)


def _check_arrays(caller: str, what: str, tree: PyTree, x: PyTree,
                  shapes: Mapping[str, tuple[int, ...] | None]) -> None:
    expected = {name: shape for name, shape in shapes.items() if shape is not None}
    maker = {"params": "init", "state": "init_state"}[what]
    if not isinstance(tree, Mapping) or set(tree) != set(expected):
        raise bad(caller, f"the {what} {'do' if what == 'params' else 'does'} not belong to this layer",
                  {what: _arrays_text(tree), "expected": _shapes_text(expected)}, fix=_fix_of_tree(what, maker, tree))
    for name, shape in expected.items():
        if np.shape(tree[name]) != shape:
            raise bad(caller, f"{what}[{name!r}] has another shape than the input needs",
                      {"x": type_text(x), name: type_text(tree[name]), "expected": _shapes_text({name: shape})},
                      fix=f"pass {what} that {maker} made for this input shape, or an input of a matching shape.")


def _fix_of_tree(what: str, maker: str, tree: PyTree) -> str:
    """The fix for parameters of another layer, or for the pair of `init` in place of its parameters."""
    if what == "params" and isinstance(tree, tuple) and tree and (_is_shape(tree) or _is_shape(tree[0])):
        return "`init` returns the shape of the output and the params: out_shape, params = layer.init(rng, in_shape)."
    return f"pass the {what} that this layer's own {maker} returned."


def _is_shape(tree: object) -> bool:
    return isinstance(tree, tuple) and bool(tree) and all(isinstance(n, int) for n in tree)


def _arrays_text(tree: PyTree) -> str:
    if isinstance(tree, Mapping):
        return ", ".join(f"{name} {type_text(value)}" for name, value in tree.items()) or "an empty dict"
    return type_text(tree)


def _shapes_text(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} [{','.join(map(str, shape))}]" for name, shape in shapes.items()) or "an empty dict"


def check_shape(caller: str, shape: PyTree, min_rank: int = 1) -> tuple[int, ...]:
    """An input shape as a tuple of ints; the last one, the number of features, must be known.

    Raises: TypeError if it is not a sequence of ints, is too short, or has a negative number of features.
    """
    ints = isinstance(shape, tuple | list) and all(isinstance(n, int | np.integer) for n in shape)
    if not ints or len(shape) < min_rank or shape[-1] < 0:
        fix = "pass a tuple such as (-1, 1433); only the leading sizes may be -1."
        if shape == ():                     # that of a key or a number
            fix = "pass the key first, then a tuple: layer.init(rng, (-1, 1433))."
        raise bad(caller, "init needs the shape of the input, with the number of features last",
                  {"in_shape": repr(shape)}, fix=fix)
    return tuple(int(n) for n in shape)


def as_axes(axis: int | Sequence[int]) -> tuple[int, ...]:
    """One axis or several, as a tuple."""
    return (axis,) if isinstance(axis, int) else tuple(axis)


_KINDS = {"f": "f", "i": "i", "u": "u", "c": "c"}


def as_row_mask(caller: str, x: ArrayLike, mask: ArrayLike) -> Array:
    """The row mask of x with the shape ``x.shape[:-1]``: whether each row counts.

    Args: mask: bool, with all axes of x but the last, or with the first few of them.
    Raises: TypeError for a mask of another shape or dtype.
    """
    mask, rows = jnp.asarray(mask), x.shape[:-1]
    if mask.dtype != bool or not mask.ndim or mask.shape != rows[:mask.ndim]:
        raise bad(caller, "the mask must have one bool for each row of x",
                  {"row_mask": type_text(mask), "x": type_text(x)}, f"pass bool[{','.join(map(str, rows))}].")
    return jnp.broadcast_to(jnp.reshape(mask, mask.shape + (1,) * (len(rows) - mask.ndim)), rows)


def type_text(x: object) -> str:
    """Type of a value as text for messages: ``f32[8,16]``; for a sequence, the types of its elements.

    >>> type_text(np.zeros((2, 3), np.float32))
    'f32[2,3]'
    """
    if isinstance(x, tuple | list):
        return f"({', '.join(type_text(part) for part in x)})"
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        return type(x).__name__
    dtype, dims = x.dtype, ",".join(str(n) for n in x.shape)
    kind = _KINDS.get(getattr(dtype, "kind", ""))
    text = f"{kind}{dtype.itemsize * 8}" if kind else str(dtype)
    nnz = getattr(x, "nnz", None)
    return f"{text}[{dims}]" if nnz is None else f"sparse {text}[{dims}] with {nnz} stored"
