"""The names of JAX that xjax answers to: those of `dir()` of its modules, without deprecated ones."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import warnings
from functools import cache

MODULES = """
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
# Of modules with stray imports.
ONLY = {"experimental": ["io_callback"], "experimental.jet": ["jet"], "experimental.ode": ["odeint"],
        "experimental.mesh_utils": ["create_device_mesh"]}


def named(library: str, module: str) -> str:
    return library if module == "." else f"{library}.{module}"


def names_after_import() -> list[str]:
    """The names in `jax` itself; here, other tests may have imported more of its modules."""
    done = subprocess.run([sys.executable, "-c", "import jax; print(*dir(jax))"], capture_output=True, text=True,
                          timeout=120, check=True)
    return done.stdout.split()


def names_of(module: str) -> list[str]:
    """The names of a module of JAX without the deprecated ones and other packages that it imports."""
    found = importlib.import_module(named("jax", module))
    names = []
    for name in names_after_import() if module == "." else dir(found):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                value = getattr(found, name)
            except (DeprecationWarning, AttributeError):
                continue
        foreign = inspect.ismodule(value) and not value.__name__.startswith("jax")
        if not name.startswith("_") and not foreign:
            names.append(name)
    return names


@cache
def public_names() -> dict[str, list[str]]:
    """The public names of each module of JAX."""
    return {module: names_of(module) for module in MODULES} | ONLY
