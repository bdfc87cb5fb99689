"""Foreign functions: programs that call C or C++ code, through XLA's typed interface.

The code includes `xla/ffi/api/ffi.h` (its folder is `include_dir()`) and defines a handler; `register_ffi_target` gives
it a name, and `ffi_call(name, result type)(x)` calls it, also inside `jit`. It runs in the program, without Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from xjax.core.errors import bad
from xjax.core.hlo import dense, element_type, scalar_text, tensor_type
from xjax.core.primitive import Effects, Missing, Primitive
from xjax.core.public import attributes_of
from xjax.core.types import ShapedArray, typeof
from xjax.lax.callbacks import VMAP_METHODS, one_by_one
from xjax.runtime.placement.layout import Layout
from xjax.runtime.xla import foreign
from xjax.transforms.batching import place_axis
from xjax.typing import Array, ArrayLike, SupportsDType

__all__ = ["ffi_call", "include_dir", "pycapsule", "register_ffi_target", "register_ffi_target_as_batch_partitionable",
           "register_ffi_type"]

# Minor to major, as XLA writes layouts.
Order = tuple[int, ...]


class SupportsType(SupportsDType, Protocol):
    """An object with a shape and a dtype: a `ShapeDtypeStruct`, or an array."""

    @property
    def shape(self) -> tuple[int, ...]: ...


# -- registration -------------------------------------------------------------------------------------------------

def register_ffi_target(name: str, fn: object, platform: str = "cpu", api_version: int = 1, **kwargs: object) -> None:
    """Give a foreign function the name by which programs call it.

    Args:
      fn: a capsule of the handler, from `pycapsule`; or a dict of them: "instantiate", "prepare", "initialize",
        "execute".
      platform: "cpu", "CUDA" or "ROCM".
      api_version: 1 for XLA's typed interface; 0 for plain functions (`custom_call_api_version` below 4).
      kwargs: further options of jaxlib, such as `traits`.
    """
    foreign.register_target(name, fn, platform, api_version, **kwargs)


def register_ffi_type(name: str, type_registration: Mapping[str, Any], platform: str = "cpu") -> None:
    """Register a C++ type of state that handlers keep between calls.

    Args: type_registration: {"type_id": capsule, "type_info": capsule}; the second may be missing.
    """
    foreign.register_type(name, dict(type_registration), platform)


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Let XLA call the function on each part of arrays that are sharded along leading axes, without gathering them."""
    foreign.register_as_batch_partitionable(name)


def pycapsule(funcptr: Any) -> object:
    """A function of a library loaded with `ctypes` as a capsule: ``pycapsule(ctypes.CDLL("./lib.so").Handler)``."""
    return foreign.capsule(funcptr)


def include_dir() -> str:
    """The folder of the headers for foreign functions: ``c++ -I`` it."""
    return foreign.include_dir()


# -- the call -----------------------------------------------------------------------------------------------------

