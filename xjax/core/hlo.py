"""StableHLO as text: types, constants and `Builder`, which collects the lines of a function.

Lowering rules write operations in their printed form, and XLA's parser reads them. This is ten times cheaper than
building MLIR objects, and a rule looks like the operation that it writes. The form of every operation is defined in
StableHLO's specification. Names are unique in the whole module, as nested regions require.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad, called_function
from xjax.core.symbolic.dims import Dim
from xjax.core.types import ShapedArray
from xjax.typing import ArrayLike

_SPECIAL_ELEMENT = {"bool": "i1", "complex64": "complex<f32>", "complex128": "complex<f64>", "bfloat16": "bf16",
                    "float16": "f16", "float32": "f32", "float64": "f64", "float0": "i1"}
_MOST_BYTES = 2 ** 63 - 1


def element_type(dtype: np.dtype) -> str:
    """MLIR element type: `f32`, `ui8`, `complex<f32>`, `f8E4M3FN`."""
    if dtype == dtypes.float0:
        return "i1"
    name = dtype.name
    if name in _SPECIAL_ELEMENT:
        return _SPECIAL_ELEMENT[name]
    if name.startswith("float8_"):
        return "f8" + name.removeprefix("float8_").upper()
    if name.startswith("float4_"):
        return "f4" + name.removeprefix("float4_").upper()
    return re.sub("^uint", "ui", re.sub("^int", "i", name))


def tensor_type(aval: ShapedArray) -> str:
    """MLIR type: `tensor<2x3xf32>`."""
    text = aval.hlo_type
    if text is None:
        _check_size(aval)
        dims = "".join(f"{n}x" if type(n) is int else "?x" for n in aval.shape)
        text = aval.hlo_type = f"tensor<{dims}{element_type(aval.dtype)}>"
    return text


def _check_size(aval: ShapedArray) -> None:
    """Raise ValueError for an array that no memory can hold; XLA would abort the process.

    XLA counts in int64 and skips axes of size 0. Every array of every program is checked here, results and intermediate
    values alike; `eval_shape` writes no program.
    """
    size = math.prod(n for n in aval.shape if type(n) is int and n) * max(aval.dtype.itemsize, 1)
    if size > _MOST_BYTES:
        raise bad(called_function() or "compile", "the program has an array of 2**63 bytes or more",
                  given={"type": aval.str_short(), "bytes": f"{size:,}"},
                  fix="check its shape: an array has at most 2**63 - 1 bytes.", exc=ValueError)


def scalar_text(value: ArrayLike, dtype: np.dtype) -> str:
    """One number as MLIR text. Floats are written as hexadecimal bits, which are exact."""
    if dtypes.is_bool(dtype) or dtype == dtypes.float0:
        return "true" if value else "false"
    if dtypes.is_complex(dtype):
        part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        z = np.asarray(value, dtype)[()]
        return f"({scalar_text(z.real, part)},{scalar_text(z.imag, part)})"
    if dtypes.is_float(dtype):
        bits = np.asarray(value, dtype).tobytes()
        width = ml_dtypes.finfo(dtype).bits
        return f"0x{int.from_bytes(bits, 'little'):0{max(width // 4, 1)}X}"
    return str(int(value))


def dense(value: np.ndarray) -> str:
    """The `dense<...>` body of a constant: a splat if all elements are equal, else the bytes."""
    dtype = value.dtype
    if value.size == 0:
        return "dense<>"
    first = value.reshape(-1)[0]
    if value.size == 1 or (value.tobytes() == first.tobytes() * value.size):
        return f"dense<{scalar_text(first, dtype)}>"
    if dtype.itemsize == 1 and ml_dtypes_bits(dtype) < 8:
        items = ", ".join(scalar_text(v, dtype) for v in value.reshape(-1))
        flat = f"[{items}]"
        return f"dense<{_nest(flat, value)}>"
    return f'dense<"0x{np.ascontiguousarray(value).tobytes().hex().upper()}">'


def _nest(flat: str, value: np.ndarray) -> str:
    """Elements as nested lists: element types narrower than a byte have no byte form."""
    if value.ndim <= 1:
        return flat
    return "[" + ", ".join(_nest("[" + ", ".join(scalar_text(v, row.dtype) for v in row.reshape(-1)) + "]", row)
                           for row in value) + "]"


def ml_dtypes_bits(dtype: np.dtype) -> int:
    """Width of an element in bits."""
    if dtypes.is_bool(dtype):
        return 8
    info = ml_dtypes.iinfo if dtypes.is_int(dtype) else ml_dtypes.finfo
    return info(dtype).bits if not dtypes.is_complex(dtype) else dtype.itemsize * 8


def string(text: str) -> str:
    """A quoted MLIR string; all text from users is quoted by this function."""
    return json.dumps(text, ensure_ascii=True).replace("\\u", "\\\\u")


_LOCATION = re.compile(r' loc\("(?:[^"\\]|\\.)*"\)$', re.MULTILINE)


def with_location(operation: str, name: str) -> str:
    """The text of an operation with a name for XLA's metadata, unless it has one."""
    return operation if _LOCATION.search(operation[operation.rfind("\n") + 1:]) else f"{operation} loc({string(name)})"


