"""Figures made of small images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recipes.lazy import mpl_figure  # not pyplot: no display, no global state
from recipes.names import on_plot


def image_grid(images: np.ndarray, captions: Sequence[str] = (), columns: int = 10,
               rows: Sequence[str] = ()) -> mpl_figure.Figure:
    """A figure with a grid of images, filled line by line.

    Args:
      images: [n, height, width, channels], bytes or numbers in [0, 1].
      captions: one above each image, or none; names in them have passed through `on_plot`.
      rows: the name of each line, at its left, or none.
    """
    columns = min(columns, len(images))
    lines = -(-len(images) // columns)
    height = 0.95 + 0.4 * bool(captions)
    figure = mpl_figure.Figure(figsize=(0.95 * columns + 1.2 * bool(rows), height * lines + 0.1), dpi=150,
                               layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False)
    for i, axis in enumerate(axes.flat):
        axis.set_xticks([])
        axis.set_yticks([])
        axis.spines[:].set_visible(False)
        if i < len(images):
            axis.imshow(_picture(images[i]), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        if i < len(captions):
            axis.set_title(captions[i], fontsize=8)
    for axis, name in zip(axes[:, 0], rows, strict=False):
        axis.set_ylabel(on_plot(name), rotation=0, ha="right", va="center", fontsize=9)
    return figure


def _picture(image: np.ndarray) -> np.ndarray:
    """An image as numbers in [0, 1], without the axis of channels if it has size 1."""
    unit = image / 255 if image.dtype == np.uint8 else np.clip(image, 0, 1)
    return unit[..., 0] if unit.shape[-1] == 1 else unit
