"""One row per operation, many checks per row.

A row, `Op`, says how to call an operation of `lax`, with which shapes and dtypes, and what NumPy calls it. The checks
below need nothing else: value and type (against NumPy and real jax), jit, vmap over every axis, derivatives forward
and reverse, first and second order, and the printed programs.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import xjax
from tests.compare import assert_close, assert_same, assert_same_types, is_inexact, leaves, tolerance
from xjax import lax

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]              # one for each operand

UNARY: tuple[Shapes, ...] = (((3, 4),), ((),), ((0, 3),))
BINARY: tuple[Shapes, ...] = (((2, 3), (2, 3)), ((3,), ()), ((), ()), ((2, 1), (2, 3)), ((0, 3), (0, 3)))

FLOATS = ("float32", "float16", "bfloat16")
COMPLEX = ("complex64",)
INTS = ("int32", "uint8", "int8", "uint32")
BOOL = ("bool",)
INEXACT = FLOATS + COMPLEX
NUMBERS = INEXACT + INTS
ANY = NUMBERS + BOOL

# A row is one operation: it differs by fewer units than chains and sums do.
ONE = 0.4
WIDE = {"float32": "float64", "complex64": "complex128", "float16": "float64", "bfloat16": "float64"}


@dataclass(frozen=True)
class Op:
    """An operation, and where to test it.

    name: of the function in `lax`, and of the test.
    call: `call(lax, *arrays)` with ours or real jax's `lax`; None calls the function `name` with the arrays.
    oracle: the same in NumPy. It gets floats in double precision; None leaves real jax as the only oracle.
    shapes: cases, each with one shape for each operand. Derivatives are checked on the first, vmap on the first two.
    dtypes: each is one name for all operands, or a tuple with a name for each. The first is used for derivatives (in
      double precision), jit, vmap and programs; a complex one among them has its derivatives checked too.
    domain: interval of the random operands, or one for each.
    grads: how often the operation can be differentiated; 0: its derivative is zero or does not exist.
    tol: tolerance of values relative to that of one operation, `ONE`.
    special: also compare with real jax on 0, -0, inf, nan and extreme numbers.
    same_programs: whether its program, and those of its derivatives, read as jax prints them.
    """

    name: str
    call: Callable | None = None
    oracle: Callable | None = None
    shapes: tuple[Shapes, ...] = UNARY
    dtypes: tuple[str | tuple[str, ...], ...] = FLOATS
    domain: Any = (-2.0, 2.0)
    grads: int = 2
    tol: float = 1.0
    special: bool = False
    same_programs: bool = True
    id: str = field(default="", compare=False)

    def function(self, namespace: Any = lax) -> Callable:
        """The operation as a function of its operands."""
        if self.call is None:
            return getattr(namespace, self.name)
        return functools.partial(self.call, namespace)

    def __str__(self) -> str:
        return self.id or self.name


def spread(dtypes: str | tuple[str, ...], n: int) -> tuple[str, ...]:
    return (dtypes,) * n if isinstance(dtypes, str) else dtypes


def operands(op: Op, shapes: Shapes, dtypes: str | tuple[str, ...]) -> list[np.ndarray]:
    """Random operands; the same for every run."""
    rng = np.random.default_rng(zlib.crc32(f"{op}{shapes}{dtypes}".encode()))
    domains = op.domain if isinstance(op.domain[0], tuple) else (op.domain,) * len(shapes)
    return [_numbers(rng, shape, np.dtype(_dtype(name)), low, high)
            for shape, name, (low, high) in zip(shapes, spread(dtypes, len(shapes)), domains, strict=True)]


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


def widened(dtypes: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """The same dtypes in double precision."""
    return WIDE.get(dtypes, dtypes) if isinstance(dtypes, str) else tuple(WIDE.get(d, d) for d in dtypes)


# -- cases --------------------------------------------------------------------------------------------------------

def rows(ops: Sequence[Op]) -> list[Any]:
    return [pytest.param(op, id=str(op)) for op in ops]


def derivative_cases(ops: Sequence[Op]) -> list[Any]:
    """Every differentiable row with its first dtype, and its first complex one."""
    return [pytest.param(op, dtypes, id=f"{op}-{dtypes if isinstance(dtypes, str) else '_'.join(dtypes)}")
            for op in ops if op.grads
            for dtypes in dict.fromkeys([op.dtypes[0], *[d for d in op.dtypes if "complex" in str(d)][:1]])]


# -- checks of values ---------------------------------------------------------------------------------------------

class Case(NamedTuple):
    """Operands of one call."""

    what: str
    dtypes: str | tuple[str, ...]
    xs: list[np.ndarray]
    extreme: bool = False


# Extremes of other widths take the same code.
_EXTREME_DTYPES = ("float32", "complex64", "int32", "uint8")


def value_cases(op: Op) -> list[Case]:
    """The first dtype with every shape, the others with the first shape, and extreme numbers of some."""
    cases = [Case(f"{op}{shapes} of {op.dtypes[0]}", op.dtypes[0], operands(op, shapes, op.dtypes[0]))
             for shapes in op.shapes]
    cases += [Case(f"{op}{op.shapes[0]} of {d}", d, operands(op, op.shapes[0], d)) for d in op.dtypes[1:]]
    if op.special:
        cases += [Case(f"{op} of extreme {d}", d, extreme_operands(op, d), True)
                  for d in op.dtypes if d in _EXTREME_DTYPES]
    return cases


def check_value(op: Op, jax: Any) -> None:
    """Value against NumPy in double precision, or real jax; dtype against jax; compiled = computed at once."""
    cases = value_cases(op)

    def theirs(all_xs: list[list[Any]]) -> list[Any]:
        return [op.function(jax.lax)(*xs) for xs in all_xs]

    # Compiling is what takes time here: jax computes only where NumPy has no answer, in one program.
    unknown = [case.xs for case in cases if case.extreme or op.oracle is None]
    from_jax = iter(jax.jit(theirs, compiler_options={"xla_backend_optimization_level": 0})(unknown))
    types = jax.eval_shape(theirs, [case.xs for case in cases])

    for case, type_ in zip(cases, types, strict=True):
        got = op.function()(*case.xs)
        want = next(from_jax) if case.extreme or op.oracle is None else op.oracle(*map(double, case.xs))
        assert_close(got, want, tol=ONE * op.tol, what=case.what)
        assert_same_types(got, type_, what=case.what)
    eager = op.function()(*cases[0].xs)
    assert_same(xjax.jit(op.function())(*cases[0].xs), eager, tol=ONE * op.tol, what=f"jit of {cases[0].what}")


def double(x: np.ndarray) -> np.ndarray:
    """Floats and complex numbers in double precision, for the oracle."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) if is_inexact(x) else x


