"""`DynamicBuilder`: a builder for programs with symbolic dimensions, which writes operations with dynamic shapes.

Rules of operations write the static form: ``stablehlo.reshape %1 : (tensor<?x6xf32>) -> tensor<?x2x3xf32>``. Where the
result has a symbolic size, some of these forms do not exist: the builder writes the form that takes the shape as an
operand instead. All other operations are the same for dynamic shapes. Sub-programs are written in place, so that all
code is in one function, where the values of dimension variables are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xjax.core.hlo import Builder, Module, Value, string
from xjax.core.symbolic.dims import Dim, is_static, is_symbolic_dim
from xjax.core.symbolic.scope import SymbolicScope, symbolic_shape
from xjax.core.types import ShapedArray
from xjax.typing import ArrayLike

I32 = ShapedArray((), np.dtype(np.int32))

# The platform of such programs: rules for one platform depend on sizes, so none of them is used.
ANY_PLATFORM = "any"


class DynamicBuilder(Builder):
    """See the module.

    Attributes: sizes: the value of each dimension variable, a scalar int32.
    """

    __slots__ = ("sizes", "scope_of_dims", "_dims", "_shapes")

    def __init__(self, module: Module, sizes: Mapping[str, Value], scope_of_dims: SymbolicScope, level: int = 0,
                 scope: str = ""):
        super().__init__(module, None, level, scope)
        self.sizes, self.scope_of_dims = sizes, scope_of_dims
        self._dims: dict[Dim, Value] = {}
        self._shapes: dict[tuple, Value] = {}

    def nested(self) -> DynamicBuilder:
        inner = DynamicBuilder(self.module, self.sizes, self.scope_of_dims, self.level + 1, self.scope)
        inner._dims, inner._shapes = dict(self._dims), dict(self._shapes)
        return inner

    # -- values of sizes -------------------------------------------------------------------------------------------

    def size(self, n: int | Dim) -> Value:
        """A size as a scalar int32."""
        if not is_symbolic_dim(n):
            return self.constant(n, I32)
        if n not in self._dims:
            values = {name: _Scalar(self, value) for name, value in self.sizes.items()}
            self._dims[n] = n.evaluate(values, _OPERATIONS).value
        return self._dims[n]

    def shape(self, shape: Sequence[int | Dim]) -> Value:
        """A shape as a vector of int32."""
        key = tuple(shape)
        if key not in self._shapes:
            one = ShapedArray((1,), I32.dtype)
            vector = ShapedArray((len(key),), I32.dtype)
            if is_static(key):
                self._shapes[key] = self.constant(np.asarray(key, np.int32), vector)
                return self._shapes[key]
            parts = [super(DynamicBuilder, self).op(f"stablehlo.reshape {v} : ({v.type}) -> {Value('', one).type}", one)
                     for v in map(self.size, key)]
            text = ", ".join(p.name for p in parts)
            self._shapes[key] = parts[0] if len(parts) == 1 else super().op(
                f"stablehlo.concatenate {text}, dim = 0 : ({', '.join(p.type for p in parts)}) -> "
                f"{Value('', vector).type}", vector)
        return self._shapes[key]

    def check(self, holds: Value, message: str, values: Sequence[Value]) -> None:
        """A condition that is tested when the shapes are known.  Args: message: `{i}` stands for value i."""
        operands = [holds, *values]
        self.lines.append(
            f"stablehlo.custom_call @shape_assertion({', '.join(v.name for v in operands)}) {{api_version = 2 : i32, "
            f"error_message = {string(message)}, has_side_effect = true}} : "
            f"({', '.join(v.type for v in operands)}) -> ()")

    # -- operations ------------------------------------------------------------------------------------------------

    def constant(self, value: ArrayLike, aval: ShapedArray) -> Value:
        if is_static(aval.shape):
            return super().constant(value, aval)
        return self.broadcast(super().constant(value, aval.update(shape=())), aval, ())

    def broadcast(self, x: Value, aval: ShapedArray, dims: Sequence[int]) -> Value:
        if x.aval.shape == aval.shape or is_static(aval.shape):
            return super().broadcast(x, aval, dims)
        shape = self.shape(aval.shape)
        return super().op(f"stablehlo.dynamic_broadcast_in_dim {x}, {shape}, dims = [{', '.join(map(str, dims))}] : "
                          f"({x.type}, {shape.type}) -> {Value('', aval).type}", aval)

    def op(self, text: str, aval: ShapedArray) -> Value:
        return super().op(self._dynamic(text, aval), aval)

    def ops(self, text: str, avals: Sequence[ShapedArray]) -> list[Value]:
        return super().ops(self._dynamic(text, avals[0]) if len(avals) == 1 else text, avals)

    def _dynamic(self, text: str, aval: ShapedArray) -> str:
        """The operation with shapes as operands, if a size in it is symbolic."""
        for pattern, write in _FORMS:
            match = pattern.match(text)
            if match is not None:
                return write(self, aval, *match.groups()) or text
        return text

    def numbers(self, text: str) -> tuple[int | Dim, ...]:
        """The sizes in the text of a list."""
        return symbolic_shape(text, scope=self.scope_of_dims)


# -- operations whose static form has no counterpart with dynamic shapes -------------------------------------------

def _with_shape(name: str) -> Callable[..., str | None]:
    """``name X REST : (T) -> R`` becomes ``dynamic_name X, shape REST : (T, S) -> R``."""
    def write(b: DynamicBuilder, aval: ShapedArray, x: str, rest: str, ins: str, out: str) -> str | None:
        if is_static(aval.shape):
            return None
        shape = b.shape(aval.shape)
        return f"stablehlo.{name} {x}, {shape}{rest} : ({ins}, {shape.type}) -> {out}"
    return write


def _iota(b: DynamicBuilder, aval: ShapedArray, axis: str, out: str) -> str | None:
    if is_static(aval.shape):
        return None
    shape = b.shape(aval.shape)
    return f"stablehlo.dynamic_iota {shape}, dim = {axis} : ({shape.type}) -> {out}"


def _slice(b: DynamicBuilder, aval: ShapedArray, x: str, ranges: str, ins: str, out: str) -> str | None:
    parts = [part.split(":") for part in ranges.split(", ")] if "(" not in ranges else _ranges(ranges)
    starts, limits = (b.numbers(", ".join(p[i] for p in parts)) for i in (0, 1))
    if is_static((*starts, *limits)):
        return None
    steps = [int(p[2]) if len(p) > 2 else 1 for p in parts]
    values = [b.shape(starts), b.shape(limits), b.shape(steps)]
    return (f"stablehlo.real_dynamic_slice {x}, {', '.join(v.name for v in values)} : "
            f"({ins}, {', '.join(v.type for v in values)}) -> {out}")


def _ranges(text: str) -> list[list[str]]:
    """The ranges of a slice whose sizes contain commas: commas in parentheses separate operands."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part.split(":") for part in (*parts, text[start:].strip())]


