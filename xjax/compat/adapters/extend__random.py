"""`jax.extend.random`: generators of random bits."""

from xjax.ops.prng import threefry2x32_p

__all__ = ["threefry2x32_p"]
