"""A row: an operation, its arguments, and the checks of `harness` that apply to it.

The arguments of a row are fixed (`args`), or random numbers according to `shapes`, `dtypes` and `domain`. Rows of
`tests/values` are another class: they name a public function, and hypothesis draws many arrays for each signature.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import xjax
from tests.compare import is_inexact, tolerance

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]              # one for each argument
Dtypes = str | tuple[str, ...]          # one for all arguments, or one for each

UNARY: tuple[Shapes, ...] = (((3, 4),), ((),), ((0, 3),))
BINARY: tuple[Shapes, ...] = (((2, 3), (2, 3)), ((3,), ()), ((), ()), ((2, 1), (2, 3)), ((0, 3), (0, 3)))

FLOATS = ("float32", "float16", "bfloat16")
COMPLEX = ("complex64",)
INTS = ("int32", "uint8", "int8", "uint32")
BOOL = ("bool",)
INEXACT = FLOATS + COMPLEX
NUMBERS = INEXACT + INTS
ANY = NUMBERS + BOOL

WIDE = {"float32": "float64", "complex64": "complex128", "float16": "float64", "bfloat16": "float64"}


@dataclass(frozen=True, eq=False)
class OpRow:
    """An operation and the arguments with which it is tested.

    name: of the function in its namespace, and of the test.
    fun: `fun(namespace, *args)`: both libraries run it in their own namespace; None calls the function `name`.
    args: the arguments; None: random numbers according to the four fields `shapes` to `special`.
    oracle: the same function in NumPy. Its arguments are floats in double precision; None: real JAX is the only oracle.
    shapes: cases, each with one shape per argument. Derivatives are checked for the first, vmap for the first two.
    dtypes: each is one name for all arguments, or a tuple with a name per argument. The first is used for derivatives
      (in double precision), jit, vmap and programs; the derivatives of the first complex one are checked too.
    domain: interval of the random numbers, or one per argument.
    special: whether values are also compared with real JAX at 0, -0, inf, nan and extreme numbers.
    order: the highest order of derivatives that are checked; 0: none, as they are zero, do not exist or are not JAX's.
    grads: positions of differentiated arguments; None: all with an inexact dtype.
    tol: tolerance of values, relative to that of one operation (`harness.ONE`).
    programs: whether its program, and those of its derivatives, print as JAX prints them.
    id: distinguishes rows of one function.
    """

    name: str
    fun: Callable[..., Any] | None = None
    args: tuple[np.ndarray, ...] | None = None
    oracle: Callable[..., Any] | None = None
    shapes: tuple[Shapes, ...] = UNARY
    dtypes: tuple[Dtypes, ...] = FLOATS
    domain: Any = (-2.0, 2.0)
    special: bool = False
    order: int = 2
    grads: tuple[int, ...] | None = None
    tol: float = 1.0
    programs: bool = True
    id: str = ""

    def function(self, namespace: Any) -> Callable[..., Any]:
        """The operation as a function of its arguments."""
        return functools.partial(self.fun, namespace) if self.fun else getattr(namespace, self.name)

    def arguments(self, dtypes: Dtypes | None = None) -> list[np.ndarray]:
        """The fixed arguments, or random ones of the first shapes and of `dtypes`, by default the first dtypes."""
        return operands(self, self.shapes[0], dtypes or self.dtypes[0]) if self.args is None else list(self.args)

    def smooth(self, args: Sequence[Any] | None = None) -> tuple[int, ...]:
        """Positions of the arguments, by default the row's own, to differentiate; none if the order is 0."""
        if not self.order:
            return ()
        if self.grads is not None:
            return self.grads
        return tuple(i for i, x in enumerate(self.arguments() if args is None else args) if is_inexact(x))

    def __str__(self) -> str:
        return self.id or self.name


def primitives_of(row: OpRow, namespace: Any) -> set[str]:
    """Names of the primitives in the program of a row."""
    return {eqn.primitive.name for eqn in xjax.make_jaxpr(row.function(namespace))(*row.arguments()).eqns}


# -- fixed arguments ----------------------------------------------------------------------------------------------

_rng = np.random.default_rng(3)


def r(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape)


def c(*shape: int) -> np.ndarray:
    return r(*shape) + 1j * r(*shape)


def hermitian(x: np.ndarray, shift: float = 0.0) -> np.ndarray:
    return x + np.conj(np.swapaxes(x, -1, -2)) + shift * np.eye(x.shape[-1])


