"""Mermaid flow charts as pictures: boxes in rows, with arrows downwards, in the colours of the page.

Only the form that tests/rooms.py writes is drawn: lines ``    name --> name`` without cycles.
"""

from __future__ import annotations

import re
from html import escape
from itertools import groupby
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

WIDTH, HEIGHT, ACROSS, DOWN = 96, 28, 124, 58           # of a box, and from a box to the next one, in pixels


def svg(chart: str) -> str:
    """The picture of a chart.  Raises: ValueError if the chart has another form."""
    first, *lines = chart.strip().splitlines()
    matches = [re.fullmatch(r" +(\w+) --> (\w+)", line) for line in lines]
    if not first.startswith("flowchart TD") or not matches or None in matches:
        raise ValueError(f"only lines of the form `a --> b` after `flowchart TD` can be drawn:\n{chart}")
    arrows = [match.groups() for match in matches if match]
    places = _places(arrows)
    width = max(x for x, _ in places.values()) + WIDTH
    height = max(y for _, y in places.values()) + HEIGHT
    parts = [f'<line x1="{places[a][0] + WIDTH / 2:g}" y1="{places[a][1] + HEIGHT:g}" '
             f'x2="{places[b][0] + WIDTH / 2:g}" y2="{places[b][1] - 1:g}" marker-end="url(#tip)"/>' for a, b in arrows]
    for name, (x, y) in places.items():
        parts += [f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>',
                  f'<text x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 5:g}">{escape(name)}</text>']
    meaning = ", ".join(f"{a} imports {b}" for a, b in arrows)
    tip = ('<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
           '<path d="M0 0 L8 4 L0 8 z"/></marker>')
    return (f'<svg class="chart" role="img" viewBox="-2 -2 {width + 4:g} {height + 4:g}" width="{width + 4:g}">'
            f'<title>{escape(meaning)}</title><defs>{tip}</defs>{"".join(parts)}</svg>')


def _places(arrows: list[tuple[str, ...]]) -> dict[str, tuple[float, float]]:
    """The corner of the box of each name.  A name is in a row above all to which it points."""
    names = list(dict.fromkeys(name for arrow in arrows for name in arrow))
    level = dict.fromkeys(names, 0)
    for _ in names:
        for a, b in arrows:
            level[a] = max(level[a], level[b] + 1)
    ends = {a for a, _ in arrows}
    for name in names:
        if name not in ends:                            # right below the names that point to it
            level[name] = min(level[a] for a, b in arrows if b == name) - 1
    rows = [list(row) for _, row in groupby(sorted(names, key=lambda name: -level[name]), key=lambda name: level[name])]
    middle: dict[str, float] = {}
    for row in rows:
        above = {name: [middle[a] for a, b in arrows if b == name and a in middle] for name in row}
        row.sort(key=lambda name: sum(above[name]) / len(above[name]) if above[name] else 0)
        middle |= {name: i - (len(row) - 1) / 2 for i, name in enumerate(row)}
    left = min(middle.values())
    return {name: ((middle[name] - left) * ACROSS, float(i * DOWN)) for i, row in enumerate(rows) for name in row}


def draw(app: Sphinx, doctree: nodes.document) -> None:
    """Puts the picture in the place of each chart."""
    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            block.replace_self(nodes.raw("", svg(block.astext()), format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
