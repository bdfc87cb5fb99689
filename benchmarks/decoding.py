"""Generation with a cache: `xnn.generate` against `transformers` on PyTorch, in seconds per step of a GPT-2.

Both read the same folder of random weights and take the most likely token; a step generates one token for each row.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pairs import load, main, shortest, wanted

PROMPT, STEPS, VOCABULARY = 16, 128, 5000
SIZES = {"4 layers of 256": (256, 4, 8), "12 layers of 768": (768, 12, 12)}           # features, layers, heads
BATCHES = (1, 8)
FOLDER = "XNN_BENCHMARK_FOLDER"


def work(library: str) -> dict[str, float]:
    make = {"xjax": with_xnn, "torch": with_transformers}[library]
    cases = {f"{name}, batch {batch}": (name, prompts()[:batch]) for name in SIZES for batch in BATCHES}
    return {case: shortest(make(Path(os.environ[FOLDER], name), prompt), 2, 5) / STEPS
            for case, (name, prompt) in cases.items() if wanted(case)}


def prompts() -> np.ndarray:
    return np.random.default_rng(0).integers(0, VOCABULARY, (max(BATCHES), PROMPT), dtype=np.int32)


def with_xnn(folder: Path, prompt: np.ndarray) -> Callable[[], Any]:
    load("xjax")
    xnn = importlib.import_module("xnn")
    model, params, *_ = importlib.import_module("xnn.pretrained").load(folder)
    return lambda: np.asarray(xnn.generate(model, params, prompt, steps=STEPS, temperature=0).tokens)


def with_transformers(folder: Path, prompt: np.ndarray) -> Callable[[], Any]:
    torch, hf = importlib.import_module("torch"), importlib.import_module("transformers")
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = hf.GPT2LMHeadModel.from_pretrained(folder).eval()
    tokens = torch.tensor(prompt, dtype=torch.int64)
    return lambda: model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=STEPS,
                                  min_new_tokens=STEPS, do_sample=False, pad_token_id=0).numpy()


def write_models(folder: str) -> None:
    """Writes one folder for each size, in the layout of Hugging Face."""
    jax, _ = load("xjax")
    models, pretrained = importlib.import_module("xnn.models"), importlib.import_module("xnn.pretrained")
    for name, (features, layers, heads) in SIZES.items():
        config = models.GPT2Config(VOCABULARY, 256, features, layers, heads, dropout=0.0)
        _, params = models.GPT2(config).init(jax.random.key(0), (1, 1))
        pretrained.save(Path(folder, name), config, params)


if __name__ == "__main__":
    if "--library" in sys.argv:
        main(work)
    else:
        with tempfile.TemporaryDirectory() as folder:
            write_models(folder)
            os.environ[FOLDER] = folder
            main(work, pairs=20, peer="torch", limit={f"{name}, batch {batch}": 0.5 for name in SIZES
                                                      for batch in BATCHES})
