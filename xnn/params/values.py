"""Functions that change the values of a tree: update, reinitialize, freeze, cast, moving average."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import xjax.numpy as jnp
from xjax import lax
from xjax.errors import bad, did_you_mean
from xjax.typing import ArrayLike, DTypeLike
from xnn.checks import type_text
from xnn.layer import Params
from xnn.params.patterns import Pattern, by_path, dtype_of, listing, selected, shape_of, with_leaves
from xnn.precision import in_precision


def update(params: Params, leaves: Mapping[str, Any]) -> Params:
    """The same tree with some leaves replaced.

    Args: leaves: path -> array of the shape of the leaf that it replaces; it is converted to the dtype of that leaf.
    Raises: ValueError for an unknown path, with the closest path; TypeError for another shape, or for a dtype of a
      higher kind than that of the leaf (in the order bool, integer, float, complex).

    >>> update({"w": jnp.ones(2), "b": jnp.zeros(2)}, {"b": np.array([3, 4])})
    {'b': Array([3., 4.], dtype=float32), 'w': Array([1., 1.], dtype=float32)}
    """
    return updated("params.update", params, leaves)


def reinitialize(params: Params, fresh: Params, pattern: Pattern) -> Params:
    """The same tree with the leaves that match taken from a newly initialized tree.

    Args: fresh: a tree with at least the matching paths, and the same shapes there.
    Raises: the errors of `select` and `update`. To change the shape of a layer, `merge` old parameters into new ones.

    >>> reinitialize({"body": jnp.ones(2), "head": jnp.ones(1)}, {"body": jnp.zeros(2), "head": jnp.zeros(1)}, "head")
    {'body': Array([1., 1.], dtype=float32), 'head': Array([0.], dtype=float32)}
    """
    caller = "params.reinitialize"
    chosen, new = selected(caller, params, pattern), by_path(caller, fresh)
    for path in chosen:
        if path not in new:
            raise unknown_path(caller, path, new, "fresh")
    return updated(caller, params, {path: new[path] for path in chosen})


def freeze(params: Params, pattern: Pattern) -> Params:
    """The same values, with the leaves that match constant under `grad` (`lax.stop_gradient`).

    A parameter with zero gradient can still change: by weight decay, and by the momentum of earlier steps. So exclude
    the frozen leaves from the optimizer too, which also saves the memory of their state:

        frozen = params.mask(weights, "encoder/**")
        tx = optim.selective_transform(optim.adamw(1e-3), freeze_mask=frozen)
        grads = xjax.grad(lambda weights: loss(params.freeze(weights, "encoder/**"), batch))(weights)

    (`optim.masked(tx, mask)` is not enough: it passes the gradients of excluded leaves through as updates.)
    Raises: the errors of `select`.

    >>> xjax.grad(lambda p: jnp.sum(freeze(p, "a")["a"] * p["b"]))({"a": jnp.float32(2.0), "b": jnp.float32(3.0)})
    {'a': Array(0., dtype=float32), 'b': Array(2., dtype=float32)}
    """
    return _mapped("params.freeze", lax.stop_gradient, params, pattern)


def cast(params: Params, dtype: DTypeLike, pattern: Pattern = "**") -> Params:
    """The same tree with the floating-point leaves that match converted to a dtype.

    Args: dtype: a floating-point dtype. Complex leaves become complex128 for float64, else complex64. Integers, bools
      and random keys are not converted.
    Raises: TypeError if dtype is not floating-point; the errors of `select`.

    >>> cast({"w": jnp.ones(2), "step": jnp.int32(3)}, jnp.bfloat16)
    {'step': Array(3, dtype=int32), 'w': Array([1, 1], dtype=bfloat16)}
    """
    if not jnp.issubdtype(dtype, jnp.floating):
        raise bad("params.cast", "dtype must be a floating-point dtype", {"dtype": repr(dtype)},
                  "pass jnp.bfloat16, jnp.float32, ...; complex leaves get the complex dtype of that precision.")

    def converted(leaf):
        return in_precision(jnp.asarray(leaf) if jnp.issubdtype(dtype_of(leaf), jnp.inexact) else leaf, dtype)

    return _mapped("params.cast", converted, params, pattern)


def ema(average: Params, params: Params, decay: ArrayLike, *, step: ArrayLike | None = None) -> Params:
    """Exponential moving average: ``average + (1 - decay) * (params - average)``, leaf by leaf.

    Start with ``average = cast(params, jnp.float32)``; an average that starts from the parameters needs no bias
    correction. The result has the dtypes of `average`. Half precision is computed in float32, but an average stored in
    half precision stops changing when a step is less than half a unit in the last place. Leaves that are not floating
    or complex (counters, keys) are taken from `params`.
    Args:
      average, params: trees with the same paths and shapes.
      decay: number in [0, 1], may be traced.
      step: number of updates before this one, may be traced. The decay of this update is then
        ``min(decay, (1 + step) / (10 + step))``, the warm-up of TensorFlow's ExponentialMovingAverage (`num_updates`).
    Raises: ValueError if a (Python) decay is outside [0, 1], or the paths differ; TypeError if shapes differ.

    >>> ema({"w": jnp.zeros(2)}, {"w": jnp.ones(2)}, 0.75)
    {'w': Array([0.25, 0.25], dtype=float32)}
    """
    caller = "params.ema"
    if isinstance(decay, int | float) and not 0 <= decay <= 1:
        raise bad(caller, "decay must be in [0, 1]", {"decay": repr(decay)}, "pass a number such as 0.999.", ValueError)
    # 9 / (10 + step) is 1 - (1 + step) / (10 + step) without cancellation.
    rate = 1 - decay if step is None else jnp.maximum(1 - decay, 9 / (10 + jnp.asarray(step, float)))
    old, new = by_path(caller, average), by_path(caller, params)
    for path in (old | new):
        if path not in old or path not in new:
            raise unknown_path(caller, path, *((old, "average") if path in new else (new, "params")))
        check_fits(caller, path, old[path], new[path])
    return with_leaves(average, (_averaged(old[path], new[path], rate) for path in old))


def _averaged(old: ArrayLike, new: ArrayLike, rate: ArrayLike) -> ArrayLike:
    dtype = dtype_of(old)
    if not jnp.issubdtype(dtype, jnp.inexact):
        return new
    work = jnp.float32 if dtype.itemsize < 4 else dtype
    old = jnp.asarray(old, work)
    return (old + jnp.asarray(rate, work) * (jnp.asarray(new, work) - old)).astype(dtype)


def _mapped(caller: str, f: Callable[[Any], Any], params: Params, pattern: Pattern) -> Params:
    new = {path: f(leaf) for path, leaf in selected(caller, params, pattern).items()}
    return with_leaves(params, (by_path(caller, params) | new).values())


def updated(caller: str, params: Params, leaves: Mapping[str, Any]) -> Params:
    """`update` with errors that name the public function `caller`."""
    old = by_path(caller, params)
    for path, leaf in leaves.items():
        if path not in old:
            raise unknown_path(caller, path, old, "params")
        check_fits(caller, path, old[path], leaf)
        same = hasattr(leaf, "dtype") and leaf.dtype == dtype_of(old[path])
        old[path] = leaf if same else jnp.asarray(leaf, dtype_of(old[path]))
    return with_leaves(params, old.values())


def check_fits(caller: str, path: str, old: Any, new: ArrayLike) -> None:
    """Raises: TypeError if `new` cannot replace the leaf `old`, see `fits`."""
    if not fits(old, new):
        raise bad(caller, "a new leaf has another shape or a higher kind of dtype",
                  {"path": repr(path), "leaf": type_text(old), "new": type_text(new)},
                  "pass an array of the leaf's shape, with a dtype that converts to the leaf's dtype.")


_KINDS = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)


def fits(old: Any, new: ArrayLike) -> bool:
    """Whether a new leaf has the shape of the old leaf, and a dtype of the same or a lower kind (see `_KINDS`)."""
    dtypes = dtype_of(old), dtype_of(new)
    ranks = [next((i for i, kind in enumerate(_KINDS) if jnp.issubdtype(dtype, kind)), None) for dtype in dtypes]
    ordered = dtypes[0] == dtypes[1] if None in ranks else ranks[1] <= ranks[0]
    return shape_of(old) == shape_of(new) and ordered


def unknown_path(caller: str, path: str, known: Mapping[str, Any], tree: str) -> Exception:
    """The error for a path that is not in `tree`, with the closest path that is."""
    return bad(caller, f"{tree} has no such path", {"path": repr(path), "paths": listing(known)},
               did_you_mean(path, known) or "pass one of the paths that params.paths(...) lists.", ValueError)