def ffi_call(target_name: str, result_shape_dtypes: SupportsType | Sequence[SupportsType], *,
             has_side_effect: bool = False, vmap_method: str | None = None,
             input_layouts: Sequence[Any] | None = None, output_layouts: Any = None,
             input_output_aliases: Mapping[int, int] | None = None, custom_call_api_version: int = 4,
             legacy_backend_config: str | None = None) -> Callable[..., Any]:
    """A function of arrays that calls a foreign function: ``ffi_call(name, result)(*arrays, **attributes)``.

    Args:
      target_name: as registered by `register_ffi_target`.
      result_shape_dtypes: a value with `shape` and `dtype`, such as `ShapeDtypeStruct`, or a sequence of them.
      has_side_effect: whether to call it even if its results are not used.
      vmap_method: as in `pure_callback`; None: `vmap` raises NotImplementedError.
      input_layouts, output_layouts: for each array the order of its axes in memory, from the slowest to the fastest, or
        a `Layout`; None is row-major.
      input_output_aliases: positions of arguments, each with the position of the result that is written over it.
      custom_call_api_version: 4 is the typed interface; lower versions call plain functions.
      legacy_backend_config: the text passed to a plain function.

    Returns: a function that returns an array, or a list (tuple) of arrays if the results are a list (tuple). Its
      keywords are attributes of the call: numbers, booleans, text, NumPy arrays, tuples of numbers, and dicts of them.
      A Python integer has 64 bits, a float too.
    Raises:
      ValueError: for options that do not fit each other or the arguments, and if the call is differentiated
        (`custom_jvp` and `custom_vjp` can define a derivative).
      TypeError: for an attribute of another type.
      JaxRuntimeError: if no function of this name is registered for the platform, or the function reports an error.
    """
    caller = f"ffi_call of `{target_name}`"
    if vmap_method not in VMAP_METHODS:
        raise bad(caller, "there is no such vmap_method", {"vmap_method": repr(vmap_method)},
                  f"pass one of {', '.join(map(repr, VMAP_METHODS[:-1]))}.", exc=ValueError)
    if custom_call_api_version >= 4 and legacy_backend_config is not None:
        raise bad(caller, "legacy_backend_config is only for custom_call_api_version below 4",
                  {"custom_call_api_version": custom_call_api_version},
                  "pass attributes as keywords of the call.", exc=ValueError)
    several = isinstance(result_shape_dtypes, Sequence)
    outs = _result_types(caller, result_shape_dtypes if several else [result_shape_dtypes])
    out_layouts = output_layouts if several or output_layouts is None else [output_layouts]

    def call(*args: ArrayLike, **attributes: object) -> Array | list[Array] | tuple[Array, ...]:
        ins = [typeof(x) for x in args]
        in_orders = _orders(caller, "input_layouts", ins, input_layouts)
        out_orders = _orders(caller, "output_layouts", outs, out_layouts)
        aliases = tuple(sorted((int(i), int(o)) for i, o in (input_output_aliases or {}).items()))
        _check_aliases(caller, aliases, [*zip(ins, in_orders, strict=True)], [*zip(outs, out_orders, strict=True)])
        results = ffi_call_p.bind(
            *args, result_avals=outs, vmap_method=vmap_method, target_name=target_name,
            has_side_effect=bool(has_side_effect), input_layouts=in_orders, output_layouts=out_orders,
            input_output_aliases=aliases, custom_call_api_version=custom_call_api_version,
            legacy_backend_config=legacy_backend_config, attributes=hashable_attributes(caller, attributes))
        if not several:
            return results[0]
        return tuple(results) if isinstance(result_shape_dtypes, tuple) else list(results)

    return call


def _result_types(caller: str, results: Sequence[Any]) -> tuple[ShapedArray, ...]:
    for i, x in enumerate(results):
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise bad(caller, "a result type has no shape and dtype", {f"result_shape_dtypes[{i}]": repr(x)[:80]},
                      "pass ShapeDtypeStruct(shape, dtype), or an array like the result.", exc=ValueError)
    return tuple([ShapedArray(tuple(x.shape), np.dtype(x.dtype)) for x in results])


def _orders(caller: str, name: str, avals: Sequence[ShapedArray], layouts: Sequence[Any] | None) -> tuple[Order, ...]:
    """The layouts of arrays, minor to major."""
    layouts = [None] * len(avals) if layouts is None else layouts
    if len(layouts) != len(avals):
        raise bad(caller, f"{name} must have one entry for each array",
                  {"arrays": len(avals), name: len(layouts)}, "pass None for a row-major array.", exc=ValueError)
    return tuple([order_of(caller, name, a, layout) for a, layout in zip(avals, layouts, strict=True)])


def order_of(caller: str, name: str, aval: ShapedArray, layout: Layout | Sequence[int] | None) -> Order:
    if isinstance(layout, Layout):
        if layout.tiling:
            raise bad(caller, "foreign functions do not support tiles", {name: layout},
                      "pass a Layout without tiling.", exc=ValueError)
        layout = layout.major_to_minor
    order = tuple(range(aval.ndim)) if layout is None else tuple(layout)
    if sorted(order) != [*range(aval.ndim)]:
        raise bad(caller, f"{name} must name each axis of an array once", {"array": aval.str_short(), "layout": order},
                  "pass the axes from the slowest to the fastest.", exc=ValueError)
    return order[::-1]


