"""Low-rank adapters (LoRA): small trained factors whose product is added to fixed matrices.

Hu et al. 2021, arXiv:2106.09685: ``W + scale / rank * a @ b``. The adapters are a separate tree, so an optimizer
updates only them:

    adapters = params.low_rank(key, weights, "**/w", rank=4)
    loss = lambda adapters: cost(model.apply(params.adapted(weights, adapters, 8.0), x))
    grads = xjax.grad(loss)(adapters)

and ``weights = params.adapted(weights, adapters, 8.0)`` after training makes the change permanent.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import xjax.numpy as jnp
from xjax import random
from xjax.errors import bad
from xjax.typing import Array, ArrayLike, DTypeLike, PRNGKey, PyTree, Shape
from xnn.checks import type_text
from xnn.layer import Params
from xnn.params.patterns import Pattern, by_path, dtype_of, listing, selected, shape_of
from xnn.params.values import unknown_path, updated


def low_rank(key: PRNGKey, params: Params, pattern: Pattern, rank: int, *,
             dtype: DTypeLike | None = None) -> dict[str, Any]:
    """Adapters of the matrices that match: path -> {"a": [..., n_in, rank], "b": [..., rank, n_out]}.

    `a` is normal with variance 1 / n_in and `b` is zero, so the adapted parameters initially equal the parameters.
    Leading axes, such as those of `xnn.repeat`, are kept: one adapter for each matrix. The random numbers for a matrix
    depend only on the key and its path, not on the other matches.
    Args:
      rank: int, at least 1.
      dtype: dtype of the adapters; None: the dtype of each matrix.
    Raises: ValueError if rank < 1; TypeError if a leaf that matches has fewer than two axes, or is not floating or
      complex; the errors of `select`.

    >>> adapters = low_rank(random.key(0), {"w": jnp.ones((6, 3)), "b": jnp.ones(3)}, "w", rank=2)
    >>> xjax.tree.map(jnp.shape, adapters)
    {'w': {'a': (6, 2), 'b': (2, 3)}}
    """
    caller = "params.low_rank"
    if not isinstance(rank, int) or rank < 1:
        raise bad(caller, "rank is not a positive integer", {"rank": repr(rank)}, "pass rank=4.", ValueError)
    leaves = selected(caller, params, pattern)
    wrong = [f"{path} {type_text(leaf)}" for path, leaf in leaves.items()
             if len(shape_of(leaf)) < 2 or not jnp.issubdtype(dtype_of(leaf), jnp.inexact)]
    if wrong:
        raise bad(caller, "the pattern matches leaves that are not matrices", {"leaves": listing(wrong)},
                  'pass a narrower pattern, such as "**/w" or lambda path, x: x.ndim == 2.')
    return {path: _factors(key, path, shape_of(leaf), rank, dtype or dtype_of(leaf)) for path, leaf in leaves.items()}


def _factors(key: PRNGKey, path: str, shape: Shape, rank: int, dtype: DTypeLike) -> dict[str, Array]:
    *leading, n_in, n_out = shape
    key = random.fold_in(key, zlib.crc32(path.encode()))
    a = random.normal(key, (*leading, n_in, rank), dtype) / math.sqrt(max(n_in, 1))
    return {"a": a, "b": jnp.zeros((*leading, rank, n_out), dtype)}


def adapted(params: Params, adapters: Mapping[str, Any], scale: ArrayLike = 1.0) -> Params:
    """The parameters with ``W + scale / rank * a @ b`` for each matrix that has an adapter.

    Differentiable in all three arguments; `grad` with respect to the adapters leaves the parameters fixed.
    Args:
      adapters: a result of `low_rank`, with trained values.
      scale: number (alpha in the paper), may be traced.
    Returns: a tree of the same structure. The product is computed in the dtype of the adapters; the sum has the dtype
      of W.
    Raises: ValueError for a path that is not in params; TypeError if a @ b does not have the shape of W.

    >>> adapters = {"w": {"a": jnp.ones((2, 1)), "b": jnp.ones((1, 2))}}
    >>> adapted({"w": jnp.zeros((2, 2)), "b": jnp.zeros(2)}, adapters, 3.0)["w"]
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    caller, leaves = "params.adapted", by_path("params.adapted", params)
    for path in adapters:
        if path not in leaves:
            raise unknown_path(caller, path, leaves, "params")
    return updated(caller, params, {path: _adapted(caller, path, leaves[path], factors, scale)
                                   for path, factors in adapters.items()})


def _adapted(caller: str, path: str, w: ArrayLike, factors: PyTree, scale: ArrayLike) -> Array:
    if not isinstance(factors, Mapping) or set(factors) != {"a", "b"}:
        raise bad(caller, "an adapter must be a dict with keys a and b", {"path": repr(path), "adapter": factors},
                  "pass adapters made by params.low_rank, or trees of their structure.")
    a, b = factors["a"], factors["b"]
    shape_a, shape_b, shape_w = shape_of(a), shape_of(b), shape_of(w)
    rank = shape_a[-1] if shape_a else 0
    *leading, n_in, n_out = shape_w if len(shape_w) >= 2 else (0, 0)
    if not rank or shape_a != (*leading, n_in, rank) or shape_b != (*leading, rank, n_out):
        raise bad(caller, "the shapes of an adapter do not match its matrix",
                  {"path": repr(path), "W": type_text(w), "a": type_text(a), "b": type_text(b)},
                  "pass adapters made by params.low_rank for parameters of these shapes.")
    change = jnp.matmul(a, b)
    change = change * jnp.asarray(scale / rank, change.dtype)
    return jnp.asarray(w) + change.astype(dtype_of(w))
