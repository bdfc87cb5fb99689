"""Norms and standard deviations at infinities, NaN and 0, mapped and differentiated twice."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.sampling import one_in
from xjax.numpy import lengths

ROWS = np.float32([[3, 4], [3e22, 4e22], [3e-22, -4e-22], [0, 0], [np.inf, 1], [np.nan, 1], [np.inf, np.nan]])
WANTED = np.float32([5, 5e22, 5e-22, 0, np.inf, np.nan, np.nan])


@pytest.mark.parametrize("norm", [jnp.linalg.norm, lambda x: jnp.linalg.norm(x, 2), jnp.linalg.vector_norm])
def test_under_vmap_as_along_an_axis(norm):
    for norms in (xjax.jit(xjax.vmap(norm))(ROWS), jnp.linalg.norm(ROWS, axis=1)):
        np.testing.assert_allclose(norms, WANTED, rtol=1e-6)


FORMS = [lengths._in_double, lengths._in_turn, lengths._by_three, lengths._by_choice]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [2, 20])
def test_each_form_is_right(form, length):
    """For float32, with two parts and an array as the divisor; rows of all magnitudes are next to each other."""
    rows = np.zeros((len(ROWS), length), np.float32)
    rows[:, :2] = ROWS
    divisor = np.float32([1, 4, 4, 9, 1, 1, 1])
    setting = lengths._Setting((1,), 2, None, True, False)
    lengths_ = xjax.jit(lambda x, d: form(setting, (x, x), (d,)))(rows, divisor)
    np.testing.assert_allclose(lengths_, WANTED * np.sqrt(2 / divisor), rtol=1e-6)


@pytest.mark.parametrize("form", FORMS[1:])
def test_forms_of_float64(form):
    with xjax.enable_x64(True):
        rows = np.array([[3.0, 4.0], [3e300, 4e300], [3e-300, 4e-300], [0, 0], [np.inf, 1], [np.nan, 1]])
        lengths_ = xjax.jit(lambda x: form(lengths._Setting((1,), 1, 4.0, True, False), (x,), ()))(rows)
    np.testing.assert_allclose(lengths_, [2.5, 2.5e300, 2.5e-300, 0, np.inf, np.nan], rtol=1e-15)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_only_long_rows_on_cpus_have_a_choice(platform):
    """On a GPU the choice would wait for the host; for few elements or short rows it costs more than it saves."""
    for norm in (jnp.linalg.norm, lambda x: jnp.linalg.norm(x, 3, axis=-1), jnp.std):
        for shape in ((3,), (5000,)):
            traced = xjax.jit(norm).trace(np.zeros(shape, np.float32))
            text = traced.lower(lowering_platforms=(platform,)).as_text()
            assert ("stablehlo.case" in text) == (platform == "cpu" and shape == (5000,))


def test_a_form_is_chosen_for_the_mapped_array():
    text = xjax.jit(xjax.vmap(jnp.linalg.norm)).lower(np.zeros((500, 100), np.float32)).as_text()
    assert text.count("stablehlo.case") == 1 and "f64" not in text


def test_an_operand_is_not_kept_for_the_branch_that_seldom_runs(as_shipped):
    """The operand is computed again in the branch; as an operand of the `cond` it would be an array in memory."""
    x = np.zeros((300, 1, 64), np.float32)
    distances = xjax.jit(lambda x, y: jnp.linalg.norm(x - y, axis=-1)).lower(x, x.reshape(1, 300, 64)).compile()
    assert distances.memory_analysis().temp_size_in_bytes < 3e6                     # x - y alone has 23e6 bytes
    far = xjax.jit(lambda x, y: jnp.linalg.norm(x - y))(np.full(5000, 3e30, np.float32), np.float32(-1e30))
    np.testing.assert_allclose(far, 4e30 * np.sqrt(5000), rtol=1e-6)


@pytest.mark.parametrize("ord", one_in(3, [3, 4, -2, -1, 2.5, 0.5]))
def test_norms_of_an_order(ord):
    """Short and long rows of all magnitudes, their slopes, and complex numbers."""
    for length in (4, 3000):
        rng = np.random.default_rng(0)
        x = (rng.choice([-1, 1], (3, length)) * rng.uniform(1, 2, (3, length))).astype(np.float32)
        scale = np.float32([[1], [2.0**80], [2.0**-80]])
        wanted = np.linalg.norm(x.astype(np.float64), ord, axis=1)
        slopes = np.sign(x) * (np.abs(x) / wanted[:, None]) ** (ord - 1)
        norm = xjax.jit(lambda x: jnp.linalg.norm(x, ord, axis=1))
        np.testing.assert_allclose(np.array(norm(x * scale)) / scale[:, 0], wanted, rtol=3e-6)
        np.testing.assert_allclose(norm(x * np.complex64(1j)), wanted, rtol=3e-6)
        np.testing.assert_allclose(xjax.jit(xjax.grad(lambda x: norm(x).sum()))(x * scale), slopes, rtol=2e-5)


def test_second_derivatives():
    unit = np.array([0.6, 0.8])
    hessian = xjax.hessian(jnp.linalg.norm)(np.float32([3, 4]))
    np.testing.assert_allclose(hessian, (np.eye(2) - np.outer(unit, unit)) / 5, atol=1e-7)


def test_slopes_at_zero():
    assert not np.any(xjax.grad(jnp.linalg.norm)(jnp.zeros(3)))
    assert not np.any(xjax.hessian(jnp.linalg.norm)(jnp.zeros(2)))
    assert np.isnan(xjax.grad(jnp.std)(jnp.ones(3))).all()
