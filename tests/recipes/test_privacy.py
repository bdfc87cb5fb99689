"""Differentially private gradient descent: the gradient by hand, sampling, the accountant, and the errors."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from recipes.batches import Rows
from recipes.config import Privacy
from recipes.errors import ConfigError, RecipeError
from recipes.process.parallel import Placer, choose_devices
from recipes.settings.config_file import load_config
from recipes.training.privacy import PoissonBatches, clipped_sum, epsilon, noisy_mean
from recipes.training.run import prepare, run
from tests.recipes.conftest import train

ROWS = {"x": np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [30.0, 40.0]], np.float32),
        "weight": np.array([1, 1, 1, 0], np.float32)}


def test_each_row_is_clipped_on_its_own_and_filling_rows_are_nothing():
    def gradient(row, number):
        (grads, sums) = xjax.grad(lambda w: ((w * row["x"]).sum() * row["weight"][0],) * 2, has_aux=True)(jnp.ones(2))
        return {"w": grads}, {"number": number, "loss": sums}

    grads, sums = clipped_sum(gradient, ROWS, 10, clip_norm=1.0)
    np.testing.assert_allclose(grads["w"], [0.6 + 0.3, 0.8 + 0.4], rtol=1e-6)
    assert int(sums["number"]) == 10 + 11 + 12 + 13


def test_noise_has_the_size_it_should_have():
    privacy = Privacy(noise_multiplier=3.0, clip_norm=0.5)
    zeros = {"a": jnp.zeros((300, 200)), "b": jnp.zeros(40_000)}
    noise = noisy_mean(zeros, xjax.random.PRNGKey(0), privacy, batch_size=10)
    for leaf in noise.values():
        assert float(leaf.std()) == pytest.approx(0.15, rel=0.02)         # 3 * 0.5 / 10
    assert not np.array_equal(noise["a"].ravel()[:100], noise["b"][:100])


def test_batches_are_drawn_row_by_row():
    batches = PoissonBatches(Rows(x=np.arange(400)), Placer(choose_devices(1)), 40, seed=0)
    drawn = []
    for step in range(200):
        batch = batches.train(step)
        drawn.append(np.asarray(batch["x"]).ravel()[np.asarray(batch["weight"]).ravel() > 0])
    sizes = np.array([len(rows) for rows in drawn])
    assert sizes.mean() == pytest.approx(40, abs=1.5)
    assert sizes.std() == pytest.approx(np.sqrt(400 * 0.1 * 0.9), abs=1)
    counts = np.bincount(np.concatenate(drawn), minlength=400)
    assert counts.min() >= 5 and counts.max() <= 45
    assert sum(int(np.asarray(b["weight"]).sum()) for b in batches.all()) == 400


def test_epsilon_lies_between_the_exact_one_and_that_of_the_paper():
    """Abadi et al. (2016), section 3.2: q = 0.01, sigma = 4, 10,000 steps, delta = 1e-5 give at most 1.26.

    Bounds by Rényi divergences have become tighter since; privacy loss distributions are computed numerically.
    """
    accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    privacy = Privacy(noise_multiplier=4.0, delta=1e-5)
    step = accounting.PoissonSampledDpEvent(0.01, accounting.GaussianDpEvent(4.0))
    exact = pld.PLDAccountant().compose(accounting.SelfComposedDpEvent(step, 10_000)).get_epsilon(1e-5)
    assert exact <= epsilon(privacy, 10_000, 100, 10_000) <= 1.26
    assert epsilon(privacy, 20_000, 100, 10_000) > epsilon(privacy, 10_000, 100, 10_000)


def config(rings, *overrides):
    return load_config("mlp_table", [f"task.file={rings}", "task.target=ring", "optim.schedule=constant", "steps=10",
                                     "optim.name=sgd", "optim.lr=0.5", "devices=1", "privacy.noise_multiplier=1",
                                     *overrides])


@pytest.mark.parametrize("devices", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_the_numbers_do_not_depend_on_the_devices(rings, devices):
    pytest.importorskip("dp_accounting")
    one, many = (train(config(rings, f"devices={n}")).losses for n in (1, devices))
    np.testing.assert_allclose(many, one, rtol=1e-4)


def test_the_budget_stands_in_the_result(rings, tmp_path, capsys):
    pytest.importorskip("dp_accounting")
    result = run(config(rings, f"run_dir={tmp_path / 'a'}"), "a")
    assert result["privacy"]["delta"] == 1e-5
    assert result["privacy"]["epsilon"] == pytest.approx(epsilon(Privacy(noise_multiplier=1), 10, 64, 210))
    assert f"epsilon {result['privacy']['epsilon']:.3g} for delta 1e-05" in capsys.readouterr().out


def test_where_there_is_no_guarantee_it_is_refused(rings):
    with pytest.raises(ConfigError, match="the examples of the task 'node_classification' are not independent"):
        prepare(load_config("gcn", ["privacy.noise_multiplier=1"]))
    with pytest.raises(ConfigError, match="class weights are computed from all examples"):
        prepare(config(rings, "task.class_weights=balanced"))
    with pytest.raises(RecipeError, match="they have no parts"):
        prepare(config(rings, "accumulate=2"))
