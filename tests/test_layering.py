"""Imports point downwards: the layers of xjax, and the parts of it that xnn and recipes may use.

The files are parsed, not imported, so a fault shows with its file and line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import rooms

ROOT = Path(__file__).resolve().parent.parent

# A package may import itself and packages to its left; within one group, only the pairs in `SIDEWAYS`.
LAYERS = [["version"], ["core"], ["ops"], ["transforms"], ["runtime"], ["lax"], ["numpy"],
          ["random", "nn", "scipy", "image", "checks"]]
RANK = {name: rank for rank, group in enumerate(LAYERS) for name in group}
SIDEWAYS = {("nn", "random"), ("scipy", "random"), ("scipy", "nn"), ("checks", "random")}          # random < nn < scipy

PUBLIC = {"xjax", "xjax.numpy", "xjax.lax", "xjax.random", "xjax.nn", "xjax.nn.attention_in_blocks",
          "xjax.nn.initializers", "xjax.tree", "xjax.tree_util", "xjax.ops", "xjax.errors", "xjax.dtypes",
          "xjax.sharding", "xjax.typing", "xjax.stages",
          "xjax.scipy", "xjax.scipy.special", "xjax.scipy.linalg", "xjax.scipy.stats", "xjax.interop",
          "xjax.distributed", "xjax.flatten_util", "xjax.ad_checkpoint", "xjax.custom_batching",
          "xjax.custom_derivatives", "xjax.checkpoint_policies", "xjax.forms",
          "xjax.experimental.jet", "xjax.experimental.ode", "xjax.scipy.sparse.linalg", "xjax.image",
          "xjax.scipy.signal", "xjax.scipy.ndimage", "xjax.scipy.fft",
          "xjax.scipy.interpolate", "xjax.scipy.cluster.vq", "xjax.scipy.spatial.transform"}

ONLY_HERE = {"jaxlib": {"xjax/core/tree.py", "xjax/runtime/xla", "xjax/jaxlib_versions.py"}, "jax": {"xjax/interop"}}

# Functions that import, with the reason.
IMPORT_INSIDE = {
    "xjax/interop": "real JAX is imported on first use",
    "xnn/optim.py": "optax, bridged, is imported on first use",
    "xjax/compat/site/sitecustomize.py": "xjax is imported with jax, not at the start of each Python",
}


def sources() -> list[Path]:
    return [p for package in ("xjax", "xnn", "recipes") for p in sorted((ROOT / package).rglob("*.py"))]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


class Import(NamedTuple):
    """`import module` without names, or `from module import names`."""

    module: str
    names: tuple[str, ...]
    line: int
    function: str               # the containing function, "" at the top
    local_names: tuple[str, ...]


class Source(ast.NodeVisitor):
    """The parts of a file that the rules concern, collected in one walk."""

    def __init__(self, text: str, name: str) -> None:
        self.imports: list[Import] = []
        self.private: list[tuple[str, str, int]] = []       # `name._attribute` in a line
        self._function = ""
        self.visit(ast.parse(text, name))

    def visit_Import(self, node: ast.Import) -> None:
        self.imports += [Import(alias.name, (), node.lineno, self._function, (alias.asname or alias.name,))
                         for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.level == 0, f"relative import in line {node.lineno}"
        self.imports.append(Import(node.module or "", tuple(alias.name for alias in node.names), node.lineno,
                                   self._function, tuple(alias.asname or alias.name for alias in node.names)))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer, self._function = self._function, self._function or node.name
        self.generic_visit(node)
        self._function = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.attr.startswith("_") and not node.attr.startswith("__"):
            self.private.append((node.value.id, node.attr, node.lineno))
        self.generic_visit(node)


@lru_cache(None)
def source(path: Path) -> Source:
    return Source(path.read_text(), str(path))


def listed(path: Path, table: dict | set) -> bool:
    """Whether the file, or a folder that contains it, is in the table."""
    name = name_of(path)
    return any(name == entry or name.startswith(f"{entry}/") or name == f"{entry}.py" for entry in table)


def modules(module: str, names: tuple[str, ...]) -> Iterator[str]:
    """The modules that an import loads: `from xjax.ops import shape` is `xjax.ops.shape`."""
    if not names:
        yield module
    for name in names:
        as_path = ROOT.joinpath(*module.split("."), name)
        yield f"{module}.{name}" if as_path.with_suffix(".py").exists() or as_path.is_dir() else module


def package_of(module: str) -> str:
    """`xjax.ops` for `xjax.ops.shape`, `xjax` for a top-level module, the first part for anything else."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "xjax" and len(parts) > 1 and parts[1] in RANK else parts[0]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_layers_of_xjax_point_downwards():
    faults = []
    for path in sources():
        parts = path.relative_to(ROOT).parts
        if parts[0] != "xjax" or parts[1] not in RANK:
            continue                                    # the modules at the top only re-export
        own = parts[1]
        for module, names, line, *_ in source(path).imports:
            for reached in modules(module, names):
                top = reached.split(".")
                if top[0] != "xjax":
                    continue
                other = rooms.AT_TOP["xjax"].get(top[1], top[1]) if len(top) > 1 else "(top)"
                allowed = other == own or (own, other) in SIDEWAYS or RANK.get(other, 99) < RANK[own]
                if not allowed:
                    faults.append(f"{name_of(path)}:{line} imports {reached}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("package", ["xnn", "recipes"])
def test_models_and_recipes_use_public_modules(package):
    faults = []
    for path in sources():
        if path.relative_to(ROOT).parts[0] != package:
            continue
        for module, names, line, *_ in source(path).imports:
            for reached in modules(module, names):
                if reached.split(".")[0] == "xjax" and reached not in PUBLIC:
                    faults.append(f"{name_of(path)}:{line} imports {reached}")
                if package == "xnn" and reached.split(".")[0] == "recipes":
                    faults.append(f"{name_of(path)}:{line} imports {reached}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("package", rooms.ORDER)
def test_rooms_import_those_below(package):
    assert not rooms.upward(package)


def test_no_folder_is_crowded():
    assert not rooms.crowded()


def test_pictures_of_the_rooms():
    assert rooms.with_pictures(page := rooms.PAGE.read_text()) == page, "python -m tests.rooms draws them"
    assert all(f"<!-- tests/rooms.py draws {package} -->\n```mermaid\nflowchart" in page for package in rooms.ORDER)


def test_the_checks_of_rooms_see_faults(tmp_path, monkeypatch):
    """A room that imports a higher one, a folder with a file too many, and an outdated picture."""
    monkeypatch.setattr(rooms, "ROOT", tmp_path)
    structure = tmp_path / "xnn" / "graph" / "structure"
    structure.mkdir(parents=True)
    (structure / "edges.py").write_text("from xnn.graph.layers import gcn\n")
    assert rooms.upward("xnn.graph") == ["xnn/graph/structure/edges.py:1 imports xnn.graph.layers.gcn"]
    assert rooms.picture("xnn.graph") != rooms.picture("recipes") and not rooms.crowded()
    for i in range(rooms.LIMIT):
        (structure / f"{i}.py").write_text("")
    assert rooms.crowded() == [f"xnn/graph/structure: {rooms.LIMIT + 1} files"]
    page = "<!-- tests/rooms.py draws xnn.graph -->\n```mermaid\nflowchart LR\n```\nMore.\n"
    drawn = rooms.with_pictures(page)
    assert "    structure --> layers\n```\nMore.\n" in drawn and rooms.with_pictures(drawn) == drawn


def test_no_private_name_crosses_a_package():
    faults = []
    for path in sources():
        own = package_of(module_name(path))
        foreign: set[str] = set()                       # local names of modules of another package of this repository
        for module, names, line, _, local_names in source(path).imports:
            targets = [f"{module}.{name}" for name in names] or [module]
            for target, local_name in zip(targets, local_names, strict=True):
                if target.split(".")[0] not in ("xjax", "xnn", "recipes") or package_of(target) == own:
                    continue
                last = target.rpartition(".")[2]
                if last.startswith("_") and not last.endswith("__"):
                    faults.append(f"{name_of(path)}:{line} imports {target}")
                if ROOT.joinpath(*target.split(".")).with_suffix(".py").exists():
                    foreign.add(local_name)
        faults += [f"{name_of(path)}:{line} uses {name}.{attribute}"
                   for name, attribute, line in source(path).private if name in foreign]
    assert not faults, "\n".join(faults)


def test_functions_contain_no_imports():
    faults = [f"{name_of(path)}:{each.line} in {each.function}" for path in sources()
              if not listed(path, IMPORT_INSIDE) for each in source(path).imports if each.function]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("library", sorted(ONLY_HERE))
def test_a_library_is_imported_in_its_one_place(library):
    faults = [f"{name_of(path)}:{line}" for path in sources() if not listed(path, ONLY_HERE[library])
              for module, _, line, *_ in source(path).imports if module.split(".")[0] == library]
    assert not faults, "\n".join(faults)


def test_the_check_itself_sees_faults():
    """The helpers above catch a file that breaks every rule."""
    text = "from xjax.numpy import ufuncs\nfrom xjax.ops.shape import _shape\ndef f():\n  def g():\n    import jax\n" \
           "  return ufuncs._add, ufuncs.__name__\n"
    faulty = Source(text, "faulty.py")
    reached = [m for each in faulty.imports for m in modules(each.module, each.names)]
    assert reached == ["xjax.numpy.ufuncs", "xjax.ops.shape", "jax"]
    assert [each.function for each in faulty.imports] == ["", "", "f"] and faulty.private == [("ufuncs", "_add", 6)]
    assert package_of("xjax.ops.shape") == "xjax.ops" and package_of("xjax.typing") == "xjax"
    assert module_name(ROOT / "xjax" / "ops" / "__init__.py") == "xjax.ops"
