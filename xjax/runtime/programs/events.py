"""Events of the library and of programs, such as the end of a compilation, and their listeners: `xjax.monitoring`.

The names of events are JAX's. Without listeners an event costs a look at an empty tuple.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from xjax.core.errors import bad

TRACE = "/jax/core/compile/jaxpr_trace_duration"
LOWER = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILE = "/jax/core/compile/backend_compile_duration"
CACHE_REQUEST = "/jax/compilation_cache/compile_requests_use_cache"
CACHE_HIT = "/jax/compilation_cache/cache_hits"
CACHE_MISS = "/jax/compilation_cache/cache_misses"
CACHE_READ = "/jax/compilation_cache/cache_retrieval_time_sec"


class EventListener(Protocol):
    """Called as ``listener(event, **more)``."""

    def __call__(self, event: str, /, **more: str | int) -> object: ...


class ValueListener(Protocol):
    """Called as ``listener(event, value, **more)``; of a duration, the value is in seconds."""

    def __call__(self, event: str, value: float, /, **more: str | int) -> object: ...


class SpanListener(Protocol):
    """Called as ``listener(event, start_time, end_time, **more)``; times are seconds of `time.time()`."""

    def __call__(self, event: str, start_time: float, end_time: float, /, **more: str | int) -> object: ...


class _Listeners:
    """The listeners of one kind of events; a tuple, so that listeners may be added and removed during a call."""

    __slots__ = ("all",)

    def __init__(self) -> None:
        self.all: tuple[Callable, ...] = ()

    def add(self, caller: str, listener: Callable) -> None:
        if not callable(listener):
            raise bad(caller, "a listener must be callable", {"listener": repr(listener)},
                      "pass a function of the event's name: lambda event, *values, **more: ...")
        with _lock:
            self.all = (*self.all, listener)

    def remove(self, caller: str, listener: Callable) -> None:
        with _lock:
            if listener not in self.all:
                raise bad(caller, "this function is not registered", {"listener": repr(listener)},
                          "pass the function that was registered, once for each registration.", exc=ValueError)
            i = self.all.index(listener)
            self.all = (*self.all[:i], *self.all[i + 1:])


_lock = threading.Lock()
_events, _durations, _spans, _scalars = _KINDS = tuple(_Listeners() for _ in range(4))


def record_event(event: str, **kwargs: str | int) -> None:
    """Call the listeners of events.

    >>> seen = []
    >>> xjax.monitoring.register_event_listener(lambda event, **more: seen.append((event, more)))
    >>> xjax.monitoring.record_event("/my/checkpoint", step=3)
    >>> xjax.monitoring.clear_event_listeners()
    >>> seen
    [('/my/checkpoint', {'step': 3})]
    """
    for listener in _events.all:
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Call the listeners of durations: something took `duration` seconds."""
    for listener in _durations.all:
        listener(event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: str | int) -> None:
    """Call the listeners of time spans: something took from `start_time` to `end_time`, in seconds of `time.time()`."""
    for listener in _spans.all:
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: str | int) -> None:
    """Call the listeners of scalars: a quantity has a value."""
    for listener in _scalars.all:
        listener(event, value, **kwargs)


def register_event_listener(callback: EventListener) -> None:
    """`callback(event, **more)` will be called for each `record_event`, in the thread of the event."""
    _events.add("monitoring.register_event_listener", callback)


def register_event_duration_secs_listener(callback: ValueListener) -> None:
    """`callback(event, duration, **more)` will be called for each `record_event_duration_secs`.

    The library records how long it traces, lowers and compiles each function:

    >>> names = []
    >>> xjax.monitoring.register_event_duration_secs_listener(lambda event, seconds, **more: names.append(event))
    >>> y = xjax.jit(lambda x: x * 5)(1.0)
    >>> xjax.monitoring.clear_event_listeners()
    >>> names[-1]
    '/jax/core/compile/backend_compile_duration'
    """
    _durations.add("monitoring.register_event_duration_secs_listener", callback)


def register_event_time_span_listener(callback: SpanListener) -> None:
    """`callback(event, start_time, end_time, **more)` will be called for each `record_event_time_span`."""
    _spans.add("monitoring.register_event_time_span_listener", callback)


def register_scalar_listener(callback: ValueListener) -> None:
    """`callback(event, value, **more)` will be called for each `record_scalar`."""
    _scalars.add("monitoring.register_scalar_listener", callback)


def unregister_event_listener(callback: EventListener) -> None:
    """Undo `register_event_listener`.  Raises: ValueError if `callback` is not registered."""
    _events.remove("monitoring.unregister_event_listener", callback)


def unregister_event_duration_listener(callback: ValueListener) -> None:
    """Undo `register_event_duration_secs_listener`.  Raises: ValueError if `callback` is not registered."""
    _durations.remove("monitoring.unregister_event_duration_listener", callback)


def unregister_event_time_span_listener(callback: SpanListener) -> None:
    """Undo `register_event_time_span_listener`.  Raises: ValueError if `callback` is not registered."""
    _spans.remove("monitoring.unregister_event_time_span_listener", callback)


def unregister_scalar_listener(callback: ValueListener) -> None:
    """Undo `register_scalar_listener`.  Raises: ValueError if `callback` is not registered."""
    _scalars.remove("monitoring.unregister_scalar_listener", callback)


def clear_event_listeners() -> None:
    """Remove all listeners of all kinds."""
    for kind in _KINDS:
        kind.all = ()


@contextlib.contextmanager
def span(event: str, **more: str | int) -> Iterator[None]:
    """Record the time of the block: its start as a scalar, then its duration and its span."""
    start = time.time()
    record_scalar(event, start, **more)
    try:
        yield
    finally:
        end = time.time()
        record_event_duration_secs(event, end - start, **more)
        record_event_time_span(event, start, end, **more)
