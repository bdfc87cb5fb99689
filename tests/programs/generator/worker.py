"""A process that checks a range of seeds and prints a line of JSON for each: ``worker first last``.

Both libraries read the environment when they are imported, so `random_programs` sets it before it starts the worker.
"""

from __future__ import annotations

import faulthandler
import json
import sys

import jax

from tests.programs.generator.draw import program
from tests.programs.generator.run import check

_TIME_LIMIT = 600                # seconds for one program, including its minimisation


def main(first: int, last: int) -> None:
    """Check the seeds one after the other; if a program hangs, the process ends with its traceback."""
    for seed in range(first, last):
        faulthandler.dump_traceback_later(_TIME_LIMIT, exit=True)
        outcome = check(jax, program(seed))
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"seed": seed, **outcome}), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
