"""`from_jax`: a function written in JAX as an xjax function.

A call traces the function once for each combination of argument types (`jax.make_jaxpr` on abstract values),
translates the program, and applies it as one operation. So it is compiled as a whole, and can be differentiated, mapped
and staged.

Functions that return functions (optax's optimizers, schedules) work too: callables in a result are bridged as well.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core.cache import Cache
from xjax.core.calls import function_name
from xjax.core.config import config
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.trace import Tracer
from xjax.core.tree_nodes import register_pytree_node
from xjax.core.types import ShapedArray, typeof
from xjax.interop import callbacks, custom_rules, higher_order, keys
from xjax.interop.arrays import from_jax_array
from xjax.interop.real_jax import inside_jax, is_jax_array, is_jax_tracer, real_jax, world
from xjax.interop.reference import spec_of
from xjax.interop.translate import translate
from xjax.interop.trees import flatten_any
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.jit_primitive import jit_p
from xjax.runtime.xla.real_jax import xjax_is_jax
from xjax.typing import PyTree

# Modules that are imported because they add rules to the translation.
_RULES = (callbacks, custom_rules, higher_order, keys)


def from_jax(fun: Callable) -> Callable:
    """A function written in JAX, callable with xjax values.

    Arrays, random keys, traced values and Python numbers in the arguments (in any pytree) are traced. Strings, bools,
    functions and all other values are static; so are numbers that the function can only use as Python values (an axis,
    a shape). Results have the same pytrees, with xjax arrays; callables among them are bridged too, and may be passed
    back. The program is traced, translated and compiled once for each combination of types and static values.

    The real JAX is imported at the first call (about half a second), and kept on the CPU. Where xjax is installed as
    jax (`xjax.install_as_jax`), the function runs on xjax as it is, and is returned itself.

    Raises (when called): NotImplementedError for a JAX operation that xjax does not have, with its name and line.

    >>> import jax.numpy
    >>> f = xjax.interop.from_jax(lambda x: jax.numpy.sin(x) ** 2)
    >>> float(xjax.grad(f)(0.0))
    0.0
    """
    if isinstance(fun, JaxFunction):
        return fun
    if not callable(fun):
        raise bad("from_jax", "needs a function", given={"fun": repr(fun)[:80]},
                  fix="write from_jax(f), not from_jax(f(x)).")
    if xjax_is_jax():
        return fun
    return JaxFunction(_Source(lambda: fun, function_name(fun), _programs_of(fun), fun))


class JaxFunction:
    """A bridged function, returned by `from_jax`; a pytree whose leaves are the xjax arrays that it was created with.

    When JAX code calls it, it calls the JAX function itself.
    """

    def __init__(self, source: _Source, arrays: Sequence[Any] = ()):
        if source.like is not None:
            functools.update_wrapper(self, source.like)     # first: it also copies the attributes of a JaxFunction
        self._source, self._arrays = source, tuple(arrays)

    def __get__(self, instance: object, owner: type) -> Callable:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<from_jax of {self._source.name}>"

    def __call__(self, *args: object, **kwargs: object) -> PyTree:
        source = self._source
        if world.inside_jax:
            return source.make(*self._arrays)(*args, **kwargs)
        leaves, tree = flatten_any((self._arrays, args, kwargs))
        if any(is_jax_tracer(x) for x in leaves if not isinstance(x, _OURS)):
            return source.make(*self._arrays)(*args, **kwargs)
        call = _Call(leaves, tree, numbers_are_arrays=True)
        traced = source.traced(call)
        if traced is None:
            call = _Call(leaves, tree, numbers_are_arrays=False)
            traced = source.traced(call)
            assert traced is not None       # the numbers of this call are static
        return traced(call.arrays)


class _Source:
    """The JAX function of a bridged function, `make(*arrays)`, and its traced programs."""

    __slots__ = ("make", "name", "programs", "like")

    def __init__(self, make: Callable[..., Callable], name: str, programs: Cache, like: PyTree = None):
        self.make, self.name, self.programs, self.like = make, name, programs, like

    def traced(self, call: _Call) -> _Traced | None:
        """The program for a call; None if its numbers must be static."""
        key = call.key()
        try:
            traced = self.programs.get(key)
        except TypeError:
            raise _unhashable(self.name, call) from None
        if traced is None:
            traced = _trace_numbers(self, call) if call.numbers else _trace(self, call)
            self.programs[key] = _NUMBERS_ARE_STATIC if traced is None else traced
        return None if traced is _NUMBERS_ARE_STATIC else traced


register_pytree_node(JaxFunction, lambda f: (f._arrays, f._source), JaxFunction)

_OURS = (Array, Tracer, np.ndarray, np.generic, bool, int, float, complex, str)
_NUMBERS = (int, float, complex)
_NUMBERS_ARE_STATIC: Any = object()     # cached instead of a program
_all_programs: weakref.WeakKeyDictionary[Callable, Cache] = weakref.WeakKeyDictionary()


def _programs_of(fun: Callable) -> Cache:
    """The cache of programs of a function, shared by all its bridges; it lives as long as the function."""
    try:
        return _all_programs.get(fun) or _all_programs.setdefault(fun, Cache())
    except TypeError:                       # not hashable, or without weak references
        return Cache()


class _Call:
    """The leaves of a call's arguments, split into arrays and static values."""

    __slots__ = ("tree", "arrays", "avals", "static", "numbers", "count")

    def __init__(self, leaves: Sequence[Any], tree: PyTree, numbers_are_arrays: bool):
        self.tree, self.count = tree, len(leaves)
        self.numbers: list[int] = []                    # positions of Python numbers that are traced as arrays
        self.arrays: list[Any] = []
        self.avals: list[ShapedArray] = []
        self.static: list[tuple[int, Any]] = []         # position among the leaves, value
        for i, x in enumerate(leaves):
            kind = type(x)
            if kind in _NUMBERS and numbers_are_arrays:
                self.numbers.append(i)
            elif not (kind is Array or isinstance(x, (Tracer, np.ndarray, np.generic))):
                if not is_jax_array(x):
                    self.static.append((i, x))
                    continue
                x = from_jax_array(x)
            self.arrays.append(x)
            self.avals.append(x.aval if kind is Array else typeof(x))

    def key(self) -> tuple:
        """The cache key of the program. It differs for numbers that compare equal (1, 1.0, True; 0.0, -0.0)."""
        static = tuple([(i, type(x), repr(x) if isinstance(x, (float, complex)) else x) for i, x in self.static])
        return self.tree, tuple(self.avals), tuple(self.numbers), static, config.trace_key()

    def rebuild(self, arrays: Sequence[Any]) -> tuple[tuple, tuple, dict]:
        """(arrays bound to the function, args, kwargs), with `arrays` instead of the arrays of the call."""
        static, values = dict(self.static), iter(arrays)
        leaves = [static[i] if i in static else next(values) for i in range(self.count)]
        bound, args, kwargs = self.tree.unflatten(leaves)
        return bound, args, kwargs


