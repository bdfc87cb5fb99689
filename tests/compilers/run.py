"""Hunt for faults of XLA's compilers with random programs::

    python -m tests.compilers.run --kind numbers --seeds 0:2000 --jobs 2

Kinds: numbers (compares values: eager, jit and NumPy), draws and chains (check that compilation takes limited time).
Prints each mismatch, crash and time-out with its program, and a summary; the exit status is 1 if there were any. A run
is a range of seeds, so it can be split. With --explain each failing program is minimised, and tried with XLA's options
and with real JAX.
"""

from __future__ import annotations

import argparse
import functools
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

from tests.compilers import draws, numbers
from tests.compilers.chains import CHAINS
from tests.compilers.check import Verdict
from tests.compilers.explain import explain
from tests.compilers.pool import LIMITS, Worker
from tests.compilers.program import Program, Source

COUNTS = {"numbers": 2000, "draws": 500, "chains": len(CHAINS)}


def program(kind: str, seed: int, small: bool = False) -> Program | Source:
    """The program of a kind with this seed; small: as in the fast tests."""
    if kind == "chains":
        return CHAINS[seed]
    return {"numbers": numbers.program, "draws": draws.program}[kind](seed, small)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=tuple(LIMITS), default="numbers")
    parser.add_argument("--seeds", help="first:last, without the last one; all if not given")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="the smaller programs of the fast tests")
    parser.add_argument("--show", action="store_true", help="print the programs without running them")
    parser.add_argument("--explain", action="store_true", help="minimise faults, try XLA's options and real JAX")
    parser.add_argument("--only-jit", action="store_true", help="do not run programs eagerly: much faster")
    parser.add_argument("--library", choices=("xjax", "jax"), default="xjax")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":")) if options.seeds else (0, COUNTS[options.kind])
    programs = [program(options.kind, seed, options.small) for seed in range(first, last)]
    if options.show:
        print("\n".join(map(source, programs)))
        return 0
    worker = functools.partial(Worker, options.library, eager=not options.only_jit)
    return Run(programs, LIMITS[options.kind], worker, options.explain).run(options.jobs)


def source(p: Program | Source) -> str:
    return p.text() if isinstance(p, Program) else p.text


class Run:
    """Runs programs on several workers. limit: seconds per program; explained: see `explain`; say: receives reports."""

    def __init__(self, programs: list[Program | Source], limit: float, worker: Callable[[], Worker] = Worker,
                 explained: bool = False, say: Callable[[str], None] = lambda text: print(text, flush=True)):
        self.waiting, self.limit, self.worker, self.explained = programs[::-1], limit, worker, explained
        self.say = say
        self.kinds, self.faults, self.times = Counter(), [], []
        self.lock, self.start = threading.Lock(), time.monotonic()

    def run(self, jobs: int = 1) -> int:
        """Run all programs; 1 if there were faults, else 0."""
        threads = [threading.Thread(target=self._consume) for _ in range(jobs)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self._report()
        return bool(self.faults)

    def _consume(self) -> None:
        with self.worker() as worker:
            while True:
                with self.lock:
                    if not self.waiting:
                        return
                    p = self.waiting.pop()
                verdict = worker.run(p, self.limit)
                more = explain(p, verdict, worker, self.limit) if verdict.fault and self.explained else ""
                self._take(p, verdict, more)

    def _take(self, p: Program | Source, verdict: Verdict, more: str) -> None:
        with self.lock:
            self.kinds[verdict.kind.split(",")[0]] += 1
            self.times.append((verdict.seconds, p.name))
            if verdict.fault:
                self.faults.append((p.name, verdict.kind))
                self.say(f"\n== {p.name}: {verdict.kind}\n{verdict.detail}\n{source(p)}{more}")
            if self.kinds.total() % 100 == 0:
                self.say(f"{self.kinds.total()} programs, {len(self.faults)} faults, {self._seconds()} s")

    def _seconds(self) -> int:
        return round(time.monotonic() - self.start)

    def _report(self) -> None:
        self.say("slowest compilations: " + "; ".join(f"{name} {s:.2f} s" for s, name in sorted(self.times)[:-11:-1]))
        self.say(f"outcomes: {dict(self.kinds)}; {self._seconds()} s")
        self.say("faults: " + ("; ".join(f"{name}: {kind}" for name, kind in self.faults) or "none"))


if __name__ == "__main__":
    sys.exit(main())
