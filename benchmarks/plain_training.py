"""Training with recipes against the same training, written by hand in JAX, Flax and optax.

Both shuffle in each epoch, log loss and accuracy of every step, and read them every 20 steps. Time is measured from
step 20, when both are compiled. Flax is not a dependency of xjax: install the extra `peers`.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))      # before this folder, which has a recipes.py

import numpy as np
from pairs import load, main, wanted

STEPS, LOG_EVERY = 220, 20


class Case(NamedTuple):
    """A training run in both forms.

    Attributes:
      config, overrides: arguments of recipes.
      network, data, batch, optimizer: for JAX: the network, the arrays (input, classes), the batch size, and the
        arguments of `make_optimizer`.
      steps: number of training steps.
    """

    config: str
    overrides: list[str]
    network: Callable[[Any], Any]
    data: Callable[[], tuple[np.ndarray, np.ndarray]]
    batch: int
    optimizer: dict[str, Any]
    steps: int = STEPS


def cases(folder: Path) -> dict[str, Case]:
    npr = np.random.default_rng(0)
    rows, signs = write_table(folder / "table.csv")

    def digits():
        from sklearn.datasets import load_digits

        images = np.kron(load_digits().images[:1295], np.ones((4, 4)))[:, 2:30, 2:30, None] / 16
        return images.astype(np.float32), load_digits().target[:1295].astype(np.int32)

    def text():
        tokens = npr.integers(0, 256, (4000, 129), dtype=np.int32)
        return tokens[:, :-1], tokens[:, 1:]

    return {
        "GCN": Case("gcn.yaml", [], lambda peers: peers.GCN(),
                    lambda: (np.eye(34, dtype=np.float32), np.arange(34) % 2), 34, {"lr": 0.01}),
        "MLP": Case("mlp_table.yaml", [f"task.file={folder / 'table.csv'}", "task.target=label", "task.batch_size=256",
                                       "task.hidden=[512, 512, 512]", "task.dropout=0"],
                    lambda peers: peers.MLP(), lambda: (rows, signs), 256, {"lr": 3e-3, "warmup": 50, "clip": 1.0}),
        "LeNet": Case("lenet_digits.yaml", ["task.shift=0", "task.model.pool=max"], lambda peers: peers.LeNet(), digits,
                      128, {"lr": 4e-3, "warmup": 30}),
        "GPT-2": Case("gpt2_stdlib.yaml", ["task.tokenizer=null", "task.batch_size=8",
                                           "task.model={name: gpt2, features: 256, layers: 4, heads: 8, dropout: 0.0}"],
                      lambda peers: peers.LanguageModel(256), text, 8, {"lr": 2e-3, "warmup": 50, "clip": 1.0}, 80),
    }


def write_table(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Writes a CSV table with 20 numbers and a class in each row, the sign of their sum; returns both."""
    rows = np.random.default_rng(0).normal(size=(20_000, 20)).astype(np.float32)
    signs = (rows.sum(1) > 0).astype(np.int32)
    lines = [",".join(f"{x:.4f}" for x in row) + f",{'ab'[sign]}" for row, sign in zip(rows, signs, strict=True)]
    file.write_text("\n".join([",".join([f"f{i}" for i in range(20)] + ["label"]), *lines]))
    return rows, signs


def work(library: str) -> dict[str, float]:
    train = {"xjax": with_recipes, "jax": by_hand}[library]
    with tempfile.TemporaryDirectory() as folder:
        return {name: train(case) for name, case in cases(Path(folder)).items() if wanted(name)}


def with_recipes(case: Case) -> float:
    return timed_loop(case.config, case.overrides, case.steps)[0]


def timed_loop(name: str, overrides: list[str], steps: int = STEPS) -> tuple[float, Any, Any]:
    """(Seconds of the steps after the first report, the `Loop` of recipes, its state before the first step)."""
    from recipes.process.interrupts import Interrupts
    from recipes.settings.config_file import load_config
    from recipes.training.loop import Loop, begin
    from recipes.training.run import prepare
    from recipes.training.step import init_state

    config = load_config(name, [*overrides, f"steps={steps}", "devices=1", "eval_every=100000",
                                f"log_every={LOG_EVERY}", "checkpoint_every=100000"])
    prepared = prepare(config)
    loop = Loop(config, prepared.task, prepared.placer, {"train": prepared.batches()["train"]})
    state = init_state(prepared.task, config)
    marks: list[float] = []
    loop.fit(begin(state, {}), [lambda report: marks.append(time.perf_counter())], NoSaver(), Interrupts())
    return marks[-1] - marks[0], loop, state


class NoSaver:
    """A `Saver` that saves nothing: saving runs in parallel with the loop, and its time depends on the disk."""

    def save(self, *_: object) -> None:
        pass

    check = wait = save


def by_hand(case: Case) -> float:
    jax, jnp = load("jax")
    optax, peers = importlib.import_module("optax"), importlib.import_module("networks_flax")
    model, (x, classes) = case.network(peers), case.data()
    params = model.init(jax.random.key(0), jnp.asarray(x[:case.batch]))
    optimizer = make_optimizer(optax, case.steps, **case.optimizer)
    opt_state = optimizer.init(params)

    def step(params, opt_state, x, classes):
        def loss(params):
            logits = model.apply(params, x)
            value = optax.softmax_cross_entropy_with_integer_labels(logits, classes).mean()
            return value, {"loss": value, "accuracy": (logits.argmax(-1) == classes).mean()}

        grads, metrics = jax.grad(loss, has_aux=True)(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, metrics

    step = jax.jit(step, donate_argnums=(0, 1))
    npr, order, logged = np.random.default_rng(0), np.arange(0), []
    marks, history = [], []
    for i in range(case.steps):
        if len(order) < case.batch:
            order = npr.permutation(len(x)) if case.batch < len(x) else np.arange(len(x))
        rows, order = order[:case.batch], order[case.batch:]
        params, opt_state, metrics = step(params, opt_state, x[rows], classes[rows])
        history.append(metrics)
        if (i + 1) % LOG_EVERY == 0:
            logged += jax.device_get(history)
            history.clear()
            marks.append(time.perf_counter())
    return marks[-1] - marks[0]


def make_optimizer(optax: Any, steps: int, lr: float, warmup: int = 0, clip: float = 0.0) -> Any:
    """The optimizer of the config: AdamW with a cosine schedule; without warmup, Adam with decay in the gradient."""
    if not warmup:
        return optax.chain(optax.add_decayed_weights(0.05), optax.adam(lr))
    schedule = optax.warmup_cosine_decay_schedule(0.0, lr, warmup, steps)
    adamw = optax.adamw(schedule, weight_decay=0.01)
    return optax.chain(optax.clip_by_global_norm(clip), adamw) if clip else adamw


if __name__ == "__main__":
    main(work, pairs=20, limit=dict.fromkeys(("GCN", "MLP", "LeNet", "GPT-2"), 1 / 0.97))