def _unhashable(name: str, call: _Call) -> Exception:
    for _, x in call.static:
        try:
            hash(x)
        except TypeError:
            kind = type(x).__name__
            return bad(f"from_jax of `{name}`", f"an argument of type {kind} is neither an array nor hashable",
                       given={"value": repr(x)[:80]}, fix="pass arrays, pytrees of them, or hashable values.")
    return bad(f"from_jax of `{name}`", "the static part of an argument's pytree is not hashable",
               fix="give the container hashable static fields.")


# -- tracing ------------------------------------------------------------------------------------------------------

def _trace_numbers(source: _Source, call: _Call) -> _Traced | None:
    """Trace with Python numbers as arguments; None if the function needs their values.

    It needs them if the trace fails (an axis, a shape), or if it returns functions, which may contain the numbers.
    """
    try:
        traced = _trace(source, call)
    except Exception:                       # the trace with static numbers raises a real error again
        return None
    return None if traced.makes_functions else traced


def _trace(source: _Source, call: _Call) -> _Traced:
    jax = real_jax()
    leaves: list[Any] = []
    out_tree: Any = None

    def run(arrays: Sequence[Any]) -> list[Any]:
        nonlocal out_tree
        bound, args, kwargs = call.rebuild(arrays)
        results, out_tree = jax.tree_util.tree_flatten(source.make(*bound)(*args, **kwargs))
        return results

    def flat(*arrays: object) -> list[Any]:
        leaves[:] = run(arrays)
        return [x for x in leaves if _is_array(x)]

    with inside_jax():
        closed = jax.make_jaxpr(flat)(*map(spec_of, call.avals))
        # Functions are created again outside the trace, so that they do not refer to traced values.
        constant = run(()) if any(map(_is_function, leaves)) and not call.arrays else None
    slots = [_ARRAY if _is_array(x) else _function(run, k, x, constant) if _is_function(x) else _Static(x)
             for k, x in enumerate(leaves)]
    program, consts = translate(closed, f"from_jax of `{source.name}`")
    return _Traced(program, [to_array(c) for c in consts], slots, out_tree, source.name)


def _function(run: Callable, k: int, traced: Callable, constant: Sequence[Any] | None) -> _Source:
    """The source of the k-th result; if there are arrays among the arguments, each use creates it from its arrays."""
    if constant is not None:
        return _Source(lambda: constant[k], function_name(traced), _programs_of(constant[k]), constant[k])
    return _Source(lambda *arrays: run(arrays)[k], function_name(traced), {})


def _is_array(x: object) -> bool:
    return is_jax_array(x) or isinstance(x, (np.ndarray, np.generic))


def _is_function(x: object) -> bool:
    return callable(x) and not isinstance(x, type)


class _Static:
    """A result that is not an array; each call returns the same object."""

    __slots__ = ("value",)

    def __init__(self, value: object):
        self.value = value


_ARRAY = object()


class _Traced:
    """The program of a function for one combination of argument types, and the kinds of its results."""

    __slots__ = ("program", "consts", "slots", "tree", "name", "makes_functions", "_only_arrays")

    def __init__(self, program: ClosedJaxpr, consts: Sequence[Any], slots: Sequence[Any], tree: PyTree, name: str):
        self.program, self.consts, self.slots, self.tree, self.name = program, list(consts), list(slots), tree, name
        self.makes_functions = any(type(s) is _Source for s in slots)
        self._only_arrays = all(s is _ARRAY for s in slots)

    def __call__(self, arrays: Sequence[Any]) -> PyTree:
        outs = ()
        if self.program.out_avals:
            outs = jit_p.bind(*self.consts, *arrays, name=self.name, jaxpr=self.program)
        if self._only_arrays:
            return self.tree.unflatten(outs)
        values = iter(outs)
        return self.tree.unflatten([self._result(slot, values, arrays) for slot in self.slots])

    def _result(self, slot: Any, outs: Any, arrays: Sequence[Any]) -> Any:
        if slot is _ARRAY:
            return next(outs)
        return JaxFunction(slot, arrays) if type(slot) is _Source else slot.value
