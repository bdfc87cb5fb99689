"""Checks of arguments for all random functions, and `compiled`, which runs a sampler as one program.

A sampler is a function `f(*static, key, *arrays)`. The public function checks its arguments, then calls
`compiled(f, *static)(key, *arrays)`: one launch outside of jit, one call inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import function_name
from xjax.core.config import UNCHECKED, config, marked
from xjax.core.errors import TypePromotionError, bad, warn
from xjax.core.key_types import KEY_TYPES, KeyKind, is_key
from xjax.core.promotion import result_type
from xjax.core.types import ShapedArray, typeof
from xjax.lax.shapes import broadcast_shapes
from xjax.numpy.promote import library_rules
from xjax.ops.checks import static_int
from xjax.ops.keys import random_unwrap, random_wrap
from xjax.runtime.arrays.array import Array, retyped, words_of
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.jit import Inline, library_jit
from xjax.runtime.placement.places import ON_ONE_DEVICE
from xjax.typing import Array as AnyArray
from xjax.typing import ArrayLike, DTypeLike, PRNGKey, ShapeLike

_UINT32 = np.dtype(np.uint32)

# The dtypes of random bits: unsigned integers, by their width.
UINTS = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}


@functools.lru_cache(4096)
def compiled(f: Callable, *static: Hashable) -> Callable[..., Any]:
    """jit of `f` with its first arguments fixed. The object is cached for these arguments, so that f is traced once."""
    jitted: Any = library_jit(library_rules(_unchecked(functools.partial(f, *static))))
    jitted.is_unchecked = True
    return jitted


def _unchecked(f: Callable) -> Callable:
    """`f` for a trace: checked mode does not check the arithmetic of samplers, only the use of keys."""
    def unchecked(*args: AnyArray) -> Any:
        with marked(UNCHECKED):
            return f(*args)

    unchecked.__name__ = function_name(f)
    return unchecked


@functools.lru_cache(4096)
def operation(f: Callable, *static: Hashable) -> Callable[..., Any]:
    """As `compiled`, for an `f` that is one operation on keys. In a trace it is that operation instead of a call."""
    return library_jit(_unchecked(functools.partial(f, *static)), inline=Inline.JAX_EARLY)


def default_kind() -> KeyKind:
    """The generator of keys whose generator is not given."""
    return KEY_TYPES[config.default_prng_impl].kind


def check_key(caller: str, key: PRNGKey, *, batched: bool = False) -> AnyArray:
    """`key` as a typed key, or with `batched` as an array of keys; words of keys, uint32[..., n], become typed keys.

    Raises: TypeError if it is not a key, ValueError for several keys unless `batched`.
    """
    aval = getattr(key, "aval", None)
    if aval is None or not is_key(aval):
        key = _wrapped(caller, key)
        aval = key.aval
    if aval.shape and not batched:
        raise bad(f"random.{caller}", "takes one key, but got several", given={"key": aval.str_short()},
                  fix="use vmap over the keys, or unpack them: k1, k2 = random.split(key).", exc=ValueError)
    return key


def _wrapped(caller: str, words: ArrayLike) -> AnyArray:
    """The keys whose words the user passed."""
    if config.legacy_prng_key != "allow":
        _report_words(caller)
    if type(words) is Array and type(words._place) in ON_ONE_DEVICE:         # the most common case, in half the time
        typed = _keys_of_words.get((words.aval, config.default_prng_impl))
        if typed is not None:
            return Array(words._buf, typed, words._place)
    return wrap_words(caller, words, default_kind())


_keys_of_words = {(ShapedArray((t.kind.words,), np.uint32), name): ShapedArray((), t) for name, t in KEY_TYPES.items()}


def _report_words(caller: str) -> None:
    error = bad(f"random.{caller}", "the key is an array of words, as from random.PRNGKey",
                fix="create typed keys with random.key(seed), or set jax_legacy_prng_key to 'allow'.", exc=ValueError)
    if config.legacy_prng_key == "error":
        raise error
    warn(str(error))


def wrap_words(caller: str, words: ArrayLike, kind: KeyKind) -> AnyArray:
    """Typed keys from words uint32[..., kind.words].

    Raises: TypeError for anything else.
    """
    aval = getattr(words, "aval", None)
    if aval is None:
        aval = _words_type(caller, words, kind)
        words = to_array(words)
    if aval.dtype != _UINT32 or aval.shape[-1:] != (kind.words,):
        raise bad(f"random.{caller}", "this is not a random key", given={"key": aval.str_short()}, fix=_fix_for(kind))
    if type(words) is Array:
        return retyped(words, ShapedArray(aval.shape[:-1], KEY_TYPES[kind.name]))
    return random_wrap(words, kind)


def unwrap_keys(keys: ArrayLike) -> AnyArray:
    """The words of typed keys."""
    return words_of(keys) if type(keys) is Array else random_unwrap(keys)


def _words_type(caller: str, words: ArrayLike, kind: KeyKind) -> ShapedArray:
    try:
        return typeof(words)
    except TypeError as error:
        raise bad(f"random.{caller}", f"the key must be an array, not a {type(words).__name__}",
                  given={"key": repr(words)[:60]}, fix=_fix_for(kind)) from error


def _fix_for(kind: KeyKind) -> str:
    return f"create one with random.key(seed), or with random.PRNGKey(seed), a uint32[{kind.words}] for {kind.name!r}."


def check_shape(caller: str, shape: ShapeLike) -> tuple[int, ...]:
    """The shape of a result as a tuple of Python ints >= 0; an int n means (n,)."""
    if isinstance(shape, (int, np.integer)):
        shape = (shape,)
    if type(shape) is tuple and all([type(n) is int and n >= 0 for n in shape]):
        return shape
    if isinstance(shape, (str, dict, set)) or not (hasattr(shape, "__iter__") and hasattr(shape, "__len__")):
        raise bad(f"random.{caller}", "`shape` must be a sequence of integers", given={"shape": repr(shape)[:60]},
                  fix="pass a tuple of Python ints.")
    sizes = tuple(static_int(n, "shape", f"random.{caller}") for n in shape)
    if any(n < 0 for n in sizes):
        raise bad(f"random.{caller}", "shapes must have sizes >= 0", given={"shape": str(sizes)},
                  fix="pass sizes >= 0.", exc=ValueError)
    return sizes


def common_shape(caller: str, shape: ShapeLike | None, *arguments: ArrayLike) -> tuple[int, ...]:
    """`shape` as a tuple (None: the common shape of the arguments), to which the arguments must broadcast.

    Raises: ValueError if they do not.
    """
    shapes = [typeof(x).shape for x in arguments]
    if shape is None:
        return broadcast_shapes(*shapes)
    shape = check_shape(caller, shape)
    if not all(_fits(s, shape) for s in shapes):
        raise bad(f"random.{caller}", "the parameters do not broadcast to `shape`",
                  given={"shape": str(shape), "parameters": ", ".join(map(str, shapes))},
                  fix="pass the shape of the whole result.", exc=ValueError)
    return shape


def _fits(parameter: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array of shape `parameter` broadcasts to exactly `shape`."""
    last = shape[len(shape) - len(parameter):]
    return len(parameter) <= len(shape) and all(n in (1, m) for n, m in zip(parameter, last, strict=True))


