"""Compare xjax with real JAX on random programs::

    python -m tests.programs.random_programs --seeds 0:5000 --jobs 2

Prints each mismatch as a minimised program, and at the end the coverage. A run is a range of seeds, so it can be split
and continued. Programs run in worker processes, which end after some hundred programs: memory stays bounded, and a
crash or a hang costs one program, which is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

from tests import caches
from tests.programs.generator.coverage import LEAST, Coverage
from tests.programs.generator.draw import program

_PER_WORKER = 200
_WORKER = "tests.programs.generator.worker"


def main() -> int:
    """The command line; returns 1 after mismatches, or if something was drawn too rarely."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0:5000", help="first:last, without last")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="only print the programs")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":"))
    if options.show:
        print("\n".join(program(seed).text() for seed in range(first, last)))
        return 0
    return Run(first, last, options.jobs).run()


class Run:
    """A range of seeds, checked by several workers."""

    def __init__(self, first: int, last: int, jobs: int):
        self.chunks = [(a, min(a + _PER_WORKER, last)) for a in range(first, last, _PER_WORKER)]
        self.count, self.jobs = last - first, jobs
        self.coverage, self.mismatches = Coverage(), []
        self.lock, self.start = threading.Lock(), time.monotonic()

    def run(self) -> int:
        threads = [threading.Thread(target=self._consume) for _ in range(self.jobs)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return self._report()

    def _consume(self) -> None:
        while True:
            with self.lock:
                if not self.chunks:
                    return
                chunk = self.chunks.pop(0)
            self._chunk(*chunk)

    def _chunk(self, first: int, last: int) -> None:
        """Run a worker over the seeds; after a crash, a new one continues with the next seed."""
        while first < last:
            with tempfile.TemporaryFile("w+") as errors:
                worker = subprocess.Popen([sys.executable, "-m", _WORKER, str(first), str(last)], env=_environment(),
                                          stdout=subprocess.PIPE, stderr=errors, text=True)
                for line in worker.stdout:
                    if line.startswith("{"):
                        self._take(json.loads(line))
                        first = json.loads(line)["seed"] + 1
                if worker.wait() == 0:
                    return
                errors.seek(0)
                tail = errors.read()[-1500:]
            if first < last:
                self._take({"seed": first, "kind": f"crash, exit code {worker.returncode}",
                            "text": f"{tail}\n{program(first).text()}"})
                first += 1

    def _take(self, outcome: dict) -> None:
        """Count one result; print it if it is a mismatch."""
        with self.lock:
            self.coverage.add(program(outcome["seed"]), outcome["kind"], outcome.get("reason", ""))
            done = self.coverage.outcomes.total()
            if "text" in outcome:
                self.mismatches.append((outcome["seed"], outcome["kind"]))
                print(f"\n== seed {outcome['seed']}: {outcome['kind']}\n{outcome['text']}", flush=True)
            if done % 100 == 0:
                print(f"{done} of {self.count}, {len(self.mismatches)} mismatches, "
                      f"{time.monotonic() - self.start:.0f} s", flush=True)

    def _report(self) -> int:
        least = LEAST * self.count // 5000
        rare = self.coverage.rare(least)
        print(self.coverage.report())
        print(f"occurred less than {least} times: {', '.join(rare) or 'nothing'}")
        seconds = time.monotonic() - self.start
        print(f"mismatches: {self.mismatches or 'none'}; {self.count} programs in {seconds:.0f} s")
        return 1 if self.mismatches or rare else 0


def _environment() -> dict[str, str]:
    """Four CPU devices, quiet logs, and the cache of compiled operations that the tests use."""
    return {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu",
            "TF_CPP_MIN_LOG_LEVEL": "3", "XJAX_LOG_LEVEL": "3",
            "XJAX_COMPILATION_CACHE_DIR": str(caches.folder() / "xjax"), **os.environ}


if __name__ == "__main__":
    sys.exit(main())
