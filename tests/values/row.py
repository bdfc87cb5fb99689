"""`FunctionRow`: a public function, given by its path in each library, and its arguments.

A row has signatures, from which hypothesis draws many arrays (`checks.check_values`), or calls, whose arguments are any
Python objects and which may raise (`checks.check_calls`). `tests/ops` has rows of single operations: few arrays, but
also programs, every batched axis and second derivatives.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.oracle import holds

# The module of NumPy or SciPy that has a module's functions under the same names.
ORACLES = {"numpy": "numpy", "numpy.linalg": "numpy.linalg", "numpy.fft": "numpy.fft", "scipy.special": "scipy.special",
           "scipy.linalg": "scipy.linalg", "scipy.fft": "scipy.fft", "scipy.signal": "scipy.signal",
           "scipy.ndimage": "scipy.ndimage", "scipy.integrate": "scipy.integrate", "scipy.stats": "scipy.stats"}


class Call(NamedTuple):
    """The arguments of one call, as they are; NumPy arrays among them become arrays of the called library."""

    args: tuple[Any, ...]
    keywords: dict[str, Any]


@dataclass(frozen=True)
class FunctionRow:
    """The calls of one function in xjax, in JAX, and in NumPy or SciPy.

    name: below the library, such as "numpy.linalg.svd".
    signatures: at most 8, in the language of `signatures`; none in a row of calls.
    calls: in place of signatures. Of the fields below, only `call`, `tol` and `id` apply to them.
    call: `call(function, *arrays)` returns the compared result: arrays, or any tree of arrays; None calls
      `function(*arrays)`.
    oracle: NumPy's or SciPy's function; "same": the one of this name, if it exists; None: only JAX is compared.
    tol: tolerance, relative to that of the dtype of a result.
    grad: signatures on which derivatives are checked; write float64, "f8". Empty without derivatives.
    vmap: whether the function maps over a new first axis of its arrays.
    jit: whether it compiles; a function whose shapes depend on values does not.
    differs: the reason of a deliberate difference from JAX; then only the oracle is compared.
    id: distinguishes rows of one function.
    """

    name: str
    signatures: tuple[str, ...] = ()
    call: Callable | None = None
    oracle: Any = "same"
    tol: float = 1.0
    grad: tuple[str, ...] = ()
    vmap: bool = True
    jit: bool = True
    differs: str = ""
    id: str = ""
    calls: tuple[Call, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.signatures) <= 8, f"{self}: {len(self.signatures)} signatures"
        assert bool(self.signatures) != bool(self.calls), f"{self}: signatures, or calls"
        assert not self.differs or self.reference, f"{self}: it has no reference to compare with"

    def __str__(self) -> str:
        return f"{self.name}-{self.id}" if self.id else self.name

    def function(self, library: Any) -> Callable:
        """The call, with the function of `library` (xjax or jax)."""
        return self._calling(find(library, self.name))

    @property
    def reference(self) -> Callable | None:
        """The call, with the function of NumPy or SciPy."""
        fun = self.oracle
        if fun == "same":
            module, _, name = self.name.rpartition(".")
            fun = module in ORACLES and getattr(importlib.import_module(ORACLES[module]), name, None)
        return self._calling(fun) if fun else None

    def _calling(self, function: Callable) -> Callable:
        return functools.partial(self.call, function) if self.call else function


def find(library: Any, name: str) -> Any:
    """The object `name`, a path with dots, of a library; its modules are imported as needed."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(f"{library.__name__}.{module}") if module else library, last)


def library_of(function: Any) -> Any:
    """The library of a function: xjax or jax (or NumPy)."""
    return importlib.import_module(function.__module__.partition(".")[0])


def since(version: str, newer: Iterable[FunctionRow]) -> Iterator[FunctionRow]:
    """Rows of functions that JAX has since a version; none if the installed JAX is older."""
    return iter(newer if holds(since=version) else ())


def rows(module: str, names: str, *signatures: str, **options: Any) -> Iterator[FunctionRow]:
    """A row for each of the functions, all with the same signatures."""
    for name in names.split():
        yield FunctionRow(f"{module}.{name}" if module else name, signatures, **options)


def calls(module: str, names: str, *given: Any, **options: Any) -> Iterator[FunctionRow]:
    """A row for each of the functions, all with the same calls.

    Args: given: for each call the tuple of its arguments, the last of which are the keywords if it is a dict;
    anything but a tuple is the only argument.
    """
    tuples = tuple(_call(one if isinstance(one, tuple) else (one,)) for one in given)
    for name in names.split() if tuples else ():                 # empty if the calls are of other versions of JAX
        yield FunctionRow(f"{module}.{name}", calls=tuples, **options)


def _call(args: tuple[Any, ...]) -> Call:
    return Call(args[:-1], args[-1]) if args and isinstance(args[-1], dict) and args[-1] else Call(args, {})
