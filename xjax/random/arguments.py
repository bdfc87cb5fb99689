"""Checks that all random functions share, and `compiled`, which runs a sampler as one program.

A sampler is written as a function `f(*static, key, *arrays)`; the public function checks its arguments, then calls
`compiled(f, *static)(key, *arrays)`: one launch outside jit, one call inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import TypePromotionError, bad
from xjax.core.promotion import result_type
from xjax.core.types import ShapedArray, typeof
from xjax.lax.shapes import broadcast_shapes
from xjax.ops.checks import static_int
from xjax.runtime.jit import Jitted, jit

KEY_AVAL = ShapedArray((2,), np.uint32)

# Unsigned integers by their width: the dtypes that random bits come in.
UINTS = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}


@functools.lru_cache(4096)
def compiled(f: Callable, *static: Any) -> Jitted:
    """jit of `f` with its first arguments fixed: one object for each choice of them, nothing is traced twice."""
    return jit(functools.partial(f, *static))


def check_key(where: str, key: Any, *, batched: bool = False) -> Any:
    """`key` itself if it is a key: uint32[2], or with `batched` an array of keys uint32[..., 2].

    Raises: TypeError if it is none, ValueError for several keys where one is wanted.
    """
    aval = getattr(key, "aval", None)
    if aval is KEY_AVAL:
        return key
    if aval is None:
        aval = _key_type(where, key)
    if aval.dtype != KEY_AVAL.dtype or aval.shape[-1:] != (2,):
        raise bad(f"random.{where}", "the key is no random key", given={"key": aval.str_short()},
                  fix="make one with random.PRNGKey(seed), a uint32[2].")
    if aval.ndim > 1 and not batched:
        raise bad(f"random.{where}", "takes one key, but got several", given={"key": aval.str_short()},
                  fix="use vmap over the keys, or split them apart: k1, k2 = random.split(key).", exc=ValueError)
    return key


def _key_type(where: str, key: Any) -> ShapedArray:
    try:
        return typeof(key)
    except TypeError as error:
        raise bad(f"random.{where}", f"the key is no array but a {type(key).__name__}",
                  given={"key": repr(key)[:60]}, fix="make one with random.PRNGKey(seed), a uint32[2].") from error


def check_shape(where: str, shape: Any) -> tuple[int, ...]:
    """The shape of a result as a tuple of Python ints, none negative."""
    if type(shape) is tuple and all([type(n) is int and n >= 0 for n in shape]):
        return shape
    if not isinstance(shape, (Sequence, np.ndarray)) or isinstance(shape, str):
        raise bad(f"random.{where}", "`shape` must be a sequence of integers", given={"shape": repr(shape)[:60]},
                  fix=f"write shape=({shape},)." if isinstance(shape, (int, np.integer)) else
                  "pass a tuple of Python ints.")
    found = tuple(static_int(n, "shape", f"random.{where}") for n in shape)
    if any(n < 0 for n in found):
        raise bad(f"random.{where}", "shapes must have sizes >= 0", given={"shape": str(found)},
                  fix="pass sizes >= 0.", exc=ValueError)
    return found


def common_shape(where: str, shape: Any, *arguments: Any) -> tuple[int, ...]:
    """The shape asked for (None: that of the arguments together); the arguments must broadcast to it.

    Raises: ValueError if they do not.
    """
    shapes = [typeof(x).shape for x in arguments]
    if shape is None:
        return broadcast_shapes(*shapes)
    shape = check_shape(where, shape)
    if not all(_fits(s, shape) for s in shapes):
        raise bad(f"random.{where}", "the parameters do not broadcast to `shape`",
                  given={"shape": str(shape), "parameters": ", ".join(map(str, shapes))},
                  fix="pass the shape of the whole result.", exc=ValueError)
    return shape


def _fits(parameter: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array of one shape broadcasts to exactly the other."""
    last = shape[len(shape) - len(parameter):]
    return len(parameter) <= len(shape) and all(n in (1, m) for n, m in zip(parameter, last, strict=True))


def check_parameters(where: str, dtype: np.dtype, *parameters: Any) -> None:
    """Raise TypePromotionError unless each parameter converts to `dtype` without loss by JAX's promotion."""
    for x in parameters:
        if result_type(x, dtype) != dtype:
            raise bad(f"random.{where}", f"a parameter is wider than the numbers drawn, {dtype.name}",
                      given={"parameter": typeof(x).str_short()},
                      fix=f"pass dtype={typeof(x).dtype.name!r}, or convert it with x.astype({dtype.name!r}).",
                      exc=TypePromotionError)


def draw(where: str, sampler: Callable, key: Any, shape: Any, dtype: Any, *parameters: Any, kinds: str = "f") -> Any:
    """Run ``sampler(shape, dtype, key, *parameters)``; the parameters broadcast to `shape` (None: their own shape)."""
    key = check_key(where, key)
    dtype = check_dtype(where, dtype, kinds)
    shape = common_shape(where, shape, *parameters)
    check_parameters(where, dtype, *parameters)
    return compiled(sampler, shape, dtype)(key, *parameters)


_KINDS = {"f": (dtypes.is_float, "floating-point"), "fc": (dtypes.is_inexact, "floating-point or complex"),
          "i": (dtypes.is_int, "integer"), "u": (dtypes.is_unsigned, "unsigned integer")}


def check_dtype(where: str, dtype: Any, kinds: str, default: Any = float,
                exc: type[Exception] = ValueError) -> np.dtype:
    """The canonical dtype that the user asked for; None stands for `default`.

    Raises: TypeError if it is no dtype, `exc` if it is not of the kind wanted ('f', 'fc', 'i', 'u').
    """
    found = dtypes.canonicalize_dtype(default) if dtype is None else dtypes.user_dtype(dtype, f"random.{where}")
    test, name = _KINDS[kinds]
    if not test(found):
        raise bad(f"random.{where}", f"`dtype` must be {name}, not {found.name}", fix=_DTYPE_FIX[kinds], exc=exc)
    return found


_DTYPE_FIX = {"f": "pass a float dtype, such as 'float32'.", "fc": "pass a float or complex dtype.",
              "i": "pass an integer dtype, such as 'int32'.", "u": "pass an unsigned dtype, such as 'uint32'."}
