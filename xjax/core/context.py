"""State of the current thread: the trace that interprets its operations, and the named axes in scope.

`bind` passes every operation to `context.trace`. A transform replaces this trace while it runs a function, and restores
it afterwards. Nothing else in the package decides which trace interprets an operation.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xjax.core.config import TraceKey
    from xjax.core.trace import Trace


UNNAMED = "<axis>"           # name of an axis that the user did not name


class Axis(NamedTuple):
    """A named axis in scope: of a `vmap(axis_name=...)` or of a device mesh."""

    name: object
    size: int
    owner: object            # tag of the batching trace that maps it, or the mesh it is an axis of
    typed: bool = False      # types record whether values vary along it; see `core.varying`
    mesh_axes: tuple = ()    # mesh axes that `vmap(spmd_axis_name=)` shards it over


class Context(threading.local):
    """Per-thread state. `trace` starts as the root trace (set by runtime.dispatch on import)."""

    trace: Trace = None      # type: ignore[assignment]
    source: tuple | None = None         # while a program is evaluated: the source position of the current equation
    scope: str = ""                     # names of the `named_scope`s around the current operation: "encoder/layer"
    axes: tuple[Axis, ...] = ()
    trace_key: TraceKey | None = None   # set by `core.config`; None while this thread overrides a traced option


context = Context()


def set_root_trace(trace: Trace) -> None:
    """Make `trace` the initial trace of every thread. Called once, by the runtime."""
    Context.trace = trace


def at_root() -> bool:
    """Whether operations run eagerly: no transform is tracing in this thread."""
    return context.trace is Context.trace


class current_trace:
    """`with current_trace(t):` makes `t` the trace that interprets operations."""

    __slots__ = ("_trace", "_saved")

    def __init__(self, trace: Trace):
        self._trace = trace

    def __enter__(self) -> Trace:
        self._saved = context.trace
        context.trace = self._trace
        return self._trace

    def __exit__(self, *exc) -> None:
        context.trace = self._saved


class in_scope:
    """`with in_scope("encoder"):` adds a name to the scope of operations."""

    __slots__ = ("_name", "_saved")

    def __init__(self, name: str):
        self._name = name

    def __enter__(self) -> None:
        self._saved = context.scope
        context.scope = f"{self._saved}/{self._name}" if self._saved else self._name

    def __exit__(self, *exc) -> None:
        context.scope = self._saved


class axes_in_scope:
    """`with axes_in_scope(Axis(...)):` adds named axes; an inner axis hides an outer axis of the same name."""

    __slots__ = ("_axes", "_saved")

    def __init__(self, *axes: Axis):
        self._axes = axes

    def __enter__(self) -> None:
        self._saved = context.axes
        hidden = {a.name for a in self._axes}
        context.axes = tuple(a for a in self._saved if a.name not in hidden) + self._axes

    def __exit__(self, *exc) -> None:
        context.axes = self._saved


def find_axis(name: object) -> Axis | None:
    """The innermost axis in scope with this name; None if there is none."""
    for axis in reversed(context.axes):
        if axis.name == name:
            return axis
    return None
