"""Top-level functions that move trees of arrays between the host and devices, and a few for the whole process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from xjax.core import cache
from xjax.core.context import at_root, context, current_trace, in_scope
from xjax.core.errors import TracerArrayConversionError, bad
from xjax.core.key_types import is_key
from xjax.core.primitive import Primitive, clear_type_caches
from xjax.core.trace import Trace, Tracer, abstract_value_error
from xjax.core.tree import tree_leaves, tree_map
from xjax.runtime.arrays import moves
from xjax.runtime.arrays.array import Array
from xjax.runtime.dispatch import eval_trace
from xjax.runtime.process import memory
from xjax.runtime.retraces import forget_traces
from xjax.transforms import trace_cache
from xjax.typing import ArrayLike, PyTree


def device_get(x: PyTree) -> PyTree:
    """A tree with each `Array` replaced by its value as a (read-only) NumPy array, except keys; other leaves stay.

    Raises: TracerArrayConversionError for a traced value.

    >>> xjax.device_get({"w": xjax.numpy.arange(3)})
    {'w': array([0, 1, 2], dtype=int32)}
    """
    return tree_map(_get, x)


def _get(x: ArrayLike) -> ArrayLike:
    if isinstance(x, Tracer):
        raise abstract_value_error("a NumPy array from", x, TracerArrayConversionError)
    return moves.device_get(x) if type(x) is Array and not is_key(x.aval) else x


def block_until_ready(x: PyTree) -> PyTree:
    """Wait until every array of the tree `x` is computed; returns `x`. Raises the error of a failed computation."""
    moves.block_until_ready(tree_leaves(x))
    return x


def copy_to_host_async(x: PyTree) -> PyTree:
    """Start copying the arrays of the tree `x` to the host, so that reading them later waits less; returns `x`."""
    for leaf in tree_leaves(x):
        if type(leaf) is Array:
            leaf.copy_to_host_async()
    return x


class _FoldingTrace(Trace):
    """Computes operations on concrete values; its parent trace interprets operations on traced values."""

    __slots__ = ()

    def process(self, p: Primitive, args: tuple, params: dict) -> Any:
        traced = any(isinstance(x, Tracer) for x in args)
        with current_trace(self.parent if traced else eval_trace) as trace:
            return trace.process(p, args, params)


@contextlib.contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """A block in which operations on concrete values are computed immediately, also inside traced functions.

    Operations on traced values are traced as usual. It can also be used as a decorator.

    >>> @xjax.jit
    ... def f(x):
    ...     with xjax.ensure_compile_time_eval():
    ...         half = float(xjax.numpy.arange(3.0).sum()) / 2
    ...     return x * half
    >>> f(2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    with contextlib.nullcontext() if at_root() else current_trace(_FoldingTrace(context.trace, context.trace.tag)):
        yield


def clear_caches() -> None:
    """Delete all cached programs and executables, of operations and of jitted functions; free pages go to the system.

    `memory_report` shows their number and size.
    """
    cache.clear()
    trace_cache.clear()
    clear_type_caches()
    forget_traces()
    memory.trim()


@contextlib.contextmanager
def named_scope(name: str) -> Iterator[None]:
    """`with named_scope("encoder"):` names a part of a program; also a decorator.

    The names are in the equations of `make_jaxpr` (`eqn.source_info.name_stack`), and in the metadata of the operations
    of compiled programs, so profiles show them.

    Raises: TypeError unless `name` is a string.

    >>> @xjax.named_scope("encoder")
    ... def f(x):
    ...     return xjax.lax.sin(x)
    >>> xjax.make_jaxpr(f)(1.0).eqns[0].source_info.name_stack
    'encoder'
    >>> 'op_name="encoder/sin"' in xjax.jit(f).lower(1.0).compile().as_text()
    True
    """
    if not isinstance(name, str):
        raise bad("named_scope", "the name must be a string", given={"name": repr(name)},
                  fix='write named_scope("encoder").')
    with in_scope(name):
        yield


def named_call(fun: Callable, *, name: str | None = None) -> Callable:
    """`fun` with its operations marked by `named_scope`."""
    return named_scope(name or getattr(fun, "__name__", "fun"))(fun)
