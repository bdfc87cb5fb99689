"""Run one program with both libraries and compare: values, types, trees, and what is raised.

The oracle is real JAX in float64. It runs under jit, which is much faster than op by op, except where Python control
flow on values stands in the program.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import xjax
from tests.programs.generator import wrappers
from tests.programs.generator.draw import inputs
from tests.programs.generator.known import known_difference
from tests.programs.generator.minimise import minimise
from tests.programs.generator.program import Program

# Programs have some 60 operations of relative error 1e-16 at condition numbers up to about 1e3 (the guards are smooth),
# and the two libraries add up in different order: 1e-10 is ten times their product. The error of an element is taken
# relative to the largest element of its array, because sums cancel. float32 pieces: the same reasoning with 1e-7.
_RTOL = {"float64": 1e-10, "float32": 2e-4}
_HELPERS = {k: v for k, v in vars(wrappers).items() if k.endswith("_of")}
_FAMILIES = (NotImplementedError, IndexError, KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError,
             OverflowError, FloatingPointError, RuntimeError)


@dataclass(frozen=True)
class Outcome:
    """kind: "same", "both raise", "ill-conditioned", "known", or what differs: a mismatch."""

    kind: str
    detail: str = ""

    @property
    def mismatch(self) -> bool:
        return self.kind not in ("same", "both raise", "ill-conditioned", "known")


@dataclass(frozen=True)
class Result:
    """Flat NumPy results with their tree, or the exception."""

    arrays: tuple[np.ndarray, ...] = ()
    outline: str = ""
    error: BaseException | None = None


def check(jax: Any, p: Program) -> dict[str, str]:
    """Kind of the outcome, and the reason if it is not "same".

    Of a mismatch also its text: the difference and the smallest program that shows it.
    """
    outcome = compare(jax, p)
    if not outcome.mismatch:
        return {"kind": outcome.kind, "reason": outcome.detail[:70]}
    small = minimise(p, lambda q: compare(jax, q).kind == outcome.kind)
    return {"kind": outcome.kind, "text": f"{compare(jax, small).detail}\n{small.text()}"}


def compare(jax: Any, p: Program) -> Outcome:
    """Run the program with real JAX and with xjax, and say how they agree."""
    arguments = inputs(p)
    with x64(jax):
        theirs = execute(jax, p if p.concrete else replace(p, eager=False), arguments)
        ours = execute(xjax, p, arguments)
        outcome = judge(p, ours, theirs)
        if outcome.kind == "value" and ill_conditioned(jax, p, arguments, ours, theirs):
            outcome = Outcome("ill-conditioned", outcome.detail)
    reason = known_difference(p, outcome.detail) if outcome.mismatch else None
    return Outcome("known", reason) if reason else outcome


@contextmanager
def x64(jax: Any) -> Iterator[None]:
    """64-bit types in both libraries, warnings off."""
    with jax.enable_x64(True), xjax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def execute(lib: Any, p: Program, arguments: list[Any]) -> Result:
    """The source, run with `lib` as jax."""
    names = {"jax": lib, "jnp": lib.numpy, "lax": lib.lax, "nn": lib.nn, "np": np, **_HELPERS}
    try:
        exec(compile(p.text(), f"<program {p.seed}>", "exec"), names)
        out = names["program"](*lib.tree_util.tree_map(lib.numpy.asarray, arguments))
        arrays = tuple(np.asarray(x) for x in wrappers.leaves(out))
        return Result(arrays, _outline(out))
    except Exception as error:
        return Result(error=error)


def _outline(tree: Any) -> str:
    """Containers, and for each leaf dtype, shape and weak type."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{k!r}: {_outline(tree[k])}" for k in sorted(tree)) + "}"
    if isinstance(tree, (list, tuple)):
        return f"{type(tree).__name__}({', '.join(map(_outline, tree))})"
    return f"{tree.dtype}{list(tree.shape)}{' weak' if tree.weak_type else ''}"


