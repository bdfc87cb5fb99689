"""A random program: plain data that prints as Python source.

A program has one body, a straight-line list of assignments, and at most one transform around it. Its text uses the
public names `jax`, `jnp`, `lax` and `nn`, so that a failing program can be read and pasted. A line may have another
text for NumPy, or none; `Program.noted_text(numpy=True)` is the source for the namespace of `numpy_side`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

FLOATS = ("float32", "float64", "bfloat16", "float16")
NO_MEANING = "no meaning in NumPy"


class Var(NamedTuple):
    """A value in scope. exact: computed without rounding. high: if not 0, an integer in [0, high)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    exact: bool = False
    high: int = 0

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


class Arg(NamedTuple):
    """An argument. values: "normal", "coarse" (multiples of 1/8), "bits", "key", or the upper bound of an index."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: str | int


class Line(NamedTuple):
    """``var.name = text``. op: the row that it was drawn from. numpy: its text for NumPy, or NO_MEANING."""

    var: Var
    op: str
    text: str
    numpy: str


class Source(NamedTuple):
    """A program that is compiled but not run. text: defines `program` and its `arguments`. name: of the program."""

    name: str
    text: str


class Program(NamedTuple):
    """A body, the expression that makes the program from it, and how its results are compared.

    around: source that contains the name `body`. exact: for each result, whether it must be bit-equal. rounding: the
    coarsest dtype to which values are rounded. terms: the maximum number of terms of a sum.
    """

    seed: int
    args: tuple[Arg, ...]
    lines: tuple[Line, ...]
    results: tuple[str, ...]
    around: str
    exact: tuple[bool, ...]
    rounding: str
    terms: int

    @property
    def x64(self) -> bool:
        return self.rounding == "float64" or any(a.dtype == "float64" for a in self.args)

    @property
    def has_numpy_meaning(self) -> bool:
        return "grad" not in self.around and all(line.numpy != NO_MEANING for line in self.lines)

    @property
    def name(self) -> str:
        return f"numbers, seed {self.seed}"

    def text(self) -> str:
        """The source; running it defines `body` and `program`."""
        return self._text([f"{line.var.name} = {line.text}" for line in self.lines])

    def noted_text(self, numpy: bool = False) -> str:
        """The source in which the function `note` is applied to each rounded value; in NumPy all floats are float64."""
        lines = [(line, line.numpy if numpy else line.text) for line in self.lines]
        text = self._text([f"{line.var.name} = {text if line.var.exact else f'note({text})'}" for line, text in lines])
        return re.sub(r"'(float32|bfloat16|float16)'", "'float64'", text) if numpy else text

    def _text(self, lines: list[str]) -> str:
        types = "; ".join(f"{a.name} {a.dtype}{list(a.shape)} {a.values}" for a in self.args)
        # A scalar program returns its value alone, because grad requires a scalar.
        result = self.results[0] if "grad" in self.around else f"({', '.join(self.results)},)"
        return "\n".join([f"# seed {self.seed}: {types}", f"def body({', '.join(a.name for a in self.args)}):",
                          *(f"    {line}" for line in lines), f"    return {result}", f"program = {self.around}", ""])


def inputs(p: Program) -> list[np.ndarray]:
    """The arguments, determined by the seed; a key is represented by its number."""
    rng = np.random.default_rng(p.seed)
    return [_input(rng, a) for a in p.args]


def _input(rng: np.random.Generator, a: Arg) -> Any:
    if a.values == "key":
        return np.uint32(rng.integers(2**31))
    if isinstance(a.values, int):
        return rng.integers(0, a.values, a.shape).astype(a.dtype)
    if a.dtype == "bool":
        return rng.random(a.shape) < 0.6
    if a.values == "bits":
        return rng.integers(-2**31, 2**31, a.shape).astype(a.dtype)
    if a.dtype == "int32":
        return rng.integers(-20, 20, a.shape).astype(a.dtype)
    dtype = np.dtype(getattr(ml_dtypes, a.dtype, a.dtype))
    if a.values == "coarse":
        return (rng.integers(-16, 17, a.shape) / 8).astype(dtype)
    return rng.standard_normal(a.shape).astype(dtype)


def live(p: Program) -> Program:
    """The program without the lines and arguments that no result needs; arguments remain if there is a transform."""
    needed, lines = set(p.results), []
    for line in reversed(p.lines):
        if line.var.name in needed:
            lines.append(line)
            needed.update(re.findall(r"\w+", line.text))
    args = p.args if p.around != "body" else tuple(a for a in p.args if a.name in needed)
    return p._replace(lines=tuple(reversed(lines)), args=args)
