"""Figures of matplotlib as a part of a page: SVG in the colours of the page, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from recipes.lazy import mpl, mpl_collections, mpl_figure, mpl_legend, mpl_lines
from recipes.names import in_html
from recipes.results.plots import COLOURS

PIXELS = 100                        # for each inch of a figure, on a page that is wide enough
LEAST = 0.75                        # of this size; on a narrower screen the figure scrolls, or its text were too small
MANY = 2000                         # points; more are drawn as one image, since SVG has an element for each of them

# Black text has no colour in matplotlib's SVG: it has that of the page.
_THEME = {"#000000": "currentColor", COLOURS["train"]: "var(--blue)", COLOURS["val"]: "var(--red)",
          COLOURS["test"]: "var(--green)"}
_COLOUR = re.compile(rf"(?<=: )(?:{'|'.join(_THEME)})\b")
_NOT_IN_A_PAGE = re.compile(r'<metadata>.*?</metadata>| xmlns(?::xlink)?="[^"]*"|(?<=<g) id="[^"]*"', re.DOTALL)


def figures(all_figures: Sequence[mpl_figure.Figure], title: str) -> str:
    """Figures side by side, or below each other where the page is narrow."""
    return f'<div class="figures">{"".join(_figure(each, title) for each in all_figures)}</div>'


def _figure(figure: mpl_figure.Figure, title: str) -> str:
    width = round(PIXELS * figure.get_size_inches()[0])
    return (f'<div role="img" aria-label="{in_html(title)}" style="flex: 0 1 {width}px; '
            f'min-width: {LEAST * width:.0f}px">{_svg(figure)}</div>')


def _svg(figure: mpl_figure.Figure) -> str:
    for legend in figure.findobj(mpl_legend.Legend):
        legend.get_frame().set_alpha(0)                       # its white would stay white on a dark page
    for line in figure.findobj(mpl_lines.Line2D):
        line.set_rasterized(len(line.get_xdata(orig=False)) > MANY)
    for points in figure.findobj(mpl_collections.PathCollection):
        points.set_rasterized(len(points.get_offsets()) > MANY)
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "recipes"}):         # the same bytes for the same run
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    text = _NOT_IN_A_PAGE.sub("", text[text.index("<svg"):])
    return _COLOUR.sub(lambda match: _THEME[match[0]], text)
