"""Every public name of JAX exists here, or is in the table of names left out deliberately, with its reason."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import xjax
from tests.oracle import holds, real_jax
from tests.reference import all_names, named
from xjax.core.left_out import KEPT, LEFT_OUT, MODULES_LEFT_OUT, VERSIONS, as_markdown

jax = real_jax()
REFERENCE = all_names()


def in_this_version(name: str) -> bool:
    """Whether the installed JAX has a name of the tables."""
    return holds(*VERSIONS.get(name, ("", "")))


@pytest.mark.parametrize("module", REFERENCE)
def test_every_name_is_here_or_in_the_table(module):
    full = named("xjax", module)
    ours = importlib.import_module(full)
    listed = {name for names in LEFT_OUT.get(full, {}).values() for name in names}
    left_out = {name for name in listed if in_this_version(f"{full}.{name}")}
    missing = {name for name in REFERENCE[module] if not hasattr(ours, name)}
    missing = {name for name in missing if f"{full}.{name}" not in MODULES_LEFT_OUT}
    assert missing == left_out, (f"neither here nor in the table: {sorted(missing - left_out)}; "
                                 f"in the table but here, or not in JAX: {sorted(left_out - missing)}")


@pytest.mark.parametrize("module", MODULES_LEFT_OUT)
def test_a_module_that_is_left_out_is_one_of_jax(module):
    assert importlib.util.find_spec(module) is None, "it is here"
    parent, _, name = module.replace("xjax", "jax", 1).rpartition(".")
    there = importlib.util.find_spec(f"{parent}.{name}") is not None or hasattr(importlib.import_module(parent), name)
    assert there == in_this_version(module)


def test_the_tables_are_of_modules_that_are_here():
    assert set(LEFT_OUT) <= {named("xjax", module) for module in REFERENCE}
    known = {f"{module}.{name}" for module, groups in LEFT_OUT.items() for names in groups.values() for name in names}
    assert set(VERSIONS) <= known | set(MODULES_LEFT_OUT)
    count = sum(len(names) for groups in LEFT_OUT.values() for names in groups.values())
    assert count < 0.085 * sum(map(len, REFERENCE.values()))


def test_names_that_jax_has_given_up_are_kept():
    devices = xjax.devices()[:2]
    assert xjax.make_mesh(axis_shapes=(2,), axis_names=("x",), devices=devices).shape == {"x": 2}
    with pytest.raises(TypeError, match="(?s)given twice.*fix:"):
        xjax.make_mesh((2,), ("x",), axis_shapes=(2,))
    assert xjax.numpy.cross(xjax.numpy.ones(2), xjax.numpy.arange(2.0)) == 1.0
    assert set(KEPT) == {"`make_mesh(axis_shapes=)`", "`numpy.cross` of vectors of size 2"}


def test_deliberate_differences():
    """Each row of the table that a program can show."""
    mesh = xjax.make_mesh((2,), ("x",), devices=xjax.devices()[:2])
    assert xjax.typeof(xjax.device_put(np.ones(2), xjax.NamedSharding(mesh, xjax.P("x")))).str_short() == "f32[2]"
    scan = str(xjax.make_jaxpr(lambda x: xjax.lax.map(lambda y: y + 1, x))(np.ones(3)))
    assert "num_carry=0" in scan and "ft_in" not in scan
    refused = [lambda: xjax.jit(lambda x: x, inline=xjax.Inline.XLA_LATE),
               *[lambda option=option: xjax.custom_gradient(**{option: True})
                 for option in ("with_logs", "remat", "with_accums")],
               *[lambda name=name, n=n: getattr(xjax.random, name)(xjax.random.key(0), *[1.0] * n, method="approximate")
                 for name, n in (("gamma", 1), ("loggamma", 1), ("beta", 2), ("chisquare", 1), ("poisson", 1))]]
    for call in refused:
        with pytest.raises(NotImplementedError, match="fix:"):
            call()
    values, _ = xjax.numpy.top_k(np.array([1, np.copysign(np.nan, -1), 0]), 3, mode="smallest")
    assert values.tolist()[:2] == [0, 1]
    low = xjax.grad(lambda x: xjax.numpy.minmax(x)[0])(np.ones(3, np.float32))
    np.testing.assert_allclose(low, 1 / 3, rtol=1e-6)
    for norm, gradient in ((xjax.numpy.linalg.norm, 0.0), (lambda x: xjax.numpy.hypot(x[0], x[1]), 0.0)):
        np.testing.assert_array_equal(xjax.grad(norm)(np.zeros(2, np.float32)), gradient)
    with xjax.set_mesh(mesh):
        assert xjax.reshard(np.ones(2), xjax.P("x")).sharding.spec == xjax.P("x")
        assert xjax.pmap(lambda x: x + 1)(np.ones(2)).tolist() == [2, 2]
    median = xjax.grad(xjax.scipy.stats.cauchy.ppf)(0.5, 0.0, 2.0)
    np.testing.assert_allclose(median, 2 * np.pi, rtol=1e-6)
    with_nan = np.ones(5000, np.float32)
    with_nan[17] = np.nan
    assert np.isnan(xjax.numpy.max(with_nan))
    for call, error in ((lambda: xjax.numpy.asarray(2**40), OverflowError),
                        (lambda: xjax.numpy.arange(3)[5], IndexError)):
        with pytest.raises(error):
            call()


def test_a_name_that_is_left_out_says_why():
    for module, groups in LEFT_OUT.items():
        package = importlib.import_module(module)
        for why, names in groups.items():
            with pytest.raises(AttributeError) as caught:
                getattr(package, names[0])
            assert why in str(caught.value).replace("\n          ", " ") and "fix:" in str(caught.value)


def test_a_misspelt_name_is_corrected():
    for module, name, right in (("numpy", "lingspace", "linspace"), ("lax", "scann", "scan"), ("nn", "rellu", "relu"),
                                ("random", "normall", "normal"), ("scipy", "lingalg", "linalg")):
        with pytest.raises(AttributeError, match=f"did you mean '{right}'"):
            getattr(getattr(xjax, module), name)


def test_documentation_is_the_table():
    page = Path(__file__).parents[1] / "docs" / "left_out.md"
    assert page.read_text() == as_markdown(), (
        "write it again: python -c \"from xjax.core.left_out import *; "
        "open('docs/left_out.md', 'w').write(as_markdown())\"")
