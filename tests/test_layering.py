"""Imports point downwards: the layers of xjax, and what xnn and recipes may use of them.

The files are parsed, not imported, so a fault shows with its file and line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A package may import those at its left, and itself; in one group, only as `SIDEWAYS` says.
LAYERS = [["version"], ["core"], ["ops"], ["transforms"], ["runtime"], ["lax"], ["numpy"],
          ["random", "nn", "scipy", "image"]]
RANK = {name: rank for rank, group in enumerate(LAYERS) for name in group}
SIDEWAYS = {("nn", "random"), ("scipy", "random"), ("scipy", "nn")}          # random < nn < scipy

PUBLIC = {"xjax", "xjax.numpy", "xjax.lax", "xjax.random", "xjax.nn", "xjax.nn.initializers", "xjax.tree",
          "xjax.tree_util", "xjax.ops", "xjax.errors", "xjax.dtypes", "xjax.sharding", "xjax.typing", "xjax.stages",
          "xjax.scipy", "xjax.scipy.special", "xjax.scipy.linalg", "xjax.scipy.stats", "xjax.interop",
          "xjax.distributed", "xjax.flatten_util", "xjax.ad_checkpoint", "xjax.custom_batching",
          "xjax.custom_derivatives",
          "xjax.experimental.jet", "xjax.image", "xjax.scipy.signal", "xjax.scipy.ndimage", "xjax.scipy.fft",
          "xjax.scipy.interpolate", "xjax.scipy.cluster.vq", "xjax.scipy.spatial.transform"}

ONLY_HERE = {"jaxlib": {"xjax/core/tree.py", "xjax/runtime/xla", "xjax/jaxlib_versions.py"}, "jax": {"xjax/interop"}}

# Functions that import, and why.
IMPORT_INSIDE = {
    "xjax/interop": "real JAX is imported when it is asked for",
    "xnn/optim.py": "optax, bridged, is imported when it is asked for",
}


def sources() -> list[Path]:
    return [p for package in ("xjax", "xnn", "recipes") for p in sorted((ROOT / package).rglob("*.py"))]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@lru_cache(None)
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def listed(path: Path, table: dict | set) -> bool:
    """Whether the file, or a folder that it lies in, stands in the table."""
    name = name_of(path)
    return any(name == entry or name.startswith(f"{entry}/") or name == f"{entry}.py" for entry in table)


def imports(tree: ast.AST) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """(module, names taken from it, line)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, (), node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield node.module or "", tuple(alias.name for alias in node.names), node.lineno


def modules(module: str, names: tuple[str, ...]) -> Iterator[str]:
    """The modules that an import reaches: `from xjax.ops import shape` is `xjax.ops.shape`."""
    if not names:
        yield module
    for name in names:
        as_path = ROOT.joinpath(*module.split("."), name)
        yield f"{module}.{name}" if as_path.with_suffix(".py").exists() or as_path.is_dir() else module


def package_of(module: str) -> str:
    """`xjax.ops` of `xjax.ops.shape`, `xjax` of a top-level module, the first part of anything else."""
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
        for module, names, line in imports(parsed(path)):
            for reached in modules(module, names):
                top = reached.split(".")
                if top[0] != "xjax":
                    continue
                other = top[1] if len(top) > 1 else "(top)"
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
        for module, names, line in imports(parsed(path)):
            for reached in modules(module, names):
                if reached.split(".")[0] == "xjax" and reached not in PUBLIC:
                    faults.append(f"{name_of(path)}:{line} imports {reached}")
                if package == "xnn" and reached.split(".")[0] == "recipes":
                    faults.append(f"{name_of(path)}:{line} imports {reached}")
    assert not faults, "\n".join(faults)


def test_no_private_name_crosses_a_package():
    faults = []
    for path in sources():
        own = package_of(module_name(path))
        tree = parsed(path)
        foreign: set[str] = set()                       # local names of modules of another package of ours
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            module = node.module if isinstance(node, ast.ImportFrom) else None
            for alias in node.names:
                target = f"{module}.{alias.name}" if module else alias.name
                if target.split(".")[0] not in ("xjax", "xnn", "recipes") or package_of(target) == own:
                    continue
                if alias.name.rpartition(".")[2].startswith("_") and not alias.name.endswith("__"):
                    faults.append(f"{name_of(path)}:{node.lineno} imports {target}")
                if ROOT.joinpath(*target.split(".")).with_suffix(".py").exists():
                    foreign.add(alias.asname or alias.name)
        for node in ast.walk(tree):
            if (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in foreign
                    and node.attr.startswith("_") and not node.attr.startswith("__")):
                faults.append(f"{name_of(path)}:{node.lineno} uses {node.value.id}.{node.attr}")
    assert not faults, "\n".join(faults)


def test_functions_contain_no_imports():
    faults = []
    for path in sources():
        if listed(path, IMPORT_INSIDE):
            continue
        for function in ast.walk(parsed(path)):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                faults += [f"{name_of(path)}:{node.lineno} in {function.name}" for node in ast.walk(function)
                           if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("library", sorted(ONLY_HERE))
def test_a_library_is_imported_in_its_one_place(library):
    faults = [f"{name_of(path)}:{line}" for path in sources() if not listed(path, ONLY_HERE[library])
              for module, _, line in imports(parsed(path)) if module.split(".")[0] == library]
    assert not faults, "\n".join(faults)


def test_the_check_itself_sees_faults():
    """A file that breaks every rule is caught by the helpers above."""
    tree = ast.parse("from xjax.numpy import ufuncs\nfrom xjax.ops.shape import _shape\n")
    found = [m for module, names, _ in imports(tree) for m in modules(module, names)]
    assert found == ["xjax.numpy.ufuncs", "xjax.ops.shape"]
    assert package_of("xjax.ops.shape") == "xjax.ops" and package_of("xjax.typing") == "xjax"
    assert module_name(ROOT / "xjax" / "ops" / "__init__.py") == "xjax.ops"
