"""Steps per second of the training loop of recipes against a bare loop over the jitted step, with the same data and
model.

The bare loop calls one compiled step repeatedly on one batch, and waits once at the end: it has no log, no data loading
and no checkpoints.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from plain_training import LOG_EVERY, STEPS, timed_loop, write_table

import xjax
from recipes.training.step import TrainStep


def cases(folder: Path) -> dict[str, list[str]]:
    """Name -> config and overrides."""
    write_table(folder / "table.csv")
    return {
        "GCN": ["gcn.yaml"],
        "MLP": ["mlp_table.yaml", f"task.file={folder / 'table.csv'}", "task.target=label", "task.batch_size=256",
                "task.hidden=[512, 512, 512]"],
        "LeNet": ["lenet_digits.yaml"],
        "GPT-2": ["gpt2_stdlib.yaml"],
    }


def seconds(name: str, overrides: list[str]) -> tuple[float, float]:
    """(Seconds of the recipe, of the bare loop) for the same number of steps, without compilation."""
    recipe, loop, state = timed_loop(name, overrides)
    bare, placed = TrainStep(loop.task, loop.config, loop.placer), loop.placer.replicate(state)
    batch = loop.splits["train"].train(0)
    started = time.perf_counter()
    for step in range(STEPS):
        if step == LOG_EVERY:                                 # the recipe's time starts here too
            xjax.block_until_ready(placed)
            started = time.perf_counter()
        placed, _ = bare(placed, batch)
    xjax.block_until_ready(placed)
    return recipe, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="", help="run only cases whose names contain this")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'case':<8} recipe / bare    ms per step")
        for case, (name, *overrides) in cases(Path(folder)).items():
            if args.only in case:
                pairs = [seconds(name, overrides) for _ in range(args.pairs)]
                ratio = statistics.median(bare / recipe for recipe, bare in pairs)
                fastest = min(recipe for recipe, _ in pairs) / (STEPS - LOG_EVERY)
                print(f"{case:<8} {ratio:13.2f} {1e3 * fastest:14.3g}", flush=True)


if __name__ == "__main__":
    main()
