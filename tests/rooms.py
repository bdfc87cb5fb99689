"""The rooms of the code: groups of modules, the imports allowed between them, their sizes, and a picture of them.

``python -m tests.rooms`` draws the pictures in docs/architecture.md again.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"

# The modules of a package that belong to none of its rooms.
TOP = "top"
# The rooms of each package, from the lowest to the highest: a room may import the rooms before it.
ORDER = {
    "xjax": ("version", "core", "ops", "transforms", "runtime", "lax", "numpy", "random", "nn", "image", "scipy",
             "checks", TOP),
    "xjax.runtime": ("process", "xla", "devices", "placement", "arrays", "programs", TOP),
    "xnn.graph": ("structure", "layers", "samplers", "host", TOP),
    "recipes": ("process", "settings", "data", "results", "models", "training", "tasks", "pages", TOP),
}
# Modules that stay at the top of a package, where users import them, but belong to a room.
AT_TOP = {
    "xjax": {"typing": "core"},
    "recipes": {"errors": "process", "lazy": "process", "names": "process", "config": "settings", "batches": "data",
                "task": "training", "classification": "training", "regression": "training", "trained": "training"},
}
# The most files that a folder may hold, and folders above this limit with their present counts, which must not grow.
LIMIT = 25
CROWDED = {"xjax/core": 35, "xjax/numpy": 44, "xjax/ops": 44, "xjax/scipy/stats": 30, "xnn/layers": 26}


def room_of(package: str, module: str) -> str:
    """The room of a module, given by its full name."""
    first = module.removeprefix(package).removeprefix(".").partition(".")[0]
    return first if first in ORDER[package] else AT_TOP.get(package, {}).get(first, TOP)


def arrows(package: str) -> Iterator[tuple[str, str, str]]:
    """For each import between two rooms: the importing room, the imported room, and the place."""
    for path in sorted(ROOT.joinpath(*package.split(".")).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        room = room_of(package, module)
        for name, line in imported_by(path):
            if f"{name}.".startswith(f"{package}.") and (other := room_of(package, name)) != room:
                yield room, other, f"{path.relative_to(ROOT)}:{line} imports {name}"


def imported_by(path: Path) -> Iterator[tuple[str, int]]:
    """The modules that a file imports, with the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)


def upward(package: str) -> list[str]:
    """The imports of a higher room by a lower one."""
    rank = ORDER[package].index
    return [where for room, other, where in arrows(package) if rank(room) < rank(other)]


def crowded() -> list[str]:
    """The folders that hold more files than they may."""
    held = Counter(path.parent.relative_to(ROOT).as_posix() for package in ("xjax", "xnn", "recipes")
                   for path in (ROOT / package).rglob("*.py"))
    return [f"{folder}: {count} files" for folder, count in held.items() if count > CROWDED.get(folder, LIMIT)]


def picture(package: str) -> str:
    """A Mermaid chart: an arrow from each room to the rooms that it imports, without arrows that others imply."""
    *rooms, _ = ORDER[package]                              # modules at the top may import all rooms
    below: dict[str, set[str]] = {room: set() for room in ORDER[package]}
    for room, other, _ in arrows(package):
        below[room].add(other)
    reached: dict[str, set[str]] = {}
    lines = []
    for room in rooms:
        implied = set().union(*(reached.get(other, set()) for other in below[room]))
        lines += [f"    {room} --> {other}" for other in rooms if other in below[room] - implied]
        reached[room] = below[room] | implied
    return "\n".join(["```mermaid", "flowchart TD", *reversed(lines), "```"])


def with_pictures(page: str) -> str:
    """The page with its pictures drawn again; each follows the comment that names its package."""
    return re.sub(r"(<!-- tests/rooms.py draws (\S+) -->\n).*?\n```\n",
                  lambda match: f"{match[1]}{picture(match[2])}\n", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_pictures(PAGE.read_text()))
