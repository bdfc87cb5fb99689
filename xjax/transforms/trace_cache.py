"""Programs of the functions that control flow and `checkpoint` take, remembered on the function.

A loop that calls `lax.scan(f, ...)` again and again traces `f` once, as long as `f` is the same object.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xjax.core.cache import Cache
from xjax.core.calls import flatten_function
from xjax.core.config import config
from xjax.core.context import context
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.trace import Tracer
from xjax.core.types import ShapedArray


class TracedFunction(NamedTuple):
    """A function as a program of (the values it captured, the leaves of its arguments)."""

    program: ClosedJaxpr
    consts: list[Any]
    out_tree: Any


def trace_function(fun: Callable, in_tree: Any, avals: Sequence[ShapedArray], caller: str, *, keywords: bool = False,
                   arg_names: Sequence[str] | None = None) -> TracedFunction:
    """Trace `fun(*args)` (with `keywords` `fun(*args, **kwargs)`), whose arguments have the structure `in_tree`."""
    flat = flatten_function(fun, in_tree, keywords=keywords, caller=caller)
    closed = trace_to_jaxpr(flat, avals, caller, arg_names)
    program, consts = hoist_consts(closed)
    return TracedFunction(program, list(consts), flat.out_tree)


_remembered: weakref.WeakKeyDictionary[Callable, Cache] = weakref.WeakKeyDictionary()


def remember(fun: Callable, key: tuple, make: Callable[[], tuple[Any, Sequence[Any]]]) -> Any:
    """The first result of `make() -> (result, captured values)`, kept for as long as `fun` lives.

    A result with captured tracers belongs to the transform that runs now and is made anew each time.
    """
    key = (*key, config.trace_key(), context.axes)
    try:
        cache = _remembered.get(fun) or _remembered.setdefault(fun, Cache())
    except TypeError:                       # not hashable, or takes no weak references
        return make()[0]
    found = cache.get(key)
    if found is None:
        found, captured = make()
        if not any(isinstance(c, Tracer) for c in captured):
            cache[key] = found
    return found


_wrapped: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def wrapped(fun: Callable, make: Callable[[Callable], Callable]) -> Callable:
    """`make(fun)`, the same object for the same `fun`, so that what is remembered on it is found again.

    The wrapper holds `fun` weakly, for it lives as long as `fun`; callers hold `fun` while they use the wrapper.
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
    """Forget all programs (`xjax.clear_caches` calls this)."""
    _remembered.clear()
    _wrapped.clear()
