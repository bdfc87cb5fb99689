"""Training steps of `xnn.models` against the same networks in Flax on JAX, or with --torch in PyTorch.

A step is forward, gradient and plain gradient descent on one batch, with updates of running statistics, if any. Flax
and PyTorch are not dependencies of xnn: install them separately (the extra `peers`). PyTorch is also compared on a GAT
on Cora (``PLANETOID_DIR=...``) and, if `transformers` is installed, in generation by a GPT-2. With --compile, the time
to trace and compile a step instead, against Flax on JAX.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import decoding
import graph
import numpy as np
from pairs import load, main, shortest, wanted
from step import seconds_of

warnings.filterwarnings("ignore", ".* traced again")             # the step of each network is a program of its own
VOCABULARY, TOKENS = 512, 128
_COMPILE = "XNN_BENCHMARK_COMPILE"


class Case(NamedTuple):
    """The network in each library, and its batch: (input, classes)."""

    xnn: Callable[[Any], Any]
    flax: str
    torch: str
    batch: tuple[np.ndarray, np.ndarray]


def cases() -> dict[str, Case]:
    npr = np.random.default_rng(0)

    def of_classes(*shape):
        return npr.standard_normal(shape, dtype=np.float32), npr.integers(0, 10, shape[0], dtype=np.int32)

    def of_text(batch):
        text = npr.integers(0, VOCABULARY, (batch, TOKENS + 1), dtype=np.int32)
        return text[:, :-1], text[:, 1:]

    return {
        "MLP": Case(lambda m: m.MLP(m.MLPConfig((512, 512, 512), 10)), "MLP()", "mlp()", of_classes(256, 784)),
        "LeNet": Case(lambda m: m.LeNet(m.LeNetConfig(pool="max")), "LeNet()", "lenet()", of_classes(64, 28, 28, 1)),
        "ResNet-18": Case(lambda m: m.resnet18(classes=10, small_images=True), "ResNet18()", "resnet18()",
                          of_classes(16, 32, 32, 3)),
        "ViT-tiny": Case(lambda m: m.ViT(m.ViTConfig(classes=10, image=32, patch=4, features=192, hidden=768,
                                                     heads=3)), "ViT()", "ViT()", of_classes(16, 32, 32, 3)),
        "GPT-2": Case(lambda m: m.GPT2(m.GPT2Config(VOCABULARY, TOKENS, 256, 4, 8, dropout=0.0)),
                      f"LanguageModel({VOCABULARY})", f"Transformer({VOCABULARY}, {TOKENS}, 8, True)", of_text(8)),
        "LSTM": Case(lambda m: m.LSTMLanguageModel(m.LSTMLanguageModelConfig(VOCABULARY, 256, 2, tied=False)),
                     f"LSTM({VOCABULARY})", f"LSTM({VOCABULARY})", of_text(32)),
        "BERT-small": Case(lambda m: m.BERT(m.BERTConfig(VOCABULARY, length=TOKENS, features=256, hidden=1024, layers=4,
                                                         heads=4, dropout=0.0)),
                           f"BERT({VOCABULARY})", f"Transformer({VOCABULARY}, {TOKENS}, 4, False)", of_text(8)),
        "DistilBERT": Case(lambda m: m.BERT(m.BERTConfig(VOCABULARY, length=TOKENS, features=768, hidden=3072, layers=6,
                                                         heads=12, dropout=0.0)),
                           f"BERT({VOCABULARY}, 768, 6, 12)",
                           f"Transformer({VOCABULARY}, {TOKENS}, 12, False, 768, 6)", of_text(8)),
        "U-Net": Case(lambda m: m.UNet(m.UNetConfig(10, (16, 32, 64), norm="group", groups=8)), "UNet()", "UNet()",
                      (npr.standard_normal((8, 64, 64, 3), dtype=np.float32),
                       npr.integers(0, 10, (8, 64, 64), dtype=np.int32))),
    }


def work(library: str) -> dict[str, float]:
    if _COMPILE in os.environ:
        program = {"xjax": xnn_program, "jax": flax_program}[library]
        return {name: seconds_to_compile(*program(case)) for name, case in cases().items() if wanted(name)}
    make = {"xjax": xnn_step, "jax": flax_step, "torch": torch_step}[library]
    steps = {name: functools.partial(make, case) for name, case in cases().items()}
    return {name: seconds_of(prepare()) for name, prepare in (steps | other_steps(library)).items() if wanted(name)}


def other_steps(library: str) -> dict[str, Callable[[], Callable]]:
    """Functions that prepare a step of the networks that Flax has not; those of graph.py and decoding.py."""
    steps = {}
    if library == "jax":
        return steps
    if graph.CORA:
        steps["GAT on Cora"] = functools.partial(graph.xnn_step, "GAT", "Cora") if library == "xjax" else torch_gat_step
    if decoding.FOLDER in os.environ:
        generate = decoding.with_xnn if library == "xjax" else decoding.with_transformers
        folder, prompt = os.environ[decoding.FOLDER], decoding.prompts()[:1]
        steps["GPT-2, 128 tokens generated"] = functools.partial(generate, Path(folder, "4 layers of 256"), prompt)
    return steps


def seconds_to_compile(jax: Any, loss: Callable, *arguments: Any) -> float:
    jax.jit(lambda x: x + 1).lower(1.0).compile()                                       # the first program takes longer
    start = time.perf_counter()
    jax.jit(descent(jax, loss), donate_argnums=(0, 1)).lower(*arguments).compile()
    return time.perf_counter() - start


def xnn_step(case: Case) -> Callable[[], object]:
    return descending(*xnn_program(case))


def xnn_program(case: Case) -> tuple:
    """(xjax, the loss, parameters, state, batch) of the network in xnn."""
    jax, jnp = load("xjax")
    models = importlib.import_module("xnn.models")
    model = case.xnn(models)
    x, classes = map(jnp.asarray, case.batch)
    params = jax.jit(lambda key: model.init(key, x)[1])(jax.random.key(0))
    state = model.init_state(x.shape)

    def loss(params, state, x, classes):
        y, state = model.apply_with_state(params, state, x, rng=jax.random.key(1), train=True)
        logits = y[0] @ params["tokens"]["table"].T if isinstance(y, tuple) else y       # BERT returns vectors
        return _cross_entropy(jax, logits, classes), state

    return jax, loss, params, state, x, classes


def flax_step(case: Case) -> Callable[[], object]:
    return descending(*flax_program(case))


def flax_program(case: Case) -> tuple:
    """As `xnn_program`, of the network in Flax."""
    jax, jnp = load("jax")
    flax = importlib.import_module("networks_flax")
    model = eval(case.flax, vars(flax))
    x, classes = map(jnp.asarray, case.batch)
    variables = jax.jit(model.init)(jax.random.key(0), x)
    params = variables.pop("params")

    def loss(params, state, x, classes):
        y, state = model.apply({"params": params, **state}, x, mutable=list(state))
        return _cross_entropy(jax, y, classes), state

    return jax, loss, params, variables, x, classes


def descending(jax: Any, loss: Callable, params: Any, state: Any, *batch: Any) -> Callable[[], object]:
    """A function that runs one step from the parameters and state of the previous call, which are donated.

    The batch is an argument, as in a training loop: JAX compiles arrays that a step closes over as constants.
    """

    step = jax.jit(descent(jax, loss), donate_argnums=(0, 1))

    def call():
        nonlocal params, state
        params, state, value = step(params, state, *batch)
        value.block_until_ready()
    return call


def descent(jax: Any, loss: Callable) -> Callable:
    """One step of gradient descent, ``(params, state, *batch) -> (params, state, value)``."""
    def step(params, state, *batch):
        (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params, state, *batch)
        return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, params, grads), state, value
    return step


def _cross_entropy(jax: Any, logits: Any, classes: Any) -> Any:
    log_probs = jax.numpy.take_along_axis(jax.nn.log_softmax(logits), classes[..., None], -1)
    return -jax.numpy.mean(log_probs)


def torch_step(case: Case) -> Callable[[], object]:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    networks = importlib.import_module("networks_torch")
    model = eval(case.torch, vars(networks)).train()
    x, classes = map(torch.tensor, case.batch)
    x = x.permute(0, 3, 1, 2).contiguous() if x.ndim == 4 else x if x.is_floating_point() else x.long()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def call():
        optimizer.zero_grad()
        logits = model(x)
        if logits.ndim == 4:                                                            # an image of logits
            logits = logits.permute(0, 2, 3, 1)
        value = torch.nn.functional.cross_entropy(logits.flatten(0, -2), classes.long().flatten())
        value.backward()
        optimizer.step()
        return value.item()
    return call


def torch_gat_step() -> Callable[[], object]:
    """A step with the faster of dense and sparse features."""
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    step = importlib.import_module("networks_torch").gat_step
    a, x, labels = graph.task("Cora")
    places = a.tocoo()
    edges = torch.tensor(np.stack([places.col, places.row]), dtype=torch.int64)
    dense = torch.tensor(x.toarray())
    steps = [step(edges, x, torch.tensor(labels).long(), graph.HIDDEN, graph.CLASSES)
             for x in (dense, dense.to_sparse_csr())]
    return min(steps, key=lambda call: shortest(call, 0.5, 5))


if __name__ == "__main__":
    with_torch = "--torch" in sys.argv
    if "--compile" in sys.argv:
        os.environ[_COMPILE] = "1"
    sys.argv = [argument for argument in sys.argv if argument not in ("--torch", "--compile")]
    with tempfile.TemporaryDirectory() as folder:
        if with_torch and "--library" not in sys.argv and importlib.util.find_spec("transformers"):
            decoding.write_models(folder)
            os.environ[decoding.FOLDER] = folder
        main(work, pairs=20, peer="torch" if with_torch else "jax")
