"""docs/layers.md tells the truth: its code runs from top to bottom, and prints what the page shows.

A ```text block is what the ```python block before it prints: to stdout, and its error, if it ends with one.
"""

import contextlib
import importlib.util
import io
import re
import traceback
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs/layers.md"


class Block(NamedTuple):
    """One ```python block: the page's line before the code, the code, and the text that is shown for it."""

    line: int
    code: str
    shown: str

    @property
    def needs_optax(self) -> bool:
        return "optim" in self.code


def _blocks(page):
    pattern = r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?"
    return [Block(page[:found.start(1)].count("\n"), found[1], found[2] or "")
            for found in re.finditer(pattern, page, re.DOTALL | re.MULTILINE)]


BLOCKS = _blocks(PAGE.read_text())


def run(block, namespace):
    """What the block prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile("\n" * block.line + block.code, str(PAGE), "exec"), namespace)
        except Exception as err:
            print("".join(traceback.format_exception_only(err)))
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())


@pytest.fixture(scope="module")
def printed():
    """Line of a block -> what it prints, all blocks in order; without optax not those that need it."""
    has_optax = importlib.util.find_spec("optax") is not None
    namespace = {"__name__": "layers_md"}
    return {block.line: run(block, namespace) for block in BLOCKS if has_optax or not block.needs_optax}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line{block.line}")
def test_page_prints_what_it_shows(block, printed):
    if block.line not in printed:
        pytest.skip("this block of docs/layers.md uses optax, which is not installed")
    assert printed[block.line] == block.shown.strip()


def test_every_block_is_read():
    """No other kind of block, and none that the pattern misses, is on the page."""
    fences = re.findall(r"^```(\w*)$", PAGE.read_text(), re.MULTILINE)
    assert fences.count("python") == len(BLOCKS) and fences.count("text") == sum(bool(b.shown) for b in BLOCKS)
    assert set(fences) == {"python", "text", ""}