def double(x: np.ndarray) -> np.ndarray:
    """Floats and complex numbers in double precision."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) if is_inexact(x) else x


def noise(x: Any, rng: np.random.Generator) -> np.ndarray:
    """Normal random numbers with the shape and dtype of `x`."""
    y = rng.standard_normal(x.shape)
    return (y + 1j * rng.standard_normal(x.shape) if np.dtype(x.dtype).kind == "c" else y).astype(x.dtype)


# -- random arguments ---------------------------------------------------------------------------------------------

def operands(row: OpRow, shapes: Shapes, dtypes: Dtypes) -> list[np.ndarray]:
    """Random arguments; the same in every run."""
    rng = np.random.default_rng(zlib.crc32(f"{row}{shapes}{dtypes}".encode()))
    domains = row.domain if isinstance(row.domain[0], tuple) else (row.domain,) * len(shapes)
    return [_numbers(rng, shape, np.dtype(_dtype(name)), low, high)
            for shape, name, (low, high) in zip(shapes, spread(dtypes, len(shapes)), domains, strict=True)]


def spread(dtypes: Dtypes, n: int) -> tuple[str, ...]:
    return (dtypes,) * n if isinstance(dtypes, str) else dtypes


def widened(dtypes: Dtypes) -> Dtypes:
    """The same dtypes in double precision."""
    return WIDE.get(dtypes, dtypes) if isinstance(dtypes, str) else tuple(WIDE.get(d, d) for d in dtypes)


def _dtype(name: str) -> Any:
    return getattr(ml_dtypes, name, None) or np.dtype(name)


def _numbers(rng: np.random.Generator, shape: Shape, dtype: np.dtype, low: float, high: float) -> np.ndarray:
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if dtype.kind == "c":
        return (rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(dtype)
    if dtype.kind in "iu" or "int" in dtype.name:
        low = max(int(np.ceil(low)), int(ml_dtypes.iinfo(dtype).min))
        return rng.integers(low, max(int(high), low), shape, endpoint=True).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


# -- cases: calls of one row --------------------------------------------------------------------------------------

class Case(NamedTuple):
    """Arguments of one call."""

    what: str
    xs: list[np.ndarray]
    extreme: bool = False


# Extreme numbers of other widths are handled by the same code.
_EXTREME_DTYPES = ("float32", "complex64", "int32", "uint8")


def value_cases(row: OpRow) -> list[Case]:
    """The fixed arguments; or the first dtype with all shapes, the others with the first shape, and extreme numbers."""
    if row.args is not None:
        return [Case(str(row), list(row.args))]
    first, *others = row.dtypes
    cases = [Case(f"{row}{shapes} of {first}", operands(row, shapes, first)) for shapes in row.shapes]
    cases += [Case(f"{row}{row.shapes[0]} of {d}", operands(row, row.shapes[0], d)) for d in others]
    if row.special:
        cases += [Case(f"{row} of extreme {d}", _extreme_operands(row, d), True)
                  for d in row.dtypes if d in _EXTREME_DTYPES]
    return cases


_EDGES = {
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-8, 30.0, -30.0, 1e4, np.inf, -np.inf, np.nan],
    "i": [0, 1, -1, 2, 7, 31, 32, 100, "min", "max"],
}


def _extreme_numbers(dtype: np.dtype) -> np.ndarray:
    """Numbers at the edges of the range of a dtype."""
    if dtype == np.bool_:
        return np.array([False, True])
    if dtype.kind == "c":
        parts = np.array([0.0, -0.0, 1.0, -2.5, 1e-5, np.inf, np.nan])
        pairs = np.stack(np.meshgrid(parts, parts), -1)         # x + 1j * y would turn inf into nan
        return pairs.reshape(-1).view(np.complex128).astype(dtype)
    if tolerance(dtype):
        return np.array(_EDGES["f"]).astype(dtype)
    info = ml_dtypes.iinfo(dtype)
    ends = {"min": int(info.min), "max": int(info.max)}
    items = [ends.get(v, v) for v in _EDGES["i"]]
    return np.array([v for v in items if info.min <= v <= info.max]).astype(dtype)


def _extreme_operands(row: OpRow, dtypes: Dtypes) -> list[np.ndarray]:
    """Every combination of extreme numbers, as flat arrays."""
    names = spread(dtypes, len(row.shapes[0]))
    return [x.reshape(-1) for x in np.meshgrid(*[_extreme_numbers(np.dtype(_dtype(d))) for d in names])]
