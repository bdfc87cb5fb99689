"""Promotion: the common dtype of values of several dtypes, by the rules of JAX.

A value is *strong* (it has a dtype of its own) or *weak* (it came from a Python number, and its dtype yields to that of
other operands). Dtypes and the weak kinds, written here as Python's `int`, `float`, `complex`, are the nodes of a
lattice, defined by a table of edges. The common dtype of inputs is their least upper bound in this lattice.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.config import config
from xjax.core.dtypes import (
    ExtendedDType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    short_name,
    uint8,
    uint16,
    uint32,
    uint64,
)
from xjax.core.errors import TypePromotionError, bad
from xjax.typing import ArrayLike, DTypeLike

# A dtype, or `int`, `float`, `complex` for a weak value.
Node = np.dtype | type | ExtendedDType
Edges = Mapping[Node, tuple[Node, ...]]

# Narrow integers and floats have no edges upward: weak numbers promote to them, but they are never widened implicitly.
_ENDS_OF_INT = tuple(d for d in dtypes.ALL if dtypes.is_int(d) and dtypes.itemsize_bits(d) < 8)
_ENDS_OF_FLOAT = tuple(d for d in dtypes.ALL if dtypes.is_float(d) and dtypes.itemsize_bits(d) < 16)

_STANDARD: Edges = {
    bool_: (int,),
    int: (uint8, int8, *_ENDS_OF_INT),
    uint8: (int16, uint16),
    uint16: (int32, uint32),
    uint32: (int64, uint64),
    uint64: (float,),
    int8: (int16,),
    int16: (int32,),
    int32: (int64,),
    int64: (float,),
    float: (bfloat16, float16, complex, *_ENDS_OF_FLOAT),
    bfloat16: (float32,),
    float16: (float32,),
    float32: (float64, complex64),
    float64: (complex128,),
    complex: (complex64,),
    complex64: (complex128,),
}
# u32 and i32 are the only pair of 32-bit dtypes whose common dtype has 64 bits; without x64 it is i32.
_STANDARD_32: Edges = {**_STANDARD, uint32: (int32, uint64)}
_STRICT: Edges = {
    int: (float, *filter(dtypes.is_int, dtypes.ALL)),
    float: (complex, *filter(dtypes.is_float, dtypes.ALL)),
    complex: (complex64, complex128),
}


def _upper_bounds(edges: Edges) -> dict[Node, frozenset[Node]]:
    """For each node, all nodes that can be reached from it, including itself."""

    @functools.cache
    def above(node: Node) -> frozenset[Node]:
        return frozenset({node}).union(*map(above, edges.get(node, ())))

    return {node: above(node) for node in (*dtypes.ALL, int, float, complex)}


_BOUNDS = {
    ("standard", True): _upper_bounds(_STANDARD),
    ("standard", False): _upper_bounds(_STANDARD_32),
    ("strict", True): _upper_bounds(_STRICT),
    ("strict", False): _upper_bounds(_STRICT),
}


def _meet(mode: str, x64: bool, nodes: tuple[Node, ...]) -> Node:
    """The least node above all `nodes`; TypePromotionError if there is none."""
    bounds = _BOUNDS[mode, x64]
    if all(node in bounds for node in nodes):
        common = frozenset.intersection(*(bounds[node] for node in nodes))
        for node in common:
            if common <= bounds[node]:
                return node
    raise _no_meeting(mode, nodes)


def _no_meeting(mode: str, nodes: tuple[Node, ...]) -> Exception:
    if any(isinstance(node, ExtendedDType) for node in nodes):
        fix = "random keys do not promote with numbers; random.key_data(key) returns the bits of a key."
    elif mode == "strict":
        fix = "cast with x.astype(...), or set jax_numpy_dtype_promotion to 'standard'."
    elif any(node in _ENDS_OF_INT or node in _ENDS_OF_FLOAT for node in nodes):
        fix = "narrow types are not widened implicitly: use x.astype('float32')."
    else:
        fix = "cast with x.astype(...), or use a dtype of numbers."
    names = [_node_name(node) for node in dict.fromkeys(nodes)]
    what = f"there is no common dtype for {' and '.join(names)}"
    if mode == "strict":
        what += " (jax_numpy_dtype_promotion is 'strict')"
    return bad("dtype promotion", what, fix=fix, exc=TypePromotionError)


def _node_name(node: Node) -> str:
    return f"a Python {node.__name__}" if isinstance(node, type) else short_name(node)


def _node(dtype: np.dtype | ExtendedDType, weak: bool) -> Node:
    if weak and not isinstance(dtype, ExtendedDType):
        kind = dtypes.python_type(dtype)
        return bool_ if kind is bool else kind
    return dtype


def lattice_join(*inputs: tuple[Any, bool]) -> tuple[Any, bool]:
    """The common (dtype, weak) of (dtype, weak) inputs; the dtype is canonical.

    Equal dtypes are returned as they are, also extended and 64-bit dtypes. The result is cached.
    Raises: TypePromotionError if the inputs have no common dtype.

    >>> lattice_join((int32, True), (float16, False))
    (dtype('float16'), False)
    >>> lattice_join((int32, True), (bool_, False))
    (dtype('int32'), True)
    """
    return _join(config.enable_x64, config.explicit_x64_dtypes == "allow", config.numpy_dtype_promotion, inputs)


def join_kept(*inputs: tuple[Any, bool]) -> tuple[Any, bool]:
    """As `lattice_join`, but the result has 64 bits if it is promoted with a 64-bit array, with or without x64."""
    return _join(config.enable_x64, True, config.numpy_dtype_promotion, inputs)


@functools.lru_cache(4096)
def _join(x64: bool, kept_wide: bool, mode: str, inputs: tuple[tuple[Any, bool], ...]) -> tuple[Any, bool]:
    first, weak = inputs[0]
    all_weak = all(w for _, w in inputs)
    if len(inputs) == 1:
        return first, weak and first != bool_
    if not all_weak and all(d == first for d, _ in inputs):
        return first, False
    # Only weak values: their dtypes decide, so weak i16 with weak i32 is weak i32.
    as_strong = all_weak and mode == "standard"
    node = _meet(mode, x64, tuple(_node(d, w and not as_strong) for d, w in inputs))
    # Without x64 but with 64-bit dtypes kept, only a result promoted with a 64-bit input has 64 bits.
    wide = kept_wide and isinstance(node, np.dtype) and any(dtypes.canonicalize_dtype(d, True) != d for d, _ in inputs)
    dtype = node if wide else dtypes.canonicalize_dtype(node)
    return dtype, dtype != bool_ and (as_strong or isinstance(node, type))


def promote_types(a: DTypeLike, b: DTypeLike) -> np.dtype:
    """The common dtype of two dtypes; Python's int, float, complex count as weak.

    Raises: TypePromotionError if there is none.

    >>> promote_types("int32", "float16"), promote_types("uint8", int)
    (dtype('float16'), dtype('uint8'))
    """
    return _promote(config.enable_x64, config.numpy_dtype_promotion, a, b)


def promote_by_default(a: DTypeLike, b: DTypeLike) -> np.dtype:
    """`promote_types` by the standard rules, for lowering; the user's mode was applied before, during tracing."""
    return _promote(config.enable_x64, "standard", a, b)