def _check_aliases(caller: str, aliases: Sequence[tuple[int, int]], ins: Sequence[tuple],
                   outs: Sequence[tuple]) -> None:
    for i, o in aliases:
        given = {"input_output_aliases": f"{{{i}: {o}}}"}
        if not (0 <= i < len(ins) and 0 <= o < len(outs)):
            raise bad(caller, "input_output_aliases names an array that does not exist",
                      {**given, "arguments": len(ins), "results": len(outs)},
                      "pass positions of arguments and results.", exc=ValueError)
        (x, x_order), (y, y_order) = ins[i], outs[o]
        if (x.shape, x.dtype, x_order) != (y.shape, y.dtype, y_order):
            raise bad(caller, "an argument and the result written over it differ in type or layout",
                      {**given, "argument": x.str_short(), "result": y.str_short()},
                      "alias arrays of one shape, dtype and layout.", exc=ValueError)


# -- attributes -----------------------------------------------------------------------------------------------------

class _HashableArray:
    """A NumPy array as part of the parameters of an operation, compared by its contents."""

    __slots__ = ("value",)

    def __init__(self, value: np.ndarray):
        self.value = value.copy()

    def _key(self) -> tuple:
        return self.value.shape, self.value.dtype, self.value.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HashableArray) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return repr(self.value)


class _Typed:
    """A number with its type, since ``1 == 1.0 == True``."""

    __slots__ = ("value",)

    def __init__(self, value: bool | int | float | np.generic):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, _Typed) and type(self.value) is type(other.value)
                and repr(self.value) == repr(other.value))

    def __hash__(self) -> int:
        return hash((type(self.value), repr(self.value)))

    def __repr__(self) -> str:
        return repr(self.value)


def hashable_attributes(caller: str, attributes: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple([(name, _as_hashable(caller, name, x)) for name, x in sorted(attributes.items())])


def _as_hashable(caller: str, name: str, x: object) -> Attribute:
    if isinstance(x, np.ndarray):
        return _HashableArray(x)
    if isinstance(x, Mapping):
        return _Fields(hashable_attributes(caller, x))
    if isinstance(x, tuple):
        return tuple([_as_hashable(caller, name, y) for y in x])
    if isinstance(x, str):
        return x
    if isinstance(x, (bool, int, float, np.generic)):
        return _Typed(x)
    raise bad(caller, f"an attribute cannot be a {type(x).__name__}", {name: repr(x)[:80]},
              "pass numbers, text, NumPy arrays, tuples of numbers, or dicts of them.")


class _Fields(tuple):
    """The entries of a dict among the attributes."""


# An attribute as a parameter of the operation.
Attribute: TypeAlias = str | tuple[Any, ...] | _HashableArray | _Typed


def attribute_text(x: Attribute) -> str:
    """An attribute as the program has it.  Args: x: a value that `_as_hashable` returns."""
    if isinstance(x, _Fields):
        return dictionary_text(x)
    if isinstance(x, tuple):
        return f"[{', '.join(map(attribute_text, x))}]"
    if isinstance(x, str):
        return '"' + "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else
                             "".join(f"\\{byte:02X}" for byte in c.encode()) for c in x) + '"'
    if isinstance(x, _HashableArray):
        return f"{dense(x.value)} : {tensor_type(ShapedArray(x.value.shape, x.value.dtype))}"
    value = x.value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    dtype = value.dtype if isinstance(value, np.generic) else np.dtype("int64" if isinstance(value, int) else "float64")
    return f"{scalar_text(np.asarray(value, dtype)[()], dtype)} : {element_type(dtype)}"


def dictionary_text(entries: Sequence[tuple[str, Any]]) -> str:
    """The attribute of a dict: ``{a = 1 : i64}``."""
    return f"{{{', '.join(f'{name} = {attribute_text(x)}' for name, x in entries)}}}"


