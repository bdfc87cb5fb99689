"""Directives of the reference of `recipes`: ``{recipe-commands}``, and ``{recipe-keys} run | optim | tasks``."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import recipes
from _extensions.docstrings import as_markdown, escaped
from recipes.__main__ import COMMANDS
from recipes.settings import listing


class _FromMarkdown(SphinxDirective):
    """A directive with generated Markdown as its content."""

    def run(self) -> list[nodes.Node]:
        holder = nodes.Element()
        lines = "\n".join(self.text()).splitlines()
        self.state.nested_parse(StringList(lines, type(self).__name__), self.content_offset, holder)
        return holder.children

    def text(self) -> Iterator[str]:
        raise NotImplementedError


class Commands(_FromMarkdown):
    """``--help`` of every command."""

    def text(self) -> Iterator[str]:
        for name, meaning in COMMANDS.items():
            yield f"```{{py:module}} recipes.{name}\n```"
            yield f"```{{rubric}} recipes.{name}\n```"
            yield f"{escaped(meaning)}.\n"
            yield f"```text\n{_help(name)}\n```"


class Modules(_FromMarkdown):
    """The public modules that are not commands."""

    def text(self) -> Iterator[str]:
        for name in sorted(set(recipes.__all__) - set(COMMANDS)):
            module = importlib.import_module(f"recipes.{name}")
            yield f"```{{py:module}} recipes.{name}\n```"
            yield f"```{{rubric}} recipes.{name}\n```"
            yield f"{as_markdown(module.__doc__ or '')}\n"


class Keys(_FromMarkdown):
    """Tables of the keys of configs."""

    required_arguments = 1

    def text(self) -> Iterator[str]:
        wanted = {"run": r"(?!optim|task)", "optim": "optim", "tasks": "task"}[self.arguments[0]]
        for title, prefix, fields in listing.sections():
            if not re.match(wanted, title):
                continue
            title, _, meaning = title.partition(": ")
            if title.startswith("task, "):
                yield f"({_anchor(title)})=\n"
            yield f"```{{rubric}} {title}\n```"
            yield f"{escaped(meaning)}.\n" if meaning else ""
            yield "| key | type | default | meaning |\n|---|---|---|---|"
            for key, field in fields.items():
                cells = (f"`{prefix}{key}`", escaped(listing._type_text(field.annotation)),
                         f"`{listing._default_text(field)}`", escaped(field.description or ""))
                yield f"| {' | '.join(cell.replace('`(needed)`', 'needed') for cell in cells)} |"
            yield ""


def _anchor(title: str) -> str:
    return f"keys-{title.removeprefix('task, ').replace('_', '-')}"


def _help(command: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit), \
            mock.patch.dict(os.environ, {"COLUMNS": "88", "NO_COLOR": "1"}):
        importlib.import_module(f"recipes.{command}").main(["--help"])
    return printed.getvalue().strip()


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("recipe-commands", Commands)
    app.add_directive("recipe-modules", Modules)
    app.add_directive("recipe-keys", Keys)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
