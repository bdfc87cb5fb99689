"""The public names of JAX, collected by walking its package; `python -m tests.reference` prints them as JSON.

The walk needs a process of its own: some of JAX's modules change the process that imports them, and a module's
attributes include the submodules that were imported anywhere in the process.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from tests.oracle import VERSION
from xjax.core.left_out import MODULES_LEFT_OUT

# Modules whose functions return values: each has a row in tests/values.
WITH_VALUES = """
. ad_checkpoint custom_batching custom_derivatives debug dtypes errors flatten_util image lax lax.linalg nn
nn.initializers
numpy numpy.fft numpy.linalg ops random scipy scipy.cluster.vq scipy.fft scipy.integrate scipy.interpolate scipy.linalg
scipy.ndimage scipy.optimize scipy.signal scipy.sparse.linalg scipy.spatial.transform scipy.special scipy.stats
scipy.stats.bernoulli scipy.stats.beta scipy.stats.betabinom scipy.stats.binom scipy.stats.cauchy scipy.stats.chi2
scipy.stats.dirichlet scipy.stats.expon scipy.stats.gamma scipy.stats.gennorm scipy.stats.geom scipy.stats.gumbel_l
scipy.stats.gumbel_r scipy.stats.laplace scipy.stats.logistic scipy.stats.multinomial
scipy.stats.multivariate_normal scipy.stats.nbinom scipy.stats.norm scipy.stats.pareto scipy.stats.poisson
scipy.stats.t scipy.stats.truncnorm scipy.stats.uniform scipy.stats.vonmises scipy.stats.wrapcauchy stages tree
tree_util
""".split()  # noqa: SIM905
# Single functions with values, in other modules.
SOME_WITH_VALUES = {"experimental": ["io_callback"], "experimental.jet": ["jet"], "experimental.ode": ["odeint"],
                    "experimental.mesh_utils": ["create_device_mesh"],
                    "experimental.checkify": ["check", "check_error", "checkify", "debug_check"]}


def named(library: str, module: str) -> str:
    return library if module == "." else f"{library}.{module}"


@cache
def all_names() -> dict[str, list[str]]:
    """The public names of each module of JAX, except of modules left out as a whole; {} without JAX."""
    if not VERSION:
        return {}
    done = subprocess.run([sys.executable, "-m", "tests.reference"], capture_output=True, text=True, timeout=300,
                          check=True, cwd=Path(__file__).parents[1])
    return json.loads(done.stdout)


@cache
def public_names() -> dict[str, list[str]]:
    """The public names of the modules whose functions return values."""
    public = all_names()
    return {module: public[module] for module in WITH_VALUES if module in public} | SOME_WITH_VALUES


# -- the walk -----------------------------------------------------------------------------------------------------

def walk(module: str = ".") -> Iterator[tuple[str, list[str]]]:
    """(module, its names) for a module of JAX and all its submodules."""
    if named("xjax", module) in MODULES_LEFT_OUT:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = importlib.import_module(named("jax", module))
    yield module, names_of(module, package)
    below = pkgutil.iter_modules(getattr(package, "__path__", ()))
    for name in sorted(m.name for m in below if not m.name.startswith("_")):
        yield from walk(name if module == "." else f"{module}.{name}")


def names_of(module: str, package: ModuleType) -> list[str]:
    """The names of a module, without deprecated ones and packages that it imports."""
    names = [name for name in dir(package) if not name.startswith("_")]
    if module.startswith("experimental"):               # its files have stray imports among their names
        own = set(_bound_on_purpose(package))
        names = [name for name in names if name in own]
    return [name for name in names if _is_public(package, name)]


def _is_public(package: ModuleType, name: str) -> bool:
    """Whether a name is neither deprecated nor imported from another package."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            value = getattr(package, name)
        except (DeprecationWarning, AttributeError):
            return False
    if inspect.ismodule(value):
        return value.__name__ == f"{package.__name__}.{name}"
    return not isinstance(value, __future__._Feature)


def _bound_on_purpose(package: ModuleType) -> Iterator[str]:
    """Names that a file defines, or imports as themselves: ``from a import b as b``."""
    for node in ast.walk(ast.parse(inspect.getsource(package))):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (a.asname for a in node.names if a.asname and a.asname == a.name)
    for node in ast.parse(inspect.getsource(package)).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (x.id for target in node.targets for x in ast.walk(target) if isinstance(x, ast.Name))


if __name__ == "__main__":
    print(json.dumps(dict(walk())))
