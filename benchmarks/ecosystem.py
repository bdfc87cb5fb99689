"""JAX's libraries on xjax and on the real JAX: their own tests, and the time of programs written with them.

    python benchmarks/ecosystem.py tests ~/src/chex/chex
    python benchmarks/ecosystem.py programs
    python benchmarks/ecosystem.py eager
    python benchmarks/ecosystem.py recipes

`tests` takes folders with tests, which are not in this repository. Its table has, for each folder, the tests that pass
on the real JAX, and how many of these pass on xjax. `programs` measures the time to the first step of the programs in
tests/compat/programs. `eager` measures 1,000 operations in the mix that is usual in libraries.
`recipes` measures a short training run with xjax as jax, where optax and orbax use xjax, and with the real JAX, which
they load in addition to xjax.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREFIXES = {"xjax": ["-m", "xjax"], "jax": []}
FIRST = "first step of "


def run(library: str, arguments: Sequence[str], folder: Path = ROOT, seconds: float | None = None,
        **env: str) -> subprocess.CompletedProcess:
    """A Python process with xjax as jax, or with the real JAX."""
    command = [sys.executable, "-W", "ignore", *PREFIXES[library], *arguments]
    settings = {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XJAX_ENABLE_COMPILATION_CACHE": "false", **env}
    return subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=seconds,
                          env={**os.environ, **settings})


# -- the libraries' own tests -----------------------------------------------------------------------------------------

def results(library: str, folder: Path, options: Sequence[str]) -> dict[str, str]:
    """For each test of a folder: "passed", "failure", "error" or "skipped"."""
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.xml"
        # python -m adds the current folder to sys.path, which must not be that of the library.
        process = run(library, ["-m", "pytest", str(folder), "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
                                "--continue-on-collection-errors", *options], folder=Path(temporary),
                      XJAX_ENABLE_COMPILATION_CACHE="true")
        if not report.exists():
            sys.exit(f"{library}: pytest wrote no report\n{process.stdout[-3000:]}{process.stderr[-3000:]}")
        outcomes = {}
        for case in ElementTree.parse(report).iter("testcase"):
            outcome = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
            name = case.get("name", "").replace("<class 'xjax.", "<class 'jax.")        # as a parameter of the test
            outcomes[f"{case.get('classname')}.{name}"] = outcome
        return outcomes


def compare_tests(folders: Sequence[Path], options: Sequence[str], failed: bool) -> None:
    print("| tests | pass on JAX | of these pass on xjax | |\n|---|---|---|---|")
    for folder in folders:
        theirs, ours = (results(library, folder, options) for library in ("jax", "xjax"))
        passed = [name for name, outcome in theirs.items() if outcome == "passed"]
        good = [name for name in passed if ours.get(name) == "passed"]
        name, share = f"{folder.parent.name}/{folder.name}", len(good) / max(len(passed), 1)
        print(f"| {name} | {len(passed)} | {len(good)} | {share:.1%} |", flush=True)
        if failed:
            for test in sorted({*passed} - {*good}):
                print(f"    {ours.get(test, 'missing')}: {test}")


# -- programs of libraries --------------------------------------------------------------------------------------------

def first_steps(library: str, name: str) -> dict[str, float]:
    """Seconds from the start of a process, which imports and compiles, to the first number of each program."""
    code = (f"import time; start = time.perf_counter()\n"
            f"import importlib, itertools\n"
            f"module = importlib.import_module('tests.compat.programs.{name.partition('.')[0]}')\n"
            f"program = next(p for p in module.PROGRAMS if p.__name__ == '{name.partition('.')[2]}')\n"
            f"next(iter(program()))\n"
            f"print('{FIRST}', time.perf_counter() - start)")
    process = run(library, ["-c", code], seconds=600)
    if process.returncode:
        sys.exit(f"{library}: {name} failed\n{process.stderr[-3000:]}")
    return {name: float(process.stdout.split(FIRST)[1])}


def programs(only: str) -> list[str]:
    """library.program, for the libraries that are installed."""
    names = []
    for path in sorted((ROOT / "tests/compat/programs").glob("[a-z]*.py")):
        listed = [line for line in path.read_text().splitlines() if line.startswith("PROGRAMS = ")][0]
        names += [f"{path.stem}.{name.strip()}" for name in listed.partition("[")[2].rstrip("]").split(",")]
    return [name for name in names if only in name]


# -- eager operations -------------------------------------------------------------------------------------------------

EAGER = """
import time
import jax, jax.numpy as jnp
key = jax.random.key(0)
x, w, b = jax.random.normal(key, (64, 32)), jax.random.normal(key, (32, 32)), jnp.zeros(32)

