"""`jax.extend.random`: generators of random bits, of the library and of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax.core.errors import bad
from xjax.core.key_types import KEY_TYPES, KeyKind, KeyType
from xjax.ops.prng import threefry2x32, threefry2x32_p
from xjax.random.arguments import wrap_words
from xjax.random.generators import define_generator, generator_of, seed_words
from xjax.random.keys import key
from xjax.transforms.vmap import vmap
from xjax.typing import Array, ArrayLike

__all__ = ["PRNGImpl", "define_prng_impl", "random_seed", "rbg_prng_impl", "seed_with_impl", "threefry2x32_p",
           "threefry_2x32", "threefry_prng_impl", "unsafe_rbg_prng_impl"]


class PRNGImpl(NamedTuple):
    """A generator: functions of the words of one key, uint32[*key_shape].

    Attributes:
      seed: int[] -> words.
      split: (words, shape) -> uint32[*shape, *key_shape].
      random_bits: (words, width, shape) -> unsigned integers [*shape] of this width.
      fold_in: (words, int[]) -> words.
    """

    key_shape: tuple[int, ...]
    seed: Callable[..., Array]
    split: Callable[..., Array]
    random_bits: Callable[..., Array]
    fold_in: Callable[..., Array]
    name: str = "<unnamed>"
    tag: str = "?"

    def __hash__(self) -> int:
        return hash(self.name)


def _own(name: str) -> PRNGImpl:
    kind = KEY_TYPES[name].kind
    functions = generator_of(kind)

    def seed(x: ArrayLike) -> Array:
        x = jnp.asarray(x)
        high = x >> 32 if x.dtype.itemsize == 8 else jnp.zeros((), np.uint32)
        return seed_words(high.astype(np.uint32), x.astype(np.uint32), kind.words)

    return PRNGImpl((kind.words,), seed, lambda words, shape: functions.split(tuple(shape), words),
                    lambda words, width, shape: functions.bits(width, tuple(shape), words),
                    lambda words, data: functions.fold_in(words, jnp.asarray(data).astype(np.uint32)), name, kind.tag)


threefry_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl = map(_own, ("threefry2x32", "rbg", "unsafe_rbg"))


def define_prng_impl(*, key_shape: tuple[int, ...], seed: Callable[..., Array], split: Callable[..., Array],
                     random_bits: Callable[..., Array], fold_in: Callable[..., Array], name: str = "<unnamed>",
                     tag: str = "?") -> KeyType:
    """A generator of one's own, for ``random.key(seed, impl=...)``; see `PRNGImpl`.

    Raises: NotImplementedError unless a key is a vector of words; ValueError for a name that exists.
    """
    if len(key_shape) != 1:
        raise bad("define_prng_impl", "a key must be a vector of words", {"key_shape": key_shape},
                  "reshape the words in the functions.", exc=NotImplementedError)
    unique = name if name not in KEY_TYPES or name != "<unnamed>" else f"<unnamed {len(KEY_TYPES)}>"
    return define_generator(KeyKind(unique, tag, int(key_shape[0])), seed,
                            lambda width, shape, words: random_bits(words, width, shape),
                            lambda shape, words: split(words, shape), fold_in)


def random_seed(seeds: ArrayLike, impl: PRNGImpl | KeyType) -> Array:
    """Typed keys of seeds, an integer or an array of integers."""
    dtype = impl if isinstance(impl, KeyType) else KEY_TYPES.get(impl.name)
    if dtype is None:
        raise bad("random_seed", "this generator is not defined", {"impl": str(impl.name)},
                  "pass the result of define_prng_impl.", exc=ValueError)
    if np.ndim(seeds) == 0:
        return key(seeds, impl=dtype)
    own = generator_of(dtype.kind).seed or _own(dtype.kind.name).seed
    f = own
    for _ in range(np.ndim(seeds)):
        f = vmap(f)
    return wrap_words("random_seed", f(jnp.asarray(seeds)), dtype.kind)


def seed_with_impl(impl: PRNGImpl | KeyType, seed: ArrayLike) -> Array:
    """The typed key of a seed."""
    return random_seed(seed, impl)


def threefry_2x32(keypair: tuple[ArrayLike, ArrayLike], count: ArrayLike) -> Array:
    """Counters encrypted with a key.  Args: keypair: two words; count: uint32[...].  Returns: uint32 of its shape."""
    k1, k2 = keypair
    count = jnp.asarray(count)
    flat = count.reshape(-1)
    odd = flat.size % 2
    left, right = jnp.split(jnp.concatenate([flat, jnp.zeros(odd, np.uint32)]) if odd else flat, 2)
    out = jnp.concatenate(threefry2x32(k1, k2, left, right))
    return out[:flat.size].reshape(count.shape)
