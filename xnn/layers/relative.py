"""Relative positions in attention: `Rotary` and `ALiBi`, options of an attention layer, and T5's `RelativeBias`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import Array, ArrayLike
from xnn.checks import check_params, check_shape
from xnn.layer import CacheFns, Layer, recorded
from xnn.layers.positions import angles_of, check_sequence, fill_slots, init_slots, positions_of
from xnn.scaling import RotaryScaling
from xnn.sparse.segment import rows_at


@dataclass(frozen=True, slots=True)
class Rotary:
    """Rotation of pairs of features of queries and keys by angles proportional to the position (Su et al., 2021).

    The position then affects products of queries and keys only through the distance between the two:
    ``MultiHeadAttention(512, 8, causal=True, positions=Rotary())``.

    Attributes:
      base: pair i of n is rotated by base^(-i / n) radians per position; 10,000 in the paper, 500,000 in Llama 3.
      fraction: fraction of the features of a head that are rotated; the last features are kept (GPT-NeoX: 0.25).
      interleaved: pairs are features 2i and 2i + 1, as in the paper and GPT-J; if False, features i and i + n, as in
        Hugging Face's weights of Llama and GPT-NeoX.
      scaling: change of the frequencies for longer contexts, such as `YarnScaling`; None: no change.
    """

    base: float = 10_000.0
    fraction: float = 1.0
    interleaved: bool = False
    scaling: RotaryScaling | None = None

    def frequencies(self, head_size: int) -> np.ndarray:
        """float64 [pairs]: radians per position, within the original context if the scaling depends on the length.

        Raises: ValueError for an odd number of features, or a scaling for another number of pairs.
        """
        return np.asarray(self._scaled(self._rotated(head_size), None))

    def _rotated(self, head_size: int) -> int:
        """The number of features of a head that are rotated."""
        n = int(head_size * self.fraction)
        if n % 2 or not 0 < self.fraction <= 1:
            raise bad("Rotary", "the number of rotated features must be even",
                      {"head_size": head_size, "fraction": self.fraction, "rotated": n},
                      "choose a fraction in (0, 1] that gives an even number.", ValueError)
        if self.scaling is not None and self.scaling.pairs not in (None, n // 2):
            raise bad("Rotary", f"{n // 2} pairs of features need as many divisors", {"scaling": repr(self.scaling)},
                      f"pass {n // 2} numbers each, short and long, or another head size.", ValueError)
        return n

    def _scaled(self, n: int, lengths: Array | None) -> np.ndarray | Array:
        """The frequencies of n features, [n / 2]; [batch, n / 2] for lengths [batch] that the scaling uses."""
        frequencies = self.base ** (-np.arange(0, n, 2) / max(n, 1))
        return self.scaling(frequencies, lengths) if self.scaling else frequencies

    def rotate(self, x: Array, at: ArrayLike) -> Array:
        """x [batch, time, heads, head_size] rotated by the angles of the positions `at`, int [batch or 1, time]."""
        n = self._rotated(x.shape[-1])
        shape = (*x.shape[:3], n // 2)
        by_length = self.scaling is not None and self.scaling.by_length
        frequencies = self._scaled(n, jnp.max(at, 1).astype("float32") + 1 if by_length else None)
        angles = angles_of(x, at, frequencies[:, None] if by_length else frequencies)[:, :, None]
        amplitude = self.scaling.amplitude if self.scaling else 1.0
        cos, sin = (jnp.broadcast_to((f(angles) * amplitude).astype(x.dtype), shape) for f in (jnp.cos, jnp.sin))
        one, other = (x[..., 0:n:2], x[..., 1:n:2]) if self.interleaved else (x[..., :n // 2], x[..., n // 2:n])
        rotated = one * cos - other * sin, one * sin + other * cos
        if self.interleaved:
            return jnp.concatenate([jnp.reshape(jnp.stack(rotated, -1), (*x.shape[:3], n)), x[..., n:]], -1)
        return jnp.concatenate([*rotated, x[..., n:]], -1)


@dataclass(frozen=True, slots=True)
class ALiBi:
    """A bias on attention products: minus a slope of the head times the distance (Press et al., 2022)."""

    def slopes(self, heads: int) -> np.ndarray:
        """The slope of each head: 2^(-8/n), 2^(-16/n), ..., where n is `heads` if that is a power of 2.

        Otherwise n is the next lower power of 2, and the other slopes are the 1st, 3rd, ... of those for 2n heads.
        """
        n = 2 ** int(math.log2(heads))
        whole = 2.0 ** (-8 / n * np.arange(1, n + 1))
        return np.concatenate([whole, 2.0 ** (-4 / n * np.arange(1, 2 * (heads - n), 2))])

    def bias(self, heads: int, queries: ArrayLike, keys: ArrayLike) -> Array:
        """float32 [batch or 1, heads, queries, keys] from positions, int [batch or 1, time]."""
        distance = jnp.abs(_distance(queries, keys)).astype("float32")[:, None]
        slopes = jnp.asarray(self.slopes(heads), "float32")[None, :, None, None]
        return -slopes * distance


@recorded()
def RelativeBias(heads: int, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True,
                 init: Callable | None = None) -> Layer:
    """A learned bias on the products of attention for each head and distance, in T5's buckets (Raffel et al., 2020).

    Half of the buckets hold one distance each; the sizes of the others grow geometrically up to `max_distance`.
    Shape: [batch, time, features] -> [batch, heads, time, time]: the input `bias` of attention layers. With a cache the
    keys are all slots of the cache, [batch, heads, time, length].

    Args:
      heads, buckets: sizes of the table.
      max_distance: distances from here on share the last bucket.
      bidirectional: whether half of the buckets are for keys after the query; if False, such keys have the bucket of
        distance 0.
      init: initializer of the table; None: normal with standard deviation 1.
    Inputs: mask, positions: as in `LearnedPositions`.
    Params: ``{"table": [buckets, heads]}``.  Cache: the positions so far.
    """
    make_table = init or initializers.normal(1.0)

    def init_params(rng, in_shape):
        batch, time, _ = check_shape("RelativeBias", in_shape, min_rank=3)
        return (batch, heads, time, time), {"table": make_table(rng, (buckets, heads))}

    def bias(params, x, queries, keys):
        check_params("RelativeBias", params, x, table=(buckets, heads))
        distance = _distance(queries, keys)
        bucket = bucket_of(distance, buckets, max_distance, bidirectional)
        per_pair = jnp.moveaxis(rows_at(params["table"], bucket), -1, 1)
        return jnp.broadcast_to(per_pair, (x.shape[0], *per_pair.shape[1:]))

    def apply(params, x, mask=None, positions=None, *, rng=None, train=False):
        x = check_sequence("RelativeBias", x)
        at = positions_of("RelativeBias", x, mask, positions)
        return bias(params, x, at, at)

    def apply_with_cache(params, cache, x, mask=None, positions=None):
        x = check_sequence("RelativeBias", x)
        at, cache = fill_slots("RelativeBias", cache, x, mask, positions)
        return bias(params, x, at, cache["positions"]), cache

    return Layer(init_params, apply, "RelativeBias", cache=CacheFns(init_slots, apply_with_cache))


def _distance(queries: Array, keys: Array) -> Array:
    """int32 [batch or 1, queries, keys]: position of the key minus position of the query."""
    return keys[:, None, :] - queries[:, :, None]


def bucket_of(distance: ArrayLike, buckets: int, max_distance: int, bidirectional: bool) -> Array:
    """int32: the T5 bucket of each distance, where a distance is positive if the key is after the query."""
    n = buckets // 2 if bidirectional else buckets
    first = jnp.where(distance > 0, n, 0) if bidirectional else jnp.zeros_like(distance)
    distance = jnp.abs(distance) if bidirectional else jnp.maximum(-distance, 0)
    exact = n // 2
    growth = jnp.log(jnp.maximum(distance, 1).astype("float32") / exact) / math.log(max_distance / exact)
    far = exact + (growth * (n - exact)).astype("int32")
    return first + jnp.where(distance < exact, distance, jnp.minimum(far, n - 1))
