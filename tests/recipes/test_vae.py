"""The task vae: the bound and its parts, noise by row, codes of files, pictures."""

import numpy as np
import pytest
from PIL import Image

from recipes.errors import ConfigError
from recipes.settings.config_file import load_config
from recipes.tasks.vae import load
from recipes.training.loop import Loop
from recipes.training.run import prepare
from recipes.training.step import init_state
from tests.recipes.after import after
from tests.recipes.conftest import train
from tests.refusals import assert_refused

SMALL = ("optim.schedule.warmup_steps=0", "devices=1", "task.hidden=[32]", "task.code=3", "eval_every=1000")


def config(*overrides):
    return load_config("vae_digits.yaml", [*SMALL, *overrides])


@pytest.fixture(scope="module")
def learned():
    """A small model of the digits: (its config, its training)."""
    small = config("steps=300", "optim.lr=5e-3")
    return small, train(small)


def test_it_learns_the_digits(learned):
    _, trained = learned
    test = trained.test
    assert set(test) == {"loss", "negative_elbo", "reconstruction", "kl"}
    assert trained.losses[0] > 40 and test["negative_elbo"] < 29
    assert test["loss"] == test["negative_elbo"] == pytest.approx(test["reconstruction"] + test["kl"], rel=1e-5)
    assert test["kl"] > 0.5


def untrained(config):
    """Test metrics of the initial parameters."""
    prepared = prepare(config)
    loop = Loop(config, prepared.task, prepared.placer, prepared.batches())
    model = prepared.placer.replicate(init_state(prepared.task, config).model)
    return prepared.task.metrics(loop.totals(model, "test"))


@pytest.mark.slow
def test_device_count_changes_nothing():
    """Batches of 50 are uneven over 3 devices. The evaluation draws too."""
    one, *others = (train(config("steps=5", "task.batch_size=50", f"devices={n}")) for n in (1, 3))
    for other in others:
        np.testing.assert_allclose(other.losses, one.losses, rtol=2e-5)
        for name, value in one.test.items():
            assert other.test[name] == pytest.approx(value, rel=2e-5)


def test_the_evaluation_does_not_know_the_batch_and_draws_for_each_example():
    """The bounds of the same parameters agree for batches of different sizes."""
    one, other = (untrained(config(f"task.batch_size={size}")) for size in (100, 64))
    for name, value in one.items():
        assert other[name] == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(("beta", "likelihood"), [(0, "bernoulli"), (4, "normal")])
def test_beta_is_in_the_loss_alone(beta, likelihood):
    test = untrained(config(f"task.beta={beta}", f"task.likelihood={likelihood}"))
    assert test["loss"] == pytest.approx(test["reconstruction"] + beta * test["kl"], rel=1e-5)
    assert test["negative_elbo"] == pytest.approx(test["reconstruction"] + test["kl"], rel=1e-5)
    if likelihood == "normal":
        assert test["reconstruction"] > 64 * np.log(2 * np.pi) / 2


def test_the_report_has_reconstructions_and_samples(learned, tmp_path):
    small, trained = learned
    figures = trained.task.draw(after(small, trained))
    assert list(figures) == ["Reconstructions, test", "Samples from the prior"]
    assert [len(figure.axes) for figure in figures.values()] == [10, 15]
    for i, figure in enumerate(figures.values()):
        figure.savefig(tmp_path / f"{i}.png", dpi=40)


def test_files_get_codes_and_reconstructions_are_close(learned, tmp_path):
    small, trained = learned
    pixels = load(small.task).splits["test"].arrays["x"][:7]
    for i, image in enumerate(pixels):
        Image.fromarray(image[..., 0]).save(tmp_path / f"{i}.png")
    model, (rows, _) = after(small, trained), trained.task.read(tmp_path)
    outputs = model.outputs_of(rows)
    columns = trained.task.columns(outputs)
    assert list(columns) == ["negative_elbo", "code 0", "code 1", "code 2"]
    np.testing.assert_allclose(outputs["x"], pixels / 255, atol=1e-6)
    np.testing.assert_allclose(columns["code 1"], model.outputs("test")["code"][:7, 1], atol=1e-5)
    whole = model.outputs("test")
    x, reconstruction = whole["x"], whole["reconstruction"]
    assert np.mean((x - reconstruction)**2) < 0.75 * np.mean((x - x.mean(axis=0))**2)


@pytest.mark.parametrize(("override", "message"), [
    ("task.code=0", "task.code  must be greater than 0, got 0"),
    ("task.likelihood=gauss", "task.likelihood  must be 'bernoulli' or 'normal', got 'gauss'"),
    ("task.beta=-1", "task.beta  must be greater than or equal to 0")])
def test_one_wrong_override(override, message):
    assert_refused(lambda: config(override), ConfigError, message)
