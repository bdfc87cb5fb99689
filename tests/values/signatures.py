"""The arrays that a function is called with, written in one line, and the numbers that hypothesis draws for them.

"f4[2,3] i4[]:0..4" is a float32 array of shape (2, 3) and an int32 scalar from 0 to 4. Each argument has one word, with
the dtype, the shape and, after a colon, the domain of its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

DTYPES = {"b1": np.bool_, "i1": np.int8, "i2": np.int16, "i4": np.int32, "i8": np.int64, "u1": np.uint8,
          "u2": np.uint16, "u4": np.uint32, "u8": np.uint64, "f2": np.float16, "bf": ml_dtypes.bfloat16,
          "f4": np.float32, "f8": np.float64, "c8": np.complex64, "c16": np.complex128}

# Closed intervals of numbers. A word may also have its own: "f4[3]:0.5..2".
INTERVALS = {"": (-8, 8), "small": (-2, 2), "unit": (0, 1), "inner": (0.0625, 0.9375), "signed": (-0.9375, 0.9375),
             "positive": (0.125, 8), "count": (0, 8)}
# Numbers at the edges of a dtype, besides those of an interval: "edges" and "wide" do not bound their numbers.
EDGES = [0.0, -0.0, 1.0, np.nan, np.inf, -np.inf]


def _definite(x: np.ndarray) -> np.ndarray:
    """Symmetric (Hermitian) and positive definite matrices, from any square matrices."""
    y = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return (y @ np.swapaxes(y, -1, -2).conj() / 8 + np.eye(x.shape[-1])).astype(x.dtype)


def _regular(x: np.ndarray) -> np.ndarray:
    """Well-conditioned matrices, from any square ones: dominant diagonals, and no two eigenvalues are close."""
    n = x.shape[-1]
    scaled = x / 16 / n + np.diag(np.arange(1, n + 1))
    return (scaled if x.dtype.kind in "fc" else 16 * n * scaled).astype(x.dtype)       # integers stay as drawn


def _symmetric(x: np.ndarray) -> np.ndarray:
    y = _regular(x)
    return ((y + np.swapaxes(y, -1, -2).conj()) / 2).astype(x.dtype)


def _distinct(x: np.ndarray) -> np.ndarray:
    """Distinct numbers, so that the order of equal numbers does not matter."""
    return (x + np.linspace(0, 1 / 16, x.size, endpoint=False).reshape(x.shape)).astype(x.dtype)


def _simplex(x: np.ndarray) -> np.ndarray:
    """Positive numbers with sum 1 along the last axis."""
    y = np.abs(x.astype(np.float64)) + 1
    return (y / y.sum(-1, keepdims=True)).astype(x.dtype)


# Arrays with a joint property, made from independent numbers.
SHAPED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "definite": _definite, "regular": _regular, "symmetric": _symmetric, "distinct": _distinct, "simplex": _simplex,
    "ascending": lambda x: np.sort(x, axis=-1), "increasing": lambda x: np.sort(_distinct(x), axis=-1),
    "permutation": lambda x: np.argsort(x, axis=-1).astype(x.dtype), "lower": lambda x: np.tril(_regular(x)),
    "upper": lambda x: np.triu(_regular(x)),
}


class Word(NamedTuple):
    """One argument."""

    dtype: np.dtype
    shape: tuple[int, ...]
    domain: str

    @property
    def is_inexact(self) -> bool:
        return self.kind in "fc"

    @property
    def kind(self) -> str:
        """NumPy's letter for the kind of number."""
        return "f" if self.dtype == ml_dtypes.bfloat16 else self.dtype.kind

    def interval(self) -> tuple[float, float]:
        if ".." in self.domain:
            low, high = map(float, self.domain.split(".."))
        else:
            low, high = INTERVALS.get(self.domain, INTERVALS[""])
        return (max(low, 0), high) if self.dtype.kind in "ub" else (low, high)

    def finished(self, x: np.ndarray) -> np.ndarray:
        return SHAPED[self.domain](x) if self.domain in SHAPED else x

    def strategy(self) -> st.SearchStrategy[np.ndarray]:
        return arrays.arrays(self._drawn_as, self.shape, elements=self._elements(), fill=st.nothing()).map(
            lambda x: self.finished(x.astype(self.dtype)))

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Numbers anywhere in the interval: no two are equal, and none is at a kink of a function."""
        low, high = self.interval()
        x = rng.uniform(low, high, self.shape)
        if self.dtype.kind == "c":
            x = x + 1j * rng.uniform(low, high, self.shape)
        elif not self.is_inexact:
            x = np.floor(x)
        return self.finished(x.astype(self.dtype))

    @property
    def _drawn_as(self) -> Any:
        """The dtype in which numbers are drawn: hypothesis does not support all dtypes."""
        return np.float32 if self.dtype == ml_dtypes.bfloat16 else self.dtype

    def _elements(self) -> st.SearchStrategy[Any]:
        kind, (low, high) = np.dtype(self._drawn_as).kind, self.interval()
        if kind == "b":
            return st.booleans()
        if kind in "iu":
            info = np.iinfo(self.dtype)
            if self.domain == "wide":
                return st.one_of(st.integers(info.min, info.max), st.sampled_from([info.min, info.max, 0, 1]))
            return st.integers(max(int(np.ceil(low)), info.min), min(int(high), info.max))
        if kind == "c":
            part = self._reals(low, high, 32)
            return st.builds(complex, part, part)
        return self._reals(low, high, 8 * self.dtype.itemsize)

    def _reals(self, low: float, high: float, width: int) -> st.SearchStrategy[float]:
        # Multiples of 1/16 are exact in every dtype, and so are their sums and ties.
        grid = st.integers(int(np.ceil(low * 16)), int(high * 16)).map(lambda i: i / 16)
        if self.domain == "edges":
            return st.one_of(grid, st.sampled_from(EDGES))
        if self.domain == "wide":
            everything = st.floats(width=min(width, 32) if self.dtype == ml_dtypes.bfloat16 else width,
                                   allow_subnormal=False)
            return st.one_of(grid, st.sampled_from(EDGES), everything)
        return grid


_WORD = re.compile(r"(\w+)\[([\d,]*)\](?::(\S+))?")


def words(signature: str) -> list[Word]:
    """The arguments of a signature. ValueError if it is misspelt."""
    parsed = []
    for text in signature.split():
        match = _WORD.fullmatch(text)
        if not match or match[1] not in DTYPES or not _is_domain(match[3] or ""):
            raise ValueError(f"signature {signature!r}: {text!r} is not dtype[shape]:domain")
        shape = tuple(int(n) for n in match[2].split(",") if n)
        parsed.append(Word(np.dtype(DTYPES[match[1]]), shape, match[3] or ""))
    return parsed


def _is_domain(name: str) -> bool:
    return name in INTERVALS or name in SHAPED or name in ("edges", "wide") or ".." in name