def without_locations(text: str) -> str:
    """The text of a module without the names of its operations."""
    return _LOCATION.sub("", text)


def i64_array(values: Iterable[int]) -> str:
    """`array<i64: 1, 2>`; empty: `array<i64>`."""
    text = ", ".join(str(v if type(v) is Dim else int(v)) for v in values)
    return f"array<i64: {text}>" if text else "array<i64>"


def i64_matrix(rows: Sequence[Sequence[int]]) -> str:
    """`dense<[[0, 1]]> : tensor<1x2xi64>`, for pairs and groups."""
    n, m = len(rows), len(rows[0]) if rows else 0
    body = str([[int(v) for v in row] for row in rows]) if n and m else ""
    return f"dense<{body}> : tensor<{n}x{m}xi64>"


class Value:
    """An SSA value; its `str` is its name, `type` its MLIR type, `reads` is noted by `lowering.Chains`."""

    __slots__ = ("name", "aval", "recipe", "reads")

    def __init__(self, name: str, aval: ShapedArray):
        self.name, self.aval = name, aval
        self.recipe: Recipe | None = None
        self.reads: frozenset[str] | None = None

    @property
    def type(self) -> str:
        return tensor_type(self.aval)

    def __str__(self) -> str:
        return self.name


class Argument(Value):
    """An argument of the whole program: it is in memory, and no operation computes it."""

    __slots__ = ()


class Recipe(NamedTuple):
    """The call that wrote a value which XLA fuses into its consumers: ``lower(b, aval, *operands, **params)``."""

    lower: Callable[..., Value]
    operands: Sequence[Value]
    params: Mapping[str, Any]


class Held(Value):
    """A result of a barrier, with the value before the barrier and all values that the barrier waits for."""

    __slots__ = ("before", "together")

    def __init__(self, name: str, before: Value, together: Sequence[Value]):
        super().__init__(name, before.aval)
        self.before, self.together = before, together


class Known(Value):
    """An integer that is known when the module is written; only the chosen branch of a conditional on it is written."""

    __slots__ = ("number",)

    def __init__(self, name: str, aval: ShapedArray, number: int):
        super().__init__(name, aval)
        self.number = number


class Stored(Value):
    """A value in a kind of memory other than the default kind of its device."""

    __slots__ = ("memory",)

    def __init__(self, name: str, aval: ShapedArray, memory: str):
        super().__init__(name, aval)
        self.memory = memory


class Module:
    """A module for a platform, while it is written: functions, meshes, and the counter that makes every name unique."""

    def __init__(self, platform: str = "cpu", partitioned: bool = False, target: str | None = None):
        self.platform = platform
        self.target = target or platform                  # of its devices; differs if no rules for them are used
        self.partitioned = partitioned                    # XLA shards it over devices, except for `shard_map` regions
        self.functions: list[str] = []
        self.meshes: dict[Any, str] = {}                  # device mesh -> its name
        self.uses: Mapping[Any, int] = {}                 # number of occurrences of each sub-program
        # sub-program that occurs more than once -> the name of its function, and the results inside the function
        self.subprograms: dict[Any, tuple[str, Sequence[Value]]] = {}
        self.callbacks: list[Callable] = []               # functions on the host; the program calls them by position
        self.devices: Sequence[Any] = ()                  # the device that will run it, if it is known and not a mesh
        self.uses_other_memory = False                    # values are placed in another kind than the default
        self._count = 0

    def mesh(self, mesh: Any) -> str:
        """Name of a device mesh, which it declares in this module; the first mesh sets the order of the devices."""
        return self.meshes.setdefault(mesh, f"mesh{len(self.meshes) or ''}")

    def number(self) -> int:
        self._count += 1
        return self._count

    def text(self) -> str:
        first = next(iter(self.meshes), None)
        return "\n".join([mesh.sdy_text(name, first) for mesh, name in self.meshes.items()] + self.functions)


