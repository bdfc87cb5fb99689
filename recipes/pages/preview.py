"""``--preview``: the data of a run, before any training. Nothing is compiled, and no run is written."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table as TerminalTable

from recipes.config import RunConfig
from recipes.data.facts import MOST_LINES, Table
from recipes.names import in_html, on_terminal, plain_folder
from recipes.pages.drawings import drawn
from recipes.pages.frame import facts, page, paragraph, section
from recipes.results.drawing import cell_text, number_columns
from recipes.settings.config_file import task_module
from recipes.task import Preview
from recipes.training.run import announce


def show_preview(config: RunConfig, name: str) -> None:
    """Prints what was read, and writes a page if there are pictures.  Raises: DataError as the run would.

    The page is in a temporary folder: the folder of the runs has only runs.

    Args: name: of the config, the title of the page.
    """
    module = task_module(config.task.name)
    read = module.preview(config.task) if hasattr(module, "preview") else Preview(module.load(config.task), {})
    console = Console(soft_wrap=False)
    announce(Console(soft_wrap=True), _summary(read))
    tables = {title: part for title, part in read.parts.items() if isinstance(part, Table)}
    for title, part in tables.items():
        console.print()
        console.print(on_terminal(title, "bold"))
        if part.note:
            console.print(on_terminal(part.note))
        console.print(_on_terminal(part))
    if len(tables) < len(read.parts):
        file = Path(tempfile.mkdtemp(prefix="recipes.preview.", dir=plain_folder()), "preview.html")
        file.write_text(_page(name, config.task.name.replace("_", " "), read), "utf-8")
        console.print()
        console.print(on_terminal("pictures  ", "bold"), on_terminal(file), sep="", soft_wrap=True)


def _summary(read: Preview) -> dict[str, str]:
    """The facts of the summary that no table shows in full."""
    shown = {name for part in read.parts.values() if isinstance(part, Table) for name in part.instead_of}
    return {name: value for name, value in read.data.summary.items() if name not in shown}


def _page(name: str, task: str, read: Preview) -> str:
    heading = f"<h1>{in_html(name)}</h1>{paragraph(f'{task}, before training', 'soft')}"
    parts = (section(title, drawn(part, title)) for title, part in read.parts.items())
    return page(f"{name}: {task}", [heading, section("Data", facts(_summary(read))), *parts])


def _on_terminal(table: Table) -> TerminalTable:
    """The table for a terminal of any width: long cells are broken into lines."""
    rows, more, numbers = table.rows[:MOST_LINES], len(table.rows) - MOST_LINES, number_columns(table)
    out = TerminalTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim",
                        caption=f"and {more} more" if more > 0 else None, caption_justify="left")
    for i, heading in enumerate(table.headings):
        out.add_column(on_terminal(heading), overflow="fold", justify="right" if i in numbers else "left")
    for row in rows:
        out.add_row(*(on_terminal(cell_text(cell)) for cell in row))
    return out