def check_weak_types(op: Op, jax: Any) -> None:
    """Python numbers give what they give in jax, weak type included. (A row whose cases all have axes is left out.)"""
    if () not in [shape for shapes in op.shapes for shape in shapes]:
        return
    dtypes = spread(op.dtypes[0], len(op.shapes[0]))
    kinds = {"f": float, "c": complex, "i": int, "u": int, "b": bool}
    xs = [kinds[x.dtype.kind](x) for x in operands(op, ((),) * len(dtypes), dtypes)]
    assert_same_types(op.function()(*xs), jax.jit(op.function(jax.lax))(*xs), what=f"{op}{tuple(xs)}")


SPECIAL = {
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-8, 30.0, -30.0, 1e4, np.inf, -np.inf, np.nan],
    "i": [0, 1, -1, 2, 7, 31, 32, 100, "min", "max"],
}


def special_values(dtype: np.dtype) -> np.ndarray:
    """Numbers at the edges of what a dtype can say."""
    if dtype == np.bool_:
        return np.array([False, True])
    if dtype.kind == "c":
        parts = np.array([0.0, -0.0, 1.0, -2.5, 1e-5, np.inf, np.nan])
        pairs = np.stack(np.meshgrid(parts, parts), -1)         # x + 1j * y would turn inf into nan
        return pairs.reshape(-1).view(np.complex128).astype(dtype)
    if tolerance(dtype):
        return np.array(SPECIAL["f"]).astype(dtype)
    info = ml_dtypes.iinfo(dtype)
    ends = {"min": int(info.min), "max": int(info.max)}
    items = [ends.get(v, v) for v in SPECIAL["i"]]
    return np.array([v for v in items if info.min <= v <= info.max]).astype(dtype)


