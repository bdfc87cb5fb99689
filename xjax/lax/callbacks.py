"""`pure_callback` and `io_callback`: Python functions called from within a program.

    b:f32[3] = pure_callback[callback=... result_avals=(...) sharding=None vmap_method=None] a

A pure callback is a function of its arguments only, so the compiler may call it again, or not at all if its results are
unused. An impure callback is called exactly as often as the program specifies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import function_name
from xjax.core.errors import bad
from xjax.core.flags import flagged, merge, unflagged
from xjax.core.primitive import Effects, Missing, Primitive
from xjax.core.tree import flatten, keystr, tree_flatten_with_path, tree_unflatten
from xjax.core.types import ShapedArray
from xjax.lax.scan import scan
from xjax.runtime.callbacks import call_now, emit_call, flatten_arguments
from xjax.runtime.placement.sharding import Sharding
from xjax.transforms.batching import place_axis
from xjax.typing import ArrayLike, PyTree

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None)


def pure_callback(callback: Callable, result_shape_dtypes: PyTree, *args: PyTree, sharding: Sharding | None = None,
                  vmap_method: str | None = None, **kwargs: PyTree) -> PyTree:
    """``callback(*args, **kwargs)``, called by the program when it runs; for functions without side effects.

    Args:
      callback: gets arrays on the CPU, in the same trees as `args` and `kwargs`; returns arrays that NumPy can read. It
        may be called again, or not at all. It should not run xjax programs itself: a program that waits for a thread of
        XLA's, while the callback occupies one, may wait for ever. In a program of several devices it cannot launch
        another such program (RuntimeError).
      result_shape_dtypes: the types of its results: a tree of values with `shape` and `dtype`, such as
        `ShapeDtypeStruct`.
      sharding: accepted as in JAX; in a program of several devices the function is called once, on whole arrays.
      vmap_method: the behaviour under `vmap`. "sequential": called for each element, in a loop ("sequential_unrolled":
        without a loop). "expand_dims": called once, with a new axis 0, which has size 1 in arguments that are not
        mapped. "broadcast_all": called once, with all arguments repeated. "legacy_vectorized": called once, with
        arguments that are not mapped left as they are. None: `vmap` raises NotImplementedError.

    Returns: arrays in the structure of `result_shape_dtypes`.
    Raises: when it runs, the exception of the function, or JaxRuntimeError if it returns other types; ValueError if it
      is differentiated (`custom_jvp` can define a derivative).

    >>> f = xjax.jit(lambda x: xjax.pure_callback(np.cumsum, x, x))
    >>> f(jnp.arange(3.0)).tolist()
    [0.0, 1.0, 3.0]
    """
    if vmap_method not in VMAP_METHODS:
        raise bad("pure_callback", "there is no such vmap_method", given={"vmap_method": repr(vmap_method)},
                  fix=f"pass one of {', '.join(map(repr, VMAP_METHODS[:-1]))}.", exc=ValueError)
    if "vectorized" in kwargs:
        raise bad("pure_callback", "`vectorized` does not exist any more",
                  fix="pass vmap_method='legacy_vectorized' for True, vmap_method='sequential' for False.")
    return _bind(pure_callback_p, callback, result_shape_dtypes, args, kwargs, sharding=sharding,
                 vmap_method=vmap_method)


def io_callback(callback: Callable, result_shape_dtypes: PyTree, *args: PyTree, sharding: Sharding | None = None,
                ordered: bool = False, **kwargs: PyTree) -> PyTree:
    """``callback(*args, **kwargs)``, called by the program when it runs; for functions with side effects.

    Args:
      callback, result_shape_dtypes, sharding: as for `pure_callback`; it is called each time the program reaches it,
        whether its results are used or not.
      ordered: run after all earlier ordered callbacks; else the compiler may change the order. In `pmap` and
        `shard_map` each device orders its own callbacks. Not available under `vmap`.

    Returns: arrays in the structure of `result_shape_dtypes`; that may be None.
    Raises: as `pure_callback`. Under `vmap` it is called for each element.

    >>> log = []
    >>> xjax.jit(lambda x: io_callback(lambda v: log.append(float(v)), None, x, ordered=True))(3.0)
    >>> log
    [3.0]
    """
    return _bind(io_callback_p, callback, result_shape_dtypes, args, kwargs, sharding=sharding, ordered=bool(ordered))


@dataclass(frozen=True, slots=True)
class _FlatCallback:
    """The user's function, from leaves of its arguments to leaves of its result."""

    callback_func: Callable
    in_tree: Any

    def __call__(self, *leaves: np.ndarray) -> list[Any]:
        args, kwargs = tree_unflatten(self.in_tree, leaves)
        return flatten(self.callback_func(*args, **kwargs))[0]

    @property
    def name(self) -> str:
        return function_name(self.callback_func)


def _bind(p: Primitive, callback: Callable, result_shape_dtypes: PyTree, args: tuple, kwargs: dict,
          **params: Any) -> PyTree:
    if not callable(callback):
        raise bad(p.name, "needs a function", given={"callback": repr(callback)[:80]},
                  fix="pass the function itself, then the shapes and dtypes of its results.")
    avals, out_tree = _announced(p.name, result_shape_dtypes)
    leaves, in_tree = flatten_arguments(args, kwargs)
    outs = p.bind(*leaves, callback=_FlatCallback(callback, in_tree), result_avals=avals, **params)
    return tree_unflatten(out_tree, outs)