def mix(x):
    # What the layers of haiku, flax and equinox do in a call without jit: a product, a bias, an activation, a norm,
    # random bits, an update of one row, a change of shape and dtype, a comparison, and trees.
    y = jax.nn.relu(x @ w + b)
    y = (y - y.mean(-1, keepdims=True)) / jnp.sqrt(y.var(-1, keepdims=True) + 1e-5)
    y = jnp.where(y > 0, y, 0.1 * y).reshape(64, 4, 8).transpose(0, 2, 1).reshape(64, 32)
    y = y.at[0].set(b).astype(jnp.bfloat16).astype(jnp.float32)
    y = jnp.concatenate([y[:32], y[32:]]) * jax.random.bernoulli(jax.random.split(key)[0], 0.9, y.shape)
    return jax.tree.map(lambda a, b: a - 0.1 * b, {"y": y}, {"y": x})["y"]

for _ in range(3):
    mix(x).block_until_ready()
start = time.perf_counter()
for _ in range(40):                             # 25 operations each
    y = mix(x)
y.block_until_ready()
print("seconds", time.perf_counter() - start)
"""


def eager(library: str) -> dict[str, float]:
    process = run(library, ["-c", EAGER], seconds=600)
    if process.returncode:
        sys.exit(f"{library} failed\n{process.stderr[-3000:]}")
    return {"1,000 eager operations": float(process.stdout.split("seconds")[1])}


# -- recipes ----------------------------------------------------------------------------------------------------------

def training_run(library: str) -> dict[str, float]:
    """Seconds of a short training run that writes checkpoints, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        process = run(library, ["-m", "recipes.train", "--config", "gcn.yaml", "steps=20"], folder=Path(folder))
        seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"{library} failed\n{process.stderr[-3000:]}")
    return {"GCN, 20 steps": seconds}


def report(cases: Sequence, measure, pairs: int) -> None:
    medians = []
    print(f"{'case':<32}{'xjax / jax':>12}{'xjax':>10}{'jax':>10}   ({pairs} pairs)")
    for case in cases:
        rounds = []
        for i in range(pairs):
            order = ("xjax", "jax")[::-1 if i % 2 else 1]
            rounds.append({library: measure(library, *case) for library in order})
        for name in rounds[0]["xjax"]:
            ratio = statistics.median(r["xjax"][name] / r["jax"][name] for r in rounds)
            medians.append(ratio)
            ours, theirs = (statistics.median(r[library][name] for r in rounds) for library in ("xjax", "jax"))
            print(f"{name:<32}{ratio:>12.2f}{ours:>9.2f}s{theirs:>9.2f}s", flush=True)
    print(f"{'median':<32}{statistics.median(medians):>12.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tests", "programs", "eager", "recipes"))
    parser.add_argument("folders", nargs="*", type=Path, help="for tests: folders with tests")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", default="", help="for programs: those whose names contain this")
    parser.add_argument("--failed", action="store_true", help="for tests: list the tests that fail on xjax only")
    parser.add_argument("--pytest", default="", help="for tests: further options of pytest, separated by spaces")
    args = parser.parse_intermixed_args()
    if args.what == "tests":
        compare_tests([folder.resolve() for folder in args.folders], args.pytest.split(), args.failed)
    elif args.what == "programs":
        report([(name,) for name in programs(args.only)], first_steps, args.pairs)
    else:
        report([()], eager if args.what == "eager" else training_run, args.pairs)


if __name__ == "__main__":
    main()
