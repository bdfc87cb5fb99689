"""Command line: ``python -m recipes.predict RUN --input FILE --output FILE``: labels, probabilities or values."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from recipes.errors import ConfigError, exit_code_of
from recipes.lazy import pa, parquet
from recipes.names import in_utf8, printable
from recipes.results.numbers import decimal, number
from recipes.trained import open_run
from xnn.whole_files import whole_file


def main(argv: Sequence[str] | None = None) -> int:
    """Writes predictions.  Returns: 0; 2 for an unknown kind of output; 1 if the run or the input cannot be read."""
    parser = argparse.ArgumentParser(prog="recipes.predict", description="Predicts for a file with a trained model.",
                                     epilog="example: python -m recipes.predict gcn --input club --output out.csv")
    parser.add_argument("run", help="a run folder, a name in ./runs, or an exported folder")
    parser.add_argument("--input", required=True, type=Path, metavar="FILE", help="inputs of the task: a table, "
                                                                                  "images, text, a graph")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help=", ".join(_WRITERS))
    parser.add_argument("--last", action="store_true", help="use the last parameters, not the best on validation")
    args = parser.parse_args(argv)
    return exit_code_of(lambda: _work(args))


def _work(args: argparse.Namespace) -> None:
    write = _WRITERS.get(args.output.suffix.lower())
    if write is None:
        raise ConfigError("predict", "the format of the output is not known.", {"--output": args.output},
                          fix=f"a name that ends with one of {', '.join(_WRITERS)}.")
    trained = open_run(args.run, args.last)
    inputs = trained.task.read(args.input.expanduser())
    for note in inputs.notes:
        print(note)
    columns = trained.predict(inputs)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(args.output) as out:
        write(out, {in_utf8(name): _for_files(values) for name, values in columns.items()})
    n_rows = len(next(iter(columns.values())))
    rows = f"{number(n_rows)} row{'s' * (n_rows != 1)}"
    print(f"{rows} in {printable(args.output)}, by {trained.origin()}")


def _for_files(values: np.ndarray) -> np.ndarray:
    """Texts in UTF-8. Numbers of float32 as the float64 of the same decimals: 0.9612, not 0.9611999988555908."""
    if values.dtype.kind == "f" and values.dtype.itemsize < 8:
        return values.astype(str).astype(float)
    if values.dtype.kind not in "OU":
        return values
    return np.array([in_utf8(value) if isinstance(value, str) else value for value in values.tolist()], object)


def _write_csv(out: BinaryIO, columns: dict[str, np.ndarray]) -> None:
    text = io.StringIO(newline="")
    rows = zip(*([decimal(each) if isinstance(each, float) else each for each in values.tolist()]
                 for values in columns.values()), strict=True)
    csv.writer(text).writerows([columns, *rows])
    out.write(text.getvalue().encode())


def _write_json(out: BinaryIO, columns: dict[str, np.ndarray]) -> None:
    rows: list[dict[str, Any]] = [dict(zip(columns, row, strict=True))
                                  for row in zip(*(values.tolist() for values in columns.values()), strict=True)]
    out.write("".join(json.dumps(row) + "\n" for row in rows).encode())


def _write_parquet(out: BinaryIO, columns: dict[str, np.ndarray]) -> None:
    parquet.write_table(pa.table({name: values.tolist() for name, values in columns.items()}), out)


_WRITERS = {".csv": _write_csv, ".jsonl": _write_json, ".parquet": _write_parquet}

if __name__ == "__main__":
    sys.exit(main())
