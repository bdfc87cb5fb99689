"""The checks of a row (see `row`); each takes the row and the namespaces, ours and JAX's, in which it runs.

Checks with random arguments compare values with NumPy or JAX, vmap with loops, derivatives with central differences,
and printed programs with JAX's. `check_as_jax` compares all results of a row with JAX's, for the row's own arguments.

Compilation takes most of the time of these checks, so the values of a row are one program, and its vmaps another.
Central differences and the derivatives compared with them run one operation at a time, because rows share these
operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import xjax
from tests.compare import assert_close, assert_same, assert_same_types, is_inexact, leaves, tolerance
from tests.ops.row import Dtypes, OpRow, Shapes, double, noise, operands, spread, value_cases, widened
from tests.oracle import real_jax

# A row is one operation: it differs by fewer units than chains and sums.
ONE = 0.4


def params(rows: Sequence[OpRow]) -> list[Any]:
    return [pytest.param(row, id=str(row)) for row in rows]


# -- values -------------------------------------------------------------------------------------------------------

def check_value(row: OpRow, ours: Any, theirs: Any) -> None:
    """Values equal NumPy's in double precision, or JAX's; types equal JAX's; compiled equals eager."""
    jax, cases = real_jax(), value_cases(row)

    def all_of(namespace: Any) -> Callable[[list[Any]], list[Any]]:
        return lambda all_xs: [row.function(namespace)(*xs) for xs in all_xs]

    # JAX computes values only where NumPy has no result.
    unknown = [case.xs for case in cases if case.extreme or row.oracle is None]
    from_jax = iter(jax.jit(all_of(theirs))(unknown))
    types = jax.eval_shape(all_of(theirs), [case.xs for case in cases])
    results = xjax.jit(all_of(ours))([case.xs for case in cases])
    for case, type_, got in zip(cases, types, results, strict=True):
        want = next(from_jax) if case.extreme or row.oracle is None else row.oracle(*map(double, case.xs))
        assert_close(got, want, tol=ONE * row.tol, what=case.what)
        assert_same_types(got, type_, what=case.what)
    eager = row.function(ours)(*cases[0].xs)
    assert_same(results[0], eager, tol=ONE * row.tol, what=f"jit of {cases[0].what}")


def check_weak_types(row: OpRow, ours: Any, theirs: Any) -> None:
    """Python numbers give the same types as in JAX, including weak types. Rows without scalar shapes are skipped."""
    if () not in [shape for shapes in row.shapes for shape in shapes]:
        return
    dtypes = spread(row.dtypes[0], len(row.shapes[0]))
    kinds = {"f": float, "c": complex, "i": int, "u": int, "b": bool}
    xs = [kinds[x.dtype.kind](x) for x in operands(row, ((),) * len(dtypes), dtypes)]
    want = real_jax().eval_shape(row.function(theirs), *xs)
    assert_same_types(xjax.eval_shape(row.function(ours), *xs), want, what=f"{row}{tuple(xs)}")


# -- vmap ---------------------------------------------------------------------------------------------------------

def axis_choices(shapes: Shapes) -> Iterator[tuple[tuple[int | None, ...], int]]:
    """Ways to map arguments: all at each axis in turn, one alone, all but one; each with an axis for the result."""
    together = [tuple(min(axis, len(s)) for s in shapes) for axis in range(max(map(len, shapes)) + 1)]
    chosen = dict.fromkeys(together)
    for axes in (together[0], together[-1]):
        for i in range(len(shapes)):
            if len(shapes) > 1:
                chosen[tuple(a if j == i else None for j, a in enumerate(axes))] = None
                chosen[tuple(None if j == i else a for j, a in enumerate(axes))] = None
    mixed = tuple(0 if i % 2 else len(s) for i, s in enumerate(shapes))
    chosen[mixed] = None
    for k, axes in enumerate(chosen):
        if any(a is not None for a in axes):
            yield axes, (0, -1)[k % 2]


