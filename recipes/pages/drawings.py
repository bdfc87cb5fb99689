"""Figures, tables, images and texts as parts of a page."""

from __future__ import annotations

import io

import numpy as np

from recipes.data.facts import Table
from recipes.lazy import pil_image
from recipes.pages.figures import figures
from recipes.pages.frame import images, paragraph, preformatted, table
from recipes.results.drawing import Drawing, Gallery, cell_text, number_columns

MOST_ROWS = 1000                                              # of a table
SIDE = 96                                                     # pixels: a larger image is made smaller


def drawn(part: Drawing, title: str) -> str:
    """A part of a report or a preview as HTML."""
    if isinstance(part, str):
        return preformatted(part)
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Gallery):
        return "".join(images(name, [_png_of(each) for each in group]) for name, group in part.groups.items())
    return figures(part if isinstance(part, list) else [part], title)


def _table(part: Table) -> str:
    rows = [[cell_text(cell) for cell in row] for row in part.rows[:MOST_ROWS]]
    more = len(part.rows) - len(rows)
    return ((paragraph(part.note) if part.note else "") + table(part.headings, rows, number_columns(part))
            + (paragraph(f"and {more} more", "soft") if more else ""))


def _png_of(pixels: np.ndarray) -> bytes:
    picture, out = pil_image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels), io.BytesIO()
    picture.thumbnail((SIDE, SIDE))
    picture.save(out, "png")
    return out.getvalue()
