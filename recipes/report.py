"""Command line: ``python -m recipes.report RUN``: one self-contained HTML page of a run, RUN/report.html."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from recipes.config import KernelConfig
from recipes.errors import RecipeError, exit_code_of
from recipes.names import in_html, printable
from recipes.pages.frame import page, paragraph, preformatted, section
from recipes.pages.sections import SECTIONS, Subject, headline, subject
from recipes.results.folder import write_text


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the report.  Returns: 0, or 1 if there is no such run or its config cannot be read."""
    parser = argparse.ArgumentParser(prog="recipes.report", description="Writes RUN/report.html.",
                                     epilog="example: python -m recipes.report gcn")
    parser.add_argument("run", help="a run folder, a name in ./runs, or an exported folder")
    args = parser.parse_args(argv)
    return exit_code_of(lambda: print(printable(write_report(subject(args.run)))))


def write_report(of: Subject) -> Path:
    """Writes ``report.html`` into the folder; returns its path."""
    file = of.folder / "report.html"
    sections = (_section(title, content_of, of) for title, content_of in SECTIONS.items())
    write_text(file, page(f"{of.folder.name}: {of.config.task.name}", [_heading(of), *sections]))
    return file


def _heading(of: Subject) -> str:
    how = "kernel regression" if isinstance(of.config, KernelConfig) else (
        f"seed {of.config.seed}, {of.config.steps} steps")
    task = f"{of.config.task.name.replace('_', ' ')}, {how}"
    problem = _problem("The model is not shown:", of.problem) if of.problem else ""
    return f"<h1>{in_html(of.folder.name)}</h1>{paragraph(task, 'soft')}{_or_problem(headline, of)}{problem}"


def _section(title: str, content_of: Callable[[Subject], str | dict[str, str]], of: Subject) -> str:
    content = _or_problem(content_of, of)
    parts = content if isinstance(content, dict) else {title: content}
    return "".join(section(*part) for part in parts.items())


def _or_problem(content_of: Callable[[Subject], str | dict[str, str]], of: Subject) -> str | dict[str, str]:
    """The content, or the error that says why it is missing."""
    try:
        return content_of(of)
    except RecipeError as err:
        return _problem("Not shown:", err)


def _problem(what: str, error: RecipeError) -> str:
    return paragraph(what) + preformatted(str(error))


if __name__ == "__main__":
    sys.exit(main())