def check_vmap(row: OpRow, ours: Any) -> None:
    """vmap equals a loop for all choices of mapped arguments and axes."""
    f, size = row.function(ours), 2
    choices = [(shapes, *axes) for shapes in row.shapes[:2] for axes in axis_choices(shapes)]
    arguments = [operands(row, tuple(s if a is None else (*s[:a], size, *s[a:])
                                     for s, a in zip(shapes, in_axes, strict=True)), row.dtypes[0])
                 for shapes, in_axes, _ in choices]

    def all_mapped(all_xs: list[Any]) -> list[Any]:
        return [xjax.vmap(f, in_axes, out_axis)(*xs)
                for (_, in_axes, out_axis), xs in zip(choices, all_xs, strict=True)]

    mapped = xjax.jit(all_mapped)(arguments)
    for (shapes, in_axes, out_axis), xs, got in zip(choices, arguments, mapped, strict=True):
        each = [f(*[x if a is None else np.take(x, k, a) for x, a in zip(xs, in_axes, strict=True)])
                for k in range(size)]
        want = [np.stack(list(map(np.asarray, ys)), out_axis) for ys in zip(*map(leaves, each), strict=True)]
        assert_close(got, want, tol=ONE * row.tol, what=f"vmap({row}, {in_axes}, {out_axis}) of {shapes}")


# -- derivatives --------------------------------------------------------------------------------------------------

STEP = 1e-5                 # of central differences; their error is about 1e-10 in double precision
SLOPES = 1e-6 / tolerance("float64")


def derivative_dtypes(row: OpRow) -> list[Dtypes]:
    """The first dtype of a row, and its first complex dtype."""
    return list(dict.fromkeys([row.dtypes[0], *[d for d in row.dtypes if "complex" in str(d)][:1]]))


def derivative_cases(rows: Sequence[OpRow]) -> list[Any]:
    """Every differentiable row with each of its `derivative_dtypes`."""
    return [pytest.param(row, dtypes, id=f"{row}-{dtypes if isinstance(dtypes, str) else '_'.join(dtypes)}")
            for row in rows if row.order for dtypes in derivative_dtypes(row)]


def check_derivatives(row: OpRow, dtypes: Dtypes, ours: Any, order: int = 2) -> None:
    """In double precision: jvp against central differences, vjp against jvp; at order 2 the same for these two.

    It runs one operation at a time: rows share operations, which compile once; one program per row took as long.
    """
    args = row.arguments(widened(dtypes))
    xs = [args[i] for i in row.smooth(args)]
    assert xs, f"{row} has order={row.order} but no argument of a float dtype"
    with xjax.enable_x64(True):
        _check_orders(_of_smooth(row, ours, args), xs, min(order, row.order), str(row), np.random.default_rng(1))


def _of_smooth(row: OpRow, namespace: Any, args: Sequence[Any]) -> Callable[..., list[Any]]:
    """The row as a function from the differentiated arguments, with the others fixed, to a list of inexact results."""
    places = row.smooth(args)

    def f(*xs: Any) -> list[Any]:
        moved = dict(zip(places, xs, strict=True))
        results = row.function(namespace)(*[moved.get(i, x) for i, x in enumerate(args)])
        return [y for y in leaves(results) if is_inexact(y)]
    return f


def _check_orders(f: Callable[..., list[Any]], xs: list[np.ndarray], order: int, what: str,
                  rng: np.random.Generator) -> None:
    """For order 2, the same checks are applied to the jvp and to the vjp of `f`."""
    dxs = [noise(x, rng) for x in xs]
    ys, dys = xjax.jvp(f, tuple(xs), tuple(dxs))
    forward, backward = (f(*[x + sign * STEP * dx for x, dx in zip(xs, dxs, strict=True)]) for sign in (1, -1))
    slopes = [(np.asarray(a) - np.asarray(b)) / (2 * STEP) for a, b in zip(forward, backward, strict=True)]
    assert_close(dys, slopes, tol=SLOPES, what=f"jvp of {what}")

    cts = [noise(y, rng) for y in ys]
    _, pullback = xjax.vjp(f, *xs)
    back = pullback(cts)
    assert [b.dtype for b in back] == [x.dtype for x in xs], f"vjp of {what}: dtypes"
    np.testing.assert_allclose(_dot(back, dxs), _dot(cts, dys), rtol=1e-9, atol=1e-9,
                               err_msg=f"vjp against jvp of {what}")
    if order > 1:
        _check_orders(lambda *xs: xjax.jvp(f, xs, tuple(dxs))[1], xs, order - 1, f"jvp of {what}", rng)
        _check_orders(lambda *xs: list(xjax.vjp(f, *xs)[1](cts)), xs, order - 1, f"vjp of {what}", rng)


