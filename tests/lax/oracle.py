"""A function written once for any module `lax`, run by xjax and by real JAX under a transformation."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import xjax
from tests.compare import assert_same, tolerance

# Tolerance in double precision for the rounding errors in second derivatives of loops and solvers.
LOOPS = 1e-9 / tolerance("float64")


def check(jax: Any, f, *args: Any, transform=lambda lib, f: f, tol: float = 1.0, eager: bool = False) -> Any:
    """Assert that ``transform(lib, f)(*args)`` is the same tree in both libraries; `f` is called as f(lax, *args).

    All is jitted (one program compiles faster than its single operations); with `eager`, xjax runs without jit.
    """
    ours = transform(xjax, lambda *xs: f(xjax.lax, *xs))
    theirs = transform(jax, lambda *xs: f(jax.lax, *xs))
    ours = (ours if eager else xjax.jit(ours))(*args)
    assert_same(ours, jax.jit(theirs)(*args), tol=tol)
    return ours


def total(lax: Any, *trees: Any) -> Any:
    """Sum of all elements of all float leaves, each weighted by its position, so that no two cancel."""
    leaves = [x for x in xjax.tree_util.tree_leaves(trees) if np.issubdtype(x.dtype, np.floating)]
    out = None
    for k, x in enumerate(leaves):
        weights = np.linspace(1.0, 2.0, x.size, dtype=x.dtype).reshape(x.shape)
        s = lax.mul(lax.reduce_sum(lax.mul(x, weights), tuple(range(x.ndim))), np.asarray(k + 1, x.dtype))
        out = s if out is None else lax.add(out, s)
    return out


# Transformations for differentiable functions of float arrays; each is transform(lib, f).
DERIVATIVES = {
    "value": lambda lib, f: f,
    "jvp": lambda lib, f: lambda *xs: _floats(lib.jvp(f, xs, xs)),
    "linearize": lambda lib, f: lambda *xs: _floats(lib.linearize(f, *xs)[1](*xs)),
    "grad": lambda lib, f: gradient(lib, f),
    "grad of jit": lambda lib, f: gradient(lib, lib.jit(f)),
    "jvp of grad": lambda lib, f: lambda *xs: lib.jvp(gradient(lib, f), xs, xs),
    "grad of grad": lambda lib, f: gradient(lib, lambda *xs: gradient(lib, f)(*xs)),
    "grad of jvp": lambda lib, f: gradient(lib, lambda *xs: lib.jvp(f, xs, xs)[1]),
}


def _floats(tree: Any) -> list[Any]:
    """Leaves that are not float0."""
    return [x for x in xjax.tree_util.tree_leaves(tree) if x.dtype.itemsize]


def gradient(lib: Any, f):
    """Gradient of the weighted sum of results with respect to all arguments."""
    return lambda *xs: lib.grad(lambda *ys: total(lib.lax, f(*ys)), tuple(range(len(xs))))(*xs)


def vmap_transforms(count: int):
    """(name, axes) for every non-empty choice of mapped arguments among `count`."""
    for bits in range(1, 2 ** count):
        axes = tuple(0 if bits >> k & 1 else None for k in range(count))
        name = "".join("m" if a == 0 else "-" for a in axes)
        yield name, axes


def stacked(args, axes):
    """Arguments with two elements along the mapped axes."""
    return [np.stack([x, x * np.asarray(1.5, x.dtype) + np.asarray(0.25, x.dtype)]).astype(x.dtype)
            if a == 0 else x for x, a in zip(args, axes, strict=True)]


def vmapped(kind: str, axes):
    """vmap, vmap of grad, or grad of vmap, as a transform."""
    if kind == "vmap":
        return lambda lib, f: lib.vmap(f, axes)
    if kind == "vmap of grad":
        return lambda lib, f: lib.vmap(gradient(lib, f), axes)
    if kind == "vmap of jvp":
        return lambda lib, f: lib.vmap(lambda *xs: lib.jvp(f, xs, xs), axes)
    return lambda lib, f: gradient(lib, lib.vmap(f, axes))


def floats(lib: Any, f):
    """`f` with only the float leaves of its result, as a list."""
    return lambda *xs: [y for y in lib.tree_util.tree_leaves(f(*xs)) if np.issubdtype(y.dtype, np.floating)]


@contextlib.contextmanager
def float64(jax: Any):
    """64-bit types in both libraries."""
    with xjax.enable_x64(True), jax.enable_x64(True):
        yield