def extreme_operands(op: Op, dtypes: str | tuple[str, ...]) -> list[np.ndarray]:
    """Every combination of such numbers, as flat arrays."""
    names = spread(dtypes, len(op.shapes[0]))
    return [x.reshape(-1) for x in np.meshgrid(*[special_values(np.dtype(_dtype(d))) for d in names])]


# -- check of vmap ------------------------------------------------------------------------------------------------

def axis_choices(shapes: Shapes) -> Iterator[tuple[tuple[int | None, ...], int]]:
    """Ways to map operands: all at each axis in turn, one alone and all but one; and a place for the result's axis."""
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


def check_vmap(op: Op) -> None:
    """vmap = loop, whichever operands are mapped along whichever axes."""
    size = 2
    for shapes in op.shapes[:2]:
        for in_axes, out_axis in axis_choices(shapes):
            full = tuple(s if a is None else (*s[:a], size, *s[a:]) for s, a in zip(shapes, in_axes, strict=True))
            xs = operands(op, full, op.dtypes[0])
            got = xjax.vmap(op.function(), in_axes, out_axis)(*xs)
            each = [op.function()(*[x if a is None else np.take(x, k, a) for x, a in zip(xs, in_axes, strict=True)])
                    for k in range(size)]
            want = [np.stack(list(map(np.asarray, ys)), out_axis) for ys in zip(*map(leaves, each), strict=True)]
            assert_close(got, want, tol=ONE * op.tol, what=f"vmap({op}, {in_axes}, {out_axis}) of {shapes}")


# -- checks of derivatives ----------------------------------------------------------------------------------------

STEP = 1e-5                 # of central differences: an error of about 1e-10 in double precision
SLOPES = 1e-6 / tolerance("float64")


def check_derivatives(op: Op, dtypes: str | tuple[str, ...]) -> None:
    """In double precision: jvp against central differences, vjp against jvp; then the same for these themselves."""
    with xjax.enable_x64(True):
        xs = operands(op, op.shapes[0], widened(dtypes))
        smooth = [i for i, x in enumerate(xs) if is_inexact(x)]
        assert smooth, f"{op} has grads={op.grads} but no operand of a float dtype"

        def f(*smooth_xs: Any) -> list[Any]:
            full = list(xs)
            for i, x in zip(smooth, smooth_xs, strict=True):
                full[i] = x
            return [y for y in leaves(op.function()(*full)) if np.dtype(y.dtype).kind in "fc"]

        _check_orders(f, [xs[i] for i in smooth], op.grads, str(op), np.random.default_rng(1))


def _check_orders(f: Callable, xs: list[np.ndarray], order: int, what: str, rng: np.random.Generator) -> None:
    """`f` maps arrays to a list of arrays. Order 2 applies the same checks to its jvp and to its vjp."""
    dxs = [_like(x, rng) for x in xs]
    ys, dys = xjax.jvp(f, tuple(xs), tuple(dxs))
    ahead, behind = (f(*[x + sign * STEP * dx for x, dx in zip(xs, dxs, strict=True)]) for sign in (1, -1))
    slopes = [(np.asarray(a) - np.asarray(b)) / (2 * STEP) for a, b in zip(ahead, behind, strict=True)]
    assert_close(dys, slopes, tol=SLOPES, what=f"jvp of {what}")

    cts = [_like(np.asarray(y), rng) for y in ys]
    _, pullback = xjax.vjp(f, *xs)
    back = pullback(cts)
    assert [b.dtype for b in back] == [x.dtype for x in xs], f"vjp of {what}: dtypes"
    forward, backward = _dot(cts, dys), _dot(back, dxs)
    np.testing.assert_allclose(backward, forward, rtol=1e-9, atol=1e-9, err_msg=f"vjp against jvp of {what}")

    if order > 1:
        _check_orders(lambda *xs: xjax.jvp(f, xs, tuple(dxs))[1], xs, order - 1, f"jvp of {what}", rng)
        _check_orders(lambda *xs: list(xjax.vjp(f, *xs)[1](cts)), xs, order - 1, f"vjp of {what}", rng)


