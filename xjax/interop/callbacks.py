"""Python functions in programs of JAX: callbacks and debug printing.

They run as callbacks of xjax, but receive arrays of JAX, because they may compute with `jax.numpy`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjax.core.calls import function_name
from xjax.core.tree import flatten
from xjax.interop.arrays import to_jax_array
from xjax.interop.real_jax import inside_jax, real_jax
from xjax.interop.reference import JaxEqn, aval_of
from xjax.interop.translate import RULES
from xjax.lax.callbacks import io_callback_p, pure_callback_p
from xjax.lax.debug_callbacks import debug_callback_p, debug_print_p


@dataclass(frozen=True, slots=True)
class _HostFunction:
    """A function on JAX arrays, called with a flat list of xjax arrays; returns a flat list of NumPy arrays."""

    callback: Callable[..., Sequence[Any]]
    name: str

    def __call__(self, *leaves: np.ndarray) -> list[np.ndarray]:
        with inside_jax():
            results = self.callback(*map(to_jax_array, leaves))
            return [np.asarray(x) for x in results or ()]


def _host_function(eqn: JaxEqn) -> _HostFunction:
    flat = eqn.params["callback"]
    return _HostFunction(flat, function_name(getattr(flat, "callback_func", flat)))


def _result_types(eqn: JaxEqn) -> tuple:
    return tuple(map(aval_of, eqn.params["result_avals"]))


def _pure_callback(eqn: JaxEqn, args: Sequence[Any]) -> Sequence[Any]:
    return pure_callback_p.bind(*args, callback=_host_function(eqn), result_avals=_result_types(eqn), sharding=None,
                                vmap_method=eqn.params["vmap_method"])


def _io_callback(eqn: JaxEqn, args: Sequence[Any]) -> Sequence[Any]:
    return io_callback_p.bind(*args, callback=_host_function(eqn), result_avals=_result_types(eqn), sharding=None,
                              ordered=eqn.params["ordered"])


def _debug_callback(eqn: JaxEqn, args: Sequence[Any]) -> Sequence[Any]:
    ordered = type(eqn.params["effect"]).__name__.startswith("Ordered")
    return debug_callback_p.bind(*args, callback=_host_function(eqn), effect="OrderedDebug" if ordered else "Debug",
                                 partitioned=eqn.params.get("partitioned", False))


def _debug_print(eqn: JaxEqn, args: Sequence[Any]) -> Sequence[Any]:
    """Debug printing by the xjax function, so that arrays are printed according to the printing options."""
    params = dict(eqn.params)
    tree = params.pop("in_tree")
    ours = flatten(real_jax().tree_util.tree_unflatten(tree, [object()] * tree.num_leaves))[1]
    return debug_print_p.bind(*args, in_tree=ours, **params)


RULES.update({"pure_callback": _pure_callback, "io_callback": _io_callback, "debug_callback": _debug_callback,
              "debug_print": _debug_print})
