"""XLA's random bits: rng_bit_generator, from a key, and rng_uniform, from a state of the device."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.primitive import ZERO, Missing, Primitive
from xjax.core.types import ShapedArray
from xjax.ops.checks import NOT_LINEAR, REAL, check_kinds, check_same_dtype, static_int
from xjax.ops.shape import move_axis_to_front
from xjax.ops.slice import dynamic_update_index_in_dim, index_in_dim
from xjax.typing import Array, ArrayLike, DTypeLike, PRNGKey


class RandomAlgorithm(enum.IntEnum):
    """The algorithm of `rng_bit_generator`."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


_UINTS = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)
_KEY_TYPES = (ShapedArray((4,), np.uint32), ShapedArray((2,), np.uint64))

# -- rng_bit_generator --------------------------------------------------------------------------------------------

def rng_bit_generator(key: PRNGKey, shape: Sequence[int], dtype: DTypeLike = np.uint32,
                      algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT, *, out_sharding: None = None) -> tuple:
    """Random bits, fast, and the next state.

    The numbers depend on the device and on XLA's version. Under `vmap` all are drawn together, from the first key.

    Args:
      key: the state, uint32[4] or uint64[2]; dtype: uint8, uint16, uint32 or uint64.
      algorithm: RNG_DEFAULT is the device's preferred algorithm.
      out_sharding: must be None; XLA decides how the bits are sharded.
    Returns: (new state, bits).

    >>> rng_bit_generator(np.zeros(4, np.uint32), (3,))[1].shape
    (3,)
    """
    caller = "lax.rng_bit_generator"
    if out_sharding is not None:
        raise bad(caller, "`out_sharding` is not supported", given={"out_sharding": repr(out_sharding)},
                  fix="leave it out, and use lax.with_sharding_constraint on the bits.", exc=NotImplementedError)
    dtype = dtypes.user_dtype(dtype, caller)
    if dtype not in _UINTS:
        raise bad(caller, f"cannot fill {dtype.name}", fix="pass an unsigned dtype, such as 'uint32'.")
    shape = tuple([static_int(n, "shape", caller) for n in shape])
    return tuple(rng_bit_generator_p.bind(key, shape=shape, dtype=dtype, algorithm=RandomAlgorithm(algorithm),
                                          out_sharding=None))


def _bits_type(key, *, shape, dtype, algorithm, out_sharding):
    if key not in _KEY_TYPES:
        raise bad("lax.rng_bit_generator", "the state is neither uint32[4] nor uint64[2]",
                  given={"key": key.str_short()}, fix="pass random.key_data(random.key(seed, impl='rbg')).")
    return key, ShapedArray(shape, dtype)


def _bits_lower(b: Builder, outs, key: Value, *, shape, dtype, algorithm, out_sharding) -> list[Value]:
    pairs, state = ShapedArray((2, 2), np.uint32), _KEY_TYPES[1]
    wide = key.aval is state
    if not wide:
        key = b.op(f"stablehlo.reshape {key} : ({key.type}) -> {tensor_type(pairs)}", pairs)
        key = b.op(f"stablehlo.bitcast_convert {key} : ({key.type}) -> {tensor_type(state)}", state)
    name = algorithm.name.removeprefix("RNG_")
    out, bits = b.ops(f"stablehlo.rng_bit_generator {key}, algorithm = {name} : ({key.type}) -> "
                      f"({tensor_type(state)}, {tensor_type(outs[1])})", (state, outs[1]))
    if not wide:
        out = b.op(f"stablehlo.bitcast_convert {out} : ({out.type}) -> {tensor_type(pairs)}", pairs)
        out = b.op(f"stablehlo.reshape {out} : ({out.type}) -> {tensor_type(outs[0])}", outs[0])
    return [out, bits]


def _bits_batch(axis, args, bdims, *, shape, **params):
    keys = move_axis_to_front(args[0], bdims[0])
    new, bits = rng_bit_generator_p.bind(index_in_dim(keys, 0, 0, keepdims=False), shape=(axis.size, *shape), **params)
    return [dynamic_update_index_in_dim(keys, new, 0, 0), bits], [0, 0]


rng_bit_generator_p = Primitive("rng_bit_generator", type_rule=_bits_type, lower=_bits_lower, jvp=ZERO,
                                transpose=NOT_LINEAR, batch=_bits_batch, multiple_results=True)

# -- rng_uniform --------------------------------------------------------------------------------------------------

def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[int]) -> Array:
    """Numbers uniformly distributed in [a, b), different at each call; `random.uniform` is reproducible.

    Args: a, b: 0-d, of one real dtype; shape: shape of the result.
    """
    shape = tuple([static_int(n, "shape", "lax.rng_uniform") for n in shape])
    return rng_uniform_p.bind(a, b, shape=shape)


def _uniform_type(a, b, *, shape):
    check_kinds("rng_uniform", REAL, a, b)
    check_same_dtype("rng_uniform", a, b)
    if a.shape or b.shape:
        raise bad("lax.rng_uniform", "the limits must be scalars", given={"a": a.str_short(), "b": b.str_short()},
                  fix="draw in [0, 1), then scale with numpy.")
    return ShapedArray(shape, a.dtype, a.weak_type and b.weak_type)


def _uniform_lower(b: Builder, out: ShapedArray, low: Value, high: Value, *, shape) -> Value:
    sizes = b.op(f"stablehlo.constant dense<{list(shape)}> : tensor<{len(shape)}xi64>",
                 ShapedArray((len(shape),), np.int64))
    return b.op(f"stablehlo.rng {low}, {high}, {sizes}, distribution = UNIFORM : "
                f"({low.type}, {high.type}, {sizes.type}) -> {tensor_type(out)}", out)


rng_uniform_p = Primitive(
    "rng_uniform", type_rule=_uniform_type, lower=_uniform_lower, jvp=Missing("it has no derivative in JAX either"),
    transpose=NOT_LINEAR, batch=Missing("its numbers come from a shared state", fix="draw a larger shape."))
