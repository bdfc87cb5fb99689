"""Many small cases in turn: a process for each library stays, the times of a pair are taken one after the other.

What else a machine does changes too much in the minutes that one process takes for hundreds of cases.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

Prepare = Callable[[], Callable | None]
TIME = "time"                       # the line that asks for the time of the case that was prepared last


def serve(cases: dict[str, Prepare], seconds_of: Callable[[Callable], float]) -> None:
    """In the process of a library: offer the cases, prepare the one that a line names, time it when asked to.

    cases: name -> function that returns the call to be timed, or None where the library does not compute it.
    """
    _say(list(cases))
    call = None
    for line in map(str.strip, sys.stdin):
        if line == TIME:
            assert call is not None
            _say(seconds_of(call))
        else:
            call = cases[line]()
            _say(call is not None)


def in_turn(processes: dict[str, subprocess.Popen], pairs: int) -> list[dict[str, dict[str, float]]]:
    """For each pair {library: {case: seconds}}, of the cases that all of these processes compute."""
    rounds = [{name: {} for name in processes} for _ in range(pairs)]
    offered = [_heard(process) for process in processes.values()]
    for case in offered[0]:
        print(f"{case}: ", end="", file=sys.stderr, flush=True)
        if not all(case in cases for cases in offered) or not all([_ask(p, case) for p in processes.values()]):
            print("-", file=sys.stderr)
            continue
        for i, times in enumerate(rounds):
            for name, process in list(processes.items())[::-1 if i % 2 else 1]:
                times[name][case] = _ask(process, TIME)
        first, second = (min(times[name][case] for times in rounds) for name in processes)
        print(f"{first / second:.2f}", file=sys.stderr)
    for process in processes.values():
        process.communicate()
    return rounds


def _say(answer: Sequence[str] | float) -> None:
    print(json.dumps(answer), flush=True)


def _ask(process: subprocess.Popen, line: str) -> Any:
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return _heard(process)


def _heard(process: subprocess.Popen) -> Any:
    line = process.stdout.readline()
    if not line:
        sys.exit(f"a library's process ended with {process.wait()}")
    return json.loads(line)