@functools.lru_cache(1024)
def _promote(x64: bool, mode: str, a: DTypeLike, b: DTypeLike) -> Any:
    if isinstance(a, ExtendedDType) and a == b:
        return a
    return np.dtype(_meet(mode, x64, (_as_node(a), _as_node(b))))


def _as_node(t: Any) -> Node:
    if t is int or t is float or t is complex or isinstance(t, ExtendedDType):
        return t
    return np.dtype(t)


def dtype_and_weak(x: object) -> tuple[Any, bool]:
    """(dtype, weak) of an array, aval, Python number, dtype or Python number type.

    >>> dtype_and_weak(2), dtype_and_weak(True), dtype_and_weak("bfloat16")
    ((dtype('int32'), True), (dtype('bool'), False), (dtype(bfloat16), False))
    """
    kind = type(x)
    if kind in _WEAK or (kind is type and x in _WEAK):
        return dtypes.canonicalize_dtype(kind if kind in _WEAK else x), True
    if isinstance(x, np.ndarray):
        return dtypes.dtype(x), False
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval.dtype, aval.weak_type
    if isinstance(x, type) and isinstance(getattr(x, "dtype", None), np.dtype):
        return dtypes.canonicalize_dtype(x.dtype), False        # numpy.float64: without a warning, as in JAX
    return dtypes.dtype(x), getattr(x, "weak_type", False)


_WEAK = frozenset({int, float, complex})


def result_type(*args: ArrayLike | DTypeLike | None, return_weak_type_flag: bool = False) -> Any:
    """Dtype of the result of an operation on these arrays, numbers and dtypes (None: the default float).

    Returns: the dtype, or (dtype, weak) with ``return_weak_type_flag=True``.
    Raises: TypeError for no argument or one without a dtype; TypePromotionError.

    >>> result_type(np.float16(1), 2.5), result_type("int8", 1.0)
    (dtype('float16'), dtype('float32'))
    """
    if not args:
        raise bad("numpy.result_type", "no argument was given",
                  fix="pass at least one array or dtype.", exc=ValueError)  # fmt: skip
    dtype, weak = lattice_join(
        *[_default_float() if a is None else dtype_and_weak(a) for a in args]
    )
    if weak:
        dtype = dtypes.canonicalize_dtype(dtypes.python_type(dtype))
    return (dtype, weak) if return_weak_type_flag else dtype


def _default_float() -> tuple[np.dtype, bool]:
    return dtypes.canonicalize_dtype(float), False