def _like(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y = rng.normal(size=x.shape)
    return (y + 1j * rng.normal(size=x.shape) if x.dtype.kind == "c" else y).astype(x.dtype)


def _dot(us: Sequence[Any], vs: Sequence[Any]) -> float:
    """Pairing of cotangents with tangents: the real part of the sum of products, without conjugation."""
    return float(sum(np.sum(np.asarray(u) * np.asarray(v)).real for u, v in zip(us, vs, strict=True)))


def check_single_precision(op: Op) -> None:
    """Derivatives in single precision agree with those in double precision."""
    xs = operands(op, op.shapes[0], op.dtypes[0])
    smooth = [i for i, x in enumerate(xs) if is_inexact(x)]

    def slopes(xs: list[np.ndarray]) -> list[Any]:
        def f(*smooth_xs: Any) -> Any:
            given = dict(zip(smooth, smooth_xs, strict=True))
            return op.function()(*[given.get(i, x) for i, x in enumerate(xs)])
        points = tuple(xs[i] for i in smooth)
        return leaves(xjax.jvp(f, points, tuple(map(np.ones_like, points)))[1])

    single = slopes(xs)
    with xjax.enable_x64(True):
        wide = slopes([double(x) for x in xs])
    for s, w in zip(single, wide, strict=True):
        assert w.dtype.itemsize in (2 * s.dtype.itemsize, 0), f"derivative of {op}: {s.dtype}, and in double {w.dtype}"
    assert_close(single, wide, tol=op.tol, what=f"derivative of {op} in single precision")


# -- checks of programs -------------------------------------------------------------------------------------------

# Parameters that only jax's sharding machinery has, or that say "the default".
_ONLY_JAX = re.compile(r"\s*\b(out_sharding|sharding|memory_space|accuracy)=None\b")
# jax sometimes makes zeros that nobody reads.
_DEAD_ZEROS = re.compile(r"_:\S+ = broadcast_in_dim 0\.0:\S+ ")
_NUMPY_INT = re.compile(r"np\.int64\((\d+)\)")


def normalized(program: Any) -> str:
    """Text of a program without what only jax prints, and without line breaks."""
    text = _NUMPY_INT.sub(r"\1", _ONLY_JAX.sub("", str(program)))
    return _DEAD_ZEROS.sub("", re.sub(r"\s+", " ", text.replace("[ ", "[").replace(";", " ")))


def check_programs(op: Op, jax: Any) -> None:
    """The program of an operation, of its jvp and of its vjp is what jax prints."""
    xs = operands(op, op.shapes[0], op.dtypes[0])
    _same_program(xjax.make_jaxpr(op.function())(*xs), jax.make_jaxpr(op.function(jax.lax))(*xs), str(op))
    if not op.grads:
        return
    smooth = [i for i, x in enumerate(xs) if is_inexact(x)]

    def derivative(library: Any, reverse: bool) -> Callable:
        def run(xs: Any, ts: Any) -> Any:
            def f(*smooth_xs: Any) -> Any:
                given = dict(zip(smooth, smooth_xs, strict=True))
                return op.function(library.lax)(*[given.get(i, x) for i, x in enumerate(xs)])
            points = [xs[i] for i in smooth]
            return library.vjp(f, *points)[1](ts) if reverse else library.jvp(f, tuple(points), tuple(ts))
        return run

    outs = op.function()(*xs)
    seeds = [np.ones_like(xs[i]) for i in smooth]
    ct = xjax.tree.map(lambda y: np.ones(y.shape, y.dtype), outs)
    for reverse, ts in ((False, seeds), (True, ct)):
        _same_program(xjax.make_jaxpr(derivative(xjax, reverse))(xs, ts),
                      jax.make_jaxpr(derivative(jax, reverse))(xs, ts), f"{'vjp' if reverse else 'jvp'} of {op}")


def _same_program(ours: Any, theirs: Any, what: str) -> None:
    ours, theirs = normalized(ours), normalized(theirs)
    assert ours == theirs, f"{what}\nours {ours}\njax  {theirs}"


def primitives_of(op: Op) -> set[str]:
    """Names of the primitives that a row reaches, those of its derivatives included."""
    xs = operands(op, op.shapes[0], op.dtypes[0])
    return {eqn.primitive.name for eqn in xjax.make_jaxpr(op.function())(*xs).eqns}