def _dot(us: Sequence[Any], vs: Sequence[Any]) -> float:
    """Pairing of cotangents with tangents: the real part of the sum of products, without conjugation."""
    return float(sum(np.sum(np.asarray(u) * np.asarray(v)).real for u, v in zip(us, vs, strict=True)))


def check_single_precision(row: OpRow, ours: Any) -> None:
    """Derivatives in single precision agree with derivatives in double precision."""
    def slopes(args: list[Any], dxs: list[Any]) -> list[Any]:
        return xjax.jvp(_of_smooth(row, ours, args), tuple(args[i] for i in row.smooth(args)), tuple(dxs))[1]

    args = row.arguments()
    dxs = [np.ones_like(args[i]) for i in row.smooth()]
    single = xjax.jit(slopes)(args, dxs)
    with xjax.enable_x64(True):
        wide = slopes([double(x) for x in args], [double(x) for x in dxs])
    for s, w in zip(single, wide, strict=True):
        assert w.dtype.itemsize == 2 * s.dtype.itemsize, f"derivative of {row}: {s.dtype}, and in double {w.dtype}"
    assert_close(single, wide, tol=row.tol, what=f"derivative of {row} in single precision")


# -- programs -----------------------------------------------------------------------------------------------------

# Parameters of JAX's sharding machinery, and parameters with default values.
_ONLY_JAX = re.compile(r"\s*\b(out_sharding|sharding|memory_space|accuracy)=None\b")
# JAX sometimes makes unused zeros.
_DEAD_ZEROS = re.compile(r"_:\S+ = broadcast_in_dim 0\.0:\S+ ")
_NUMPY_INT = re.compile(r"np\.int64\((\d+)\)")


def normalized(program: Any) -> str:
    """Text of a program without line breaks and without the parts that only JAX prints."""
    text = _NUMPY_INT.sub(r"\1", _ONLY_JAX.sub("", str(program)))
    return _DEAD_ZEROS.sub("", re.sub(r"\s+", " ", text.replace("[ ", "[").replace(";", " ")))


def check_programs(row: OpRow, ours: Any, theirs: Any) -> None:
    """The programs of an operation, of its jvp and of its vjp print as in JAX."""
    xs, libraries = row.arguments(), ((xjax, ours), (real_jax(), theirs))
    _same_program([lib.make_jaxpr(row.function(namespace))(*xs) for lib, namespace in libraries], str(row))
    if not row.order:
        return

    def derivative(lib: Any, namespace: Any, reverse: bool) -> Callable[..., Any]:
        def run(xs: Any, ts: Any) -> Any:
            f, points = _of_smooth(row, namespace, xs), [xs[i] for i in row.smooth()]
            return lib.vjp(f, *points)[1](ts) if reverse else lib.jvp(f, tuple(points), tuple(ts))
        return run

    dxs = [np.ones_like(xs[i]) for i in row.smooth()]
    cts = [np.ones(y.shape, y.dtype) for y in leaves(xjax.eval_shape(row.function(ours), *xs)) if is_inexact(y)]
    for reverse, ts in ((False, dxs), (True, cts)):
        _same_program([lib.make_jaxpr(derivative(lib, namespace, reverse))(xs, ts) for lib, namespace in libraries],
                      f"{'vjp' if reverse else 'jvp'} of {row}")


def _same_program(programs: Sequence[Any], what: str) -> None:
    ours, theirs = map(normalized, programs)
    assert ours == theirs, f"{what}\nours {ours}\njax  {theirs}"


# -- all results, as in JAX ---------------------------------------------------------------------------------------

# Second derivatives divide by squares of gaps, which are above 0.01 here: 1e-16 becomes at most 1e-11.
CONDITION = 1e-9 / tolerance("float64")


