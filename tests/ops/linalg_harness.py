"""Rows of functions on matrices, and their comparison with real JAX in double precision: the value, every way to
batch, derivatives forward and reverse, all in one compiled program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax

_rng = np.random.default_rng(3)


def r(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape)


def c(*shape: int) -> np.ndarray:
    return r(*shape) + 1j * r(*shape)


def hermitian(x: np.ndarray, shift: float = 0.0) -> np.ndarray:
    return x + np.conj(np.swapaxes(x, -1, -2)) + shift * np.eye(x.shape[-1])


class Row(NamedTuple):
    """name; fun(namespace, *args); args; grads: which arguments to differentiate."""

    name: str
    fun: Callable[..., Any]
    args: tuple[np.ndarray, ...]
    grads: tuple[int, ...] = ()


def leaves(tree: Any) -> list[Any]:
    return [x for part in tree for x in leaves(part)] if isinstance(tree, (tuple, list)) else [tree]


def assert_same(ours: Any, theirs: Any) -> None:
    ours, theirs = leaves(ours), leaves(theirs)
    assert len(ours) == len(theirs)
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"result {k}"
        # Second derivatives divide by squares of gaps, which are above 0.01 here: 1e-16 becomes 1e-11 at most.
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * max(1.0, np.max(np.abs(b), initial=0.0, where=b == b)),
                                   err_msg=f"result {k}")


def batched(args: Sequence[np.ndarray], in_axes: Sequence[int | None]) -> list[np.ndarray]:
    return [x if a is None else np.stack([x, x * (2 if x.dtype.kind != "i" else 1)], a)
            for x, a in zip(args, in_axes, strict=True)]


def everything(row: Row, jax: Any, L: Any, order: int, every_batch: bool, **options: Any) -> list[Any]:
    """The value, vmapped values, and the derivatives of a row, in one program."""
    def f(*args: Any) -> Any:
        return row.fun(L, *args)

    patterns = [[0] * len(row.args)]
    if every_batch and len(row.args) > 1:
        patterns += [[x.ndim for x in row.args]]
        patterns += [[1 if i == j else None for j in range(len(row.args))] for i in range(len(row.args))]

    def program(args: list[Any], batches: list[list[Any]], dxs: list[Any]) -> list[Any]:
        found = [f(*args), *[jax.vmap(f, p)(*b) for p, b in zip(patterns, batches, strict=True)]]
        if not row.grads:
            return found

        def smooth(*xs: Any) -> list[Any]:
            full = list(args)
            for i, x in zip(row.grads, xs, strict=True):
                full[i] = x
            return [y for y in leaves(f(*full)) if np.dtype(y.dtype).kind in "fc"]

        def gradient(*xs: Any) -> Any:
            ys, pull = jax.vjp(smooth, *xs)
            return pull(ys)                             # cotangents that depend on the point
        xs = tuple(args[i] for i in row.grads)
        found += jax.jvp(smooth, xs, tuple(dxs))
        return [*found, *(jax.jvp(gradient, xs, tuple(dxs)) if order == 2 else gradient(*xs))]

    rng = np.random.default_rng(5)
    dxs = [rng.standard_normal(row.args[i].shape).astype(row.args[i].dtype) for i in row.grads]
    with jax.enable_x64(True):
        return jax.jit(program, **options)(list(row.args), [batched(row.args, p) for p in patterns], dxs)


def check_as_jax(row: Row, jax: Any, ours: Any, theirs: Any, order: int = 1, every_batch: bool = False) -> None:
    """`ours` and `theirs` are the namespaces that the row's function takes; `order`: of derivatives; `every_batch`: map
    arguments along other axes than the first and one at a time too."""
    expected = everything(row, jax, theirs, order, every_batch, compiler_options={"xla_backend_optimization_level": 0})
    assert_same(everything(row, xjax, ours, order, every_batch), expected)
