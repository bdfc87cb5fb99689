"""Fair comparison on a noisy machine: xjax and a peer (JAX by default) run in new processes, in turn.

A benchmark is a function `work(library) -> {case: seconds}` in a script that ends with `main(work)`. The script starts
itself once for each library and round; a round yields one pair of times for each case. The figure is the median of the
ratios: on a shared machine, absolute times are not reliable, but the ratio within a round is. Threads, allocator and
flags are those of the process.
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
    """Seconds per call: the mean over `calls` calls, the best of several repeats."""
    times = []
    for _ in range(repeats):
        start = clock()
        for _ in range(calls):
            f()
        times.append((clock() - start) / calls)
    return min(times)


def shortest(call: Callable[[], object], seconds: float = 0.3, most: int = 30) -> float:
    """Seconds of the fastest call after a warm-up call: at least 3 calls, then until `seconds` or `most` is reached."""
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
      work: ``library -> {case: seconds}``.
      pairs: number of rounds.
      limit: the ratio that each case should stay below (shown, not asserted).
      peer: the library to compare with.
      together: `work` returns the cases of `turns.serve`, and they are timed case by case, in turn.
      slower_than: show only the cases with a larger ratio, the largest first.
      platform: the platform of both libraries, unless `--platform` is passed.
    """
    libraries = ("xjax", peer)
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--pairs", type=int, default=pairs, help="number of rounds of one process for each library")
    parser.add_argument("--json", type=Path, help="also write every time to this file")
    parser.add_argument("--only", help="run only cases whose names contain this; not in every script")
    parser.add_argument("--cpu-time", action="store_true",
                        help="measure the CPU time of the calling thread, for a busy machine; not in every script")
    parser.add_argument("--threads", type=int, help="number of CPUs that each process may use; all by default")
    parser.add_argument("--platform", choices=("cpu", "cuda"), default=platform, help="platform of both libraries")
    parser.add_argument("--library", choices=("xjax", *PEERS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.threads:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])       # inherited by child processes
    if args.only:
        os.environ[_ONLY] = args.only
    if args.cpu_time:
        os.environ[_CPU_TIME] = "1"
    os.environ["JAX_PLATFORMS"] = args.platform
    if args.library:
        results = work(args.library)
        serve(results, lambda call: shortest(call, 0.03, 10)) if together else print(json.dumps(results))
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
    """(The library, its module `numpy`), which a JAX program imports as `jax` and `jnp`."""
    return importlib.import_module(library), importlib.import_module(f"{library}.numpy")


def wanted(case: str) -> bool:
    """Whether to run a case: without `--only`, all cases run."""
    return os.environ.get(_ONLY, "") in case


def _start(library: str, platform_name: str, **options: Any) -> subprocess.Popen:
    """Starts this script for one library on one platform."""
    root = str(Path(__file__).resolve().parent.parent)
    env = {**os.environ, "PYTHONPATH": root, "XJAX_ENABLE_COMPILATION_CACHE": "false"}
    return subprocess.Popen([sys.executable, sys.argv[0], "--library", library, "--platform", platform_name], env=env,
                            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)


def _run(library: str, platform_name: str) -> dict[str, float]:
    process = _start(library, platform_name, stderr=subprocess.PIPE)
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