def call_attributes(target_name: str, input_layouts: Sequence[Order], output_layouts: Sequence[Order],
                    has_side_effect: bool, aliases: Sequence[tuple[int, int]], api_version: int, config: str) -> str:
    """The attributes of the operation that calls a foreign function.  Args: config: the text of its attributes."""
    outputs = len(output_layouts)
    parts = [f"call_target_name = {attribute_text(target_name)}", f"api_version = {api_version} : i32",
             f"has_side_effect = {'true' if has_side_effect else 'false'}", f"backend_config = {config}",
             f"operand_layouts = {_layouts_text(input_layouts)}", f"result_layouts = {_layouts_text(output_layouts)}"]
    if aliases:
        pairs = [f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if outputs > 1 else ''}], "
                 f"operand_index = {i}, operand_tuple_indices = []>" for i, o in aliases]
        parts.append(f"output_operand_aliases = [{', '.join(pairs)}]")
    return ", ".join(parts)


def _layouts_text(orders: Sequence[Order]) -> str:
    return f"[{', '.join(f'dense<{[*o] if o else str()}> : tensor<{len(o)}xindex>' for o in orders)}]"


# -- rules ----------------------------------------------------------------------------------------------------------

def _type(*avals, result_avals, **params):
    return result_avals


def _lower(b, outs, *args, result_avals, vmap_method, target_name, has_side_effect, input_layouts, output_layouts,
           input_output_aliases, custom_call_api_version, legacy_backend_config, attributes):
    typed = custom_call_api_version >= 4
    config = dictionary_text(attributes) if typed else attribute_text(legacy_backend_config or "")
    if attributes and not typed:
        raise bad(f"ffi_call of `{target_name}`", "attributes need custom_call_api_version 4",
                  {"attributes": ", ".join(name for name, _ in attributes)},
                  "pass the text legacy_backend_config to a plain function.", exc=ValueError)
    text = call_attributes(target_name, input_layouts, output_layouts, has_side_effect, input_output_aliases,
                           custom_call_api_version, config)
    return b.generic("stablehlo.custom_call", args, outs, text)


def _batch(axis, args, bdims, **params):
    method, target = params["vmap_method"], params["target_name"]
    if method is None:
        raise bad(f"ffi_call of `{target}`", "without a vmap_method it has no rule for vmap",
                  fix="pass vmap_method='sequential' to call it for each, or 'expand_dims' or 'broadcast_all' if it "
                      "accepts a new axis 0.", exc=NotImplementedError)
    if method.startswith("sequential"):
        return one_by_one(ffi_call_p, axis, args, bdims, params, method == "sequential_unrolled")
    repeats = {"broadcast_all": axis.size, "expand_dims": 1}
    moved = [d is not None or method in repeats for d in bdims]
    args = [place_axis(x, d, 0, repeats.get(method, axis.size)) if new else x
            for x, d, new in zip(args, bdims, moved, strict=True)]
    avals = tuple([ShapedArray((axis.size, *a.shape), a.dtype) for a in params["result_avals"]])
    outs = ffi_call_p.bind(*args, **{
        **params, "result_avals": avals,
        "input_layouts": tuple([_with_axis(o) if new else o
                                for o, new in zip(params["input_layouts"], moved, strict=True)]),
        "output_layouts": tuple(map(_with_axis, params["output_layouts"]))})
    return outs, [0] * len(outs)


def _with_axis(order: Order) -> Order:
    """A layout with a new axis 0, which moves slowest."""
    return (*[k + 1 for k in order], 0)


def _effects(*, has_side_effect: bool, **params: object) -> Effects:
    return frozenset(("io",) if has_side_effect else ())


ffi_call_p = Primitive(
    "ffi_call", type_rule=_type, lower=_lower, batch=_batch, effects=_effects, multiple_results=True,
    jvp=Missing("a foreign function has no known derivative", exc=ValueError,
                fix="wrap the function that calls it in custom_jvp or custom_vjp, and define the rule."),
    transpose=Missing("a foreign function has no transpose"))

__getattr__ = attributes_of(__name__)
