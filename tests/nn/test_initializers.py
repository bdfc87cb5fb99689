"""Initial weights: equal to JAX's bit for bit, and with the variance that the name promises."""

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.oracle import holds, real_jax
from tests.sampling import one_in
from xjax.nn import initializers

KEY = np.array([0, 7], np.uint32)
MAKERS = ("glorot_uniform", "glorot_normal", "lecun_uniform", "lecun_normal", "he_uniform", "he_normal")
CASES = {
    **{name: (lambda i, name=name: getattr(i, name)()) for name in (*MAKERS, "uniform", "normal", "truncated_normal")},
    "constant": lambda i: i.constant(np.arange(30)), "zeros": lambda i: i.zeros, "ones": lambda i: i.ones,
    "normal 3": lambda i: i.normal(3.0), "truncated": lambda i: i.truncated_normal(0.5, lower=-1, upper=3),
    "axes": lambda i: i.he_normal(in_axis=0, out_axis=1), "batch": lambda i: i.variance_scaling(
        2.0, "fan_avg", "normal", in_axis=1, out_axis=2, batch_axis=0),
    "geometric": lambda i: i.variance_scaling(0.5, "fan_geo_avg", "uniform"),
    "fan_out": lambda i: i.variance_scaling(0.5, "fan_out", "normal")}


# JAX before 0.12 multiplies normal numbers by the scale in the last step.
OTHERWISE_ROUNDED = set() if holds(since="0.12") else {"normal", "normal 3", "batch", "fan_out"}


def drawn(make, shape, dtype=None):
    """The weights drawn by an initializer in xjax and in JAX."""
    return [library.jit(lambda key, library=library: make(library.nn.initializers)(key, shape, dtype))(KEY)
            for library in (xjax, real_jax())]


@pytest.mark.parametrize("name", one_in(3, CASES))
def test_as_jax(name):
    for dtype in (None, "bfloat16"):
        assert_same(*drawn(CASES[name], (3, 20, 30), dtype), tol=name in OTHERWISE_ROUNDED)


@pytest.mark.parametrize("name", ["glorot_uniform", "glorot_normal", "fan_out", "normal 3"])
def test_complex_as_jax(name):
    assert_same(*drawn(CASES[name], (20, 30), "complex64"))


ORTHOGONAL = {
    "tall": (lambda i: i.orthogonal(2.0), (5, 3)), "empty": (lambda i: i.orthogonal(), (0, 3)),
    "window": (lambda i: i.orthogonal(column_axis=0), (4, 2, 3)),
    "delta 2": (lambda i: i.delta_orthogonal(0.5), (3, 4, 2, 4)),
    "delta 3": (lambda i: i.delta_orthogonal(column_axis=-2), (1, 2, 3, 2, 3))}


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_orthogonal_as_jax(name):
    """Equal up to rounding only: the QR decompositions round differently."""
    assert_same(*drawn(*ORTHOGONAL[name]))


@pytest.mark.parametrize("name", MAKERS)
def test_variance(name):
    w = np.asarray(getattr(initializers, name)()(KEY, (300, 500)))
    n = 400 if name.startswith("glorot") else 300
    assert w.std() ** 2 * n == pytest.approx(2 if name.startswith("he") else 1, rel=0.02)
    assert abs(w.mean()) < 1e-3


def test_same_names():
    assert initializers.xavier_uniform is initializers.glorot_uniform
    assert initializers.kaiming_normal is initializers.he_normal


@pytest.mark.parametrize(("call", "words"), [
    (lambda: initializers.glorot_uniform()(KEY, (3,)), "at least 2 axes"),
    (lambda: initializers.orthogonal()(KEY, (3,)), "at least 2 axes"),
    (lambda: initializers.delta_orthogonal()(KEY, (3, 3)), "1 to 3 axes of the window"),
    (lambda: initializers.delta_orthogonal()(KEY, (3, 3, 2)), "inputs <= outputs"),
    (lambda: initializers.variance_scaling(1.0, "fan_inn", "normal"), "did you mean 'fan_in'"),
    (lambda: initializers.variance_scaling(1.0, "fan_in", "gamma"), "distribution 'gamma'")])
def test_errors(call, words):
    with pytest.raises(ValueError, match=words):
        call()
