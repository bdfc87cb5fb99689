"""The documentation site: ``python -m sphinx -W --keep-going -n -j 2 docs build/site``.

It reads nothing from the network, and its pages ask no other host for anything. The pages are docs/*.md; the reference
is made from the docstrings, by the modules in docs/_extensions.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from _extensions.modules import MODULES  # noqa: E402
from xjax import __version__  # noqa: E402

project = "xjax"
author = "the authors of xjax"
copyright = "the authors of xjax"
release = version = __version__

extensions = ["myst_parser", "_extensions.charts", "_extensions.link_titles", "_extensions.public",
              "_extensions.recipe_tables"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_extensions", "_static"]
public_modules = MODULES

myst_enable_extensions = ["deflist", "fieldlist"]
myst_heading_anchors = 4
smartquotes = False                     # quotation marks are Python's

python_maximum_signature_line_length = 88
toc_object_entries = False              # the navigation of every page would contain every name
add_module_names = False

html_theme = "furo"
html_title = f"xjax {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "_extensions" / "search_scores.js")
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"
