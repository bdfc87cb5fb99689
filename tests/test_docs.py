"""Pages of docs/ are correct: their code runs from top to bottom, and prints the shown output.

A ```text block is the output of the ```python block before it: its stdout, warnings about repeated traces, and its
error, if it ends with one. A page that installs xjax as jax runs in a process of its own:
``python -m tests.test_docs PAGE`` prints its outputs. The code runs in an empty folder. A picture that it saves is
one of the page; ``python -m tests.test_docs PAGE docs/pictures`` writes them.
"""

import ast
import contextlib
import functools
import importlib.util
import io
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import traceback
import types
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.oracle import real_jax
from tests.quick_compiling import flags
from xjax.errors import RetraceWarning

DOCS = Path(__file__).resolve().parent.parent / "docs"


class Block(NamedTuple):
    """One ```python block: its page, the line before the code, the code, the text shown for it, the libraries that it
    needs besides xnn's own dependencies.
    """

    page: str
    line: int
    code: str
    shown: str
    needs: frozenset[str]

    @property
    def program(self):
        """The name of the file that the block is, by its first line; None if it continues the blocks before it."""
        match = re.match(r"# (\w+\.py)\n", self.code)
        return match and match[1]

    @property
    def is_for_several_processes(self):
        """Whether the block is a program that joins other processes; tests/test_guide_commands.py starts these."""
        return self.program is not None and "distributed.initialize(" in self.code

    def missing(self):
        return sorted(name for name in self.needs if importlib.util.find_spec(name) is None)


# The libraries that blocks may need, and a pattern of the code that uses them.
LIBRARIES = {"optax": r"\boptim\b|\bimport optax", "jax": r"\bimport jax as|\binterop\b", "networkx": "networkx",
             "sklearn": "sklearn", "matplotlib": "matplotlib", "torch": r"\bimport torch|\bfrom torch",
             "flax": r"\bfrom flax", "haiku": r"\bimport haiku", "equinox": r"\bimport equinox"}


def _blocks(page):
    text, blocks, made_by = (DOCS / page).read_text(), [], {}
    pattern = r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?"
    for match in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
        made, used = _names(match[1])
        needs = frozenset(name for name, word in LIBRARIES.items() if re.search(word, match[1]))
        needs = needs.union(*(made_by.get(name, ()) for name in used))
        blocks.append(Block(page, text[:match.start(1)].count("\n"), match[1], match[2] or "", needs))
        made_by |= {} if blocks[-1].program else dict.fromkeys(made, needs)
    return blocks


