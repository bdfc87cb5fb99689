"""Pages with the source of the modules that entries of the reference are defined in, and links to their lines."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.addnodes import only
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from _extensions import names

FOLDER = "source"


def link(env: BuildEnvironment, place: names.Place) -> nodes.Node:
    """The link at the end of a signature."""
    env.source_modules.setdefault(env.docname, set()).add(place.module)
    page = posixpath.relpath(_page(place.module), posixpath.dirname(env.docname) or ".")
    reference = nodes.reference("", "", nodes.inline("", "[source]", classes=["viewcode-link"]), internal=True,
                                refuri=f"{page}.html#L-{place.first}", classes=["source-link"])
    return only("", reference, expr="html")


def _page(module: str) -> str:
    return f"{FOLDER}/{module.replace('.', '/')}"


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of all modules that entries link to."""
    modules = sorted(set().union(*app.env.source_modules.values()))
    formatter = HtmlFormatter(lineanchors="L", anchorlinenos=True, linenos="inline", wrapcode=True)
    for module in modules:
        _, text = names.source(module)
        body = highlight(text, PythonLexer(), formatter)
        yield _page(module), {"title": module, "body": f"<h1>{module}</h1>{body}"}, "page.html"


def _start(app: Sphinx, env: BuildEnvironment, docnames: Iterable[str]) -> None:
    if not hasattr(env, "source_modules"):
        env.source_modules = {}


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    getattr(env, "source_modules", {}).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: Iterable[str], other: BuildEnvironment) -> None:
    env.source_modules.update({name: other.source_modules[name] for name in docnames if name in other.source_modules})


def setup(app: Sphinx) -> None:
    app.connect("env-before-read-docs", _start)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("html-collect-pages", pages)
