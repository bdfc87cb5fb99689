"""Many small cases in turn: one process for each library runs all cases, and the two times of a pair are adjacent.

One process takes minutes for hundreds of cases; in that time the load of the machine changes too much.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

Prepare = Callable[[], Callable | None]
TIME = "time"                       # the line that requests the time of the case prepared last


def serve(cases: dict[str, Prepare], seconds_of: Callable[[Callable], float]) -> None:
    """Runs in the process of a library: lists the cases, then prepares the case that a line names, or times it.

    Args:
      cases: name -> function that returns the call to time, or None if the library does not compute it.
      seconds_of: measures a call.
    """
    _send(list(cases))
    call = None
    for line in map(str.strip, sys.stdin):
        if line == TIME:
            assert call is not None
            _send(seconds_of(call))
        else:
            call = cases[line]()
            _send(call is not None)


def in_turn(processes: dict[str, subprocess.Popen], pairs: int) -> list[dict[str, dict[str, float]]]:
    """For each pair {library: {case: seconds}}, for the cases that all processes compute."""
    rounds = [{name: {} for name in processes} for _ in range(pairs)]
    case_lists = [_receive(process) for process in processes.values()]
    for case in case_lists[0]:
        print(f"{case}: ", end="", file=sys.stderr, flush=True)
        if not all(case in cases for cases in case_lists) or not all([_request(p, case) for p in processes.values()]):
            print("-", file=sys.stderr)
            continue
        for i, times in enumerate(rounds):
            for name, process in list(processes.items())[::-1 if i % 2 else 1]:
                times[name][case] = _request(process, TIME)
        first, second = (min(times[name][case] for times in rounds) for name in processes)
        print(f"{first / second:.2f}", file=sys.stderr)
    for process in processes.values():
        process.communicate()
    return rounds


def _send(answer: Sequence[str] | float) -> None:
    print(json.dumps(answer), flush=True)


def _request(process: subprocess.Popen, line: str) -> Any:
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return _receive(process)


def _receive(process: subprocess.Popen) -> Any:
    line = process.stdout.readline()
    if not line:
        sys.exit(f"the process of a library ended with status {process.wait()}")
    return json.loads(line)