def check_parameters(caller: str, dtype: np.dtype, *parameters: ArrayLike) -> None:
    """Raise TypePromotionError unless each parameter converts to `dtype` without loss by JAX's promotion."""
    for x in parameters:
        if result_type(x, dtype) != dtype:
            raise bad(f"random.{caller}", f"a parameter is wider than the dtype of the numbers, {dtype.name}",
                      given={"parameter": typeof(x).str_short()},
                      fix=f"pass dtype={typeof(x).dtype.name!r}, or convert it with x.astype({dtype.name!r}).",
                      exc=TypePromotionError)


def draw(caller: str, sampler: Callable, key: PRNGKey, shape: ShapeLike | None, dtype: DTypeLike | None,
         *parameters: ArrayLike, kinds: str = "f") -> AnyArray:
    """Run ``sampler(shape, dtype, key, *parameters)``; the parameters broadcast to `shape` (None: their own shape)."""
    key = check_key(caller, key)
    dtype = check_dtype(caller, dtype, kinds)
    shape = common_shape(caller, shape, *parameters)
    check_parameters(caller, dtype, *parameters)
    return compiled(sampler, shape, dtype)(key, *parameters)


_KINDS = {"f": (dtypes.is_float, "floating-point"), "fc": (dtypes.is_inexact, "floating-point or complex"),
          "i": (dtypes.is_int, "integer"), "u": (dtypes.is_unsigned, "unsigned integer")}


def check_dtype(caller: str, dtype: DTypeLike | None, kinds: str, default: DTypeLike = float,
                exc: type[Exception] = ValueError) -> np.dtype:
    """`dtype`, or `default` if it is None, as a canonical dtype.

    Raises: TypeError if it is not a dtype, `exc` if it is not of one of the `kinds` ('f', 'fc', 'i', 'u').
    """
    canonical = dtypes.canonicalize_dtype(default) if dtype is None else dtypes.user_dtype(dtype, f"random.{caller}")
    test, name = _KINDS[kinds]
    if not test(canonical):
        raise bad(f"random.{caller}", f"`dtype` must be {name}, not {canonical.name}", fix=_DTYPE_FIX[kinds], exc=exc)
    return canonical


_DTYPE_FIX = {"f": "pass a float dtype, such as 'float32'.", "fc": "pass a float or complex dtype.",
              "i": "pass an integer dtype, such as 'int32'.", "u": "pass an unsigned dtype, such as 'uint32'."}


def check_method(caller: str, method: str) -> None:
    """Raise an error for samplers other than the exact one."""
    if method == "approximate":
        raise bad(f"random.{caller}", "the approximate sampler is not supported",
                  fix="leave `method` out: the exact sampler has no bias.", exc=NotImplementedError)
    if method != "exact":
        raise bad(f"random.{caller}", "unknown method", {"method": repr(method)}, 'pass method="exact".',
                  exc=ValueError)
