"""threefry2x32: the block cipher for random bits (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011).

Two words of a key encrypt two words of a counter in 20 rounds. The rounds are unrolled, so that XLA fuses them into one
loop over the elements: eight times as fast as a loop over rounds.

If such loops are fused with each other or with a concatenation, compilation on jaxlib 0.12 never finishes (see
`runtime/xla/compiler_faults.py`). So on CPUs a called program with a cipher, such as a sampler or `random.split`, is a
function that XLA does not inline. A key is computed once, not again for each number drawn with it. The drawn numbers
are written to memory. This costs nothing if they are a result, and one byte per element for a dropout mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import ZERO, Primitive
from xjax.core.types import ShapedArray, typeof
from xjax.ops.checks import NOT_LINEAR
from xjax.ops.makers import broadcast_shape, expand, line_up
from xjax.typing import ArrayLike

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_UINT32 = np.dtype(np.uint32)


def threefry2x32(k1: ArrayLike, k2: ArrayLike, x1: ArrayLike, x2: ArrayLike) -> tuple[Any, Any]:
    """Encrypt counters by keys.

    Args: k1, k2: words of the key; x1, x2: words of the counter; all uint32, broadcast together.
    Returns: two uint32 arrays of the common shape.
    """
    y1, y2 = threefry2x32_p.bind(k1, k2, x1, x2)
    return y1, y2


def _type_rule(*avals):
    if any(a.dtype != _UINT32 for a in avals):
        raise bad("threefry2x32", "keys and counters must be uint32",
                  given={name: a.str_short() for name, a in zip(("k1", "k2", "x1", "x2"), avals, strict=True)},
                  fix="convert them with x.astype('uint32').")
    out = ShapedArray(broadcast_shape("threefry2x32", *[a.shape for a in avals]), _UINT32)
    return out, out


def _lower(b: Builder, outs: Sequence[ShapedArray], k1: Value, k2: Value, x1: Value, x2: Value) -> list[Value]:
    shape = outs[0].shape

    def plus(x: Value, y: Value) -> Value:
        return b.add(x, y)

    def xor(x: Value, y: Value) -> Value:
        return b.binary("stablehlo.xor", x, y)

    # The key schedule is computed once if the key is a scalar.
    common = broadcast_shape("threefry2x32", k1.aval.shape, k2.aval.shape)
    k1, k2 = expand(b, k1, common), expand(b, k2, common)
    k3 = xor(xor(k1, k2), b.constant(_PARITY, k1.aval))
    schedule = [expand(b, k, shape) for k in (k1, k2, k3)]
    x1, x2 = plus(expand(b, x1, shape), schedule[0]), plus(expand(b, x2, shape), schedule[1])
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x1 = plus(x1, x2)
            x2 = xor(x1, _rotated(b, x2, distance))
        x1 = plus(x1, schedule[(group + 1) % 3])
        x2 = plus(x2, plus(schedule[(group + 2) % 3], b.constant(group + 1, x2.aval)))
    return [x1, x2]


def _rotated(b: Builder, x: Value, distance: int) -> Value:
    """Bits rotated upwards."""
    up = b.binary("stablehlo.shift_left", x, b.constant(distance, x.aval))
    down = b.binary("stablehlo.shift_right_logical", x, b.constant(32 - distance, x.aval))
    return b.binary("stablehlo.or", up, down)


def _batch(axis, args, bdims):
    ranks = [typeof(x).ndim - (d is not None) for x, d in zip(args, bdims, strict=True)]
    rank = max(ranks)
    aligned = [line_up(x, d, rank) if d is not None or r else x for x, d, r in zip(args, bdims, ranks, strict=True)]
    return threefry2x32_p.bind(*aligned), [0, 0]


threefry2x32_p = Primitive("threefry2x32", type_rule=_type_rule, lower=_lower, multiple_results=True, jvp=ZERO,
                           transpose=NOT_LINEAR, batch=_batch, fused_with_caller=False)
