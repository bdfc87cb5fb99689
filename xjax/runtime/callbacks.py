"""Python functions that compiled programs call: how a call is written, and what happens on the host.

The function gets `Array`s on the CPU. It runs in a thread of XLA's or, if the program is a small one of a CPU, in the
thread that launches it. XLA checks nothing of what it returns and reads foreign memory if that is too small, so results
are compared here with the types that were announced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.config import config, default_device, enable_x64
from xjax.core.context import current_trace
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.key_types import is_key
from xjax.core.tree import flatten, tree_unflatten
from xjax.core.tree_nodes import register_pytree_node
from xjax.core.types import ShapedArray, is_array_like, typeof
from xjax.ops.keys import random_unwrap, random_wrap
from xjax.runtime.arrays.array import Array, from_numpy, put
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.devices import backend, host_errors
from xjax.runtime.devices.host_errors import SharedCalls, shared_calls
from xjax.runtime.dispatch import eval_trace
from xjax.runtime.placement.current_mesh import without_mesh
from xjax.runtime.placement.places import on, place_with
from xjax.runtime.xla import XlaRuntimeError

HostFunction = Callable[..., Sequence[Any]]         # (*Arrays) -> values of arrays

# What an ordered call hands to the next one; only that there is a value counts.
_TOKEN = np.zeros((), np.int32)


# -- arguments ----------------------------------------------------------------------------------------------------

class _Keys:
    """Random keys in a tree of arguments: the program is given their words, the function on the host keys again."""

    __slots__ = ("keys",)

    def __init__(self, keys: Any):
        self.keys = keys


register_pytree_node(_Keys, lambda x: ((random_unwrap(x.keys),), typeof(x.keys).dtype.kind),
                     lambda kind, words: random_wrap(words[0], kind))


def flatten_arguments(args: tuple, kwargs: dict) -> tuple[list[Any], Any]:
    """Leaves and structure of the arguments of a function on the host, random keys as their words."""
    leaves, tree = flatten((args, kwargs))
    keys = [is_array_like(x) and is_key(typeof(x)) for x in leaves]
    if not any(keys):
        return leaves, tree
    return flatten(tree_unflatten(tree, [_Keys(x) if key else x for x, key in zip(leaves, keys, strict=True)]))


# -- on the host --------------------------------------------------------------------------------------------------

def call_now(caller: str, function: HostFunction, args: Sequence[Any], outs: Sequence[ShapedArray]) -> list[Array]:
    """The results of a function on the host, as arrays where the arguments lie."""
    args = [to_array(x) for x in args]
    place = place_with(caller, args)
    return [from_numpy(y, place) for y in _call(caller, function, args, outs)]


def _call(caller: str, function: HostFunction, args: Sequence[Array], outs: Sequence[ShapedArray]) -> list[np.ndarray]:
    cpu = backend.host_device()
    # The launch, or the operation, may be inside a transform of this thread; the function is not.
    with current_trace(eval_trace), default_device(cpu), without_mesh():
        return _checked(caller, function(*[put(x, on(cpu)) for x in args]), outs)


def _checked(caller: str, values: Sequence[Any], avals: Sequence[ShapedArray]) -> list[np.ndarray]:
    """What a function returned, as NumPy arrays of these types. Raises: JaxRuntimeError if it is something else."""
    if len(values) != len(avals):
        raise bad(caller, f"the function returned {len(values)} arrays, but {len(avals)} were announced",
                  given={"announced": ", ".join(a.str_short() for a in avals) or "none"},
                  fix="return what result_shape_dtypes says, in its structure.", exc=XlaRuntimeError)
    found = [_as_numpy(y) for y in values]
    wrong = {f"result {i}": f"returned {dtypes.short_name(y.dtype)}{list(y.shape)}, announced {a.str_short()}"
             for i, (y, a) in enumerate(zip(found, avals, strict=True)) if y.shape != a.shape or y.dtype != a.dtype}
    if wrong:
        raise bad(caller, "the function returned an array of another type than announced", given=wrong,
                  fix="convert the result with numpy.asarray(y, dtype), or correct result_shape_dtypes.",
                  exc=XlaRuntimeError)
    return found


def _as_numpy(y: Any) -> np.ndarray:
    value = np.asarray(y)
    if dtypes.is_supported(value.dtype):
        dtype = dtypes.canonicalize_dtype(value.dtype)
        if dtypes.is_int(dtype):
            dtypes.check_int_range(value, dtype, "callback")
        value = value.astype(dtype, copy=False)
    return value


class _HostCall:
    """What XLA calls: views of its memory in, a tuple of NumPy arrays out.

    `shared` is None in programs of one device; see `host_errors`.
    """

    __slots__ = ("caller", "function", "outs", "ordered", "shared", "x64")

    def __init__(self, caller: str, function: HostFunction, outs: Sequence[ShapedArray], ordered: bool,
                 shared: SharedCalls | None):
        self.caller, self.function, self.outs, self.ordered, self.shared = caller, function, outs, ordered, shared
        self.x64 = config.enable_x64            # of the thread that traces; XLA may call from one of its own

    def __call__(self, *views: np.ndarray) -> tuple[np.ndarray, ...]:
        if self.shared is not None:
            results = self.shared.run(lambda: self._run(views), self.caller)
            return self._other_values(self.shared) if results is None else results
        try:
            return self._run(views)
        except BaseException as error:
            raise host_errors.relayed(host_errors.noted(error, self.caller)) from None

    def _run(self, views: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        with enable_x64(self.x64):
            cpu = on(backend.host_device())
            args = [from_numpy(v, cpu) for v in views[self.ordered:]]
            results = _call(self.caller, self.function, args, self.outs)
        return (_TOKEN, *results) if self.ordered else tuple(results)

    def _other_values(self, shared: SharedCalls) -> tuple[np.ndarray, ...]:
        """Results of a call that failed, or comes after one."""
        values = [np.full(a.shape, shared.filler(a.dtype), a.dtype) for a in self.outs]
        return (_TOKEN, *values) if self.ordered else tuple(values)


# -- in a program -------------------------------------------------------------------------------------------------

def emit_call(b: Builder, caller: str, function: HostFunction, operands: Sequence[Value], outs: Sequence[ShapedArray],
              *, has_effect: bool, ordered: bool = False, partitioned: bool = False) -> list[Value]:
    """Write the call of a function on the host.

    Args:
      outs: types of its results, which it is held to.
      has_effect: keep the call even if nobody reads its results.
      ordered: it comes after all ordered calls before it; the token is passed on from one to the next.
      partitioned: in a program that XLA cuts over devices, call it once for each part.
    """
    if ordered and b.token is None:
        raise bad(caller, "an ordered effect in the function that combines elements in a reduction, which has no order",
                  fix="leave out ordered=True.", exc=ValueError)
    if has_effect and b.axes is not None and b.axes.automatic:
        raise bad(caller, "a function with effects in a shard_map that leaves axes of the mesh to the compiler",
                  given={"axes that are not manual": ", ".join(map(repr, b.axes.automatic))},
                  fix="make all axes manual: leave out axis_names=. Or use pure_callback.", exc=NotImplementedError)
    on_whole = b.is_cut and not partitioned
    ins = [b.token, *operands] if ordered else list(operands)
    if on_whole:
        ins = [_on_all_devices(b, x) for x in ins]
    avals = [b.token.aval, *outs] if ordered else list(outs)
    target = f"xla_ffi{'_partitioned' if partitioned else ''}_python_{'cpu' if b.module.platform == 'cpu' else 'gpu'}"
    attributes = [f'call_target_name = "{target}_callback"', "api_version = 4 : i32",
                  f"has_side_effect = {'true' if has_effect else 'false'}",
                  f"backend_config = {{index = {len(b.module.callbacks)} : ui64}}",
                  f"operand_layouts = {_layouts(v.aval for v in ins)}", f"result_layouts = {_layouts(avals)}"]
    if on_whole:
        attributes.append(_on_first_device(b, len(avals)))
    shared = None
    if b.module.partitioned and b.module.platform == "cpu" and next(iter(b.module.meshes)).size > 1:
        shared = shared_calls(b.module.callbacks) or SharedCalls()
    b.module.callbacks.append(_HostCall(caller, function, outs, ordered, shared))
    results = b.generic("stablehlo.custom_call", ins, avals, ", ".join(attributes))
    if on_whole:
        results = [_on_all_devices(b, y) for y in results]
    if ordered:
        b.token, *results = results
    return results


def _layouts(avals: Any) -> str:
    """Row by row, as NumPy has it; XLA would else choose."""
    axes = [list(reversed(range(aval.ndim))) for aval in avals]
    return "[" + ", ".join(f"dense<{a if a else ''}> : tensor<{len(a)}xindex>" for a in axes) + "]"


class _FirstDevice:
    """The mesh of one device that a call is placed on in a program of several."""

    def sdy_text(self, name: str, first: Any = None) -> str:
        return f"sdy.mesh @{name} = <[], device_ids=[0]>"


_FIRST_DEVICE = _FirstDevice()


def _on_first_device(b: Builder, results: int) -> str:
    """Attribute of a call that happens once, on the whole arrays; one without results has one sharding all the same."""
    place = f"<@{b.module.mesh(_FIRST_DEVICE)}, []>"
    return f"sdy.sharding = #sdy.sharding_per_value<[{', '.join([place] * max(results, 1))}]>"


def _on_all_devices(b: Builder, y: Value) -> Value:
    """The same value, whole on every device of the program."""
    mesh = next(iter(b.module.meshes.values()))
    axes = ", ".join(["{}"] * y.aval.ndim)
    return b.op(f"sdy.sharding_constraint {y} <@{mesh}, [{axes}]> : {tensor_type(y.aval)}", y.aval)