def check_as_jax(row: OpRow, ours: Any, theirs: Any, order: int = 1, every_batch: bool = False,
                 copy: Callable[[np.ndarray, int], np.ndarray] | None = None) -> None:
    """The results of the row in the namespace `ours` equal those in JAX's, `theirs`, with 64-bit types: the value,
    vmapped values and derivatives, in one program.

    Args: order: of derivatives, at most the row's. every_batch: also map arguments along other axes than the first, one
      argument at a time, and with two vmaps. copy: `copy(x, k)` is the argument at position k of a mapped axis; None:
      multiples of x.
    """
    values, slopes = _everything(row, xjax, ours, order, every_batch, copy or _multiple)
    want, want_slopes = _everything(row, real_jax(), theirs, order, every_batch, copy or _multiple)
    assert_same(values, want, what=str(row))
    assert_same(slopes, want_slopes, tol=CONDITION, what=f"derivatives of {row}")


def _everything(row: OpRow, lib: Any, namespace: Any, order: int, every_batch: bool, copy: Callable) -> Any:
    """(value and vmapped values, derivatives) of a row, in one program."""
    f, own = row.function(namespace), row.arguments()
    patterns = _patterns(own, every_batch)

    def program(args: list[Any], batches: list[list[Any]], twice: list[Any], dxs: list[Any]) -> Any:
        results = [f(*args), *[lib.vmap(f, p)(*b) for p, b in zip(patterns, batches, strict=True)]]
        if every_batch:
            results.append(lib.vmap(lib.vmap(f), 1, -1)(*twice))
        return leaves(results), _jvp_and_vjp(row, lib, namespace, args, dxs, min(order, row.order))

    rng = np.random.default_rng(5)
    dxs = [noise(own[i], rng) for i in row.smooth()]
    batches = [_batched(own, p, copy) for p in patterns]
    twice = [np.stack([x, x[::-1]], 1) for x in batches[0]]
    with lib.enable_x64(True):
        return lib.jit(program)(own, batches, twice, dxs)


def _jvp_and_vjp(row: OpRow, lib: Any, namespace: Any, args: list[Any], dxs: list[Any], order: int) -> Any:
    """jvp and vjp; at order 2 the jvp of the vjp in place of the vjp."""
    if not row.smooth():
        return []
    f = _of_smooth(row, namespace, args)

    def gradient(*xs: Any) -> Any:
        ys, pull = lib.vjp(f, *xs)
        return pull([y * (1 + _weights(y)) for y in ys])        # cotangents that depend on the results
    xs = tuple(args[i] for i in row.smooth())
    return lib.jvp(f, xs, tuple(dxs)), lib.jvp(gradient, xs, tuple(dxs)) if order == 2 else gradient(*xs)


def _patterns(args: Sequence[np.ndarray], every: bool) -> list[tuple[int | None, ...]]:
    """in_axes: the first axis for all; with `every`, also the last for all, and the middle for each alone."""
    patterns: list[tuple[int | None, ...]] = [tuple(0 for _ in args)]
    if every:
        patterns.append(tuple(x.ndim for x in args))
    if every and len(args) > 1:
        patterns += [tuple((x.ndim + 1) // 2 if k == j else None for j, x in enumerate(args)) for k in range(len(args))]
    return list(dict.fromkeys(patterns))


def _batched(args: Sequence[np.ndarray], in_axes: Sequence[int | None], copy: Callable) -> list[np.ndarray]:
    return [x if a is None else np.stack([copy(x, k) for k in range(2)], a) for x, a in zip(args, in_axes, strict=True)]


def _multiple(x: np.ndarray, k: int) -> np.ndarray:
    return x if x.dtype.kind in "biu" else x * np.asarray(k + 1, x.dtype)


def rolled(x: np.ndarray, k: int) -> np.ndarray:
    """The elements of `x` in another order; also suitable for indices."""
    return np.roll(x, k) if x.ndim else (x + k).astype(x.dtype)


def _weights(y: Any) -> np.ndarray:
    return np.cos(np.arange(np.prod(y.shape, dtype=int))).reshape(y.shape).astype(y.dtype) / 2
