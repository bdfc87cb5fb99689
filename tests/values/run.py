"""Runs rows of the table during their development: `python -m tests.values.run numpy_elementwise -k add`.

Prints the rows that fail, each with the simplest arrays that fail, and the slowest rows.
"""

from __future__ import annotations

import argparse
import importlib
import time
from typing import Any

from tests import conftest  # noqa: F401  (sets the environment before jax starts)

import jax  # isort: skip
import xjax  # isort: skip
from tests.values import checks  # isort: skip

VALUE_SETS, GRADIENT_SETS = 200, 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="modules of tests.values with a list ROWS")
    parser.add_argument("-k", default="", help="only rows whose name contains this")
    args = parser.parse_args()
    rows = [row for file in args.files for row in importlib.import_module(f"tests.values.{file}").ROWS
            if args.k in str(row)]
    times, failed = [], 0
    for row in rows:
        start = time.process_time()
        for check, sets in ((checks.check_values, VALUE_SETS), (checks.check_derivatives, GRADIENT_SETS)):
            error = _error_of(check, row, sets)
            if error:
                failed += 1
                print(f"\nFAILED {row}\n{error}", flush=True)
        times.append((time.process_time() - start, str(row)))
    print(f"\n{len(rows)} rows, {failed} failures, {sum(t for t, _ in times):.0f} s of CPU; slowest:")
    for seconds, name in sorted(times, reverse=True)[:8]:
        print(f"  {seconds:5.1f} s  {name}")


def _error_of(check: Any, row: Any, sets: int) -> str:
    with xjax.enable_x64(True), jax.enable_x64(True):
        try:
            check(row, jax, sets)
        except Exception as error:
            return "\n".join(f"{type(e).__name__}: {str(e)[:1500]}\n{_notes(e)[:800]}" for e in _parts(error))
    return ""


def _parts(error: Exception) -> tuple[Exception, ...]:
    """The errors of a group: hypothesis raises one if arrays fail in several ways."""
    return error.exceptions if isinstance(error, ExceptionGroup) else (error,)


def _notes(error: Exception) -> str:
    return "\n".join(getattr(error, "__notes__", []))


if __name__ == "__main__":
    main()
