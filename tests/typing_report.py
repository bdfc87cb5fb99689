"""The number of annotations that are `Any`: parameters and results of all functions, by package and by file.

``python -m tests.typing_report`` prints the shares, and the files with most of them. No module is imported. A parameter
without an annotation counts as missing, not as `Any`; `self` and `cls` do not count.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("xjax", "xnn", "recipes")


class Count(NamedTuple):
    """Annotations of signatures.

    Attributes:
      written: all annotations.
      bare: `Any` alone, which carries no information.
      inside: other annotations that contain `Any`, such as ``Any | None`` and ``list[Any]``.
      missing: parameters and results without an annotation.
    """

    written: int = 0
    bare: int = 0
    inside: int = 0
    missing: int = 0

    def __add__(self, other: tuple) -> Count:
        return Count(*map(sum, zip(self, other, strict=True)))

    @property
    def share(self) -> float:
        """The share of `Any` alone among all annotations."""
        return self.bare / max(1, self.written)


def count(text: str) -> Count:
    """The annotations in the source code of a module."""
    total = Count()
    nodes = ast.walk(ast.parse(text))
    functions = (node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    for annotation in (each for function in functions for each in annotations(function)):
        if annotation is None:
            total += Count(missing=1)
        else:
            bare = is_any(annotation)
            total += Count(1, bare, not bare and any(map(is_any, ast.walk(annotation))), 0)
    return total


def annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr | None]:
    """An annotation for each parameter and for the result; None if it is missing."""
    of = function.args
    for each in (*of.posonlyargs, *of.args, of.vararg, *of.kwonlyargs, of.kwarg):
        if each and not (each.arg in ("self", "cls") and each.annotation is None):
            yield _parsed(each.annotation)
    yield _parsed(function.returns)


def _parsed(annotation: ast.expr | None) -> ast.expr | None:
    """The annotation itself; one in quotes is parsed."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def is_any(node: ast.AST) -> bool:
    return getattr(node, "attr" if isinstance(node, ast.Attribute) else "id", "") == "Any"


def by_file(package: str) -> dict[str, Count]:
    """Path below the root -> the counts of its annotations."""
    return {path.relative_to(ROOT).as_posix(): count(path.read_text("utf-8"))
            for path in sorted((ROOT / package).rglob("*.py"))}


def by_package() -> dict[str, Count]:
    return {package: sum(by_file(package).values(), Count()) for package in PACKAGES}


def line(name: str, of: Count) -> str:
    return f"{name:<44} {of.written:>7} {of.bare:>6} {100 * of.share:6.1f} % {of.inside:>7} {of.missing:>8}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=40, metavar="N", help="the number of files to list; 40 by default")
    args = parser.parse_args()
    print(f"{'':<44} {'written':>7} {'Any':>6} {'share':>8} {'inside':>7} {'missing':>8}")
    for package, of in by_package().items():
        print(line(package, of))
    files = [pair for package in PACKAGES for pair in by_file(package).items()]
    for path, of in sorted(files, key=lambda pair: (-pair[1].bare, pair[0]))[:args.files]:
        print(line(path, of))


if __name__ == "__main__":
    main()
