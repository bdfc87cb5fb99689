"""The frame of a page, and the small parts of which its sections are made.

A page is one file without scripts, in the colours of the browser, light or dark. On a narrow screen, tables and figures
that do not fit scroll by themselves. Every function takes texts and returns HTML; `in_html` is applied here only.
"""

from __future__ import annotations

import base64
from collections.abc import Container, Iterable, Mapping, Sequence

from recipes.names import in_html

LONG = 30                                                     # characters of a cell whose column is wide

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --paper: #ffffff; --soft: #59636e; --line: #d1d9e0; --panel: #f6f8fa;
  --blue: #4477aa; --red: #cc6677; --green: #228833; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --soft: #9aa4af; --line: #3d444d;
  --panel: #161b22; --blue: #7fb2e5; --red: #e58a98; --green: #5fbf6e; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .4rem 0; } .soft { color: var(--soft); }
.headline { margin: 1.2rem 0 0; } .headline b { font-size: 2.6rem; line-height: 1.2; margin-right: .6rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
td, th { padding: .2rem 1.2rem .2rem 0; text-align: left; vertical-align: top; overflow-wrap: normal; }
:is(td, th):last-child { padding-right: 0; }
th { border-bottom: 1px solid var(--line); font-weight: 600; white-space: nowrap; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.name { white-space: pre-wrap; } td.long { min-width: 14rem; }
.facts td { white-space: pre-line; overflow-wrap: anywhere; }
.facts td:first-child { color: var(--soft); min-width: 5.5rem; overflow-wrap: normal; }
pre { background: var(--panel); padding: .8rem; border-radius: 6px; white-space: pre-wrap; font-size: 13px; }
pre.table { white-space: pre; overflow-x: auto; }
summary { cursor: pointer; }
h3 { font-size: .95rem; margin: 1rem 0 .3rem; }
.samples { display: flex; flex-wrap: wrap; gap: .3rem; }
.samples img { width: 64px; height: 64px; object-fit: contain; image-rendering: pixelated; background: var(--panel); }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; overflow-x: auto; }
.figures svg { display: block; width: 100%; height: auto; fill: currentColor; }
@media (max-width: 40rem) { .detail { display: none; } body { margin: 1rem auto; } td, th { padding-right: .6rem; }
  td.long { min-width: 9rem; } .samples img { width: 48px; height: 48px; }
  .headline b { display: block; } }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """A whole page.  Args: title: text; parts: HTML."""
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{in_html(title)}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
            f'<body>{"".join(parts)}</body></html>\n')


def section(title: str, content: str) -> str:
    """A heading and its content, HTML; "" without content."""
    return f"<section><h2>{in_html(title)}</h2>{content}</section>" if content else ""


def paragraph(text: str, style: str = "") -> str:
    return f'<p class="{style}">{in_html(text)}</p>' if style else f"<p>{in_html(text)}</p>"


def headline(value: str, what: str) -> str:
    """A value in large type, with its name."""
    return f'<p class="headline"><b>{in_html(value)}</b>{in_html(what)}</p>'


def preformatted(text: str, style: str = "") -> str:
    return f'<pre class="{style}">{in_html(text)}</pre>' if style else f"<pre>{in_html(text)}</pre>"


def facts(values: Mapping[str, str]) -> str:
    """A table of names and values, which may have several lines; "" without values."""
    rows = "".join(f"<tr><td>{in_html(name)}</td><td>{in_html(value)}</td></tr>" for name, value in values.items())
    return f'<table class="facts">{rows}</table>' if rows else ""


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Container[int] = (),
          details: Container[int] = ()) -> str:
    """A table of texts.  Args: numbers: the columns of numbers; details: columns that a narrow screen does not show."""
    styles = [("number" if i in numbers else "name") + " detail" * (i in details) for i in range(len(headings))]
    lines = [_line("th", headings, styles), *(_line("td", row, styles) for row in rows)]
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _line(tag: str, cells: Sequence[str], styles: Sequence[str]) -> str:
    inside = (f'<{tag} class="{style}{" long" * (len(cell) > LONG)}">{in_html(cell)}</{tag}>'
              for cell, style in zip(cells, styles, strict=True))
    return f"<tr>{''.join(inside)}</tr>"


def images(caption: str, pngs: Iterable[bytes]) -> str:
    """Small pictures side by side below their caption.  Args: pngs: the contents of PNG files."""
    addresses = (f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in pngs)
    pictures = "".join(f'<img alt="" src="{address}">' for address in addresses)
    return f'<h3>{in_html(caption)}</h3><div class="samples">{pictures}</div>'


def folded(title: str, content: str) -> str:
    """Content that a click shows.  Args: title: text; content: HTML."""
    return f"<details><summary>{in_html(title)}</summary>{content}</details>"
