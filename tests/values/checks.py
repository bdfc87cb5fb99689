"""The checks of rows.

With signatures: values and types, jit = eager, vmap = loop, derivatives. With calls: the outcome of each.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import xjax
from tests.compare import (
    Outcome,
    assert_close,
    assert_same,
    assert_same_outcome,
    assert_same_types,
    is_inexact,
    leaves,
    outcome,
)
from tests.ops.row import double
from tests.oracle import real_jax
from tests.values.row import Call, FunctionRow
from tests.values.signatures import Word, words

STEP = 1e-6                          # of central differences in double precision
KEPT = 3                             # value sets of a signature that are also compared eagerly and under vmap


def check_values(row: FunctionRow, jax: Any, value_sets: int) -> None:
    """On `value_sets` sets of arrays, spread over the signatures, results equal those of JAX and of NumPy or SciPy."""
    seen = set()
    for signature in row.signatures:
        # Tracing and batch rules depend on shapes and on kinds of numbers, so signatures that differ in precision alone
        # are # run eagerly and mapped once. Compiling one of these programs takes longer than comparing all sets of
        # arrays.
        arguments = words(signature)
        shapes_and_kinds = tuple((w.shape, w.kind) for w in arguments)
        keep = 0 if shapes_and_kinds in seen else KEPT
        _check_signature(row, jax, signature, arguments, -(-value_sets // len(row.signatures)), keep)
        seen.add(shapes_and_kinds)


def _check_signature(row: FunctionRow, jax: Any, signature: str, arguments: list[Word], value_sets: int,
                     keep: int) -> None:
    eager, compiled = row.function(xjax), _compiled(row, xjax)
    theirs, reference, kept = _compiled(row, jax), _reference(row, arguments), []

    def check(xs: list[np.ndarray]) -> None:
        what = f"{row} of {signature}"
        got = compiled(*xs)
        want = theirs(*xs)
        # Some of JAX's functions return lists where others return tuples; tests of everyday code compare containers.
        if row.differs:
            assert_same_types(leaves(got), leaves(want), what=what)
        else:
            assert_same(leaves(got), leaves(want), tol=row.tol, what=f"{what}, against JAX")
        if reference:
            assert_close(got, reference(*map(double, xs)), tol=row.tol, what=f"{what}, against NumPy")
        if len(kept) < keep:
            kept.append((xs, got))
            assert_close(eager(*xs), got, tol=row.tol, what=f"{what}, eager against jit")

    for_each(arguments, value_sets, check)
    if kept and row.vmap and row.jit and arguments:
        stacked = [np.stack(x) for x in zip(*[xs for xs, _ in kept], strict=True)]
        mapped = xjax.tree.leaves(xjax.jit(xjax.vmap(eager))(*stacked))
        for i, (_, got) in enumerate(kept):
            assert_close([y[i] for y in mapped], xjax.tree.leaves(got), tol=row.tol,
                         what=f"vmap of {row} of {signature}")


def _compiled(row: FunctionRow, library: Any) -> Callable:
    function = row.function(library)
    return library.jit(lambda *xs: function(*xs)) if row.jit else function


def _reference(row: FunctionRow, arguments: list[Word]) -> Callable | None:
    """NumPy's function, unless half precision makes its result in double precision meaningless."""
    if any(w.is_inexact and w.dtype.itemsize < 4 for w in arguments):
        return None
    fun = row.reference

    def quiet(*xs: Any) -> Any:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return fun(*xs)
    return fun and quiet


