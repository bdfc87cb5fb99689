"""Common code of custom rules: positional and nondiff arguments, checks of the results of rules, rules under vmap."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, final

from xjax.core import dtypes
from xjax.core.calls import Flat, PickledByName, canonical_argnums, function_name
from xjax.core.context import context
from xjax.core.errors import UnexpectedTracerError, bad, did_you_mean, is_of_xjax
from xjax.core.trace import Tag
from xjax.core.tree import PyTreeDef, leaf_paths, tree_map, tree_mismatch
from xjax.core.types import ShapedArray, Vma, Zero, typeof
from xjax.core.varying import axes_in_order
from xjax.ops.collectives import psum_invariant_p
from xjax.ops.convert import convert_element_type
from xjax.ops.identity import copy_p
from xjax.ops.pvary import vary_to
from xjax.ops.shape import reduce_sum
from xjax.ops.zeros import zeros_of
from xjax.transforms.batching import BatchAxis, BatchTracer, batch_flat, place_axis
from xjax.transforms.jvp import DualTracer
from xjax.typing import ArrayLike, PyTree


class FunctionWithRule(PickledByName):
    """Base class of functions with custom rules: the function, and its nondiff arguments.

    Args:
      nondiff_argnums, nondiff_argnames: arguments that are passed to the rule unchanged.
    """

    transform = ""

    def __init__(self, fun: Callable, nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()):
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        self.nondiff_argnames = tuple(nondiff_argnames)
        self._caller = f"{self.transform} `{function_name(fun)}`"

    def __get__(self, instance: object, owner: type) -> FunctionWithRule | functools.partial:
        return self if instance is None else functools.partial(self, instance)

    def _static_positions(self, count: int) -> set[int]:
        if not self.nondiff_argnums and not self.nondiff_argnames:
            return set()
        positions = set(canonical_argnums(self.nondiff_argnums, count, f"{self._caller}: nondiff_argnums"))
        if self.nondiff_argnames:
            names = list(inspect.signature(self.fun).parameters)
            for name in self.nondiff_argnames:
                if name not in names:
                    raise bad(self._caller, f"nondiff_argnames has {name!r}, but the function has no such parameter",
                              given={"parameters": ", ".join(names)},
                              fix=did_you_mean(name, names) or "name a parameter.", exc=ValueError)
                positions.add(names.index(name))
        return positions


def positional_arguments(fun: Callable, args: Sequence[Any], kwargs: dict, caller: str) -> tuple[Any, ...]:
    """Arguments in the order of the signature, with defaults: rules have positional arguments only."""
    code = getattr(fun, "__code__", None)
    if not kwargs and (code is None or len(args) >= code.co_argcount):
        return tuple(args)
    try:
        bound = inspect.signature(fun).bind(*args, **kwargs)
    except TypeError as error:
        raise bad(caller, f"the arguments do not match the function: {error}",
                  fix="pass arguments that match its signature.") from None
    bound.apply_defaults()
    passed = [name for name in bound.kwargs if name in kwargs]          # the others are defaults, which rules have too
    if passed:
        raise bad(caller, "keyword-only arguments cannot be passed to a derivative rule",
                  given={"keywords": ", ".join(passed)}, fix="make them positional parameters.")
    return bound.args


class PrimalFunction(Flat):
    """The function itself, on leaves. Its last result is compared with the value that the rule returns."""

    __slots__ = ("out_avals",)

    def __init__(self, fun: Callable, in_tree: PyTreeDef, caller: str):
        super().__init__(fun, in_tree, keywords=False, has_aux=False, caller=caller)
        self.out_avals: list[Any] | None = None

    def __call__(self, *leaves: ArrayLike) -> list[Any]:
        outs = super().__call__(*leaves)
        self.out_avals = [typeof(y) for y in outs]
        return outs

    def take_value(self, rule: str, outs: Sequence[Any], tree: PyTree) -> None:
        """Accept the value that a rule computed, or raise if its structure or types differ from the function's."""
        if self.out_avals is None:                      # only the rule has run, as in eager differentiation
            self.out_tree = tree
            return
        if tree != self.out_tree:
            raise bad(self.caller, f"the structure of the value from `{rule}` differs from the function's result",
                      given=tree_mismatch("value", self.out_tree, tree), fix=_RETURN_THE_VALUE)
        check_like(self.caller, "value", lambda: leaf_paths("", tree), outs, self.out_avals, fix=_RETURN_THE_VALUE)


_RETURN_THE_VALUE = "return the result of the function: call it in the rule, on the primals."


