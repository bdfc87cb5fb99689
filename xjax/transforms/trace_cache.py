"""Caches of the programs of functions passed to control flow and `checkpoint`; they live as long as the function.

A loop that calls `lax.scan(f, ...)` repeatedly traces `f` once, as long as `f` is the same object.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from xjax.core.cache import Cache
from xjax.core.calls import flatten_function
from xjax.core.config import config
from xjax.core.context import context
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import PyTreeDef
from xjax.core.types import ShapedArray
from xjax.transforms.refs import Uses, is_temporary, trace_with_refs


class TracedFunction(NamedTuple):
    """A function as a program of (captured values, leaves of the arguments); with refs, see `refs.Uses`."""

    program: ClosedJaxpr
    consts: list[Any]
    out_tree: Any
    uses: Uses | None = None

    @property
    def results(self) -> tuple[ShapedArray, ...]:
        """The types of the results of the function."""
        avals = self.program.out_avals
        return avals if self.uses is None else avals[self.uses.written:len(avals) - len(self.uses.arguments)]

    @property
    def carried_types(self) -> tuple[ShapedArray, ...]:
        """The types of the values of refs that the program replaces."""
        if self.uses is None:
            return ()
        end = len(self.consts) + len(self.uses.outer)
        return self.program.in_avals[end - self.uses.written:end]

    @property
    def captured(self) -> list[Any]:
        """The values and refs that the function captured."""
        return self.consts if self.uses is None else [*self.consts, *self.uses.outer]


def trace_function(fun: Callable, in_tree: PyTreeDef, avals: Sequence[ShapedArray], caller: str, *,
                   keywords: bool = False, arg_names: Sequence[str] | None = None,
                   refs: bool = False) -> TracedFunction:
    """Trace `fun(*args)`, or `fun(*args, **kwargs)` with `keywords`; the arguments have the structure `in_tree`.

    Args: refs: whether the function may use outer refs; the caller then passes and stores their values.
    """
    flat = flatten_function(fun, in_tree, keywords=keywords, caller=caller)
    if refs:
        program, consts, uses = trace_with_refs(flat, avals, caller, arg_names)
        return TracedFunction(program, consts, flat.out_tree, uses)
    closed = trace_to_jaxpr(flat, avals, caller, arg_names)
    program, consts = hoist_consts(closed)
    return TracedFunction(program, list(consts), flat.out_tree)


Made = TypeVar("Made")
_remembered: weakref.WeakKeyDictionary[Callable, Cache] = weakref.WeakKeyDictionary()


def remember(fun: Callable, key: tuple, make: Callable[[], tuple[Made, Sequence[Any]]]) -> Made:
    """The first result of `make() -> (result, captured values)`, cached as long as `fun` lives.

    A result with captured tracers, or refs of a trace, belongs to the current transform, so it is not cached.
    """
    key = (*key, config.trace_key(), context.axes)
    try:
        cache = _remembered.get(fun) or _remembered.setdefault(fun, Cache())
    except TypeError:                       # not hashable, or without weak references
        return make()[0]
    result = cache.get(key)
    if result is None:
        result, captured = make()
        if not any(map(is_temporary, captured)):
            cache[key] = result
    return result


_wrapped: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def wrapped(fun: Callable, make: Callable[[Callable], Callable]) -> Callable:
    """`make(fun)`, the same object for the same `fun`, so that caches keyed on the wrapper are used again.

    The wrapper refers to `fun` weakly, because it lives as long as `fun`. Callers must keep a reference to `fun` while
    they use the wrapper.
    """
    try:
        made = _wrapped.setdefault(fun, {})
    except TypeError:
        return make(fun)
    if make not in made:
        made[make] = functools.wraps(fun, updated=())(make(weakref.proxy(fun)))
        del made[make].__wrapped__          # it would keep `fun` alive
    return made[make]


def clear() -> None:
    """Empty these caches; called by `xjax.clear_caches`."""
    _remembered.clear()
    _wrapped.clear()
