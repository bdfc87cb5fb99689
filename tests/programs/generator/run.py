"""Run one program with both libraries and compare values, types, trees and errors.

The oracle is real JAX in float64. It runs under jit, which is much faster than op by op, unless the program has Python
control flow on values.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import xjax
from tests.compare import Outcome, difference, outcome, tolerance
from tests.programs.generator import wrappers
from tests.programs.generator.draw import inputs
from tests.programs.generator.known import known_difference
from tests.programs.generator.minimise import minimise
from tests.programs.generator.program import Program

# Programs have some 60 operations of relative error 1e-16 at condition numbers up to about 1e3 (the guards are smooth),
# and the two libraries add up in different order: 1e-10 is ten times their product. Differences are measured on the
# scale of an array, because sums cancel. Programs with float32 pieces: the same reasoning with 1e-7.
_WIDE = {"tol": 1e-10 / tolerance("float64"), "scale": 1e-3}
_NARROW = {"tol": 2e-4 / tolerance("float32"), "scale": 1e-3, "like": "float32"}
_HELPERS = {k: v for k, v in vars(wrappers).items() if k.endswith("_of")}
_FAMILIES = (NotImplementedError, IndexError, KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError,
             OverflowError, FloatingPointError, RuntimeError)


class Verdict(NamedTuple):
    """kind: "same", "both raise", "ill-conditioned", "known", or a mismatch."""

    kind: str
    detail: str = ""

    @property
    def mismatch(self) -> bool:
        return self.kind not in ("same", "both raise", "ill-conditioned", "known")


def check(jax: Any, p: Program) -> dict[str, str]:
    """The kind of the outcome, and the reason if it is not "same".

    For a mismatch also its text: the difference and the smallest program that shows it.
    """
    verdict = compare(jax, p)
    if not verdict.mismatch:
        return {"kind": verdict.kind, "reason": verdict.detail[:70]}
    small = minimise(p, lambda q: compare(jax, q).kind == verdict.kind)
    return {"kind": verdict.kind, "text": f"{compare(jax, small).detail}\n{small.text()}"}


def compare(jax: Any, p: Program) -> Verdict:
    """Run the program with real JAX and with xjax, and judge how they agree."""
    arguments = inputs(p)
    with x64(jax):
        theirs = execute(jax, p if p.concrete else replace(p, eager=False), arguments)
        ours = execute(xjax, p, arguments)
        verdict = judge(p, ours, theirs)
        if verdict.kind == "value" and ill_conditioned(jax, p, arguments, ours, theirs):
            verdict = Verdict("ill-conditioned", verdict.detail)
    reason = known_difference(p, verdict.detail) if verdict.mismatch else None
    return Verdict("known", reason) if reason else verdict


@contextmanager
def x64(jax: Any) -> Iterator[None]:
    """64-bit types in both libraries, warnings off."""
    with jax.enable_x64(True), xjax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def execute(lib: Any, p: Program, arguments: list[Any]) -> Outcome:
    """The outcome of the source with `lib` as jax."""
    names = {"jax": lib, "jnp": lib.numpy, "lax": lib.lax, "nn": lib.nn, "np": np, **_HELPERS}

    def run() -> Any:
        exec(compile(p.text(), f"<program {p.seed}>", "exec"), names)
        out = names["program"](*lib.tree_util.tree_map(lib.numpy.asarray, arguments))
        for x in wrappers.leaves(out):
            np.asarray(x)                               # raises errors that are still pending
        return out
    return outcome(run)


def judge(p: Program, ours: Outcome, theirs: Outcome) -> Verdict:
    """Judge how two results agree."""
    if theirs.error is not None and ours.error is not None:
        mine, other = family(ours.error), family(theirs.error)
        if mine == other:
            return Verdict("both raise", describe(theirs.error))
        return Verdict("class", f"jax: {describe(theirs.error)}\nxjax: {describe(ours.error)}\n{_place(ours.error)}")
    if theirs.error is not None:
        return Verdict("only jax raises", describe(theirs.error))
    if ours.error is not None:
        return Verdict("only xjax raises", f"{describe(ours.error)}\n{_place(ours.error)}")
    differs = difference(ours.value, theirs.value, **_tolerances(p, theirs))
    return Verdict(*differs) if differs else Verdict("same")


def _tolerances(p: Program, result: Outcome) -> dict[str, Any]:
    """The tolerances; of single precision if any part of the results is, whatever their own dtypes."""
    narrow = "float32" in p.text() or any(x.dtype in (np.float32, np.complex64) for x in wrappers.leaves(result.value))
    return _NARROW if narrow else _WIDE


def ill_conditioned(jax: Any, p: Program, arguments: list[Any], ours: Outcome, theirs: Outcome) -> bool:
    """Whether rounding alone explains the difference: JAX's own result changes as much.

    The inputs are changed by a relative 1e-11, a thousand to a million times the rounding error of the program. The
    program also runs in JAX's other mode, whose order of operations differs. Either shows a tie that rounding decides.
    """
    rng = np.random.default_rng(p.seed + 1)

    def moved(x):
        return x * (1 + 1e-11 * rng.uniform(-1, 1, x.shape)) if x.dtype == np.float64 else x
    others = [execute(jax, replace(p, eager=False), jax.tree_util.tree_map(moved, arguments)) for _ in range(2)]
    others.append(execute(jax, replace(p, eager=True), arguments))
    others = [_arrays(o) for o in others if o.error is None]
    tolerances = _tolerances(p, theirs)
    return all(not difference(x, y, **tolerances) or any(_moves_as_far(x, y, other[k]) for other in others)
               for k, (x, y) in enumerate(zip(_arrays(ours), _arrays(theirs), strict=True)))


def _arrays(result: Outcome) -> list[np.ndarray]:
    return list(map(np.asarray, wrappers.leaves(result.value)))


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
    """The innermost frames of the traceback."""
    return "".join(traceback.format_tb(error.__traceback__)[-3:])
