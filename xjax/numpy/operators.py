"""Python's operators as functions of two array-likes, made from `xjax.numpy` functions by one table.

`methods` puts them on `Array` and `Tracer`. An operator takes arrays, NumPy values and numbers; it refuses lists, which
NumPy would convert silently, and values that can never be operands (text, None, functions). For any other type, Python
calls the reflected operator of that type (SciPy's sparse matrices).
"""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.context import at_root
from xjax.core.errors import bad
from xjax.core.trace import Tracer
from xjax.core.types import how_to_convert, typeof
from xjax.numpy import composed, contract, creation, rounding, ufuncs
from xjax.runtime.arrays.array import Array
from xjax.typing import Array as AnyArray
from xjax.typing import ArrayLike

_USUAL = frozenset({Array, float, int, bool, complex})          # decided by one look-up
_ACCEPTED = (Tracer, np.ndarray, np.generic, int, float, complex, Array)
_CONTAINERS = (list, tuple, set, dict)
_NEVER_ARRAYS = (str, bytes, type(None), range, FunctionType, BuiltinFunctionType)      # allowed in == and != only
_EQUALITY = ("x == y", "x != y")
_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor"})


def _is_operand(x: AnyArray, y: object, expression: str) -> bool:
    """Whether this operator accepts `y`; raises for values that no operator accepts, and for containers."""
    if isinstance(y, _ACCEPTED) or hasattr(y, "__jax_array__"):
        return True
    if isinstance(y, _CONTAINERS) or isinstance(y, _NEVER_ARRAYS) and not (
            expression in _EQUALITY or _repeats(y, x, expression)):
        raise bad(expression, f"a {type(y).__name__} is not an array",
                  given={"x": typeof(x).str_short(), "y": repr(y)[:80]}, fix=how_to_convert(y, "y"))
    return False


def _repeats(text: object, x: AnyArray, expression: str) -> bool:
    """Whether this is ``"ab" * x`` with an integer x, which Python computes."""
    times = expression in ("x * y", "y * x")
    return times and isinstance(text, (str, bytes)) and not x.shape and dtypes.is_int(x.dtype)


def _binary(name: str, symbol: str, function: Callable) -> tuple[Callable, Callable]:
    """`x.__add__(y)` and `x.__radd__(y)` of a function of two arguments."""
    def operate(x: AnyArray, y: ArrayLike) -> Any:
        if type(y) in _USUAL or _is_operand(x, y, expression):
            return function(x, y)
        return NotImplemented

    commutes = name in _COMMUTATIVE
    expression, reflected = f"x {symbol} y", f"y {symbol} x"

    def operate_reflected(x: AnyArray, y: ArrayLike) -> Any:
        if commutes and type(x) is Array and at_root() and type(y) in _USUAL:
            return function(x, y)                   # a number on the right is the fast path of a ufunc
        if type(y) in _USUAL or _is_operand(x, y, reflected):
            return function(y, x)
        return NotImplemented

    operate.__name__, operate_reflected.__name__ = f"__{name}__", f"__r{name}__"
    operate.__doc__ = f"``x {symbol} y``, element-wise." if symbol != "@" else "Matrix product."
    operate_reflected.__doc__ = f"``y {symbol} x``, element-wise." if symbol != "@" else "Matrix product."
    return operate, operate_reflected


# name of the method -> (Python's symbol, function)
_TABLE: dict[str, tuple[str, Callable]] = {
    "add": ("+", ufuncs.add),
    "sub": ("-", ufuncs.subtract),
    "mul": ("*", ufuncs.multiply),
    "truediv": ("/", ufuncs.true_divide),
    "floordiv": ("//", composed.floor_divide),
    "mod": ("%", composed.remainder),
    "divmod": ("divmod", composed.divmod),
    "pow": ("**", composed.power),
    "matmul": ("@", contract.matmul),
    "and": ("&", ufuncs.bitwise_and),
    "or": ("|", ufuncs.bitwise_or),
    "xor": ("^", ufuncs.bitwise_xor),
    "lshift": ("<<", ufuncs.left_shift),
    "rshift": (">>", ufuncs.right_shift),
}
_COMPARISONS: dict[str, tuple[str, Callable]] = {
    "eq": ("==", ufuncs.equal),
    "ne": ("!=", ufuncs.not_equal),
    "lt": ("<", ufuncs.less),
    "le": ("<=", ufuncs.less_equal),
    "gt": (">", ufuncs.greater),
    "ge": (">=", ufuncs.greater_equal),
}
_UNARY: dict[str, Callable] = {
    "neg": ufuncs.negative,
    "pos": composed.positive,
    "abs": ufuncs.absolute,
    "invert": ufuncs.bitwise_not,
}


def operators() -> dict[str, Callable]:
    """Every operator by the name of its method: `__add__`, `__radd__`, `__lt__`, `__neg__` ..."""
    methods: dict[str, Callable] = {}
    for name, (symbol, function) in _TABLE.items():
        methods[f"__{name}__"], methods[f"__r{name}__"] = _binary(name, symbol, function)
    for name, (symbol, function) in _COMPARISONS.items():
        methods[f"__{name}__"], _ = _binary(name, symbol, function)
    for name, function in _UNARY.items():
        methods[f"__{name}__"] = _method_of(function)
    methods["__round__"] = _round
    return methods


def _method_of(function: Callable) -> Callable:
    """A function as a method without further arguments."""
    def method(self: AnyArray) -> AnyArray:
        return function(self)

    method.__doc__ = function.__doc__
    return method


def _round(self: AnyArray, ndigits: int | None = None) -> AnyArray:
    """`round(x, ndigits)`, element-wise, half to even; `round(x)` gives integers, as for a Python float."""
    if ndigits is None and not dtypes.is_complex(self.dtype):
        return creation.astype(rounding.round(self), int)
    return rounding.round(self, ndigits or 0)


