"""Mutants of the code: one small fault each, drawn from a seed: a sign, an axis, a dtype, a missing case."""

from __future__ import annotations

import ast
import bisect
import functools
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

KINDS = ("sign", "axis", "dtype", "missing case")
# Packages without numbers, and `xjax/interop` and `xjax/experimental`, which only name other functions, are left out.
PACKAGES = ("xjax/core", "xjax/image", "xjax/lax", "xjax/nn", "xjax/numpy", "xjax/ops", "xjax/random", "xjax/runtime",
            "xjax/scipy", "xjax/transforms", "xnn", "recipes")
_AXES = ("axis", "axes", "dimension", "dim", "in_axes", "out_axes")
_DTYPES = {"float32": "float16", "float64": "float32", "float16": "float32", "bfloat16": "float32", "int32": "uint32",
           "int64": "int32", "uint32": "int32", "uint8": "int8", "int8": "uint8", "complex64": "float32",
           "bool_": "int32"}


class Mutant(NamedTuple):
    """A replacement in a file. start, end: offsets in characters. line: that of the text. new: its replacement."""

    kind: str
    file: str
    line: int
    start: int
    end: int
    new: str

    def apply(self, root: Path) -> str:
        """Write the fault into the tree at `root`; returns the changed line."""
        path = root / self.file
        text = path.read_text()
        path.write_text(text[:self.start] + self.new + text[self.end:])
        return path.read_text().splitlines()[self.line - 1].strip()


def draw(root: Path, seed: int, count: int, packages: tuple[str, ...] = PACKAGES) -> list[Mutant]:
    """`count` mutants, evenly distributed over the kinds, in different files as far as possible."""
    rng = random.Random(seed)
    chosen: list[Mutant] = []
    for k in range(count):
        of_kind = _all_mutants(root, packages)[KINDS[k % len(KINDS)]]
        taken = {mutant.file for mutant in chosen}
        chosen.append(rng.choice([m for m in of_kind if m.file not in taken] or of_kind))
    return chosen


@functools.cache
def _all_mutants(root: Path, packages: tuple[str, ...]) -> dict[str, list[Mutant]]:
    """All mutants, by kind."""
    by_kind: dict[str, list[Mutant]] = {kind: [] for kind in KINDS}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            for mutant in _mutants(path.read_text(), str(path.relative_to(root))):
                by_kind[mutant.kind].append(mutant)
    return by_kind


def _mutants(text: str, file: str) -> Iterator[Mutant]:
    lines = text.splitlines(keepends=True)
    starts = list(itertools.accumulate(map(len, lines), initial=0))

    def offset(line: int, column: int) -> int:
        """The offset in characters; ast counts columns in bytes."""
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def place(node: ast.AST) -> tuple[int, int]:
        return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)

    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.Lambda))]
    for node in dict.fromkeys(node for function in functions for node in ast.walk(function)):
        for kind, target, new in _faults(node, text, place):
            start, end = target if isinstance(target, tuple) else place(target)
            yield Mutant(kind, file, bisect.bisect(starts, start), start, end, new)


def _faults(node: ast.AST, text: str, place: Callable[[ast.AST], tuple[int, int]]
            ) -> Iterator[tuple[str, ast.AST | tuple[int, int], str]]:
    """The possible faults of a node of the syntax tree: (kind, the node or range to replace, the new text)."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        start, end = place(node.left)[1], place(node.right)[0]
        yield "sign", (start, end), text[start:end].replace("-", "+", 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        start = place(node)[0]
        yield "sign", (start, start + 1), ""                  # not until the operand, which may be in brackets
    if isinstance(node, ast.keyword) and node.arg in _AXES and isinstance(node.value, (ast.Constant, ast.UnaryOp)):
        value = ast.unparse(node.value)
        if value in ("0", "1", "-1"):
            yield "axis", node.value, {"0": "-1", "1": "0", "-1": "0"}[value]
    if isinstance(node, ast.Attribute) and node.attr in _DTYPES:
        yield "dtype", node, f"{ast.unparse(node.value)}.{_DTYPES[node.attr]}"
    binds = isinstance(node, ast.If) and any(isinstance(x, ast.NamedExpr) for x in ast.walk(node.test))
    if isinstance(node, ast.If) and not node.orelse and not binds:
        yield "missing case", node.test, "False"
