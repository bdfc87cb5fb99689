"""Steps per second of the recipes' loop against the bare jitted step in a loop, on the same data and model.

The bare loop calls one compiled step on one batch, again and again, and waits at its end: no log, no data, no
checkpoints.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import xjax
from recipes.config_file import load_config
from recipes.interrupts import Interrupts
from recipes.loop import Loop, begin
from recipes.run import prepare
from recipes.step import init_state

STEPS = 200


class _Nothing:
    """A `Saver` that saves nothing: saving runs beside the loop, and its time belongs to the disk."""

    def save(self, *_: object) -> None:
        pass

    check = wait = save


def cases(folder: Path) -> dict[str, list[str]]:
    """Name -> config and overrides."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 20)).round(3)
    header = ",".join(f"f{i}" for i in range(20)) + ",label\n"
    text = "".join(",".join(map(str, row)) + f",{'ab'[int(row.sum() > 0)]}\n" for row in rows)
    (folder / "table.csv").write_text(header + text)
    return {
        "GCN": ["gcn.yaml"],
        "MLP": ["mlp_table.yaml", f"task.file={folder / 'table.csv'}", "task.target=label", "task.batch_size=256",
                "task.hidden=[512, 512, 512]"],
        "LeNet": ["lenet_digits.yaml"],
        "GPT-2": ["gpt2_stdlib.yaml"],
    }


def seconds(name: str, overrides: list[str]) -> tuple[float, float]:
    """(Recipe, bare loop) for `STEPS` steps, both compiled before."""
    config = load_config(name, [*overrides, f"steps={STEPS + 20}", "devices=1", "eval_every=100000", "log_every=20"])
    data, task, placer = prepare(config)[1:]
    splits = {"train": task.batches(data.splits["train"], placer, 0)}
    loop = Loop(config, task, placer, splits)
    state = init_state(task, config)
    marks: list[float] = []
    loop.fit(begin(state, splits), [lambda report: marks.append(time.perf_counter())], _Nothing(), Interrupts())
    recipe = marks[-1] - marks[0]                             # from the report of step 20 on
    placed, batch = placer.replicate(state), splits["train"].train(0)
    for _ in range(20):
        placed, sums = loop._train_step(placed, batch)
    xjax.block_until_ready(placed)
    started = time.perf_counter()
    for _ in range(STEPS):
        placed, sums = loop._train_step(placed, batch)
    xjax.block_until_ready(placed)
    return recipe, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="", help="only cases whose names contain this")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'case':<8} recipe / bare    ms per step")
        for case, (name, *overrides) in cases(Path(folder)).items():
            if args.only in case:
                pairs = [seconds(name, overrides) for _ in range(args.pairs)]
                ratio = statistics.median(bare / recipe for recipe, bare in pairs)
                print(f"{case:<8} {ratio:13.2f} {1e3 * min(recipe for recipe, _ in pairs) / STEPS:14.3g}", flush=True)


if __name__ == "__main__":
    main()
