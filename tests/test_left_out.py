"""Every public name of JAX is here, or stands in the table of names left out on purpose, with its reason."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import xjax
from xjax.core.left_out import LEFT_OUT, as_markdown

jax = pytest.importorskip("jax")

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
ONLY = {"experimental": ["io_callback"], "experimental.jet": ["jet"], "experimental.ode": ["odeint"]}


def named(library: str, module: str) -> str:
    return library if module == "." else f"{library}.{module}"


def names_after_import() -> list[str]:
    """The names in `jax` itself; here, other tests may have imported more of its modules."""
    done = subprocess.run([sys.executable, "-c", "import jax; print(*dir(jax))"], capture_output=True, text=True,
                          timeout=120, check=True)
    return done.stdout.split()


def public_names(module: str) -> list[str]:
    """The names of a module of JAX without the deprecated ones and other packages that it imports."""
    found = importlib.import_module(named("jax", module))
    names = []
    for name in TOP if module == "." else dir(found):
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


TOP = names_after_import()
REFERENCE = {module: public_names(module) for module in MODULES} | ONLY


@pytest.mark.parametrize("module", REFERENCE)
def test_every_name_is_here_or_in_the_table(module):
    ours = importlib.import_module(named("xjax", module))
    left_out = {name for names in LEFT_OUT.get(named("xjax", module), {}).values() for name in names}
    missing = {name for name in REFERENCE[module] if not hasattr(ours, name)}
    assert missing == left_out, (f"neither here nor in the table: {sorted(missing - left_out)}; "
                                 f"in the table but here, or not in JAX: {sorted(left_out - missing)}")


def test_the_table_is_short():
    assert set(LEFT_OUT) <= {named("xjax", module) for module in REFERENCE}
    count = sum(len(names) for groups in LEFT_OUT.values() for names in groups.values())
    assert count < 0.03 * sum(map(len, REFERENCE.values()))


def test_a_name_that_is_left_out_says_why():
    for module, groups in LEFT_OUT.items():
        found = importlib.import_module(module)
        for why, names in groups.items():
            with pytest.raises(AttributeError) as caught:
                getattr(found, names[0])
            assert why in str(caught.value).replace("\n          ", " ") and "fix:" in str(caught.value)


def test_a_misspelt_name_is_corrected():
    for module, name, right in (("numpy", "lingspace", "linspace"), ("lax", "scann", "scan"), ("nn", "rellu", "relu"),
                                ("random", "normall", "normal"), ("scipy", "lingalg", "linalg")):
        with pytest.raises(AttributeError, match=f"did you mean '{right}'"):
            getattr(getattr(xjax, module), name)


def test_documentation_is_the_table():
    page = Path(__file__).parents[1] / "docs" / "left_out.md"
    assert page.read_text() == as_markdown(), (
        "write it anew: python -c \"from xjax.core.left_out import *; "
        "open('docs/left_out.md', 'w').write(as_markdown())\"")
