"""Pages with the source of the modules that entries of the reference are defined in, and links to their lines.

They are written without the theme's template: there are hundreds, and the theme computes its navigation for each page.
"""

from __future__ import annotations

import html
import posixpath
from collections.abc import Iterable
from pathlib import Path
from string import Template

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.addnodes import only
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from _extensions import names

FOLDER = "source"

_PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="stylesheet" href="${top}_static/pygments.css">
<link rel="stylesheet" href="${top}_static/source.css">
</head>
<body>
<script>document.body.dataset.theme = localStorage.getItem("theme") || "auto"</script>
<p><a href="${top}index.html">$project</a> / <a href="${top}reference/index.html">Reference</a> /
<code>$title</code></p>
$code
</body>
</html>
""")


def link(env: BuildEnvironment, place: names.Place) -> nodes.Node:
    """The link at the end of a signature."""
    env.source_modules.setdefault(env.docname, set()).add(place.module)
    page = posixpath.relpath(_page(place.module), posixpath.dirname(env.docname) or ".")
    reference = nodes.reference("", "", nodes.inline("", "[source]", classes=["viewcode-link"]), internal=True,
                                refuri=f"{page}#L-{place.first}", classes=["source-link"])
    return only("", reference, expr="html")


def _page(module: str) -> str:
    return f"{FOLDER}/{module.replace('.', '/')}.html"


def _write(app: Sphinx, failure: Exception | None) -> None:
    """Writes the pages of all modules that entries link to."""
    if failure or app.builder.format != "html":
        return
    formatter = HtmlFormatter(lineanchors="L", anchorlinenos=True, linenos="inline")
    for module in sorted(set().union(*app.env.source_modules.values())):
        page = _page(module)
        code = highlight(names.source(module)[1], PythonLexer(), formatter)
        path = Path(app.outdir, page)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_PAGE.substitute(title=html.escape(module), top="../" * page.count("/"), code=code,
                                         project=html.escape(app.config.project)))


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
    app.connect("build-finished", _write)
