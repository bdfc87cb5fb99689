"""Writes the tables of names into docs/from_other_libraries.md: ``python -m tests.xnn.peers.page``."""

import json
from pathlib import Path

from tests.xnn.peers.names import MODULES, NAMES
from tests.xnn.peers.table import TABLES, as_markdown

PAGE = Path(__file__).resolve().parents[3] / "docs/from_other_libraries.md"
HEADING = "## Names\n"


def main():
    listed = json.loads(NAMES.read_text())
    text, _, _ = PAGE.read_text().partition(HEADING)
    versions = ", ".join(f"{MODULES[module]} {listed[module]['version']}" for module in TABLES)
    tables = "\n\n".join(as_markdown(module) for module in TABLES)
    PAGE.write_text(f"{text}{HEADING}\nThe public names of {versions}, without modules.\n\n{tables}\n")


if __name__ == "__main__":
    main()
