"""What happens between a Python function and its executable: traced, lowered and compiled programs; `make_jaxpr`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core import dtypes
from xjax.core.calls import argument_names, flatten_function, function_name
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.staging import trace_to_jaxpr
from xjax.core.trace import Tracer
from xjax.core.tree import flatten, tree_mismatch, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.runtime.array import to_array
from xjax.runtime.executable import Executable, program_executable
from xjax.runtime.lowering import lower_program
from xjax.runtime.static_args import StaticArguments


class ShapeDtypeStruct:
    """Shape and dtype of an array that need not exist: argument of `eval_shape`, `make_jaxpr` and `jit(f).lower`.

    >>> xjax.ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("_type", "sharding")

    def __init__(self, shape: Sequence[int], dtype: Any, *, weak_type: bool = False, sharding: Any = None):
        self._type = ShapedArray(tuple(shape), dtypes.canonicalize_dtype(dtype), weak_type)
        self.sharding = sharding

    @classmethod
    def of(cls, aval: ShapedArray) -> ShapeDtypeStruct:
        return cls(aval.shape, aval.dtype, weak_type=aval.weak_type)

    shape = property(lambda self: self._type.shape)
    dtype = property(lambda self: self._type.dtype)
    ndim = property(lambda self: self._type.ndim)
    size = property(lambda self: self._type.size)
    weak_type = property(lambda self: self._type.weak_type)

    def __len__(self) -> int:
        return len(self._type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._type is other._type

    def __hash__(self) -> int:
        return hash(self._type)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak})"


def abstract(x: Any) -> ShapedArray:
    """Aval of an array, a number, or anything with `shape` and `dtype`."""
    if isinstance(x, ShapeDtypeStruct):
        return x._type
    try:
        return typeof(x)
    except TypeError:
        if hasattr(x, "shape") and hasattr(x, "dtype"):
            return ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype))
        raise


class Traced:
    """A function traced for one type of arguments: program, captured constants, structure of its result."""

    __slots__ = ("program", "consts", "out_tree", "cacheable")

    def __init__(self, program: ClosedJaxpr, consts: list[Any], out_tree: Any):
        self.program, self.consts, self.out_tree = program, consts, out_tree
        # A program that captured tracers belongs to the transform that runs now.
        self.cacheable = not any(isinstance(c, Tracer) for c in consts)


class Lowered:
    """A program as StableHLO text."""

    def __init__(self, traced: Traced, avals: Sequence[ShapedArray], in_tree: Any, name: str,
                 donated: tuple[bool, ...]):
        self._traced, self._avals, self._in_tree, self._name, self._donated = traced, avals, in_tree, name, donated

    @property
    def out_tree(self) -> Any:
        return self._traced.out_tree

    def as_text(self) -> str:
        """StableHLO; captured arrays are its first arguments."""
        return lower_program(self._traced.program, self._name, donated=self._donated)

    def compile(self) -> Compiled:
        consts = [to_array(c) for c in self._traced.consts]
        executable = program_executable(self._traced.program, self._name, consts, self._donated)
        return Compiled(executable, consts, self._avals, self._in_tree, self._traced.out_tree, self._name)


class Compiled:
    """An executable for one type of arguments; calling it never traces."""

    def __init__(self, executable: Executable, consts: Sequence[Any], avals: Sequence[ShapedArray], in_tree: Any,
                 out_tree: Any, name: str):
        self._executable, self._consts, self._avals = executable, list(consts), list(avals)
        self.in_tree, self.out_tree, self._name = in_tree, out_tree, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten((args, kwargs))
        if tree != self.in_tree:
            raise bad(f"compiled `{self._name}`", "called with another structure of arguments than it was compiled for",
                      given=tree_mismatch("arguments", self.in_tree, tree), fix="compile it again for these arguments.")
        arrays = [to_array(x) for x in leaves]
        for x, aval in zip(arrays, self._avals, strict=True):
            if x.aval.strong() is not aval.strong():
                raise bad(f"compiled `{self._name}`", "called with an argument of another type than compiled for",
                          given={"compiled for": aval.str_short(), "given": x.aval.str_short()},
                          fix="compile it again for these arguments, or call the jitted function.")
        return tree_unflatten(self.out_tree, self._executable([*self._consts, *arrays]))

    def as_text(self) -> str:
        """The optimised program in HLO text."""
        return self._executable.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of flops and bytes accessed."""
        return self._executable.cost_analysis()

    def memory_analysis(self) -> dict[str, int]:
        """Bytes of arguments, outputs, temporaries and code."""
        return self._executable.memory_analysis()


def _trace(fun: Callable, static_argnums: Any, args: Sequence[Any], kwargs: dict,
           where: str) -> tuple[ClosedJaxpr, Any]:
    static = StaticArguments(fun, static_argnums, None, transform=where)
    names = [f"argument `{n}`" for n in argument_names(fun, args, kwargs)]
    key = None
    if static.given:
        args, kwargs, key = static.take_out(args, kwargs)
    leaves, tree = flatten((args, kwargs))
    flat = flatten_function(static.put_back(fun, key), tree, keywords=True, where=f"{where} of `{function_name(fun)}`")
    names = names if len(names) == len(leaves) else None
    return trace_to_jaxpr(flat, [abstract(x) for x in leaves], flat.where, names), flat.out_tree


def make_jaxpr(fun: Callable, static_argnums: int | Sequence[int] = (), axis_env: Any = None,
               return_shape: bool = False) -> Callable:
    """Function that returns the program `fun` stages for its arguments (arrays or `ShapeDtypeStruct`s).

    >>> print(xjax.make_jaxpr(lambda x: x * 2)(1.0))
    { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
    """
    @functools.wraps(fun)
    def make_jaxpr_f(*args: Any, **kwargs: Any) -> Any:
        closed, out_tree = _trace(fun, static_argnums, args, kwargs, "make_jaxpr")
        if return_shape:
            return closed, tree_unflatten(out_tree, [ShapeDtypeStruct.of(a) for a in closed.out_avals])
        return closed

    return make_jaxpr_f


def eval_shape(fun: Callable, *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of `fun(*args)` without computing it.

    >>> xjax.eval_shape(lambda x: x @ x.T, xjax.ShapeDtypeStruct((2, 3), "float32"))
    ShapeDtypeStruct(shape=(2, 2), dtype=float32)
    """
    closed, out_tree = _trace(fun, (), args, kwargs, "eval_shape")
    return tree_unflatten(out_tree, [ShapeDtypeStruct.of(a) for a in closed.out_avals])
