"""The state while a program is written: the values in scope, and the choice of operands and sizes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

from tests.compilers.program import Arg, Line, Var

_SMALL = (1, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
_EXPONENTS = (3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15, 15, 16, 16, 17, 17)
_RANK_LIMIT = 8
_FLOPS = 2**27


class Op(NamedTuple):
    """A row of the tables. write: adds a line and returns True, or returns False if there is no suitable operand."""

    name: str
    write: Callable[[Writer], bool]


class Writer:
    """Writes one body. dtype: that of its floats; limit: the maximum number of elements of an array."""

    def __init__(self, rng: random.Random, dtype: str, limit: int):
        self.rng, self.dtype, self.limit = rng, dtype, limit
        self.args: list[Arg] = []
        self.lines: list[Line] = []
        self.vars: list[Var] = []
        self.rounding = dtype
        self.terms = 1
        self.op = ""

    # -- values ---------------------------------------------------------------------------------------------------

    def arg(self, shape: tuple[int, ...], dtype: str = "", values: str | int = "") -> Var:
        """A new argument."""
        dtype = dtype or self.dtype
        values = values or self.rng.choice(("normal", "normal", "coarse"))
        name = "key" if values == "key" else f"a{len(self.args)}"
        self.args.append(Arg(name, dtype, tuple(shape), values))
        self.vars.append(Var(name, dtype, tuple(shape), True, values if isinstance(values, int) else 0))
        return self.vars[-1]

    def add(self, text: str, shape: tuple[int, ...], dtype: str = "", *, exact: bool = False, numpy: str = "",
            terms: int = 1) -> bool:
        """Write a line. terms: number of terms in each of its sums."""
        self.vars.append(Var(f"v{len(self.lines)}", dtype or self.dtype, tuple(map(int, shape)), exact))
        self.lines.append(Line(self.vars[-1], self.op, text, numpy or text))
        self.terms = max(self.terms, terms)
        return True

    def fits(self, shape: tuple[int, ...], flops: int = 0) -> bool:
        return len(shape) <= _RANK_LIMIT and math.prod(shape) <= self.limit and flops <= _FLOPS

    # -- operands -------------------------------------------------------------------------------------------------

    def pick(self, kind: str = "f", ranks: range = range(9), exact: bool = False,
             accept: Callable[[Var], bool] = lambda v: True) -> Var | None:
        """A value of a kind: f float, i integer, b bool, x index. Later values are more likely; None without any."""
        good = [v for v in self.vars if _kind(v) == kind and len(v.shape) in ranks and v.exact >= exact and accept(v)]
        if not good:
            return None
        return good[max(self.rng.randrange(len(good)), self.rng.randrange(len(good)))]

    def some(self, kind: str = "f", ranks: range = range(9), exact: bool = False) -> Var:
        """As `pick`, or a new argument if there is no such value."""
        value = self.pick(kind, ranks, exact)
        dtype = {"f": self.dtype, "i": "int32", "b": "bool"}[kind]
        return value or self.arg(self.shape(max(ranks.start, 1), ranks.stop - 1), dtype)

    def like(self, shape: tuple[int, ...], kind: str = "f", exact: bool = False) -> Var:
        """A value that broadcasts into `shape`: one in scope, or a new argument with some axes absent or of size 1."""
        value = self.pick(kind, exact=exact, accept=lambda v: broadcasts_into(v.shape, shape))
        if value and self.rng.random() < 0.7:
            return value
        first = self.rng.choice((0, 0, self.rng.randrange(len(shape) + 1)))
        some = tuple(1 if self.rng.random() < 0.25 else n for n in shape[first:])
        return self.arg(some, {"f": self.dtype, "i": "int32", "b": "bool"}[kind])

    def index(self, shape: tuple[int, ...], high: int) -> Var:
        """Integers in [0, high)."""
        value = self.pick("x", accept=lambda v: v.shape == shape and v.high == high)
        return value or self.arg(shape, "int32", high)

    def key(self) -> str:
        """A key for random numbers, derived from the argument `key`."""
        if not any(a.name == "key" for a in self.args):
            self.arg((), "key", "key")
        k = self.rng.randrange(100)
        return self.rng.choice((f"jax.random.fold_in(key, {k})", f"jax.random.split(key, 3)[{k % 3}]",
                                f"jax.random.fold_in(jax.random.split(key)[1], {k})"))

    # -- sizes ----------------------------------------------------------------------------------------------------

    def dim(self) -> int:
        """A size near a power of two."""
        return max(1, 2**self.rng.choice(_EXPONENTS) + self.rng.choice((-1, 0, 1)))

    def small(self) -> int:
        return self.rng.choice(_SMALL)

    def shape(self, least: int = 1, most: int = _RANK_LIMIT) -> tuple[int, ...]:
        """A shape with one long axis at a random position, and a rank of `least` to `most`."""
        rank = min(max(least, self.rng.choice((1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8))), most)
        while True:
            dims = [self.small() if rank < 5 or self.rng.random() < 0.4 else self.rng.choice((1, 1, 2, 3))
                    for _ in range(rank)]
            dims[self.rng.randrange(rank)] = self.dim()
            if rank > 1 and self.rng.random() < 0.3:
                dims[self.rng.randrange(rank)] = self.dim()
            if self.fits(tuple(dims)):
                return tuple(dims)

    def axis(self, v: Var) -> int:
        """A random axis; axes of size 1 are less likely."""
        k = self.rng.randrange(len(v.shape))
        return k if v.shape[k] > 1 else self.rng.randrange(len(v.shape))

    def axes(self, v: Var) -> tuple[int, ...]:
        """Axes of a reduction: one, some, or all."""
        rank = len(v.shape)
        if rank == 0 or self.rng.random() < 0.15:
            return tuple(range(rank))
        if self.rng.random() < 0.5:
            return (self.axis(v),)
        return tuple(sorted(self.rng.sample(range(rank), self.rng.randint(1, rank))))


def _kind(v: Var) -> str:
    """f float, i integer, b bool, x index, k key."""
    if v.high:
        return "x"
    return {"int32": "i", "bool": "b", "key": "k"}.get(v.dtype, "f")


def broadcasts_into(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    tail = large[len(large) - len(small):] if small else ()
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(small, tail, strict=True))


def without(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape of a reduction."""
    return tuple(1 if k in axes else n for k, n in enumerate(shape) if keepdims or k not in axes)
