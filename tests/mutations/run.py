"""Do the fast tests catch faults in the code? Each fault is put into a copy of the tree, and tests run there::

    python -m tests.mutations.run --seed 0 --count 40
    python -m tests.mutations.run --seed 0 --count 40 --tests ../before      # the tests of another checkout

The output shows for each fault the change, and the first failed test or "survived". The tests are those of the areas of
the changed file, the most direct ones first, and stop at the first failure.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutations.mutants import Mutant, draw

ROOT = Path(__file__).resolve().parents[2]
_COPIED = ("xjax", "xnn", "recipes", "configs", "docs", "tests", "README.md", "CONTRIBUTING.md", "pyproject.toml")
# Test files and folders for the files of a package; the longest matching prefix of the path counts.
AREAS = {
    "xjax/core": ("core", "transforms", "lax", "runtime", "values"),
    "xjax/image": ("image", "values"),
    "xjax/lax": ("lax", "scipy", "numpy", "values", "ops", "test_attributes.py", "core/test_mistakes.py"),
    "xjax/nn": ("nn", "values", "lax"),
    "xjax/numpy": ("numpy", "values", "test_as_jax.py", "core/test_mistakes.py"),
    "xjax/ops": ("ops", "values", "lax", "numpy", "random", "core/test_mistakes.py"),
    "xjax/random": ("random", "values", "core/test_mistakes.py", "core/test_option_effects.py"),
    "xjax/runtime": ("runtime", "parallel", "core", "lax"),
    "xjax/scipy": ("scipy", "values"),
    "xjax/transforms": ("transforms", "lax", "core", "values", "runtime"),
    "xnn": ("xnn", "recipes"),
    "xnn/graph": ("xnn/graph", "xnn", "recipes"),
    "recipes": ("recipes",),
}


def main() -> int:
    """Command line; 1 if a fault survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--only", help="numbers of faults, such as 3,17; all if not given")
    parser.add_argument("--tests", type=Path, default=ROOT, help="the checkout with the tests")
    parser.add_argument("--show", action="store_true", help="print the faults without running tests")
    options = parser.parse_args()
    survived = 0
    for k, mutant in enumerate(draw(ROOT, options.seed, options.count)):
        if options.only and k not in map(int, options.only.split(",")):
            continue
        if options.show:
            print(k, describe(mutant, ROOT), flush=True)
            continue
        start = time.monotonic()
        line, verdict = caught_by(mutant, options.tests)
        survived += verdict == "survived"
        seconds = time.monotonic() - start
        print(f"{k}: {mutant.kind}, {mutant.file}:{mutant.line}: {line}\n    {verdict}, {seconds:.0f} s", flush=True)
    return bool(survived)


def describe(mutant: Mutant, root: Path) -> str:
    old = (root / mutant.file).read_text()[mutant.start:mutant.end]
    return f"{mutant.kind}, {mutant.file}:{mutant.line}: {' '.join(old.split())!r} -> {mutant.new!r}"


def caught_by(mutant: Mutant, tests: Path) -> tuple[str, str]:
    """(changed line, first failing test or "survived") in a copy of this tree with the tests of another checkout."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        root.mkdir()
        for name in _COPIED:
            source = (tests if name == "tests" else ROOT) / name
            if source.is_dir():
                shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, root / name)
        if (ROOT.parent / "shared").is_dir():
            (Path(folder) / "shared").symlink_to(ROOT.parent / "shared")
        line = mutant.apply(root)
        areas = AREAS[max((name for name in AREAS if mutant.file.startswith(name)), key=len)]
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-m", "not slow", "-n", "0",
                   *[f"tests/{area}" for area in areas]]
        done = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True,
                              text=True)
        if done.returncode == 0:
            return line, "survived"
        failed = re.search(r"^(FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return line, f"caught by {failed[2]}" if failed else f"caught: {(done.stdout + done.stderr)[-300:]}"


if __name__ == "__main__":
    sys.exit(main())
