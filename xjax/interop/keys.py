"""Random numbers in JAX programs. Typed keys are typed keys here, and most operations on them have the same name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax import random
from xjax.core.types import ShapedArray, typeof
from xjax.interop.reference import JaxEqn, key_type
from xjax.interop.translate import RULES, Unsupported
from xjax.ops.arrange import iota
from xjax.ops.shape import reshape
from xjax.ops.zeros import zeros_of
from xjax.transforms.vmap import vmap
from xjax.typing import Array, ArrayLike


def _seed(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
    """A key for each element of an array of seeds."""
    kind = key_type(eqn.outvars[0].aval)
    (seeds,) = args

    def make(seed: ArrayLike) -> Array:
        return random.key(seed, impl=kind)

    for _ in typeof(seeds).shape:
        make = vmap(make)
    return [make(seeds)]


def _wrap(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
    return [random.wrap_key_data(args[0], impl=key_type(eqn.outvars[0].aval))]


def _same(eqn: JaxEqn, args: Sequence[Any]) -> Sequence[Any]:
    return args


def _counts(eqn: JaxEqn, args: Sequence[Any]) -> list[Any]:
    """The high and low words of the flat index of each element."""
    shape = eqn.params["shape"]
    size = math.prod(shape)
    if size > 2**32:
        raise Unsupported(eqn, f"an array of {size} random numbers is too large")
    return [zeros_of(ShapedArray(shape, np.uint32)), reshape(iota(np.uint32, size), shape)]


RULES.update({"iota_2x32_shape": _counts, "random_seed": _seed, "random_wrap": _wrap, "random_clone": _same})