def _names(code):
    """(Names that a block makes outside of functions, other names that it reads.)"""
    tree = ast.parse(code)
    made = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    made |= {alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom | ast.Import)
             for alias in node.names}
    made |= {node.id for statement in tree.body if not isinstance(statement, ast.FunctionDef)
             for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return made, {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - made - arguments


PAGES = ("layers.md", "graphs.md", "gpu.md", "recompiles.md", "extending.md", "checked_mode.md", "mutable_arrays.md",
         "export.md", "kernels.md", "kernels_from_neural_tangents.md", "kernels_tutorial.md",
         *(f"guides/{name}.md" for name in (
             "checkpoints_and_reproducibility", "control_flow", "custom_derivatives", "debugging", "deployment",
             "many_devices", "numerical_precision", "performance", "random_numbers", "state_and_sharing",
             "troubleshooting", "why_xjax")))
# Guides with commands and manifests, which tests/test_guide_commands.py checks.
WITH_COMMANDS = ("guides/many_devices.md",)
# Pages for beginners. Their commands run in tests/test_start_pages.py and tests/recipes/test_pages.py.
START = ("start/ten_minutes.md", "start/from_jax.md", "start/from_pytorch.md", "start/from_flax_equinox_haiku.md",
         "start/cheat_sheets.md")
PAGES += START
# Programs of the gallery, see tests/test_gallery_of_programs.py. They are compiled as for users, since they compute for
# much longer than they compile.
GALLERY = tuple(f"gallery/{path.name}" for path in sorted(DOCS.glob("gallery/*.md")) if path.name != "index.md")
PAGES += GALLERY
# A block of commands and the output that is shown for it.
COMMAND_AND_TEXT = r"^```bash\n(?:(?!```).*\n)*```\n\n```text$"
BLOCKS = {page: _blocks(page) for page in PAGES}
IN_A_PROCESS = {"extending.md", "start/ten_minutes.md", "guides/many_devices.md", *GALLERY}
SLOW = {"kernels_tutorial.md", "kernels_from_neural_tangents.md", *GALLERY}        # pages that train many networks


def in_slow_tests(page, *values):
    """The values as a parameter of a test, which is slow for some pages."""
    return pytest.param(*values, marks=pytest.mark.slow if page in SLOW else ())


ALL = [in_slow_tests(block.page, block) for blocks in BLOCKS.values() for block in blocks
       if not block.is_for_several_processes]


def run(block, module):
    """The output of the block, whose names are those of the module."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        show = warnings.showwarning
        warnings.showwarning = lambda text, kind, *place: (
            print(f"{kind.__name__}: {text}") if kind is RetraceWarning else show(text, kind, *place))
        warnings.simplefilter("default", RetraceWarning)
        try:
            exec(compile("\n" * block.line + block.code, str(DOCS / block.page), "exec"), vars(module))
        except Exception as err:
            print("".join(traceback.format_exception_only(err)))
    text = printed.getvalue().replace(f"{(DOCS / block.page).parent}/", "")
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def in_a_process(page):
    """(Line of a block -> its output, name -> bytes of a picture), by this file as a program."""
    with tempfile.TemporaryDirectory() as folder:
        options = "" if page in GALLERY else flags()
        done = subprocess.run([sys.executable, "-m", "tests.test_docs", page, folder], cwd=DOCS.parent,
                              capture_output=True, text=True, timeout=300, env={**os.environ, "XLA_FLAGS": options})
        assert done.returncode == 0, done.stderr
        outputs = json.loads(done.stdout.splitlines()[-1])
        return {int(line): text for line, text in outputs.items()}, pictures_in(folder)


def pictures_in(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).glob("*.png"))}


@functools.cache
def module_of(page):
    """The names that a page makes; `results_of` fills it. In sys.modules, so that messages name its globals."""
    module = sys.modules[Path(page).stem] = types.ModuleType(Path(page).stem)
    return module


@functools.cache
def results_of(page):
    """(Line of a block -> its output, name -> bytes of a picture), for the blocks of a page that miss no library."""
    if page in IN_A_PROCESS and __name__ != "__main__":
        return in_a_process(page)
    module = module_of(page)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        outputs = {block.line: run(block, types.ModuleType("__main__") if block.program else module)
                   for block in BLOCKS[page] if not block.missing() and not block.is_for_several_processes}
        return outputs, pictures_in(folder)


def printed(page):
    """Line of a block -> its output."""
    return results_of(page)[0]


@pytest.mark.parametrize("block", ALL, ids=lambda block: f"{block.page}-line{block.line}")
def test_page_prints_what_it_shows(block):
    results = printed(block.page)
    if block.line not in results:
        pytest.skip(f"this block of docs/{block.page} uses {', '.join(block.missing())}: not installed")
    assert results[block.line] == block.shown.strip()


@pytest.mark.parametrize("page", BLOCKS)
def test_every_block_is_read(page):
    """The page has no other kind of block, and the pattern misses none."""
    fences = re.findall(r"^```(\w*)$", (DOCS / page).read_text(), re.MULTILINE)
    blocks = BLOCKS[page]
    shown = fences.count("text") - len(re.findall(COMMAND_AND_TEXT, (DOCS / page).read_text(), re.MULTILINE))
    assert fences.count("python") == len(blocks) and shown == sum(bool(b.shown) for b in blocks)
    more = {"bash"} if page in START else {"bash", "yaml"} if page in WITH_COMMANDS else set()
    assert set(fences) <= {"python", "text", "", *more}


def shown_pictures(page):
    """Names of the pictures that a page shows."""
    return re.findall(r"!\[[^]]+\]\((?:\.\./)?pictures/([^)]+)\)", (DOCS / page).read_text())


def size_of(picture):
    """(Width, height) of a PNG."""
    assert picture.startswith(b"\x89PNG")
    return struct.unpack(">2I", picture[16:24])


@pytest.mark.parametrize("page", [in_slow_tests(page, page) for page in PAGES if shown_pictures(page)])
def test_a_page_makes_its_pictures(page):
    if missing := {name for block in BLOCKS[page] for name in block.missing()}:
        pytest.skip(f"docs/{page} uses {', '.join(sorted(missing))}: not installed")
    made = results_of(page)[1]
    assert sorted(made) == sorted(shown_pictures(page))
    for name, picture in made.items():
        stored = (DOCS / "pictures" / name).read_bytes()
        assert len(stored) < 60_000 and size_of(stored) == size_of(picture)


def test_every_picture_is_shown():
    stored = {path.name for path in (DOCS / "pictures").iterdir()}
    assert stored == {name for page in PAGES for name in shown_pictures(page)}


ROOT = DOCS.parent


@pytest.mark.parametrize("page", sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("benchmarks/*.md")}),
                         ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page):
    """Links to files and headings of this repository."""
    prose = re.sub(r"`[^`\n]*`(?!\])", "", _without_blocks(page))
    for file, _, heading in re.findall(r"\]\((?!\w+://)([^)#\s]*)(#([^)\s]+))?\)", prose):
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not heading or heading in _headings(target), f"{file}#{heading}"


def _without_blocks(page):
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


@functools.cache
def _headings(page):
    """The names that links give to the headings of a page."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.*)$", _without_blocks(page), re.MULTILINE)}


def test_the_part_for_jax_prints_the_same_on_the_real_jax():
    real_jax()
    blocks = BLOCKS["extending.md"]
    first = next(i for i, block in enumerate(blocks) if "install_as_jax()" in block.code)
    assert in_a_process("real-jax")[0] == {block.line: printed("extending.md")[block.line] for block in blocks[first:]}


def on_real_jax():
    """Line -> output, of the blocks of extending.md from its installation of xjax as jax, without this."""
    blocks, module = BLOCKS["extending.md"], types.ModuleType("extending_md")
    first = next(i for i, block in enumerate(blocks) if "install_as_jax()" in block.code)
    lines = [line if "xjax" not in line else "" for line in blocks[first].code.splitlines()]
    changed = [blocks[first]._replace(code="\n".join(lines)), *blocks[first + 1:]]
    return {block.line: run(block, module) for block in changed}


if __name__ == "__main__":
    print(json.dumps(on_real_jax() if sys.argv[1] == "real-jax" else printed(sys.argv[1])))
    for name, picture in results_of(sys.argv[1])[1].items() if sys.argv[2:] and sys.argv[1] != "real-jax" else ():
        (Path(sys.argv[2]) / name).write_bytes(picture)
