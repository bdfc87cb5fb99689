"""Images as sequences of patches, for transformers."""

from __future__ import annotations

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.checks import check_float, type_text


def check_patch(caller: str, image: int, patch: int) -> None:
    """Raises: ValueError if the image size is not a multiple of the patch size."""
    if image % patch:
        raise bad(caller, "the image size must be a multiple of the patch size", {"image": image, "patch": patch},
                  "choose a patch size that divides the image size.", ValueError)


def patches_of(caller: str, images: ArrayLike, image: int, patch: int) -> Array:
    """[batch, patches, patch * patch * channels]: the squares of an image, row by row."""
    images = check_float(caller, images)
    if images.ndim != 4 or images.shape[1:3] != (image, image):
        raise bad(caller, "the images do not have the size in the config", {"x": type_text(images)},
                  f"pass [batch, {image}, {image}, channels].")
    batch, _, _, channels = images.shape
    n = image // patch
    squares = jnp.moveaxis(jnp.reshape(images, (batch, n, patch, n, patch, channels)), 3, 2)
    return jnp.reshape(squares, (batch, n * n, patch * patch * channels))


def images_of(patches: Array, image: int, patch: int) -> Array:
    """The inverse of `patches_of`: [batch, image, image, channels]."""
    batch, _, size = patches.shape
    n, channels = image // patch, size // patch**2
    squares = jnp.reshape(patches, (batch, n, n, patch, patch, channels))
    return jnp.reshape(jnp.moveaxis(squares, 2, 3), (batch, image, image, channels))
