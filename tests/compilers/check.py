"""Runs a program of the kind "numbers" eagerly, under jit and in NumPy, and reports how the results agree.

Correct results may differ by some units of the coarsest dtype in the program, on the scale of their array. Each term of
the longest sum adds an eighth of a unit, because rounding errors of equal terms have the same sign. Where results
differ by more, the condition of the program is measured: it runs again with random relative errors added to each
rounded value. Differences of correct results are at most a few times as large as the effect of these errors. Results
without rounding must be equal.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tests.compare import assert_close, assert_same_types, leaves, tolerance
from tests.compilers import numpy_side
from tests.compilers.program import Program, inputs
from xjax.runtime.xla import jaxlib_version
from xjax.runtime.xla.compiler_faults import FAULTS

# Units in the last place, and units per term. Sums of half-precision numbers are rounded once.
_ULPS, _ULPS_OF_TERM = 32, 1 / 8
_ULPS_OF_HALF, _ULPS_OF_TERM_OF_HALF = 6, 2.0**-15
# To measure the condition, errors of _NOISE units are added to each value; results may move _MOVES times as far.
_NOISE, _MOVES = 4, 16
# Above these numbers, squares overflow, or NumPy's float64 results do not predict those of the narrower type.
_LARGEST = {"float32": 1e18, "bfloat16": 1e18, "float64": 1e150, "float16": 1e3}
_SMALLEST_SCALE = {"float32": 1e-20, "bfloat16": 1e-3, "float64": 1e-100, "float16": 1e-2}
# XLA without its kernel library and with few optimizations.
_PLAIN = {"xla_cpu_experimental_ynn_fusion_type": "", "xla_backend_optimization_level": 0}
# XLA without the pass that regroups products: "regrouped products" in the table of faults.
_NOT_REGROUPED = {"xla_disable_hlo_passes": "algsimp"}


class Verdict(NamedTuple):
    """kind: "same", "ill-conditioned", "out of range", "known fault", or a fault. seconds: processor time."""

    kind: str
    detail: str = ""
    seconds: float = 0.0

    @property
    def fault(self) -> bool:
        return self.kind not in ("same", "ill-conditioned", "out of range", "known fault")


def check(p: Program, lib: Any, options: dict[str, Any] | None = None, eager: bool = True) -> Verdict:
    """Compare the results of a program. A difference that disappears if products are not regrouped is a known fault.

    Args: lib: xjax, or real JAX. options: XLA options of the compilation under jit. eager: also run the program
      eagerly, which takes most of the time, because each operation is compiled. If False, a program without a meaning
      in NumPy is compared with itself compiled with `_PLAIN`.
    """
    with lib.enable_x64(p.x64), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        arguments = inputs(p)
        ours = [_on_device(lib, a.values, x) for a, x in zip(p.args, arguments, strict=True)]
        jitted = lambda options: lib.block_until_ready(
            lib.jit(_function(p, lib, p.text()), compiler_options=options or None)(*ours))
        start = time.process_time()
        out = jitted(options)
        seconds = time.process_time() - start
        if eager:
            other = _function(p, lib, p.text())(*ours)
        else:
            other = out if p.has_numpy_meaning else jitted(_PLAIN)
        judged = lambda out: _judge(p, lib, arguments, ours, out, other)._replace(seconds=seconds)
        verdict = judged(out)
        if verdict.kind in ("jit and NumPy differ", "jit and eager differ") and _products_are_regrouped() \
                and not judged(jitted({**(options or {}), **_NOT_REGROUPED})).fault:
            return verdict._replace(kind="known fault")
        return verdict


def _products_are_regrouped() -> bool:
    return FAULTS["regrouped products"].is_in(jaxlib_version)


def _judge(p: Program, lib: Any, arguments: list[Any], ours: list[Any], jitted: Any, eager: Any) -> Verdict:
    if lib.__name__ == "xjax":
        try:
            assert_same_types(jitted, eager)
        except AssertionError as error:
            return Verdict("types", str(error))
    jitted, eager = _arrays(jitted), _arrays(eager)
    rerun = lambda note: _arrays(_function(p, lib, p.noted_text(), note=note, jnp=_Noted(lib, note))(*ours))
    if p.has_numpy_meaning:
        size = _Largest()
        truth = _in_numpy(p, arguments, size.note)
        if size.largest > _LARGEST[p.rounding]:
            return Verdict("out of range")
        if [x.shape for x in truth] != [x.shape for x in jitted]:
            return Verdict("shapes", f"{[x.shape for x in jitted]}, in NumPy {[x.shape for x in truth]}")
        rerun = lambda note: _in_numpy(p, arguments, note)
        pairs = (("jit and NumPy", jitted, truth), ("eager and NumPy", eager, truth))
    else:
        if any(_beyond(x, _LARGEST[p.rounding]) for x in eager):
            return Verdict("out of range")
        pairs = (("jit and eager", jitted, eager),)
    return _differences(p, pairs, rerun)


def _differences(p: Program, pairs: Any, rerun: Callable[[Any], list[np.ndarray]]) -> Verdict:
    """The verdict on the first pair that differs. rerun: computes the results with a function that modifies values."""
    results = [(what, k, x, y) for what, xs, ys in pairs for k, (x, y) in enumerate(zip(xs, ys, strict=True))]
    results = [(what, k, x, y) for what, k, x, y in results if _differs(p, k, x, y, 0.0)]
    if not results:
        return Verdict("same")
    eps = _NOISE * float(ml_dtypes.finfo(p.rounding).eps)
    still = rerun(lambda x: x)
    moved = [rerun(_noise(np.random.default_rng(k), eps)) for k in range(3)]
    for what, k, x, y in results:
        allowed = _MOVES * max(_distance(other[k], still[k]) for other in moved)
        if text := _differs(p, k, x, y, allowed):
            return Verdict(f"{what} differ", f"result {k}, allowed by condition {allowed:.3g}: {text}")
    return Verdict("ill-conditioned")


def _differs(p: Program, k: int, x: np.ndarray, y: np.ndarray, more: float) -> str:
    """The report of `assert_close` on two results; "" if they agree. more: a further absolute tolerance."""
    if x.dtype.kind in "biu" or p.exact[k]:
        same = np.array_equal(x.astype(np.float64), y.astype(np.float64), equal_nan=True)
        return "" if same else _where(x, y)
    half = p.rounding in ("bfloat16", "float16")
    ulps = _ULPS_OF_HALF + _ULPS_OF_TERM_OF_HALF * p.terms if half else _ULPS + _ULPS_OF_TERM * p.terms
    scale = max(_largest(y), _SMALLEST_SCALE[p.rounding])
    limit = ulps * float(ml_dtypes.finfo(p.rounding).eps) + more / scale
    try:
        assert_close(x, y, tol=limit / tolerance(x.dtype), scale=_SMALLEST_SCALE[p.rounding])
    except AssertionError as error:
        return f"{error}\n{_where(x, y)}"
    return ""


def _where(x: np.ndarray, y: np.ndarray) -> str:
    """The position of the largest difference, as text."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    gap = np.nan_to_num(np.abs(x - y), nan=np.inf, posinf=np.inf)
    k = np.unravel_index(np.argmax(gap), gap.shape)
    return (f"shape {x.shape}, {np.count_nonzero(gap)} elements differ, most at {tuple(map(int, k))}: {x[k]!r}, "
            f"expected {y[k]!r}; scale {_largest(y):.4g}")


