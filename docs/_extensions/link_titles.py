"""Links whose text is the name of a page's file get the title of the page, or of the section.

The files are also read as they are, where ``[training.md](training.md#stop-and-resume)`` is a clear text.
"""

from __future__ import annotations

import posixpath
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def set_titles(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replaces the text of such links in one page."""
    for link in list(doctree.findall(nodes.reference)):
        text = link.astext()
        if not link.get("internal") or not text.endswith(".md") or "refuri" not in link:
            continue
        file, _, anchor = link["refuri"].partition("#")
        page = posixpath.normpath(posixpath.join(posixpath.dirname(docname), file)).removesuffix(".html")
        if page in app.env.titles:
            link[:] = [nodes.Text(_section(app.env, page, anchor) or app.env.titles[page].astext())]


def _section(env: BuildEnvironment, page: str, anchor: str) -> str | None:
    """The title of a section; None for the page as a whole."""
    titles = {link["anchorname"]: link.astext() for link in env.tocs[page].findall(nodes.reference)
              if link.get("refuri") == page}
    return titles.get(f"#{anchor}") if anchor else None


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-resolved", set_titles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
