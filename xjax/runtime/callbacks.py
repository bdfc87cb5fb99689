"""Python functions that compiled programs call: the call in a program, and its execution on the host.

The function gets `Array`s on the CPU. It runs in a thread of XLA or, for a small program on a CPU, in the thread that
launches it. XLA does not check the results, and reads foreign memory if they are too small. So the results are compared
here with the declared types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from xjax.typing import ArrayLike

HostFunction = Callable[..., Sequence[Any]]         # (*Arrays) -> values of arrays

# Passed from each ordered call to the next; its value has no meaning.
_TOKEN = np.zeros((), np.int32)


# -- arguments ----------------------------------------------------------------------------------------------------

class _Keys:
    """Random keys in a tree of arguments: the program gets their words, the function on the host gets keys."""

    __slots__ = ("keys",)

    def __init__(self, keys: Any):
        self.keys = keys


register_pytree_node(_Keys, lambda x: ((random_unwrap(x.keys),), typeof(x.keys).dtype.kind),
                     lambda kind, words: random_wrap(words[0], kind))


def flatten_arguments(args: tuple, kwargs: dict) -> tuple[list[Any], Any]:
    """Leaves and structure of the arguments of a host function, with random keys as their words."""
    leaves, tree = flatten((args, kwargs))
    keys = [is_array_like(x) and is_key(typeof(x)) for x in leaves]
    if not any(keys):
        return leaves, tree
    return flatten(tree_unflatten(tree, [_Keys(x) if key else x for x, key in zip(leaves, keys, strict=True)]))


# -- execution on the host ----------------------------------------------------------------------------------------

def call_now(caller: str, function: HostFunction, args: Sequence[Any], outs: Sequence[ShapedArray]) -> list[Array]:
    """The results of a host function, as arrays on the devices of the arguments."""
    args = [to_array(x) for x in args]
    place = place_with(caller, args)
    return [from_numpy(y, place) for y in _call(caller, function, args, outs)]


def _call(caller: str, function: HostFunction, args: Sequence[Array], outs: Sequence[ShapedArray]) -> list[np.ndarray]:
    cpu = backend.host_device()
    # The launch, or the operation, may be inside a transform of this thread, but the function is not.
    with current_trace(eval_trace), default_device(cpu), without_mesh():
        return _checked(caller, function(*[put(x, on(cpu)) for x in args]), outs)


def _checked(caller: str, values: Sequence[Any], avals: Sequence[ShapedArray]) -> list[np.ndarray]:
    """The results of a function, as NumPy arrays. Raises: JaxRuntimeError unless they have the declared types."""
    if len(values) != len(avals):
        raise bad(caller, f"the function returned {len(values)} arrays, but {len(avals)} were declared",
                  given={"declared": ", ".join(a.str_short() for a in avals) or "none"},
                  fix="return arrays as in result_shape_dtypes, in its structure.", exc=XlaRuntimeError)
    results = [_as_numpy(y) for y in values]
    wrong = {f"result {i}": f"returned {dtypes.short_name(y.dtype)}{list(y.shape)}, declared {a.str_short()}"
             for i, (y, a) in enumerate(zip(results, avals, strict=True)) if y.shape != a.shape or y.dtype != a.dtype}
    if wrong:
        raise bad(caller, "the function returned an array of another type than declared", given=wrong,
                  fix="convert the result with numpy.asarray(y, dtype), or correct result_shape_dtypes.",
                  exc=XlaRuntimeError)
    return results


def _as_numpy(y: ArrayLike) -> np.ndarray:
    value = np.asarray(y)
    if dtypes.is_supported(value.dtype):
        dtype = dtypes.canonicalize_dtype(value.dtype)
        if dtypes.is_int(dtype):
            dtypes.check_int_range(value, dtype, "callback")
        value = value.astype(dtype, copy=False)
    return value


class _HostCall:
    """The function that XLA calls: it gets views of XLA's memory and returns a tuple of NumPy arrays.

    `shared` is None in programs on one device; see `host_errors`.
    """

    __slots__ = ("caller", "function", "outs", "ordered", "shared", "x64")

    def __init__(self, caller: str, function: HostFunction, outs: Sequence[ShapedArray], ordered: bool,
                 shared: SharedCalls | None):
        self.caller, self.function, self.outs, self.ordered, self.shared = caller, function, outs, ordered, shared
        self.x64 = config.enable_x64            # as in the tracing thread; XLA may call from another thread

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
        """Substitute results of a call that failed, or that follows a failed call."""
        values = [np.full(a.shape, shared.filler(a.dtype), a.dtype) for a in self.outs]
        return (_TOKEN, *values) if self.ordered else tuple(values)


# -- in a program -------------------------------------------------------------------------------------------------

def emit_call(b: Builder, caller: str, function: HostFunction, operands: Sequence[Value], outs: Sequence[ShapedArray],
              *, has_effect: bool, ordered: bool = False, partitioned: bool = False) -> list[Value]:
    """Write the call of a host function.

    Args:
      outs: types of its results, which are checked.
      has_effect: keep the call even if its results are not used.
      ordered: the call follows all earlier ordered calls; each call passes a token to the next.
      partitioned: in a program that XLA partitions over devices, call the function once for each shard.
    """
    token = b.token if ordered else None
    if ordered and token is None:
        raise bad(caller, "an ordered effect in the combining function of a reduction, whose calls have no order",
                  fix="drop ordered=True.", exc=ValueError)
    if has_effect and b.axes is not None and b.axes.automatic:
        raise bad(caller, "a function with effects cannot be called in a shard_map with axes that are not manual",
                  given={"not manual": ", ".join(map(repr, b.axes.automatic))},
                  fix="make all axes manual: drop axis_names=. Or use pure_callback.", exc=NotImplementedError)
    on_whole = b.is_cut and not partitioned
    ins = [*operands] if token is None else [token, *operands]
    if on_whole:
        ins = [_on_all_devices(b, x) for x in ins]
    avals = [*outs] if token is None else [token.aval, *outs]
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


def _layouts(avals: Iterable[ShapedArray]) -> str:
    """Row-major layouts, as in NumPy; without them XLA would choose."""
    axes = [list(reversed(range(aval.ndim))) for aval in avals]
    return "[" + ", ".join(f"dense<{a if a else ''}> : tensor<{len(a)}xindex>" for a in axes) + "]"


class _FirstDevice:
    """The mesh of one device on which a call is placed in a program over several devices."""

    def sdy_text(self, name: str, first: Any = None) -> str:
        return f"sdy.mesh @{name} = <[], device_ids=[0]>"


_FIRST_DEVICE = _FirstDevice()


def _on_first_device(b: Builder, results: int) -> str:
    """Attribute of a single call on the whole arrays; it has at least one sharding, also without results."""
    place = f"<@{b.module.mesh(_FIRST_DEVICE)}, []>"
    return f"sdy.sharding = #sdy.sharding_per_value<[{', '.join([place] * max(results, 1))}]>"


def _on_all_devices(b: Builder, y: Value) -> Value:
    """The same value, replicated on all devices of the program."""
    mesh = next(iter(b.module.meshes.values()))
    axes = ", ".join(["{}"] * y.aval.ndim)
    return b.op(f"sdy.sharding_constraint {y} <@{mesh}, [{axes}]> : {tensor_type(y.aval)}", y.aval)