def _largest(x: np.ndarray) -> float:
    x = x.astype(np.float64)
    return float(np.max(np.abs(x), initial=0, where=np.isfinite(x)))


def _distance(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x.astype(np.float64), y.astype(np.float64)
    return float(np.max(np.abs(x - y), initial=0, where=np.isfinite(x) & np.isfinite(y)))


def _beyond(x: np.ndarray, largest: float) -> bool:
    return x.dtype.kind not in "biu" and not np.all(np.abs(x.astype(np.float64)) < largest)


class _Largest:
    """Records the largest number of a program."""

    largest = 0.0

    def note(self, x: Any) -> Any:
        if not np.all(np.isfinite(x)):
            self.largest = np.inf
        self.largest = max(self.largest, _largest(np.asarray(x)))
        return x


def _noise(rng: np.random.Generator, eps: float) -> Callable[[Any], Any]:
    """A function that multiplies the floats of an array by random relative errors."""
    def note(x: Any) -> Any:
        if not hasattr(x, "dtype") or np.dtype(x.dtype).kind in "biu":
            return x
        return x * (1 + eps * rng.uniform(-1, 1, x.shape)).astype(x.dtype)
    return note


class _Noted:
    """`lib.numpy` with a tanh whose derivative, 1 - y * y, is computed from the result of `note`.

    Where tanh is near 1, an error in its last place changes the derivative by many units.
    """

    def __init__(self, lib: Any, note: Callable[[Any], Any]):
        self.tanh = lib.custom_jvp(lambda x: note(lib.numpy.tanh(x)))
        self.tanh.defjvps(lambda dx, y, x: (1 - y * y) * dx)
        self.module = lib.numpy

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


# -- running ------------------------------------------------------------------------------------------------------

def _function(p: Program, lib: Any, text: str, **more: Any) -> Callable[..., Any]:
    names = {"jax": lib, "jnp": lib.numpy, "lax": lib.lax, "nn": lib.nn, **more}
    exec(compile(text, f"<program {p.seed}>", "exec"), names)
    return names["program"]


def _in_numpy(p: Program, arguments: list[Any], note: Callable[[Any], Any]) -> list[np.ndarray]:
    names = numpy_side.names(note)
    exec(compile(p.noted_text(numpy=True), f"<program {p.seed} in NumPy>", "exec"), names)
    wide = [np.asarray(x, np.float64) if a.dtype not in ("int32", "bool") else x
            for a, x in zip(p.args, arguments, strict=True)]
    return _arrays(names["program"](*wide))


def _on_device(lib: Any, values: str | int, x: Any) -> Any:
    return lib.random.key(int(x)) if values == "key" else lib.numpy.asarray(x)


def _arrays(tree: Any) -> list[np.ndarray]:
    return list(map(np.asarray, leaves(tree)))
