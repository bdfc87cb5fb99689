"""Writes the tables of names into docs/from_other_libraries.md: ``python -m tests.xnn.peers.page``."""

import json
from pathlib import Path
from textwrap import fill

from tests.xnn.peers.names import MODULES, NAMES
from tests.xnn.peers.table import TABLES, as_markdown

PAGE = Path(__file__).resolve().parents[3] / "docs/from_other_libraries.md"
HEADING = "## Names\n"


def main():
    listed = json.loads(NAMES.read_text())
    text, _, _ = PAGE.read_text().partition(HEADING)
    *versions, last = [f"{MODULES[module]} {listed[module]['version']}" for module in TABLES]
    intro = f"The tables list the public names of {', '.join(versions)} and {last}, except submodules."
    tables = "\n\n".join(as_markdown(module) for module in TABLES)
    PAGE.write_text(f"{text}{HEADING}\n{fill(intro, 140)}\n\n{tables}\n")


if __name__ == "__main__":
    main()