def judge(p: Program, ours: Result, theirs: Result) -> Outcome:
    """How two results agree."""
    if theirs.error is not None and ours.error is not None:
        mine, other = family(ours.error), family(theirs.error)
        if mine == other:
            return Outcome("both raise", describe(theirs.error))
        return Outcome("class", f"jax: {describe(theirs.error)}\nxjax: {describe(ours.error)}\n{_place(ours.error)}")
    if theirs.error is not None:
        return Outcome("only jax raises", describe(theirs.error))
    if ours.error is not None:
        return Outcome("only xjax raises", f"{describe(ours.error)}\n{_place(ours.error)}")
    if ours.outline != theirs.outline:
        return Outcome("type", f"jax:  {theirs.outline}\nxjax: {ours.outline}")
    narrow = _is_narrow(p, theirs)
    for k, (x, y) in enumerate(zip(ours.arrays, theirs.arrays, strict=True)):
        if not close(x, y, narrow):
            return Outcome("value", f"leaf {k}, {y.dtype}{list(y.shape)}\njax:  {_shown(y)}\nxjax: {_shown(x)}")
    return Outcome("same")


def _is_narrow(p: Program, result: Result) -> bool:
    """Whether float32 has a part in the results, whatever their own dtype."""
    return "float32" in p.text() or any(x.dtype in (np.float32, np.complex64) for x in result.arrays)


def close(x: np.ndarray, y: np.ndarray, narrow: bool = False) -> bool:
    """Equal to rounding; NaN and infinities in the same places."""
    if y.dtype.kind not in "fc":
        return bool(np.array_equal(x, y))
    if y.dtype.kind == "c":
        return close(x.real, y.real, narrow) and close(x.imag, y.imag, narrow)
    finite = np.isfinite(y)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return False
    x, y = x[finite].astype("float64"), y[finite].astype("float64")
    scale = np.max(np.abs(y), initial=1e-3)
    return bool(np.all(np.abs(x - y) <= _RTOL["float32" if narrow else "float64"] * scale))


def ill_conditioned(jax: Any, p: Program, arguments: list[Any], ours: Result, theirs: Result) -> bool:
    """True if rounding alone explains the difference: JAX's own result moves as far.

    The inputs are changed by a relative 1e-11, a thousand to a million times the rounding error of the program; and the
    program is run in JAX's other mode, whose order of operations differs. A tie decided by rounding shows in either.
    """
    rng = np.random.default_rng(p.seed + 1)

    def moved(x):
        return x * (1 + 1e-11 * rng.uniform(-1, 1, x.shape)) if x.dtype == np.float64 else x
    others = [execute(jax, replace(p, eager=False), jax.tree_util.tree_map(moved, arguments)) for _ in range(2)]
    others.append(execute(jax, replace(p, eager=True), arguments))
    others = [o for o in others if o.error is None]
    for k, (x, y) in enumerate(zip(ours.arrays, theirs.arrays, strict=True)):
        if close(x, y, _is_narrow(p, theirs)):
            continue
        explained = any(_moves_as_far(x, y, o.arrays[k]) for o in others)
        if not explained:
            return False
    return True


def _moves_as_far(x: np.ndarray, y: np.ndarray, other: np.ndarray) -> bool:
    if y.dtype.kind not in "fc" or not np.array_equal(np.isfinite(y), np.isfinite(other)):
        return not np.array_equal(y, other, equal_nan=y.dtype.kind in "fc")
    finite = np.isfinite(y) & np.isfinite(x)
    return bool(np.isfinite(x).tolist() == np.isfinite(y).tolist()
                and np.max(np.abs(x - y)[finite], initial=0) <= np.max(np.abs(other - y)[finite], initial=0))


def family(error: BaseException) -> str:
    """The built-in class that an `except` clause would name."""
    return next((c.__name__ for c in _FAMILIES if isinstance(error, c)), type(error).__name__)


def describe(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: " + "\n      ".join(line[:200] for line in lines[:6])


def _place(error: BaseException) -> str:
    """The innermost frames."""
    return "".join(traceback.format_tb(error.__traceback__)[-3:])


def _shown(x: np.ndarray) -> str:
    return np.array2string(x, precision=12, threshold=40).replace("\n", " ")
