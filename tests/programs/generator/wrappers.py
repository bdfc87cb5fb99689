"""Transforms as functions of (library, function), which printed programs call besides the library itself.

Each takes `jax`, either library, and works for any trees of arguments and results.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def leaves(tree: Any) -> list[Any]:
    """Arrays in dicts, lists and tuples; those of a dict in the order of its keys."""
    if isinstance(tree, dict):
        return [x for k in sorted(tree) for x in leaves(tree[k])]
    if isinstance(tree, (list, tuple)):
        return [x for part in tree for x in leaves(part)]
    return [tree]


def inexact(tree: Any) -> list[Any]:
    """The leaves that have a derivative."""
    return [x for x in leaves(tree) if x.dtype.kind in "fc"]


def real(tree: Any) -> list[Any]:
    return [x for x in leaves(tree) if x.dtype.kind == "f"]


def put(xs: tuple, where: tuple[int, ...], new: tuple) -> list[Any]:
    """xs with the elements at `where` replaced."""
    out = list(xs)
    for i, x in zip(where, new, strict=True):
        out[i] = x
    return out


def total(jax: Any, tree: Any) -> Any:
    """The float64 sum of all float and complex elements, weighted so that none cancel."""
    jnp = jax.numpy
    out = jnp.zeros((), "float64")
    for k, x in enumerate(inexact(tree)):
        x = jnp.real(x) + 2 * jnp.imag(x) if x.dtype.kind == "c" else x
        weights = np.linspace(1.0, 2.0, x.size, dtype=x.dtype).reshape(x.shape)
        out = out + (k + 1) * jnp.sum(x * weights).astype("float64")
    return out


def tangents(jax: Any, trees: Any) -> Any:
    return jax.tree_util.tree_map(lambda x: 0.7 * x + 0.3, trees)


def cotangents(jax: Any, tree: Any) -> Any:
    """A cotangent for each leaf; those of integers are float0."""
    return jax.tree_util.tree_map(
        lambda x: jax.numpy.cos(x) if x.dtype.kind in "fc" else np.zeros(x.shape, jax.float0), tree)


def _narrow(f: Any, xs: tuple, wrt: tuple[int, ...]) -> tuple[Any, tuple]:
    """f as a function of the arguments at `wrt` alone, and their values."""
    return (lambda *ys: f(*put(xs, wrt, ys))), tuple(xs[i] for i in wrt)


def grad_of(jax: Any, f: Any, wrt: tuple[int, ...], kind: str = "grad") -> Any:
    """Gradient of the total; kind: "grad", "value_and_grad", or "aux" (with the result of f as auxiliary data)."""
    if kind == "aux":
        def with_aux(*xs):
            out = f(*xs)
            return total(jax, out), out
        return jax.grad(with_aux, wrt, has_aux=True)
    return getattr(jax, kind)(lambda *xs: total(jax, f(*xs)), wrt)


def jvp_of(jax: Any, f: Any, wrt: tuple[int, ...]) -> Any:
    def g(*xs):
        narrow, at = _narrow(f, xs, wrt)
        out, d_out = jax.jvp(narrow, at, tangents(jax, at))
        return out, inexact(d_out)
    return g


def linearize_of(jax: Any, f: Any, wrt: tuple[int, ...], calls: int = 1) -> Any:
    def g(*xs):
        narrow, at = _narrow(f, xs, wrt)
        out, linear = jax.linearize(narrow, *at)
        d = tangents(jax, at)
        for _ in range(calls):
            d_out = linear(*d)
            d = tangents(jax, d)
        return out, inexact(d_out)
    return g


def vjp_of(jax: Any, f: Any, wrt: tuple[int, ...]) -> Any:
    def g(*xs):
        narrow, at = _narrow(f, xs, wrt)
        out, pull = jax.vjp(narrow, *at)
        return out, pull(cotangents(jax, out))
    return g


def jacfwd_of(jax: Any, f: Any, wrt: tuple[int, ...]) -> Any:
    return jax.jacfwd(lambda *xs: real(f(*xs)), wrt)


def jacrev_of(jax: Any, f: Any, wrt: tuple[int, ...]) -> Any:
    return jax.jacrev(lambda *xs: real(f(*xs)), wrt)


def remat_of(jax: Any, f: Any, policy: str | None = None, prevent_cse: bool = True) -> Any:
    chosen = None if policy is None else getattr(jax.checkpoint_policies, policy)
    return jax.checkpoint(f, policy=chosen, prevent_cse=prevent_cse)


def scan_of(jax: Any, f: Any, over: tuple[int, ...], reverse: bool = False, unroll: int = 1) -> Any:
    """f on the slices of the arguments at `over`; the carry sums the totals."""
    def g(*xs):
        def body(so_far, slices):
            out = f(*put(xs, over, slices))
            return so_far + total(jax, out), out
        start = jax.numpy.zeros((), "float64")
        return jax.lax.scan(body, start, tuple(xs[i] for i in over), reverse=reverse, unroll=unroll)
    return g


def map_of(jax: Any, f: Any, over: tuple[int, ...], batch_size: int | None = None) -> Any:
    def g(*xs):
        return jax.lax.map(lambda slices: f(*put(xs, over, slices)), tuple(xs[i] for i in over), batch_size=batch_size)
    return g
