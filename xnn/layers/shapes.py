"""Layers without parameters that change the shape, keep all values, or set those of padding to 0."""

import math

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Shape
from xnn.checks import as_row_mask, check_float
from xnn.covariance.fixed import flattened, reshaped, row_masks, scaled_positions
from xnn.covariance.kernel import NONE
from xnn.layer import Layer, shape_kept
from xnn.layers.elementwise import stateless

Identity = stateless(lambda x: x, lambda shape: shape, "Identity", kernel_rule=lambda kernel: kernel)


def Reshape(*sizes: int) -> Layer:
    """New shape for all axes but the first.  Shape: [n, ...] -> [n, *sizes].

    Args: sizes: ints; one of them may be -1, and is inferred from the others.
    Raises: TypeError if the number of elements differs.
    """
    if sum(size < 0 for size in sizes) > 1:
        raise bad("Reshape", "only one size may be -1", {"sizes": repr(sizes)}, "give all sizes but one.")

    def out_shape(in_shape):
        total, known = math.prod(in_shape[1:]), math.prod(size for size in sizes if size >= 0)
        left = total // known if known else 0
        out = tuple(left if size < 0 else size for size in sizes)
        if math.prod(out) != total:
            raise bad("Reshape", "the number of elements differs",
                      {"in_shape": f"{in_shape}, {total} per row", "sizes": f"{sizes}"},
                      fix="choose sizes with that product; one of them may be -1, and is inferred.")
        return (in_shape[0], *out)

    return stateless(lambda x: jnp.reshape(x, out_shape(jnp.shape(x))), out_shape, "Reshape", {"sizes": sizes}, False,
                     lambda kernel: reshaped(kernel, "Reshape", out_shape))


def _flat(shape: Shape) -> Shape:
    if not shape or min(shape[1:], default=0) < 0:
        raise bad("Flatten", "only the first size may be -1", {"in_shape": repr(shape)}, "pass all the others to init.")
    return (shape[0], math.prod(shape[1:]))


Flatten = stateless(lambda x: jnp.reshape(x, _flat(jnp.shape(x))), _flat, "Flatten", positionwise=False,
                    kernel_rule=flattened)


def MaskRows() -> Layer:
    """Sets the rows of padding to 0.  Shape: [..., features] -> the same.

    Put it before a layer that combines positions, such as `Conv`, and in front of which values of padding are not 0.
    Inputs: row_mask: bool of the leading axes of x, False for padding, as in `BatchNorm`. None: there is no padding.
    Params: ``()``.  Raises: TypeError from apply for a mask of another shape or dtype.

    >>> MaskRows().apply((), jnp.ones((3, 1)), row_mask=jnp.array([True, False, True])).tolist()
    [[1.0], [0.0], [1.0]]
    """

    def apply(params, x, row_mask=None, *, rng=None, train=False):
        x = check_float("MaskRows", x)
        return x if row_mask is None else jnp.where(as_row_mask("MaskRows", x, row_mask)[..., None], x, 0)

    def kernel_rule(kernel, row_mask=NONE):
        return kernel if row_mask.of1 is None else scaled_positions(kernel, row_masks("MaskRows", kernel, row_mask))

    return Layer(shape_kept, apply, "MaskRows", positionwise=True, kernel_rule=kernel_rule)
