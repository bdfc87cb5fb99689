"""Writes runs_of_c8961d4.zip: ``PYTHONPATH=ROOT python tests/recipes/write_old_runs.py``, with that commit at ROOT.

It has a small run of each task, the data, and the results of that commit: predictions, a text, metrics of more steps.
Paths of data in the configs are relative to the folder ``data``, where the tests run.
"""

import contextlib
import importlib
import io
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

ARCHIVE = Path(__file__).with_name("runs_of_c8961d4.zip")
LOOP = ("steps=6", "log_every=2", "eval_every=2", "checkpoint_every=6", "keep_checkpoints=1", "devices=1",
        "optim.schedule={name: constant, warmup_steps: 1}")
TABLE = ("task.file=shop.csv", "task.hidden=[8]", "task.batch_size=16", "task.missing=fill",
         "task.features=[size,colour,code,same,day,gap,flag,grade]")
RUNS = {                                            # name -> config, overrides, the input of predict
    "table": ("mlp_table", ("task.target=rank", *TABLE), "new.csv"),
    "regression": ("mlp_table", ("task.target=price", "task.kind=regression", *TABLE), "new.csv"),
    "nodes": ("gcn", ("task.dataset=folder", "task.folder=club", "task.labelled=null", "task.hidden=4"), "club"),
    "links": ("gae_cora", ("task.dataset=folder", "task.folder=club",
                           "task.model={name: gcn, hidden: [4], dropout: 0}", "task.code=4"), "pairs.csv"),
    "graphs": ("gin_molecules", ("task={name: graph_classification, dataset: folder, folder: SHAPES, batch_size: 8, "
                                 "model: {name: gin, hidden: [4], dropout: 0}}",), "SHAPES"),
    "images": ("resnet_digits", ("task={name: images, data: {name: folder, path: images, image: 8, channels: 1}, "
                                 "model: {name: mlp, hidden: [4]}, batch_size: 8}",), "images"),
    "vae": ("vae_digits", ("task={name: vae, data: {name: folder, path: images, image: 8, channels: 1}, code: 2, "
                           "hidden: [4], batch_size: 8}",), "images"),
    "text": ("bert_stdlib", ("task={name: text_classification, file: passages.csv, length: 12, batch_size: 8, "
                             "model: {name: bert, features: 4, layers: 1, heads: 2, hidden: 4}}",), "passages.csv"),
    "language": ("gpt2_stdlib", ("task={name: language_model, files: [words.txt], length: 12, batch_size: 4, "
                                 "model: {name: gpt2, features: 4, layers: 1, heads: 2}}",), None),
}
PROMPT = ("--prompt", "3 and", "--tokens", "12", "--temperature", "0")


def write_data(folder):
    """The data of all runs. The table has cells that present rules read in another way: codes, dates, NA, spaces."""
    rng = np.random.default_rng(0)
    rows, days = [], ("2024-01-07", "2024-02-14", "2024-05-03")
    for i in range(60):
        size, colour = rng.normal(), rng.choice(["red", " green"])
        code, gap = f"{rng.integers(60):03d}", "" if i % 9 == 0 else f"{rng.normal():.2f}"
        grade = rng.choice(["A", "B", "NA"])
        rank = f"{1 + int((size > 0) == (colour == 'red')):02d}"
        rows.append((f"{size:.3f}", colour, code, "14.62", rng.choice(days), gap, "true" if i % 3 else "false", grade,
                     rank, f"{1000 + 10 * size:.2f}", f"note {i}"))
    head = "size,colour,code,same,day,gap,flag,grade,rank,price,note\n"
    (folder / "shop.csv").write_text(head + "".join(",".join(row) + "\n" for row in rows))
    new = [(*row[:8], "x") for row in rows[:9]]
    (folder / "new.csv").write_text(head.replace("rank,price,", "") + "".join(",".join(row) + "\n" for row in new))
    group = np.arange(24) // 12
    ends = [(i, j) for i in range(24) for j in range(i) if rng.random() < (0.4 if group[i] == group[j] else 0.03)]
    (folder / "club").mkdir()
    (folder / "club/edges.csv").write_text("source,target\n" + "".join(f"n{i},n{j}\n" for i, j in ends))
    (folder / "club/nodes.csv").write_text("id,label,height,noise\n" + "".join(
        f"n{i},{'' if i % 7 == 3 else group[i]},{rng.normal(group[i]):.3f},{rng.normal():.3f}\n" for i in range(24)))
    (folder / "pairs.csv").write_text("source,target\nn3,n7\nn3,n20\nn1,n2\n")
    edges, graphs, labels = [], [], []
    for number in range(1, 25):
        first, size, ring = len(graphs) + 1, 4 + number % 3, number % 2
        pairs = [(first + i, first + i + 1) for i in range(size - 1)] + [(first + size - 1, first)] * ring
        edges += pairs + [(b, a) for a, b in pairs]
        graphs += [number] * size
        labels.append(ring)
    (folder / "SHAPES").mkdir()
    ends = [f"{a}, {b}" for a, b in edges]
    for name, lines in {"A": ends, "graph_indicator": graphs, "graph_labels": labels}.items():
        (folder / f"SHAPES/SHAPES_{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    for name, least in {"dark": 0, "light": 127}.items():
        (folder / "images" / name).mkdir(parents=True)
        for i in range(10):
            Image.fromarray((least + rng.integers(0, 128, (8, 8))).astype(np.uint8)).save(
                folder / "images" / name / f"{i}.png")
    words = ("bad poor sad", "good fine nice")
    passages = "".join(f"{words[i % 2]} {i},{i % 2:02d}\n" for i in range(40))
    (folder / "passages.csv").write_text("text,label\n" + passages)
    (folder / "words.txt").write_text("".join(f"{i} and {i + 1} make {2 * i + 1}.\n" for i in range(60)))


def command(module, *args):
    """Runs a command of recipes in this process; returns its output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert importlib.import_module(f"recipes.{module}").main(args) == 0
    return out.getvalue()


def write_run(folder, name):
    """Trains a run in ``folder / name``, and writes its predictions and its result after more steps."""
    config, overrides, inputs = RUNS[name]
    run = folder / name
    command("train", "--config", config, *overrides, *LOOP, f"run_dir={run}")
    if inputs is None:
        (run / "generated.txt").write_text(command("generate", str(run), *PROMPT))
    else:
        for kind, option in {"best": (), "last": ("--last",)}.items():
            command("predict", str(run), "--input", inputs, "--output", str(run / f"predicted_{kind}.csv"), *option)
    more = shutil.copytree(run, folder / "more")
    command("train", "--resume", str(more), "--extend", "12")
    shutil.copy(more / "result.json", run / "result_of_12_steps.json")
    shutil.rmtree(more)
    for file in ("learning_curve.png", "timing.jsonl", ".lock"):
        (run / file).unlink()
    config = run / "config.yaml"
    config.write_text(config.read_text().replace(f"{folder / 'data'}/", ""))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "runs")
        (folder / "data").mkdir(parents=True)
        write_data(folder / "data")
        os.chdir(folder / "data")
        for name in RUNS:
            write_run(folder, name)
            print(name, flush=True)
        shutil.make_archive(str(ARCHIVE.with_suffix("")), "zip", folder)


if __name__ == "__main__":
    main()
