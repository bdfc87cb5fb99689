"""Figures of models: digits of scikit-learn, and text of the standard library, compared with models in PyTorch."""

import functools
import hashlib
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax import lax, random
from xnn import RowKey
from xnn.losses import cross_entropy
from xnn.models import GPT2, GPT2Config, LSTMLanguageModel, LSTMLanguageModelConfig, ViT, ViTConfig, resnet18

pytestmark = pytest.mark.slow
optim = pytest.importorskip("xnn.optim", exc_type=ImportError)              # needs optax
AXIS = "devices"


def fit(model, batch, steps, *, rate, decay=0.0, seed=0, devices=1, params=None):
    """(params, state, losses) after AdamW with a cosine schedule on ``batch(step) -> (x, labels)``."""
    x, _ = batch(0)
    optimizer = optim.adamw(optim.warmup_cosine_decay_schedule(0.0, rate, steps // 20 + 1, steps), weight_decay=decay)
    if params is None:
        params = xjax.jit(lambda key: model.init(key, x)[1])(random.key(seed))
    state, opt_state = model.init_state(x.shape), optimizer.init(params)

    def step(params, state, opt_state, x, labels, rng):
        rows = RowKey(rng, lax.axis_index(AXIS) * len(x))                # the dropout of one device

        def loss(params):
            logits, new_state = model.apply_with_state(params, state, x, rng=rows, train=True)
            return cross_entropy(logits, labels), new_state

        (value, new_state), grads = xjax.value_and_grad(loss, has_aux=True)(params)
        grads, value = lax.pmean((grads, value), AXIS)
        updates, new_opt_state = optimizer.update(grads, opt_state, params)
        return optim.apply_updates(params, updates), new_state, new_opt_state, value

    step = xjax.pmap(step, axis_name=AXIS, devices=xjax.devices()[:devices], in_axes=(None, None, None, 0, 0, None),
                     out_axes=None)
    losses = []
    for i in range(steps):
        x, labels = (value.reshape(devices, -1, *value.shape[1:]) for value in batch(i))
        rng = random.fold_in(random.key(seed + 1), i)
        params, state, opt_state, value = step(params, state, opt_state, x, labels, rng)
        losses.append(value)
    return params, state, np.array(losses)


# -- digits ----------------------------------------------------------------------------------------------------------


@functools.cache
def digits(seed):
    """(Images and labels for training, for the test): 8 x 8, 80 and 20 percent of each class."""
    datasets = pytest.importorskip("sklearn.datasets")
    selection = pytest.importorskip("sklearn.model_selection")
    images, labels = datasets.load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8, 1) / 8 - 1).astype(np.float32)
    x, x_test, y, y_test = selection.train_test_split(images, labels.astype(np.int32), test_size=0.2, stratify=labels,
                                                      random_state=seed)
    return (x, y), (x_test, y_test)


def shifted(x, npr):
    """Each image moved by up to one pixel along both axes."""
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=-1)
    rows, columns = npr.integers(0, 3, (2, len(x)))
    return np.stack([image[r:r + 8, c:c + 8] for image, r, c in zip(padded, rows, columns, strict=True)])


def accuracy_on_digits(model, seed, epochs, **options):
    (x, y), (x_test, y_test) = digits(seed)
    size = 128
    per_epoch = len(x) // size

    def batch(step):
        epoch, i = divmod(step, per_epoch)
        npr = np.random.default_rng([seed, epoch])
        rows = npr.permutation(len(x))[i * size:(i + 1) * size]
        return shifted(x[rows], npr), y[rows]

    params, state, _ = fit(model, batch, epochs * per_epoch, seed=seed, **options)
    logits = xjax.jit(lambda params, state, x: model.apply_with_state(params, state, x)[0])(params, state, x_test)
    return float(jnp.mean(jnp.argmax(logits, -1) == y_test))


@pytest.mark.parametrize("devices", [1, 4])
def test_resnet_18_on_digits(devices):
    model = resnet18(classes=10, small_images=True, axis_name=AXIS)
    scores = [accuracy_on_digits(model, seed, 12, rate=2e-3, decay=1e-2, devices=devices)
              for seed in range(3 if devices == 1 else 1)]
    print(f"ResNet-18, {devices} devices: {scores}")
    assert np.mean(scores) >= 0.98


@pytest.mark.parametrize("devices", [1, 4])
def test_vit_on_digits(devices):
    model = ViT(ViTConfig(classes=10, image=8, patch=4, features=64, hidden=256, layers=4, heads=4, dropout=0.1))
    scores = [accuracy_on_digits(model, seed, 140, rate=2e-3, decay=1e-2, devices=devices)
              for seed in range(3 if devices == 1 else 1)]
    print(f"ViT, {devices} devices: {scores}")
    assert np.mean(scores) >= 0.97


# -- text ------------------------------------------------------------------------------------------------------------

