"""Rows of functions that are compared with real JAX at fixed arguments: the value, every way to batch, derivatives
forward and reverse, all in one compiled program for each library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax
from tests.compare import assert_same, is_inexact, leaves, tolerance
from tests.oracle import real_jax

_rng = np.random.default_rng(3)


def r(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape)


def c(*shape: int) -> np.ndarray:
    return r(*shape) + 1j * r(*shape)


def hermitian(x: np.ndarray, shift: float = 0.0) -> np.ndarray:
    return x + np.conj(np.swapaxes(x, -1, -2)) + shift * np.eye(x.shape[-1])


class Row(NamedTuple):
    """name; fun(namespace, *args), so that both libraries run the same program; args; grads: which arguments to
    differentiate."""

    name: str
    fun: Callable[..., Any]
    args: tuple[np.ndarray, ...]
    grads: tuple[int, ...] = ()


# Second derivatives divide by squares of gaps, which are above 0.01 here: 1e-16 becomes 1e-11 at most.
CONDITION = 1e-9 / tolerance("float64")


def check_as_jax(row: Row, ours: Any, theirs: Any, order: int = 1, every_batch: bool = False,
                 copy: Callable[[np.ndarray, int], np.ndarray] | None = None,
                 options: dict[str, Any] | None = None) -> None:
    """The row gives in the namespace `ours` what it gives in JAX's, `theirs`, with 64-bit types on.

    Args: order: of derivatives. every_batch: map arguments along other axes than the first, one at a time, and twice.
      copy: `copy(x, k)` is an argument for place k of a mapped axis; None gives multiples of x. options: XLA's,
      for JAX.
    """
    fast = {"compiler_options": {"xla_backend_optimization_level": 0, **(options or {})}}
    values, slopes = _everything(row, xjax, ours, order, every_batch, copy or _multiple)
    want, want_slopes = _everything(row, real_jax(), theirs, order, every_batch, copy or _multiple, **fast)
    assert_same(values, want, what=row.name)
    assert_same(slopes, want_slopes, tol=CONDITION, what=f"derivatives of {row.name}")


def _everything(row: Row, lib: Any, namespace: Any, order: int, every_batch: bool, copy: Callable,
                **options: Any) -> Any:
    """(value and vmapped values, derivatives) of a row, in one program."""
    def f(*args: Any) -> Any:
        return row.fun(namespace, *args)

    patterns = _patterns(row.args, every_batch)

    def program(args: list[Any], batches: list[list[Any]], twice: list[Any], dxs: list[Any]) -> Any:
        found = [f(*args), *[lib.vmap(f, p)(*b) for p, b in zip(patterns, batches, strict=True)]]
        if every_batch:
            found.append(lib.vmap(lib.vmap(f), 1, -1)(*twice))
        return leaves(found), _slopes(row, lib, f, args, dxs, order) if row.grads else []

    rng = np.random.default_rng(5)
    dxs = [_noise(row.args[i], rng) for i in row.grads]
    batches = [_batched(row.args, p, copy) for p in patterns]
    twice = [np.stack([x, x[::-1]], 1) for x in batches[0]]
    with lib.enable_x64(True):
        return lib.jit(program, **options)(list(row.args), batches, twice, dxs)


def _slopes(row: Row, lib: Any, f: Callable, args: list[Any], dxs: list[Any], order: int) -> Any:
    """jvp, and vjp or jvp of vjp."""
    def smooth(*xs: Any) -> list[Any]:
        full = list(args)
        for i, x in zip(row.grads, xs, strict=True):
            full[i] = x
        return [y for y in leaves(f(*full)) if is_inexact(y)]

    def gradient(*xs: Any) -> Any:
        ys, pull = lib.vjp(smooth, *xs)
        return pull([y * (1 + _weights(y)) for y in ys])        # cotangents that depend on the point
    xs = tuple(args[i] for i in row.grads)
    return lib.jvp(smooth, xs, tuple(dxs)), lib.jvp(gradient, xs, tuple(dxs)) if order == 2 else gradient(*xs)


def _patterns(args: Sequence[np.ndarray], every: bool) -> list[tuple[int | None, ...]]:
    """in_axes: all first; of every batch also all last, and each argument alone in the middle."""
    found: list[tuple[int | None, ...]] = [tuple(0 for _ in args)]
    if every:
        found.append(tuple(x.ndim for x in args))
    if every and len(args) > 1:
        found += [tuple((x.ndim + 1) // 2 if k == j else None for j, x in enumerate(args)) for k in range(len(args))]
    return list(dict.fromkeys(found))


def _batched(args: Sequence[np.ndarray], in_axes: Sequence[int | None], copy: Callable) -> list[np.ndarray]:
    return [x if a is None else np.stack([copy(x, k) for k in range(2)], a) for x, a in zip(args, in_axes, strict=True)]


def _multiple(x: np.ndarray, k: int) -> np.ndarray:
    return x if x.dtype.kind in "biu" else x * np.asarray(k + 1, x.dtype)


def rolled(x: np.ndarray, k: int) -> np.ndarray:
    """The elements of `x` in another order: also of indices."""
    return np.roll(x, k) if x.ndim else (x + k).astype(x.dtype)


def _noise(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y = rng.standard_normal(x.shape)
    return (y + 1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else y).astype(x.dtype)


def _weights(y: Any) -> np.ndarray:
    return np.cos(np.arange(np.prod(y.shape, dtype=int))).reshape(y.shape).astype(y.dtype) / 2
