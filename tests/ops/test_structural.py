"""Checks of every row of `structural_table` against real JAX: values and types, vmap over every way to batch the
arguments, jvp, vjp and second derivatives in float64."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xjax.runtime.dispatch  # noqa: F401  (sets the root trace)
from tests.ops.structural_table import OURS, TABLE, Row
from xjax.core.config import enable_x64
from xjax.runtime.jit import jit
from xjax.transforms.autodiff import jvp, vjp
from xjax.transforms.vmap import vmap

jax = pytest.importorskip("jax")

ROWS = pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
DIFFERENTIABLE = [row for row in TABLE if row.grads]


def leaves(tree: Any) -> list[Any]:
    """Results of a row: an array, or arrays in tuples and lists."""
    return [x for part in tree for x in leaves(part)] if isinstance(tree, (tuple, list)) else [tree]


def assert_same(ours: Any, theirs: Any, tol: float) -> None:
    """Equal number, shapes, dtypes and values; NaN equals NaN, of either sign."""
    ours, theirs = leaves(ours), leaves(theirs)
    assert len(ours) == len(theirs)
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"result {k}"
        if a.dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=tol, atol=tol, err_msg=f"result {k}")
        else:
            np.testing.assert_array_equal(a, b, err_msg=f"result {k}")


def tolerance(row: Row) -> float:
    return 1e-3 if any(x.dtype == np.float16 for x in row.args) else 1e-6


@ROWS
def test_value(row: Row) -> None:
    """Run eagerly and compiled: value, dtype and weak type as JAX."""
    theirs = row.fun(jax.lax, *map(jax.numpy.asarray, row.args))
    eager = row.fun(OURS, *row.args)
    assert_same(eager, theirs, tolerance(row))
    assert_same(jit(lambda *args: row.fun(OURS, *args))(*row.args), theirs, tolerance(row))


# -- vmap ---------------------------------------------------------------------------------------------------------

def copies(x: np.ndarray, k: int) -> list[np.ndarray]:
    """k arrays that differ: the elements of `x`, rolled."""
    return [np.roll(x, j) if x.ndim else (x + j).astype(x.dtype) for j in range(k)]


def batchings(args: Sequence[np.ndarray]) -> list[tuple[int | None, ...]]:
    """in_axes to try: all first, all last, and each argument alone in the middle."""
    found = [tuple(0 for _ in args), tuple(x.ndim for x in args)]
    if len(args) > 1:
        found += [tuple((x.ndim + 1) // 2 if k == j else None for j, x in enumerate(args)) for k in range(len(args))]
    return list(dict.fromkeys(found))


@ROWS
def test_vmap(row: Row) -> None:
    """Every pattern of batched arguments, and vmap of vmap."""
    patterns = batchings(row.args)

    def stacked(in_axes: tuple[int | None, ...], size: int = 3) -> list[np.ndarray]:
        return [x if a is None else np.stack(copies(x, size), a) for x, a in zip(row.args, in_axes, strict=True)]

    def run(lax: Any, vmap: Callable, jit: Callable) -> list[Any]:
        def f(*args):
            return row.fun(lax, *args)
        all_args = [stacked(p) for p in patterns]
        twice = [np.stack([x, x[::-1]], 1) if x.ndim else x for x in stacked(patterns[0])]
        return jit(lambda batches, both: [
            *[vmap(f, p)(*args) for p, args in zip(patterns, batches, strict=True)],
            vmap(vmap(f), 1, -1)(*both)])(all_args, twice)

    assert_same(run(OURS, vmap, jit), run(jax.lax, jax.vmap, jax.jit), tolerance(row))


# -- derivatives --------------------------------------------------------------------------------------------------

def wide(x: np.ndarray) -> np.ndarray:
    """Floats and complex numbers in double precision."""
    return x.astype({"f": np.float64, "c": np.complex128}.get(x.dtype.kind, x.dtype))


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=[row.name for row in DIFFERENTIABLE])
def test_derivatives(row: Row) -> None:
    """jvp, vjp, and the jvp of a vjp of a function that is not linear in the result."""
    rng = np.random.default_rng(zlib.crc32(row.name.encode()))
    args = [wide(x) for x in row.args]
    xs = [args[k] for k in row.grads]

    def noise(x: Any) -> np.ndarray:
        real = rng.standard_normal(x.shape)
        return real + 1j * rng.standard_normal(x.shape) if np.iscomplexobj(x) else real

    with jax.enable_x64(True):
        shapes = [np.zeros(y.shape, y.dtype) for y in leaves(row.fun(jax.lax, *map(jax.numpy.asarray, args)))]
    inexact = [k for k, y in enumerate(shapes) if y.dtype.kind in "fc"]
    dxs, cts = [noise(x) for x in xs], [noise(shapes[k]) for k in inexact]

    def run(lax: Any, jvp: Callable, vjp: Callable, jit: Callable) -> Any:
        def f(*xs):
            full = list(args)
            for k, x in zip(row.grads, xs, strict=True):
                full[k] = x
            outs = leaves(row.fun(lax, *full))
            return [outs[k] for k in inexact]

        def pulled(*xs):
            y, back = vjp(f, *xs)
            return back([lax.mul(ct, v) for ct, v in zip(cts, y, strict=True)])      # cotangents that depend on y

        def every(xs, dxs, cts):
            y, dy = jvp(f, tuple(xs), tuple(dxs))
            return y, dy, list(vjp(f, *xs)[1](cts)), jvp(pulled, tuple(xs), tuple(dxs))
        return jit(every)(xs, dxs, cts)

    with enable_x64(True):
        ours = [np.asarray(x) for x in leaves(run(OURS, jvp, vjp, jit))]
    with jax.enable_x64(True):
        theirs = run(jax.lax, jax.jvp, jax.vjp, jax.jit)
    assert_same(ours, theirs, 1e-9)