MODULES = ("argparse", "ast", "bisect", "calendar", "cmd", "codeop", "configparser", "contextlib", "copy", "csv",
           "dataclasses", "datetime", "difflib", "dis", "doctest", "enum", "fractions", "functools", "heapq", "inspect",
           "ipaddress", "logging", "mailbox", "optparse", "pathlib", "pdb", "pickle", "random", "shutil", "smtplib",
           "statistics", "string", "subprocess", "tarfile", "textwrap", "threading", "tokenize", "traceback", "turtle",
           "typing", "unittest.mock", "urllib.parse", "uuid", "weakref", "zipfile")


@functools.cache
def text():
    """(Bytes for training, bytes of the last tenth for validation, hash of both)."""
    parts = [Path(importlib.util.find_spec(name).origin).read_bytes() for name in MODULES]
    whole = np.frombuffer(b"\n".join(parts), np.uint8).astype(np.int32)
    cut = len(whole) * 9 // 10
    return whole[:cut], whole[cut:], hashlib.sha256(whole.tobytes()).hexdigest()[:12]


def windows(source, step, batch, length, seed=0):
    starts = np.random.default_rng([seed, step]).integers(0, len(source) - length - 1, batch)
    pieces = np.stack([source[start:start + length + 1] for start in starts])
    return pieces[:, :-1], pieces[:, 1:]


BATCH, LENGTH, STEPS, RATE, VOCABULARY = 16, 128, 300, 2e-3, 256
LANGUAGE_MODELS = {
    "LSTM": LSTMLanguageModel(LSTMLanguageModelConfig(VOCABULARY, 192, 2, tied=False)),
    "GPT-2": GPT2(GPT2Config(VOCABULARY, LENGTH, 128, 4, 4, dropout=0.0)),
}


@functools.cache
def bits_per_character(name, devices):
    return bits_from(name, devices, None)


def bits_from(name, devices, params):
    """Bits per character on the validation text after a training from these parameters; None: from new ones."""
    train, valid, digest = text()
    model = LANGUAGE_MODELS[name]
    params, _, _ = fit(model, lambda step: windows(train, step, BATCH, LENGTH), STEPS, rate=RATE, devices=devices,
                       params=params)
    loss = xjax.jit(lambda params, x, y: cross_entropy(model.apply(params, x), y))
    bits = float(np.mean([loss(params, *windows(valid, i, BATCH, LENGTH, seed=1)) for i in range(20)])) / math.log(2)
    print(f"{name}, {devices} devices, text {digest}: {bits:.3f} bits per character")
    return bits


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_language_models_reach_what_they_reach_in_pytorch(name):
    """From each library's own initial weights, and for the LSTM from equal weights, except its forget bias of 1."""
    theirs, start = bits_per_character_in_pytorch(name)
    assert bits_per_character(name, 1) <= 1.05 * theirs
    if name == "LSTM":
        np.testing.assert_allclose(bits_from(name, 1, lstm_params(start)), theirs, rtol=0.05)


def lstm_params(weights):
    """The parameters of the LSTM of `benchmarks.networks_torch`."""
    lstm = {f"layer_{i}": {"w_in": weights[f"body.weight_ih_l{i}"].T, "w_rec": weights[f"body.weight_hh_l{i}"].T,
                           "b": weights[f"body.bias_ih_l{i}"] + weights[f"body.bias_hh_l{i}"]} for i in range(2)}
    return {"embedding": {"table": weights["embed.weight"]}, "lstm": lstm, "dropout": (),
            "logits": {"w": weights["head.weight"].T, "b": weights["head.bias"]}}


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_language_models_on_four_devices(name):
    np.testing.assert_allclose(bits_per_character(name, 4), bits_per_character(name, 1), rtol=0.01)


def bits_per_character_in_pytorch(name):
    """(The figure with the same sizes, batches, optimizer and schedule; PyTorch's initial weights)."""
    torch = pytest.importorskip("torch")
    networks = pytest.importorskip("benchmarks.networks_torch")
    train, valid, digest = text()
    torch.manual_seed(0)
    model = (networks.LSTM(VOCABULARY, 192) if name == "LSTM" else
             networks.Transformer(VOCABULARY, LENGTH, 4, causal=True, width=128))
    start = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    schedule = optim.warmup_cosine_decay_schedule(0.0, RATE, STEPS // 20 + 1, STEPS)

    def loss(x, y):
        return torch.nn.functional.cross_entropy(model(torch.tensor(x, dtype=torch.int64)).flatten(0, 1),
                                                 torch.tensor(y, dtype=torch.int64).flatten())

    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = float(schedule(step))
        optimizer.zero_grad()
        loss(*windows(train, step, BATCH, LENGTH)).backward()
        optimizer.step()
    with torch.no_grad():
        bits = np.mean([loss(*windows(valid, i, BATCH, LENGTH, seed=1)).item() for i in range(20)]) / math.log(2)
    print(f"{name} in PyTorch, text {digest}: {bits:.3f} bits per character")
    return bits, start
