"""The documentation site: it asks no other host for anything, has an entry for every public name, and its search finds
pages.

The site is built into build/site, unless it is there and newer than all that it is made of.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.reference import all_names, named
from tests.test_namespaces import MODULES
from xjax.core.left_out import MODULES_LEFT_OUT

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
BUILD = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-j", "2", "docs", "build/site"]
MADE_OF = ("docs/**/*.md", "docs/**/*.py", "docs/_static/*", "xjax/**/*.py", "xnn/**/*.py", "recipes/**/*.py", "*.md")

pytestmark = pytest.mark.skipif(not all(map(importlib.util.find_spec, ("sphinx", "myst_parser", "furo"))),
                                reason="the documentation needs the extra `docs`")


@functools.cache
def built():
    """The folder of the site.  It is built with all warnings as errors: dead links, missing images, unknown names."""
    index = SITE / "searchindex.js"
    newest = max(path.stat().st_mtime for pattern in MADE_OF for path in ROOT.glob(pattern))
    if not index.exists() or index.stat().st_mtime < newest:
        done = subprocess.run(BUILD, cwd=ROOT, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
    return SITE


# -- other hosts --------------------------------------------------------------------------------------------------

class Requests(HTMLParser):
    """The addresses that a browser asks for when it shows a page: all but those of ordinary links."""

    def __init__(self, page):
        super().__init__()
        self.addresses, self.links = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src", "srcset", "data", "action", "poster") and value:
                (self.links if (tag, name) == ("a", "href") else self.addresses).append(value)


@functools.cache
def pages():
    """Path -> text of every page; of a page of sources, the text before the source."""
    texts = {path: path.read_text() for path in built().rglob("*.html")}
    return {path: text.partition('<div class="highlight">')[0] if path.is_relative_to(SITE / "source") else text
            for path, text in texts.items()}


def elsewhere(address):
    return re.match(r"(?:[a-z][a-z0-9+.-]*:)?//", address.strip(), re.IGNORECASE)


def test_no_page_asks_another_host():
    asked = {}
    for path, page in pages().items():
        asked[path.name] = [each for each in Requests(page).addresses if elsewhere(each)]
    for path in built().rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        urls = re.findall(r"""url\(\s*['"]?([^'")]*)|@import\s+['"]([^'"]*)""", text)
        asked[path.name] = [each for pair in urls for each in pair if elsewhere(each)]
    assert len(asked) > 100 and not {name: urls for name, urls in asked.items() if urls}


def test_a_request_to_another_host_is_seen():
    page = '<a href="https://a.org">x</a><script src="//b.org/x.js"></script><img src="x.png"><link href="https://c">'
    assert [each for each in Requests(page).addresses if elsewhere(each)] == ["//b.org/x.js", "https://c"]


def test_links_within_the_site_have_targets():
    """Sphinx checks only its own references; the links to lines of sources are checked here too."""
    anchors = {path: set(re.findall(r'\b(?:id|name)="([^"]*)"', path.read_text())) for path in pages()}
    dead = set()
    for path, page in pages().items():
        for link in Requests(page).links:
            if elsewhere(link) or link.startswith("mailto:"):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            if not target.exists() or anchor and anchor not in anchors.get(target, {anchor}):
                dead.add((str(path.relative_to(SITE)), link))
    assert not dead


# -- the reference ------------------------------------------------------------------------------------------------

@functools.cache
def inventory():
    """The names of the reference's entries, from objects.inv: four lines of text, then compressed lines."""
    packed = (built() / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(packed).decode().splitlines()
    return {name for name, kind in (line.split()[:2] for line in lines) if kind.startswith("py:")}


def extension(name):
    """A module of docs/_extensions."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_extensions" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documented():
    """The modules of the reference."""
    return extension("modules").MODULES


def test_every_public_module_is_documented():
    wanted = {*MODULES, *(named("xjax", module) for module in all_names())} - set(MODULES_LEFT_OUT)
    wanted = {name for name in wanted if hasattr(importlib.import_module(name), "__all__")}
    assert wanted <= set(documented())
    listed = re.findall(r"^```\{public\} (\S+)$", "\n".join(
        path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md")), re.MULTILINE)
    assert sorted(listed) == sorted(documented())


@pytest.mark.parametrize("module", documented())
def test_every_public_name_has_an_entry(module):
    namespace, entries = importlib.import_module(module), inventory()
    full = {name: f"{module}.{name}" for name in namespace.__all__}
    modules = {name for name in full if type(getattr(namespace, name)).__name__ == "module"}
    assert module in entries
    assert not [name for name in full if (getattr(namespace, name).__name__ if name in modules else full[name])
                not in entries]


def test_examples_are_in_the_entries():
    page = (built() / "reference" / "xjax.html").read_text()
    entry = page[page.index('id="xjax.grad"'):][:6000]
    text = re.sub(r"<[^>]*>", "", entry)
    assert "A function that returns the gradient of the scalar function" in text and "12.0" in text
    assert "source/xjax/transforms/autodiff.html#L-" in entry


DOCSTRING = """Sum of a*b_ over `axis`.  Shape: [n, 2] -> [n].

    Works as in::

        f(1)

    Args: x, y: arrays; axis: an int, see docs/options.md.
    Raises:
      ValueError: if `x` is empty,
        or too long.

    >>> f(1)
    2
    """
MARKDOWN = r"""Sum of a\*b\_ over `axis`.

:Shape:
    \[n, 2\] -> \[n\].

Works as in:

```python
f(1)
```

:Arguments:
    - `x`, `y`: arrays
    - `axis`: an int, see [docs/options.md](/options.md).
:Raises:
    - `ValueError`: if `x` is empty, or too long.

```pycon
>>> f(1)
2
```"""


def test_a_docstring_as_markdown():
    assert extension("docstrings").as_markdown(DOCSTRING, ("x", "y", "axis")) == MARKDOWN


def test_a_chart_as_a_picture():
    charts = extension("charts")
    picture = charts.svg("flowchart TD\n    nn --> lax\n    lax --> core\n    nn --> core")
    assert picture.count("<rect") == 3 and picture.count("<line") == 3
    assert "nn imports lax, lax imports core, nn imports core" in picture
    assert "flowchart" not in (built() / "architecture.html").read_text()
    for chart in ("flowchart LR\n    a --> b", "flowchart TD\n    a -- b", "flowchart TD"):
        with pytest.raises(ValueError, match="only lines of the form"):
            charts.svg(chart)


def test_links_have_titles():
    """A link whose text is the name of a file, in the file, has the title of the page or the section."""
    page = (built() / "questions.html").read_text()
    assert ">Stop and resume<" in page and ">Recompilation<" in page
    links = re.findall(r'<a class="reference internal" [^>]*>(?:<span[^>]*>)?([^<]*)', page)
    assert len(links) > 30 and not [text for text in links if text.endswith(".md")]


# -- search -------------------------------------------------------------------------------------------------------

@functools.cache
def search(*queries):
    """For each query, the pages that the site's search finds, the best first. Node runs the site's own scripts."""
    if shutil.which("node") is None:
        pytest.skip("the site's search is JavaScript, and Node is not installed")
    command = ["node", ROOT / "tests" / "site_search.js", built(), *queries]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(queries, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("query, page", [
    ("gradient clipping", "training"), ("NaN", "checked_mode"), ("cosine schedule", "training"),
    ("isolated nodes", "graphs"),
])
def test_search(query, page):
    assert page in search(query)[query][:10]


# Questions of users and the page that answers each.
QUESTIONS = dict(re.findall(r"^\| (.+) \| \[[^]]+\]\((.+?)\.md(?:#\S+)?\) \|$",
                            (ROOT / "docs" / "questions.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize("question", QUESTIONS)
def test_search_answers_questions(question):
    assert len(QUESTIONS) >= 30
    assert QUESTIONS[question] in search(*QUESTIONS)[question][:3]
