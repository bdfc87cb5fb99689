"""Compare the texts that XLA gets with those of another commit.

    git worktree add ../base COMMIT
    python -m tests.programs.texts --base ../base [--platform cuda] [--diff]

The programs are the rows of the operations' tables in each of their dtypes, their gradients, and training steps of
networks, all from this tree; each tree lowers them in a process of its own. Exit code 1: some differ.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, default=HERE, help="the root of the tree of the other commit")
    parser.add_argument("--diff", action="store_true", help="also print how the texts differ")
    parser.add_argument("--platform", default="cpu", help="the platform of the texts; no device is needed")
    parser.add_argument("--texts-of", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.texts_of:
        json.dump(texts_of(args.texts_of.resolve(), args.platform), sys.stdout)
        return 0
    started = [_start(root, args.platform) for root in (args.base, HERE)]
    old, new = (json.loads(process.communicate()[0]) for process in started)
    differ = [name for name in new if old[name] != new[name]]
    print(f"{len(new)} programs, {len(differ)} differ")
    for name in differ:
        print(f"  {name}")
        if args.diff:
            texts = [re.sub(r"%\d+", "%", text).splitlines() for text in (old[name], new[name])]
            print(*difflib.unified_diff(*texts, "base", "here", n=0, lineterm=""), sep="\n")
    return bool(differ)


def _start(root: Path, platform: str) -> subprocess.Popen:
    command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--texts-of", str(root),
               "--platform", platform]
    return subprocess.Popen(command, cwd=HERE, env={**os.environ, "JAX_PLATFORMS": "cpu"}, stdout=subprocess.PIPE)


def texts_of(root: Path, platform: str = "cpu") -> dict[str, str]:
    """Name -> text, or the class of the error, with the xjax of another tree and the tables of this one."""
    sys.path.insert(0, str(root))
    xjax = importlib.import_module("xjax")
    assert Path(str(xjax.__file__)).is_relative_to(root), xjax.__file__
    sys.path[0] = str(HERE / "benchmarks")
    by_name: dict[str, str] = {}
    for name, function, arguments in [*_operations(xjax), *_steps(xjax)]:
        while name in by_name:                                  # two rows of one name
            name += "'"
        try:
            traced = xjax.jit(function).trace(*arguments)
            by_name[name] = traced.lower(lowering_platforms=(platform,)).as_text()
        except Exception as error:                            # a dtype that the derivative does not accept
            by_name[name] = f"refused: {type(error).__name__}"
    return by_name


def _operations(xjax: Any) -> Iterator[tuple[str, Callable, list]]:
    for table in ("op_table", "structural_table"):
        for row in importlib.import_module(f"tests.ops.{table}").TABLE:
            function = row.function(xjax.lax)
            for dtypes in row.dtypes if row.args is None else ("",):
                name, arguments = f"{row} {dtypes}".rstrip(), row.arguments(dtypes or None)
                yield name, function, arguments
                if row.smooth():
                    yield f"gradient of {name}", _gradient(xjax, function, row.smooth()), arguments


def _gradient(xjax: Any, function: Callable, places: Sequence[int]) -> Callable:
    def gradient(*xs: Any) -> Any:
        def of_smooth(*ys: Any) -> Any:
            return function(*[ys[places.index(i)] if i in places else x for i, x in enumerate(xs)])

        out, pullback = xjax.vjp(of_smooth, *[xs[i] for i in places])
        return pullback(xjax.tree_util.tree_map(xjax.numpy.ones_like, out))

    return gradient


def _steps(xjax: Any) -> Iterator[tuple[str, Callable, list]]:
    models = importlib.import_module("models")
    for name, (loss, params, batch) in importlib.import_module("step").programs().items():
        yield f"step of {name}", models.sgd_step(xjax, loss(xjax)), [params, *batch]


if __name__ == "__main__":
    sys.exit(main())