def _pad(b: DynamicBuilder, aval: ShapedArray, xs: str, low: str, high: str, inner: str, ins: str,
         out: str) -> str | None:
    lists = [b.numbers(text) for text in (low, high, inner)]
    if is_static([n for ns in lists for n in ns]):
        return None
    values = [b.shape(ns) for ns in lists]
    types = ", ".join(v.type for v in values)
    return f"stablehlo.dynamic_pad {xs}, {', '.join(v.name for v in values)} : ({ins}, {types}) -> {out}"


def _dynamic_slice(b: DynamicBuilder, aval: ShapedArray, x: str, starts: str, sizes: str, ins: str,
                   out: str) -> str | None:
    """A slice whose start is a value: the start is clamped, and the limit is the start plus the size."""
    numbers = b.numbers(sizes)
    if is_static(numbers):
        return None
    operand, *types = ins.split(", ")
    vector, length = b.shape(numbers), len(numbers)
    one, all_ = ShapedArray((1,), I32.dtype), ShapedArray((length,), I32.dtype)
    parts = []
    for name, kind in zip(starts.split(", "), types, strict=True):
        start = Value(name, I32) if kind == "tensor<i32>" else b.op(
            f"stablehlo.convert {name} : ({kind}) -> tensor<i32>", I32)
        parts.append(b.op(f"stablehlo.reshape {start} : (tensor<i32>) -> tensor<1xi32>", one))
    start = parts[0] if length == 1 else b.op(
        f"stablehlo.concatenate {', '.join(p.name for p in parts)}, dim = 0 : ({', '.join(p.type for p in parts)}) -> "
        f"tensor<{length}xi32>", all_)
    whole = []
    for axis, n in enumerate(re.findall(r"(\?|\d+)x", operand)):
        size = b.constant(int(n), I32) if n != "?" else b.op(
            f"stablehlo.get_dimension_size {x}, dim = {axis} : ({operand}) -> tensor<i32>", I32)
        whole.append(b.op(f"stablehlo.reshape {size} : (tensor<i32>) -> tensor<1xi32>", one))
    total = whole[0] if length == 1 else b.op(
        f"stablehlo.concatenate {', '.join(p.name for p in whole)}, dim = 0 : ({', '.join(p.type for p in whole)}) -> "
        f"tensor<{length}xi32>", all_)
    start = b.op(f"stablehlo.clamp {b.constant(0, all_)}, {start}, {b.sub(total, vector)} : tensor<{length}xi32>", all_)
    limit, steps = b.add(start, vector), b.constant(1, all_)
    return (f"stablehlo.real_dynamic_slice {x}, {start}, {limit}, {steps} : "
            f"({operand}, {start.type}, {limit.type}, {steps.type}) -> {out}")


