"""Rules of Taylor mode in JAX's form: a program sets them for operations, and reads those of the library."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import xjax
from tests.oracle import real_jax

jax = real_jax("experimental.jet")
X, SERIES = np.float32(0.6), [np.float32(v) for v in (0.5, -0.3, 0.2)]


def module(lib):
    return importlib.import_module(f"{lib.__name__}.experimental.jet")


def primitives(lib):
    if lib is jax:
        return importlib.import_module("jax.extend.core.primitives")
    return importlib.import_module("xjax.compat.adapters.extend__core__primitives")


def with_rule(lib, name, define, f):
    """The Taylor mode of `f` while `define(module, primitive)` has set the rule of an operation."""
    m, p = module(lib), getattr(primitives(lib), name)
    before = m.jet_rules.get(p)
    define(m, p)
    try:
        value, terms = m.jet(f, (X,), (SERIES,))
        assert m.jet_rules[p] is not before
        return np.asarray([value, *terms], np.float32)
    finally:
        if lib is xjax:
            del m.jet_rules[p]
        else:
            m.jet_rules[p] = before


RULES = {
    "linear": ("neg_p", lambda lib: lambda m, p: m.deflinear(p), lambda lib: lambda x: -x * x),
    "zero": ("sin_p", lambda lib: lambda m, p: m.defzero(p), lambda lib: lambda x: lib.lax.sin(x) * x),
    "derivative": ("erf_p", lambda lib: lambda m, p: m.def_deriv(p, lambda x: 2 * lib.lax.exp(-x * x)),
                   lambda lib: lambda x: lib.lax.erf(x * x)),
    "composition": ("tanh_p", lambda lib: lambda m, p: m.def_comp(
        p, lambda x: (lib.numpy.exp(2 * x) - 1) / (lib.numpy.exp(2 * x) + 1)),
        lambda lib: lambda x: lib.lax.tanh(x * x)),
    "own": ("exp_p", lambda lib: lambda m, p: m.jet_rules.__setitem__(
        p, lambda primals, series, **_: (primals[0] * 2, [3 * c for c in series[0]])),
        lambda lib: lambda x: lib.lax.exp(x) * x),
    "zero terms": ("exp_p", lambda lib: lambda m, p: m.jet_rules.__setitem__(
        p, lambda primals, series, **_: (primals[0], [series[0][0], m.zero_term, series[0][2]])),
        lambda lib: lambda x: lib.lax.exp(x) * 1.5),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_has_its_effect(name):
    primitive, define, f = RULES[name]
    ours, theirs = (with_rule(lib, primitive, define(lib), f(lib)) for lib in (xjax, jax))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["sin_p", "exp_p", "log_p", "neg_p", "tanh_p", "sign_p"])
def test_the_rules_of_the_library_are_read(name):
    def result(lib):
        rule = module(lib).jet_rules[getattr(primitives(lib), name)]
        params = {"accuracy": None} if lib is jax and name in ("sin_p", "exp_p", "log_p", "tanh_p") else {}
        value, series = rule((X,), (SERIES,), **params)
        series = [np.zeros_like(X)] * 3 if series is module(lib).zero_series else series
        return np.asarray([value, *series], np.float32)
    np.testing.assert_allclose(result(xjax), result(jax), rtol=1e-5, atol=1e-6)


def test_the_table():
    m = module(xjax)
    p = primitives(xjax)
    assert p.sin_p in m.jet_rules and p.erf_p not in m.jet_rules and "sin" not in m.jet_rules
    with pytest.raises(KeyError):
        m.jet_rules[p.erf_p]
    before = len(m.jet_rules)
    m.defzero(p.erf_p)
    assert len(m.jet_rules) == before + 1 and p.erf_p in list(m.jet_rules)
    del m.jet_rules[p.erf_p]
    assert m.fact(4) == 24 and xjax.tree.leaves([m.zero_term, m.zero_series]) == []
    value, terms = m.jet2(lambda x: x ** 2, (2.0,), ((1.0, 0.0),))
    assert [float(value), *map(float, terms)] == [4, 4, 1]
