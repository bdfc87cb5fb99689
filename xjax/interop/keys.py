"""Random numbers of JAX programs: typed keys are arrays of words (uint32[..., 2]) here.

What an operation on keys does is traced from JAX's own implementation of that kind of key, down to threefry, so the
bits are JAX's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core.types import ShapedArray, typeof
from xjax.interop.real_jax import inside_jax, real_jax
from xjax.interop.reference import aval_of, key_generator
from xjax.interop.translate import RULES, Unsupported, translate
from xjax.ops.arrange import iota
from xjax.ops.shape import reshape
from xjax.ops.zeros import zeros_of


def _on_words(f: Callable, args: Sequence[Any], batch: tuple[int, ...], out: Any, where: str) -> list[Any]:
    """`f(words, ...)` of JAX for one key, applied to each of a `batch` of keys (and of numbers that go with them)."""
    jax = real_jax()
    flat = [reshape(x, (math.prod(batch), *typeof(x).shape[len(batch):])) for x in args]
    specs = [jax.ShapeDtypeStruct(typeof(x).shape, typeof(x).dtype) for x in flat]
    with inside_jax():
        closed = jax.make_jaxpr(jax.vmap(f))(*specs)
    program, consts = translate(closed, where)
    return [reshape(y, aval_of(out).shape) for y in program(*consts, *flat)]


def _impl(eqn: Any) -> Any:
    return key_generator(eqn.invars[0].aval)


def _seed(eqn: Any, args: Sequence[Any]) -> list[Any]:
    impl = eqn.params["impl"]
    return _on_words(impl.seed, args, tuple(eqn.invars[0].aval.shape), eqn.outvars[0].aval, "random.seed")


def _split(eqn: Any, args: Sequence[Any]) -> list[Any]:
    impl, shape = _impl(eqn), eqn.params["shape"]
    return _on_words(lambda key: impl.split(key, shape), args, tuple(eqn.invars[0].aval.shape),
                     eqn.outvars[0].aval, "random.split")


def _fold_in(eqn: Any, args: Sequence[Any]) -> list[Any]:
    impl = _impl(eqn)
    return _on_words(lambda key, data: impl.fold_in(key, data.astype(np.uint32)), args,
                     tuple(eqn.invars[0].aval.shape), eqn.outvars[0].aval, "random.fold_in")


def _bits(eqn: Any, args: Sequence[Any]) -> list[Any]:
    impl, width, shape = _impl(eqn), eqn.params["bit_width"], eqn.params["shape"]
    return _on_words(lambda key: impl.random_bits(key, width, shape), args, tuple(eqn.invars[0].aval.shape),
                     eqn.outvars[0].aval, "random.bits")


def _same(eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """A key and its words are one thing here."""
    return args


def _counts(eqn: Any, args: Sequence[Any]) -> list[Any]:
    """High and low words of the flat index of each element."""
    shape = eqn.params["shape"]
    size = math.prod(shape)
    if size > 2**32:
        raise Unsupported(eqn, f"an array of {size} random numbers is too large")
    return [zeros_of(ShapedArray(shape, np.uint32)), reshape(iota(np.uint32, size), shape)]


RULES.update({"iota_2x32_shape": _counts, "random_seed": _seed, "random_split": _split, "random_fold_in": _fold_in,
              "random_bits": _bits, "random_wrap": _same, "random_unwrap": _same, "random_clone": _same})