def _gather(b: DynamicBuilder, aval: ShapedArray, xs: str, before: str, sizes: str, after: str, ins: str,
            out: str) -> str | None:
    numbers = b.numbers(sizes)
    if is_static(numbers):
        return None
    shape = b.shape(numbers)
    attributes = ", ".join(part for part in (before.strip(", "), after.strip(", ")) if part)
    return f'"stablehlo.dynamic_gather"({xs}, {shape}) {{{attributes}}} : ({ins}, {shape.type}) -> {out}'


_FORMS: Sequence[tuple[re.Pattern, Callable[..., str | None]]] = [(re.compile(pattern), write) for pattern, write in (
    (r"stablehlo\.broadcast_in_dim (\S+)(, dims = \[.*?\]) : \((.*)\) -> (.*)",
     _with_shape("dynamic_broadcast_in_dim")),
    (r"stablehlo\.reshape (\S+)() : \((.*)\) -> (.*)", _with_shape("dynamic_reshape")),
    (r"stablehlo\.iota dim = (\d+) : (.*)", _iota),
    (r"stablehlo\.slice (\S+) \[(.*)\] : \((.*)\) -> (.*)", _slice),
    (r"stablehlo\.pad (\S+, \S+), low = \[(.*?)\], high = \[(.*?)\], interior = \[(.*?)\] : \((.*)\) -> (.*)", _pad),
    (r"stablehlo\.dynamic_slice (%\S+), (.*?), sizes = \[(.*?)\] : \((.*)\) -> (.*)", _dynamic_slice),
    (r'"stablehlo\.gather"\((.*?)\) \{(.*?)slice_sizes = array<i64: (.*?)>(.*?)\} : \((.*)\) -> (.*)', _gather))]


# -- arithmetic on sizes -------------------------------------------------------------------------------------------

class _Scalar:
    """A scalar int32 of the module, with the operators that sizes use."""

    def __init__(self, b: DynamicBuilder, value: Value):
        self.b, self.value = b, value

    def with_other(self, name: str, other: _Scalar | int, swapped: bool = False) -> _Scalar:
        """The operation `name` of StableHLO on this value and another one, or an int."""
        x, y = self.value, other.value if isinstance(other, _Scalar) else self.b.constant(other, I32)
        return _Scalar(self.b, self.b.binary(f"stablehlo.{name}", *((y, x) if swapped else (x, y))))

    def __add__(self, other: _Scalar | int) -> _Scalar:
        return self if isinstance(other, int) and other == 0 else self.with_other("add", other)

    def __mul__(self, other: _Scalar | int) -> _Scalar:
        return self if isinstance(other, int) and other == 1 else self.with_other("multiply", other)

    __radd__, __rmul__ = __add__, __mul__


def _on_scalars(name: str) -> Callable[[Any, Any], _Scalar]:
    def apply(x: _Scalar | int, y: _Scalar | int) -> _Scalar:
        return x.with_other(name, y) if isinstance(x, _Scalar) else y.with_other(name, x, swapped=True)
    return apply


_divide, _remainder = _on_scalars("divide"), _on_scalars("remainder")


def _mod(x: _Scalar | int, y: _Scalar | int) -> _Scalar:
    """The remainder with the sign of `y`: StableHLO's has the sign of `x`."""
    return _remainder(_remainder(x, y) + y, y)


def _floordiv(x: _Scalar | int, y: _Scalar | int) -> _Scalar:
    return _divide(x + _mod(x, y) * -1, y)


_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "floordiv": _floordiv, "mod": _mod, "max": _on_scalars("maximum"), "min": _on_scalars("minimum")}