@final
class SymbolicZero:
    """A zero tangent or cotangent, in a rule with `symbolic_zeros`.

    It has the `shape` and `dtype` of the array that it represents, but is not an array itself.
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    @classmethod
    def from_primal_value(cls, val: ArrayLike) -> SymbolicZero:
        """The zero derivative with respect to a value."""
        return cls(typeof(val).tangent())

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)

    def __eq__(self, other: SymbolicZero) -> bool:
        return isinstance(other, SymbolicZero) and self.aval == other.aval

    def __hash__(self) -> int:
        return hash((SymbolicZero, self.aval))

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"


def zero_from_primal(val: PyTree, symbolic_zeros: bool = False) -> PyTree:
    """The zero tangent of a tree of values: zeros (of dtype float0 for integers), or `SymbolicZero`s."""
    def zero(x: ArrayLike) -> ArrayLike | SymbolicZero:
        aval = typeof(x).tangent()
        return SymbolicZero(aval) if symbolic_zeros else zeros_of(aval)
    return tree_map(zero, val)


def symbolic(x: ArrayLike | Zero) -> ArrayLike | SymbolicZero:
    """A tangent or cotangent in the form for user rules with `symbolic_zeros`."""
    return SymbolicZero(x.aval) if type(x) is Zero else x


def unsymbolic(x: ArrayLike | Zero | SymbolicZero) -> ArrayLike | Zero:
    """Inverse of `symbolic`."""
    return Zero(x.aval) if type(x) is SymbolicZero else x


class ClosedOverError(UnexpectedTracerError):
    """A function with a rule uses a traced value that is not one of its arguments."""


def closed_over(caller: str) -> Exception:
    return bad(caller, "a value that is being differentiated is used by the function or its rule, but is not an "
               "argument",
               fix="pass it as an argument, not in a closure; use closure_convert for a function that is an "
                   "argument.", exc=ClosedOverError)


def check_closure(caller: str, values: Sequence[Any]) -> None:
    """Raise if one of the values (results of the function, or captured values) is being differentiated."""
    for x in values:
        while isinstance(x, BatchTracer):
            x = x.value
        if isinstance(x, DualTracer):
            raise closed_over(caller)


def call_rule(caller: str, rule: Callable, *args: object) -> Any:
    """`rule(*args)`; an error for traced values that the user's rule closes over is replaced by a clearer one.

    The position of operations in the user's rule is their own line, not that of the call of the function.
    """
    saved, code = context.source, getattr(getattr(rule, "func", rule), "__code__", None)
    if code is not None and not is_of_xjax(code.co_filename):
        context.source = None
    try:
        return rule(*args)
    except ClosedOverError:
        raise                                           # raised already by an inner rule
    except UnexpectedTracerError as error:
        raise closed_over(caller) from error
    finally:
        context.source = saved


def as_arrays(xs: Sequence[Any]) -> list[Any]:
    """The arguments of a rule of a staged call, which are arrays in JAX: programs have numbers too."""
    return [x if hasattr(x, "aval") or getattr(x, "dtype", None) == dtypes.float0 else copy_p.bind(x) for x in xs]


def open_axis(axis: BatchAxis) -> BatchAxis:
    """The axis for running a function again: with its own tag while its vmap runs, with a new tag afterwards."""
    return axis._replace(tag=Tag(axis.tag.caller)) if axis.tag.closed else axis


def batched_call(f: Callable[..., Sequence[Any]], axis: BatchAxis, bdims: Sequence[int | None]) -> Callable:
    """`f(*flat) -> flat` for arrays mapped at `bdims`; every result is mapped at axis 0."""
    def call(*args: ArrayLike) -> list[Any]:
        outs, dims = batch_flat(f, open_axis(axis), args, bdims)
        return [place_axis(y, b, 0, axis.size) for y, b in zip(outs, dims, strict=True)]
    return call


def fit_cotangent(ct: ArrayLike, bdim: int | None, wanted: int | None, size: int) -> ArrayLike:
    """A cotangent with the mapped axis of its argument; for an argument that is not mapped, the sum over the axis."""
    if wanted is None:
        return reduce_sum(place_axis(ct, bdim, 0, size), (0,))
    return place_axis(ct, bdim, wanted, size)


def fit_vma(caller: str, what: str, x: ArrayLike | Zero, vma: Vma, total: bool) -> ArrayLike | Zero:
    """A derivative from a user's rule, cast to vary along the mesh axes `vma` of its value.

    Args: total: if it varies along other axes, sum it over them, because the value is equal on devices along them.
    """
    if type(x) is Zero:
        return x
    excess = typeof(x).vma - vma
    if not excess:
        return vary_to(x, vma)
    if total:
        return vary_to(psum_invariant_p.bind(x, axes=axes_in_order(excess)), vma)
    raise bad(caller, f"the rule returned a {what} that varies along mesh axes along which the value does not",
              given={"value varies along": ", ".join(map(str, axes_in_order(vma))) or "none",
                     f"{what} varies along": ", ".join(map(str, axes_in_order(typeof(x).vma)))},
              fix="compute both from the same arguments; lax.psum returns a value that is equal on all devices.",
              exc=ValueError)


def wide_cotangent(x: ArrayLike | Zero, aval: ShapedArray) -> ArrayLike | Zero:
    """A rule's cotangent, converted to the 64-bit dtype of its argument if it was computed without x64."""
    if dtypes.is_canonical(aval.dtype) or type(x) is Zero or typeof(x).dtype != dtypes.canonicalize_dtype(aval.dtype):
        return x
    return convert_element_type(x, aval.dtype)


def check_like(caller: str, what: str, paths: Callable[[], Sequence[str]], values: Sequence[Any],
               expected: Sequence[Any], fix: str) -> None:
    """Raise if results of a rule differ from the expected shapes and dtypes; `paths` is called only then."""
    types = [x if type(x) is ShapedArray else typeof(x) for x in values]
    if all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(types, expected, strict=True)):
        return
    wrong = {f"{what}{path}": f"{a.str_short()}, expected {b.str_short()}"
             for path, a, b in zip(paths(), types, expected, strict=True) if a.shape != b.shape or a.dtype != b.dtype}
    raise bad(caller, f"the rule returned a {what} of the wrong type", given=wrong, fix=fix)