def _announced(caller: str, result_shape_dtypes: PyTree) -> tuple[tuple[ShapedArray, ...], Any]:
    """Types and structure of the results."""
    leaves, tree = tree_flatten_with_path(result_shape_dtypes)
    avals = []
    for path, x in leaves:
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise bad(caller, "a value in result_shape_dtypes has no shape and dtype",
                      given={f"result_shape_dtypes{keystr(path)}": repr(x)[:80]},
                      fix="pass ShapeDtypeStruct(shape, dtype), or an array like the result.")
        if dtypes.canonicalize_dtype(x.dtype) != x.dtype:
            raise bad(caller, "result_shape_dtypes announces a 64-bit type, but 64-bit types are disabled",
                      given={f"result_shape_dtypes{keystr(path)}": str(x.dtype)},
                      fix="announce the 32-bit type, or enable 64-bit types with jax_enable_x64.", exc=ValueError)
        avals.append(ShapedArray(tuple(x.shape), x.dtype))
    return tuple(avals), tree


# -- rules --------------------------------------------------------------------------------------------------------

def _type(*avals, result_avals, **params):
    return result_avals


def _caller(p: str, callback: _FlatCallback) -> str:
    return f"{p} of `{callback.name}`"


def _lower_pure(b, outs, *args, callback, result_avals, sharding, vmap_method):
    return emit_call(b, _caller("pure_callback", callback), callback, args, outs, has_effect=False)


def _lower_io(b, outs, *args, callback, result_avals, sharding, ordered):
    return emit_call(b, _caller("io_callback", callback), callback, args, outs, has_effect=True, ordered=ordered)


def _evaluate(p: str) -> Callable:
    """Evaluation rule without a trace: the function is simply called."""
    def evaluate(*args: ArrayLike, callback: _FlatCallback, result_avals: Sequence[ShapedArray],
                 **params: Any) -> list[Any]:
        return call_now(_caller(p, callback), callback, args, result_avals)
    return evaluate


def one_by_one(p: Primitive, axis: Any, args: Sequence[Any], bdims: Sequence[int | None], params: dict,
               unroll: bool = False) -> tuple[list[Any], list[int]]:
    """Batch rule of an operation that is bound once per element."""
    mapped = [d is not None for d in bdims]
    shared = unflagged(args, mapped)
    rows = [place_axis(x, d, 0, axis.size) for x, d in zip(flagged(args, mapped), flagged(bdims, mapped), strict=True)]

    def body(carry: tuple, row: list[Any]) -> tuple[tuple, list[Any]]:
        return (), p.bind(*merge(mapped, row, shared), **params)

    _, outs = scan(body, (), rows, axis.size, unroll=unroll or 1)
    return outs, [0] * len(outs)


def _batch_pure(axis, args, bdims, *, vmap_method, result_avals, **params):
    if vmap_method is None:
        raise bad(_caller("pure_callback", params["callback"]), "without a vmap_method it has no rule for vmap",
                  fix="pass vmap_method='sequential' to call it for each, or 'expand_dims' or 'broadcast_all' if it "
                      "accepts a new axis 0.", exc=NotImplementedError)
    if vmap_method.startswith("sequential"):
        params = {**params, "vmap_method": vmap_method, "result_avals": result_avals}
        return one_by_one(pure_callback_p, axis, args, bdims, params, vmap_method == "sequential_unrolled")
    repeats = {"broadcast_all": axis.size, "expand_dims": 1}
    args = [x if d is None and vmap_method not in repeats else place_axis(x, d, 0, repeats.get(vmap_method, axis.size))
            for x, d in zip(args, bdims, strict=True)]
    avals = tuple([ShapedArray((axis.size, *a.shape), a.dtype) for a in result_avals])
    outs = pure_callback_p.bind(*args, vmap_method=vmap_method, result_avals=avals, **params)
    return outs, [0] * len(outs)


def _batch_io(axis, args, bdims, *, ordered, callback, **params):
    if ordered:
        raise bad(_caller("io_callback", callback), "vmap of an ordered callback: the elements have no order",
                  fix="leave out ordered=True, or use lax.map in place of vmap.", exc=ValueError)
    return one_by_one(io_callback_p, axis, args, bdims, {**params, "callback": callback, "ordered": False})


def _io_effects(*, ordered: bool, **params: Any) -> Effects:
    return frozenset(("io", "ordered") if ordered else ("io",))


_NOT_LINEAR = Missing("a Python function has no transpose")

pure_callback_p = Primitive(
    "pure_callback", type_rule=_type, lower=_lower_pure, evaluate=_evaluate("pure_callback"), batch=_batch_pure,
    jvp=Missing("a Python function has no known derivative", exc=ValueError,
                fix="wrap the function that calls it in custom_jvp or custom_vjp, and define the rule."),
    transpose=_NOT_LINEAR, multiple_results=True, cacheable=False)

io_callback_p = Primitive(
    "io_callback", type_rule=_type, lower=_lower_io, evaluate=_evaluate("io_callback"), batch=_batch_io,
    jvp=Missing("a Python function has no known derivative", exc=ValueError,
                fix="pass lax.stop_gradient(x) to it, or define a rule with custom_jvp or custom_vjp."),
    transpose=_NOT_LINEAR, effects=_io_effects, multiple_results=True, cacheable=False)