def for_each(arguments: list[Word], count: int, check: Callable[[list[np.ndarray]], None]) -> None:
    """Call `check` with `count` lists of arrays; if one fails, hypothesis searches for the simplest failing list.

    `check` runs on several lists for each draw, because hypothesis's own work around a draw takes longer than most
    checks. hypothesis gives up draws of more than about 1,000 numbers.
    """
    numbers = sum(math.prod(word.shape) for word in arguments)
    together = max(1, min(count, 8, 400 // max(numbers, 1)))

    @settings(max_examples=-(-count // together), deadline=None, derandomize=True, database=None,
              phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(*[word.strategy() for word in arguments]), min_size=together, max_size=together))
    def run(drawn: list[tuple[np.ndarray, ...]]) -> None:
        for xs in drawn:
            check(list(xs))
    run()


# -- derivatives --------------------------------------------------------------------------------------------------

def check_derivatives(row: FunctionRow, jax: Any, value_sets: int) -> None:
    """vjp is JAX's on every set of arrays; at numbers without ties, jvp is the slope, and vjp is jvp transposed.

    If results differ from JAX's deliberately, only the slopes are compared.
    """
    for signature in row.grad:
        arguments = words(signature)
        pullback, theirs = (library.jit(_pullback(row, library, arguments)) for library in (xjax, jax))
        what = f"{row} of {signature}"
        if not row.differs:
            for_each(arguments, value_sets, lambda xs, pullback=pullback, theirs=theirs, what=what: assert_same(
                leaves(pullback(xs)), leaves(theirs(xs)), tol=16 * row.tol, what=f"vjp of {what}, against JAX"))
        _check_slopes(row, arguments, pullback, what)


def _check_slopes(row: FunctionRow, arguments: list[Word], pullback: Callable, what: str) -> None:
    """Check the slopes of results in double precision; differences of results with fewer digits are meaningless."""
    rng = np.random.default_rng(zlib.crc32(what.encode()))
    xs = [w.random(rng) for w in arguments]
    smooth = [i for i, w in enumerate(arguments) if w.is_inexact]
    dxs, of_floats = [_direction(xs[i], rng) for i in smooth], _of_floats(row, xjax, arguments)

    @xjax.jit
    def jvp(xs: list[Any]) -> Any:
        return xjax.jvp(lambda *ps: of_floats(_with(xs, smooth, ps)), [xs[i] for i in smooth], dxs)

    def moved(step: float) -> list[Any]:
        there = list(xs)
        for i, dx in zip(smooth, dxs, strict=True):
            there[i] = xs[i] + step * dx
        return jvp(there)[0]

    if any(y.dtype not in (np.float64, np.complex128) for y in moved(0)):
        return
    slopes = [(np.asarray(a) - np.asarray(b)) / (2 * STEP) for a, b in zip(moved(STEP), moved(-STEP), strict=True)]
    _, dys = jvp(xs)
    # The error of a central difference: STEP ** 2 from truncation and eps / STEP = 2e-10 from rounding, times the
    # scale.
    for dy, slope in zip(dys, slopes, strict=True):
        scale = max(1.0, float(np.max(np.abs(slope), initial=0)))
        np.testing.assert_allclose(dy, slope, rtol=0, atol=3e-7 * row.tol * scale, err_msg=f"jvp of {what}")
    backward = sum(float(np.sum(np.asarray(b) * dx).real) for b, dx in zip(pullback(xs), dxs, strict=True))
    forward = sum(float(np.sum(np.asarray(dy) * _weights(dy)).real) for dy in dys)
    np.testing.assert_allclose(backward, forward, rtol=1e-9 * row.tol, atol=1e-9 * row.tol, err_msg=f"vjp of {what}")


def _of_floats(row: FunctionRow, library: Any, arguments: list[Word]) -> Callable:
    """The function from a list of all arrays to its results of floats."""
    function = row.function(library)
    return lambda xs: [y for y in library.tree_util.tree_leaves(function(*xs)) if is_inexact(y)]


def _pullback(row: FunctionRow, library: Any, arguments: list[Word]) -> Callable:
    smooth = [i for i, w in enumerate(arguments) if w.is_inexact]
    of_floats = _of_floats(row, library, arguments)

    def pullback(xs: list[Any]) -> Any:
        ys, back = library.vjp(lambda *ps: of_floats(_with(xs, smooth, ps)), *[xs[i] for i in smooth])
        return back([library.numpy.asarray(_weights(y)) for y in ys])     # JAX's rules need its own arrays
    return pullback


def _with(xs: list[Any], places: list[int], values: Any) -> list[Any]:
    there = dict(zip(places, values, strict=True))
    return [there.get(i, x) for i, x in enumerate(xs)]


def _weights(y: Any) -> np.ndarray:
    """A cotangent with a different weight for each number of a result."""
    n = int(np.prod(y.shape))
    w = np.cos(np.arange(n))
    return (w + 1j * np.sin(np.arange(n)) if np.dtype(y.dtype).kind == "c" else w).reshape(y.shape).astype(y.dtype)


def _direction(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    d = rng.normal(size=x.shape)
    return (d + 1j * rng.normal(size=x.shape) if x.dtype.kind == "c" else d).astype(x.dtype)


# -- calls --------------------------------------------------------------------------------------------------------

def check_calls(rows: Iterable[FunctionRow], other_class: bool = False) -> None:
    """Assert that every call has JAX's outcome: its value, or an error of its class.

    Args: other_class: the class of the error differs deliberately.
    """
    calls = [(row, call) for row in rows for call in row.calls]
    wants = _outcomes_in_jax([lambda row=row, call=call: called(real_jax(), row, call) for row, call in calls])
    for (row, call), theirs in zip(calls, wants, strict=True):
        what = f"{row} of {[getattr(x, 'dtype', x) for x in call.args]}, {call.keywords}"
        ours = outcome(called, xjax, row, call)
        if not (other_class and ours.error and theirs.error):
            assert_same_outcome(ours, theirs, tol=row.tol, what=what)


def called(library: Any, row: FunctionRow, call: Call) -> Any:
    """The result of one call of a row in a library."""
    args, keywords = to_arrays(library.numpy, list(call.args)), call.keywords.items()
    return row.function(library)(*args, **{k: to_arrays(library.numpy, v) for k, v in keywords})


def to_arrays(module: Any, x: Any) -> Any:
    """Arguments with NumPy arrays replaced by arrays of the library."""
    if isinstance(x, np.ndarray):
        return module.asarray(x)
    if isinstance(x, list) and any(isinstance(y, (np.ndarray, list)) for y in x):
        return [to_arrays(module, y) for y in x]
    return x


def _outcomes_in_jax(calls: Sequence[Callable[[], Any]]) -> list[Outcome]:
    """The outcomes of calls of JAX's functions.

    Calls that return arrays form one program, which compiles sooner than their operations. The others run again one by
    one; so do calls that raise inside the program, for example because they need concrete values.
    """
    jax, staged = real_jax(), []

    def is_staged(result: Outcome) -> bool:
        leaves = jax.tree.leaves(result.value)
        return not result.error and bool(leaves) and all(isinstance(x, jax.core.Tracer) for x in leaves)

    @jax.jit
    def program() -> list[Any]:
        staged[:] = map(outcome, calls)
        return [result.value for result in staged if is_staged(result)]

    values = iter(program())
    return [Outcome(next(values)) if is_staged(result) else outcome(call)
            for result, call in zip(staged, calls, strict=True)]
