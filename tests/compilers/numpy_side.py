"""The names `jax`, `jnp`, `lax` and `nn` of a program's text, implemented in NumPy: the oracle for its values.

This module has only the functions that occur in the tables. Everything is computed in float64, and loops are Python
loops.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special


def names(note: Callable[[Any], Any]) -> dict[str, Any]:
    """The namespace of a program's text. note: called with each rounded value; its result replaces the value."""
    return {"jnp": np, "lax": _LAX, "nn": _NN, "jax": _JAX, "note": note, "scatter": _scatter, "put": _put}


# -- control flow -------------------------------------------------------------------------------------------------

def _scan(step, carry, xs, reverse=False):
    out = []
    for x in xs[::-1] if reverse else xs:
        carry, y = step(carry, x)
        out.append(y)
    return carry, np.stack(out[::-1] if reverse else out)


def _fori_loop(first, last, step, carry):
    for i in range(first, last):
        carry = step(i, carry)
    return carry


def _vmap(f, in_axes=0):
    """A loop over the mapped axes; results are stacked along a new first axis."""
    def mapped(*args):
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        size = next(np.shape(a)[axis] for a, axis in zip(args, axes, strict=True) if axis is not None)
        rows = [f(*(a if axis is None else np.take(a, i, axis) for a, axis in zip(args, axes, strict=True)))
                for i in range(size)]
        if isinstance(rows[0], tuple):
            return tuple(map(np.stack, zip(*rows, strict=True)))
        return np.stack(rows)
    return mapped


# -- indexing -----------------------------------------------------------------------------------------------------

def _scatter(x, i, y, name):
    """x.at[i].name(y)."""
    out = np.array(x)
    ufunc = {"add": np.add, "max": np.maximum, "min": np.minimum}[name]
    ufunc.at(out, i, np.broadcast_to(y, (*np.shape(i), *out.shape[1:])))
    return out


def _put(x, i, y):
    out = np.array(x)
    out[i] = y
    return out


def _dynamic_slice_in_dim(x, i, n, axis):
    return np.take(x, range(i, i + n), axis)


def _dynamic_update_slice_in_dim(x, y, i, axis):
    out = np.array(x)
    np.moveaxis(out, axis, 0)[i:i + y.shape[axis]] = np.moveaxis(y, axis, 0)
    return out


def _top_k(x, n):
    order = np.argsort(-x, axis=-1, kind="stable")[..., :n]
    return np.take_along_axis(x, order, -1), order


# -- windows ------------------------------------------------------------------------------------------------------

def _pad(x, value, widths):
    """Pad at the ends and between elements; negative widths remove elements."""
    out = np.full([(n - 1) * (c + 1) + 1 for n, (_, _, c) in zip(x.shape, widths, strict=True)], value)
    out[tuple(slice(None, None, c + 1) for _, _, c in widths)] = x
    out = np.pad(out, [(max(a, 0), max(b, 0)) for a, b, _ in widths], constant_values=value)
    return out[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b, _) in zip(out.shape, widths, strict=True))]


def _windows(x, value, window, strides, pads, base, dilation):
    """The elements of each window: the array has one axis of windows, and then one axis in a window, per axis of x."""
    x = _pad(x, value, [(a, b, c - 1) for (a, b), c in zip(pads, base, strict=True)])
    spans = tuple((k - 1) * d + 1 for k, d in zip(window, dilation, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, spans)
    return view[tuple(slice(None, None, s) for s in strides) + tuple(slice(None, None, d) for d in dilation)]


def _reduce_window(x, init, op, window, strides, pads, base, dilation):
    view = _windows(x, init, window, strides, pads, base, dilation)
    return op.reduce(view, axis=tuple(range(x.ndim, 2 * x.ndim)), initial=init)


def _convolve(x, kernel, strides, pads, base, dilation, feature_group_count=1):
    """Layout: batch and features first; in the kernel, output and input features first."""
    d, groups = kernel.ndim - 2, feature_group_count
    view = _windows(x, 0.0, (1, 1, *kernel.shape[2:]), (1, 1, *strides), ((0, 0), (0, 0), *pads), (1, 1, *base),
                    (1, 1, *dilation))
    view = view.reshape(*view.shape[:2 + d], *kernel.shape[2:])
    letters, window = "xyz"[:d], "uvw"[:d]
    per_group = [np.einsum(f"bi{letters}{window},oi{window}->bo{letters}", v, k) for v, k in zip(
        np.split(view, groups, 1), np.split(kernel, groups, 0), strict=True)]
    return np.concatenate(per_group, 1)


# -- functions ----------------------------------------------------------------------------------------------------

def _gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _logsumexp(x, axis=None, keepdims=False):
    out = scipy.special.logsumexp(x, axis=axis, keepdims=keepdims)
    return out if np.ndim(x) else np.reshape(out, ())           # SciPy returns an array of rank 1 for a scalar


_LAX = SimpleNamespace(
    rsqrt=lambda x: 1 / np.sqrt(x), logistic=scipy.special.expit, erf=scipy.special.erf, erf_inv=scipy.special.erfinv,
    lgamma=scipy.special.gammaln, digamma=scipy.special.digamma, add=np.add, max=np.maximum, min=np.minimum,
    cummax=np.maximum.accumulate, top_k=_top_k, pad=_pad, reduce_window=_reduce_window,
    conv_general_dilated=_convolve, dynamic_slice_in_dim=_dynamic_slice_in_dim,
    dynamic_update_slice_in_dim=_dynamic_update_slice_in_dim, scan=_scan, fori_loop=_fori_loop,
    cond=lambda p, f, g, x: f(x) if p else g(x), map=lambda f, xs: np.stack([f(x) for x in xs]))
_NN = SimpleNamespace(
    relu=lambda x: np.maximum(x, 0), gelu=_gelu, softplus=lambda x: np.logaddexp(x, 0),
    silu=lambda x: x * scipy.special.expit(x), logsumexp=_logsumexp, softmax=scipy.special.softmax,
    log_softmax=scipy.special.log_softmax)
_JAX = SimpleNamespace(vmap=_vmap, checkpoint=lambda f: f)
