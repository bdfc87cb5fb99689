"""Fair comparison on a noisy machine: xjax and a peer (JAX, if not said otherwise) in fresh processes, in turn; the
figure is the median of the ratios.

A benchmark is a function `work(jax, jnp) -> {case: seconds}` in a script that ends with `main(work)`. The script starts
itself once for each library and round; a round gives one pair of times for each case. Absolute times mean nothing on a
shared machine, the ratio within a round does. Threads, allocator and flags are those of the process.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turns import in_turn, serve

PEERS = ("jax", "numpy", "torch")
_ONLY, _CPU_TIME = "XJAX_BENCHMARK_ONLY", "XJAX_BENCHMARK_CPU_TIME"
clock = time.thread_time if os.environ.get(_CPU_TIME) else time.perf_counter


def best(f: Callable[[], object], calls: int, repeats: int = 5) -> float:
    """Seconds for one call: the best mean over `calls` calls of several repeats."""
    times = []
    for _ in range(repeats):
        start = clock()
        for _ in range(calls):
            f()
        times.append((clock() - start) / calls)
    return min(times)


def shortest(call: Callable[[], object], seconds: float = 0.3, most: int = 30) -> float:
    """Seconds of the fastest of 3 to `most` calls, after a first one: as many as fit into `seconds`."""
    call()
    times = []
    while len(times) < 3 or (sum(times) < seconds and len(times) < most):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main(work: Callable, *, pairs: int = 7, limit: dict[str, float] | None = None, peer: str = "jax",
         together: bool = False, slower_than: float = 0, platform: str = "cpu") -> None:
    """Run a benchmark script.

    Args:
      limit: the ratio that each case must stay below (shown, not asserted).
      together: `work` gives the cases of `turns.serve`, and they are timed in turn, one by one.
      slower_than: show only the cases whose ratio is larger, the largest first.
      platform: where both run, unless `--platform` says otherwise.
    """
    libraries = ("xjax", peer)
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--pairs", type=int, default=pairs, help="rounds of one process for each library")
    parser.add_argument("--json", type=Path, help="also write every time to this file")
    parser.add_argument("--only", help="only cases whose names contain this; not in every script")
    parser.add_argument("--cpu-time", action="store_true",
                        help="what the calling thread takes of the processor, for a busy machine; not in every script")
    parser.add_argument("--threads", type=int, help="processors that each process may use; all of them by default")
    parser.add_argument("--platform", choices=("cpu", "cuda"), default=platform, help="where both run")
    parser.add_argument("--library", choices=("xjax", *PEERS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.threads:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])       # inherited by the processes
    if args.only:
        os.environ[_ONLY] = args.only
    if args.cpu_time:
        os.environ[_CPU_TIME] = "1"
    os.environ["JAX_PLATFORMS"] = args.platform
    if args.library:
        found = work(args.library)
        serve(found, lambda call: shortest(call, 0.03, 10)) if together else print(json.dumps(found))
        return
    if together:
        rounds = in_turn({name: _start(name, args.platform) for name in libraries}, args.pairs)
    else:
        rounds = [{name: _run(name, args.platform) for name in libraries[::-1 if i % 2 else 1]}
                  for i in range(args.pairs)]
    _report(rounds, libraries, limit or {}, slower_than)
    if args.json:
        args.json.write_text(json.dumps({"machine": _machine(), "rounds": rounds}, indent=1))


def load(library: str):
    """The library and its numpy, under the names that a JAX program gives them."""
    return importlib.import_module(library), importlib.import_module(f"{library}.numpy")


def wanted(case: str) -> bool:
    """Whether a case is to run: all do without `--only`."""
    return os.environ.get(_ONLY, "") in case


def _start(library: str, where: str, **options: Any) -> subprocess.Popen:
    """This script for one library on one platform."""
    root = str(Path(__file__).resolve().parent.parent)
    env = {**os.environ, "PYTHONPATH": root, "XJAX_ENABLE_COMPILATION_CACHE": "false"}
    return subprocess.Popen([sys.executable, sys.argv[0], "--library", library, "--platform", where], env=env,
                            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)


def _run(library: str, where: str) -> dict[str, float]:
    process = _start(library, where, stderr=subprocess.PIPE)
    out, errors = process.communicate()
    if process.returncode:
        sys.exit(f"{library} failed:\n{errors[-2000:]}")
    print(errors, end="", file=sys.stderr)
    return json.loads(out.splitlines()[-1])


def _report(rounds: list[dict], libraries: tuple[str, str], limit: dict[str, float], slower_than: float) -> None:
    xjax, peer = libraries
    cases = [case for case in rounds[0][xjax] if all(case in times for r in rounds for times in r.values())]
    ratios = {case: sorted(r[xjax][case] / r[peer][case] for r in rounds) for case in cases}
    if slower_than:
        cases = sorted(cases, key=lambda case: -statistics.median(ratios[case]))
        cases = [case for case in cases if statistics.median(ratios[case]) > slower_than]
        print(f"{len(cases)} of {len(ratios)} cases take more than {slower_than} times as long")
    width = max(28, *map(len, cases), 0) + 2
    print(f"{'case':<{width}}{f'{xjax} / {peer}':>14}{'spread':>16}{xjax:>12}{peer:>12}   ({len(rounds)} pairs)")
    for case in cases:
        low, middle, high = ratios[case][0], statistics.median(ratios[case]), ratios[case][-1]
        mine, theirs = (statistics.median(r[name][case] for r in rounds) for name in libraries)
        goal = f"   goal {limit[case]:.2f}" if case in limit else ""
        print(f"{case:<{width}}{middle:>14.2f}{f'{low:.2f}-{high:.2f}':>16}{_time(mine):>12}{_time(theirs):>12}{goal}")


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _machine() -> dict[str, object]:
    return {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
            "python": platform.python_version()}