_SIZE = ShapedArray((), np.int32)


class Builder:
    """Writes the operations of one function or region."""

    __slots__ = ("module", "lines", "axes", "level", "token", "rows", "scope", "_constants")

    def __init__(self, module: Module, axes: Any = None, level: int = 0, scope: str = ""):
        self.module = module
        self.lines: list[str] = []
        self.axes = axes                    # mesh axes this code runs under (see runtime.shard_map), None outside
        self.level = level                  # number of regions around this code
        self.token: Value | None = None     # the next ordered effect waits for it; None: no ordered effects here
        self.scope = scope                  # names of the scopes around this code: "encoder/layer"
        self.rows: dict[str, Sequence[Value]] = {}      # of arrays, by the names of these (lax/scan_rules.py)
        self._constants: dict[tuple, Value] = {}

    @property
    def is_cut(self) -> bool:
        """Whether XLA shards this code over devices: the code of a partitioned module outside `shard_map` regions."""
        return self.module.partitioned and self.axes is None

    def op(self, text: str, aval: ShapedArray) -> Value:
        """Append `%n = text`, with one result of type `aval`."""
        self.module._count += 1
        value = Value(f"%{self.module._count}", aval)
        self.lines.append(f"{value.name} = {text}")
        return value

    def ops(self, text: str, avals: Sequence[ShapedArray]) -> list[Value]:
        """Append `%n:k = text`, with k results."""
        n = self.module.number()
        if len(avals) == 1:
            self.lines.append(f"%{n} = {text}")
            return [Value(f"%{n}", avals[0])]
        self.lines.append(f"%{n}:{len(avals)} = {text}" if avals else text)
        return [Value(f"%{n}#{i}", aval) for i, aval in enumerate(avals)]

    def unary(self, name: str, x: Value) -> Value:
        """An operation whose result has the type of its operand."""
        return self.op(f"{name} {x.name} : {tensor_type(x.aval)}", x.aval)

    def binary(self, name: str, x: Value, y: Value) -> Value:
        """An operation of two operands and a result, all of one type."""
        return self.op(f"{name} {x.name}, {y.name} : {tensor_type(x.aval)}", x.aval)

    def add(self, x: Value, y: Value | float) -> Value:
        return self.binary("stablehlo.add", x, self._like(y, x))

    def sub(self, x: Value, y: Value | float) -> Value:
        return self.binary("stablehlo.subtract", x, self._like(y, x))

    def mul(self, x: Value, y: Value | float) -> Value:
        return self.binary("stablehlo.multiply", x, self._like(y, x))

    def div(self, x: Value, y: Value | float) -> Value:
        return self.binary("stablehlo.divide", x, self._like(y, x))

    def _like(self, y: Value | float, x: Value) -> Value:
        """A number as a constant of the type of x."""
        return y if isinstance(y, Value) else self.constant(y, x.aval)

    def constant(self, value: ArrayLike, aval: ShapedArray) -> Value:
        """A constant; a scalar `value` fills the shape of `aval`. Equal constants of a region are written once."""
        if isinstance(value, np.ndarray) and value.ndim:
            return self.op(f"stablehlo.constant {dense(value.astype(aval.dtype, copy=False))} : {tensor_type(aval)}",
                           aval)
        text = scalar_text(value, aval.dtype) if aval.size else ""
        key = (text, aval)
        written = self._constants.get(key)
        if written is None:
            written = self._constants[key] = self.op(f"stablehlo.constant dense<{text}> : {tensor_type(aval)}", aval)
        return written

    def size(self, n: int) -> Value:
        """The size of an axis as a scalar int32; `n` may be symbolic in the module of an exported function."""
        return self.constant(n, _SIZE)

    def broadcast(self, x: Value, aval: ShapedArray, dims: Sequence[int]) -> Value:
        """`broadcast_in_dim`: operand axis i becomes result axis dims[i]."""
        if x.aval.shape == aval.shape:
            return x
        dims_text = ", ".join(map(str, dims))
        return self.op(f"stablehlo.broadcast_in_dim {x.name}, dims = [{dims_text}] : "
                       f"({tensor_type(x.aval)}) -> {tensor_type(aval)}", aval)

    def convert(self, x: Value, dtype: np.dtype) -> Value:
        if x.aval.dtype == dtype:
            return x
        aval = ShapedArray(x.aval.shape, dtype)
        return self.op(f"stablehlo.convert {x.name} : ({x.type}) -> {tensor_type(aval)}", aval)

    def compare(self, direction: str, x: Value, y: Value, kind: str = "") -> Value:
        """A comparison. `direction`: EQ NE GE GT LE LT; `kind`: TOTALORDER or empty."""
        aval = ShapedArray(x.aval.shape, np.dtype(np.bool_))
        kind = f", {kind}" if kind else ""
        return self.op(f"stablehlo.compare {direction}, {x}, {y}{kind} : ({x.type}, {y.type}) -> {tensor_type(aval)}",
                       aval)

    def select(self, which: Value, on_true: Value, on_false: Value) -> Value:
        return self.op(f"stablehlo.select {which}, {on_true}, {on_false} : {which.type}, {on_true.type}", on_true.aval)

    def nested(self) -> Builder:
        """A builder for a region inside this code."""
        return Builder(self.module, self.axes, self.level + 1, self.scope)

    def region(self, arg_avals: Sequence[ShapedArray], body: Callable[..., Sequence[Value]]) -> str:
        """`{ ^bb0(%1: tensor<f32>, ...): body; stablehlo.return ... }` with `body(builder, *arguments) -> results`."""
        inner = self.nested()
        args = [Value(f"%{self.module.number()}", aval) for aval in arg_avals]
        results = body(inner, *args)
        head = ", ".join(f"{a.name}: {a.type}" for a in args)
        head = f"^bb0({head}):\n" if args else ""
        return f"{{ {head}" + "\n".join([*inner.lines, return_text("stablehlo.return", results)]) + " }"

    def while_loop(self, start: Sequence[Value], cond: Callable[..., Sequence[Value]],
                   body: Callable[..., Sequence[Value]]) -> list[Value]:
        """``while cond(b, *values): values = body(b, *values)``; `b` is the builder of the region."""
        token = self.token
        carried = [*start] if token is None else [*start, token]

        def threaded(f: Callable[..., Sequence[Value]], returns: bool) -> Callable[..., Sequence[Value]]:
            def body(inner: Builder, *values: Value) -> Sequence[Value]:
                *own, inner.token = values
                results = f(inner, *own)
                return [*results, inner.token] if returns else results
            return f if token is None else body

        avals = [v.aval for v in carried]
        regions = [self.region(avals, threaded(cond, False)), self.region(avals, threaded(body, True))]
        return self._take_token(self.generic("stablehlo.while", carried, avals, regions=regions))

    def case(self, index: Value, branches: Sequence[Callable[[Builder], Sequence[Value]]],
             avals: Sequence[ShapedArray]) -> list[Value]:
        """``branches[index](b)``; `b` is the builder of the region, `avals` are the types of the results."""
        token = self.token

        def threaded(branch: Callable[[Builder], Sequence[Value]],
                     token: Value) -> Callable[[Builder], Sequence[Value]]:
            def body(inner: Builder) -> Sequence[Value]:
                inner.token = token
                results = branch(inner)
                return [*results, inner.token]
            return body

        regions = [self.region((), branch if token is None else threaded(branch, token)) for branch in branches]
        avals = avals if token is None else [*avals, token.aval]
        return self._take_token(self.generic("stablehlo.case", [index], avals, regions=regions))

    def _take_token(self, results: list[Value]) -> list[Value]:
        """The results of an operation without the token, if there is one: its last result becomes the current token."""
        if self.token is not None:
            *results, self.token = results
        return results

    def generic(self, name: str, operands: Sequence[Value], avals: Sequence[ShapedArray], attributes: str = "",
                regions: Sequence[str] = ()) -> list[Value]:
        """The generic form `"name"(operands) ({regions}) {attributes} : types`."""
        regions_text = f" ({', '.join(regions)})" if regions else ""
        attributes = f" {{{attributes}}}" if attributes else ""
        return self.ops(f'"{name}"({", ".join(v.name for v in operands)}){regions_text}{attributes} : '
                        f"({types_text(v.aval for v in operands)}) -> ({types_text(avals)})", avals)


def types_text(avals: Iterable[ShapedArray]) -> str:
    return ", ".join(tensor_type(a) for a in avals)


def return_text(terminator: str, results: Sequence[Value]) -> str:
    if not results:
        return terminator
    return f"{terminator} {', '.join(r.name for r in results)} : {types_text(r.aval for r in results)}"
