"""`from_jax`: a function written in JAX as an xjax function.

A call traces the function once for each type of its arguments (`jax.make_jaxpr` on abstract values), translates the
program and applies it as one operation; so it is compiled as a whole, and can be differentiated, mapped and staged.

Functions that make functions (optax's optimizers, schedules) work too: what is callable in a result is bridged in turn.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core.calls import function_name
from xjax.core.config import config
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.trace import Tracer
from xjax.core.tree_nodes import register_pytree_node
from xjax.core.types import ShapedArray, typeof
from xjax.interop import higher_order, keys
from xjax.interop.arrays import from_jax_array
from xjax.interop.real_jax import inside_jax, is_jax_array, is_jax_tracer, real_jax, world
from xjax.interop.translate import aval_of, is_key, translate
from xjax.interop.trees import flatten_any
from xjax.runtime.array import Array, to_array
from xjax.runtime.jit_primitive import jit_p

# Modules that are imported for the rules they add to the translation.
_RULES = (higher_order, keys)


def from_jax(fun: Callable) -> JaxFunction:
    """A function written in JAX, callable with xjax values.

    Arrays, traced values and Python numbers in the arguments (in any pytree) are traced; strings, bools, None, functions
    and everything else are static, and so is a number that the function can only use as a Python value (an axis, a
    shape). Results are the same pytrees of xjax arrays; a callable in the result is bridged too, and may be passed back.
    The program is traced, translated and compiled once for each combination of types and static values.

    The real JAX is imported by this call's first use (about half a second), and kept on the CPU.

    Raises (when called): NotImplementedError for a JAX operation that xjax does not have, naming it and the line.

    >>> import jax.numpy
    >>> f = xjax.interop.from_jax(lambda x: jax.numpy.sin(x) ** 2)
    >>> float(xjax.grad(f)(0.0))
    0.0
    """
    if isinstance(fun, JaxFunction):
        return fun
    if not callable(fun):
        raise bad("from_jax", "needs a function", given={"fun": repr(fun)[:80]}, fix="write from_jax(f), not from_jax(f(x)).")
    return JaxFunction(_Source(lambda: fun, function_name(fun), _programs_of(fun), fun))


class JaxFunction:
    """A bridged function, made by `from_jax`. Inside JAX it is the JAX function itself."""

    def __init__(self, source: _Source, arrays: Sequence[Any] = ()):
        self._source, self._arrays = source, tuple(arrays)
        if source.like is not None:
            functools.update_wrapper(self, source.like)

    def __get__(self, instance: Any, owner: type) -> Callable:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<from_jax of {self._source.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        source = self._source
        if world.inside_jax:
            return source.make(*self._arrays)(*args, **kwargs)
        leaves, tree = flatten_any((self._arrays, args, kwargs))
        call = _Call.of(leaves, tree, not source.static_numbers)
        if call is None:                    # values that JAX itself is tracing
            return source.make(*self._arrays)(*args, **kwargs)
        key = (tree, call.avals, call.static, config.trace_key())
        traced = source.programs.get(key)
        if traced is None:
            traced = source.programs[key] = _trace(source, call, leaves)
        if traced.static_numbers:
            call = _Call.of(leaves, tree, numbers=False)
            key = (tree, call.avals, call.static, config.trace_key())
            traced = source.programs.get(key)
            if traced is None:
                traced = source.programs[key] = _trace(source, call, leaves)
        return traced(call.arrays)


class _Source:
    """The JAX function behind a bridged one, `make(*arrays)`, and what was traced of it."""

    __slots__ = ("make", "name", "programs", "like", "static_numbers")

    def __init__(self, make: Callable[..., Callable], name: str, programs: dict, like: Any = None):
        self.make, self.name, self.programs, self.like = make, name, programs, like
        self.static_numbers = False


register_pytree_node(JaxFunction, lambda f: (f._arrays, f._source), JaxFunction)

_all_programs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _programs_of(fun: Callable) -> dict:
    """What was traced is shared by all bridges of one function, and dies with it."""
    try:
        return _all_programs.setdefault(fun, {})
    except TypeError:                       # not hashable, or takes no weak references
        return {}
