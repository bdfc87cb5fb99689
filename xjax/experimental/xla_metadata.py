"""`set_xla_metadata`: attributes of operations in the text of a program, which XLA's passes and tools read.

Each tagged operation has ``mhlo.frontend_attributes = {name = "value"}``. `MetadataTrace` tags the operations of a
block or function: it passes each operation on, and applies `xla_metadata_value` to its results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import TracebackType

from xjax.core.context import context, current_trace
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.public import attributes_of
from xjax.core.staging import trace_to_jaxpr
from xjax.core.trace import Tag, Trace
from xjax.core.tree import tree_map
from xjax.core.types import ShapedArray
from xjax.typing import ArrayLike, PyTree

__all__ = ["set_xla_metadata", "xla_metadata_call"]

Pairs = tuple[tuple[str, str], ...]


def set_xla_metadata(x: PyTree = None, **kwargs: str | bool | int | float) -> PyTree:
    """Attach attributes to operations of a program; in eager execution they have no effect.

    Args:
      x: tree of arrays: the operations that compute them are tagged, and the arrays are returned. None: the result is a
        context manager for operations, and a decorator of functions, which tag all operations in them, also those of
        jitted functions, loops and branches.
      kwargs: the attributes, as text in the program: True is "true". An inner value of a name hides an outer one.

    Raises: TypeError for other values.

    >>> f = xjax.jit(lambda x: set_xla_metadata(xjax.lax.sin(x), stage="first") * 2)
    >>> '{mhlo.frontend_attributes = {stage = "first"}}' in f.lower(1.0).as_text()
    True
    """
    pairs = tuple(sorted((name, _text(name, value)) for name, value in kwargs.items()))
    if x is None:
        return _Tagging(pairs)
    return tree_map(lambda leaf: xla_metadata_value_p.bind(leaf, xla_metadata_kvs=pairs) if pairs else leaf, x)


def xla_metadata_call(f: Callable | None = None, /, **meta: str | bool | int | float) -> Callable:
    """`f`, all operations of which are tagged; without `f`, a decorator.  Args: meta: as in `set_xla_metadata`."""
    decorator = set_xla_metadata(**meta)
    return decorator if f is None else decorator(f)


def _text(name: str, value: object) -> str:
    if not isinstance(value, (str, bool, int, float)):
        raise bad("set_xla_metadata", f"an attribute cannot be a {type(value).__name__}", {name: repr(value)[:60]},
                  "pass text, a number or a boolean.")
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Tagging:
    """`with set_xla_metadata(name=value):`, and the decorator."""

    __slots__ = ("_pairs", "_entered")

    def __init__(self, pairs: Pairs):
        self._pairs = pairs
        self._entered: list[current_trace] = []

    def __enter__(self) -> None:
        scope = current_trace(MetadataTrace(context.trace, self._pairs) if self._pairs else context.trace)
        self._entered.append(scope)
        scope.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._entered.pop().__exit__(kind, error, traceback)

    def __call__(self, f: Callable) -> Callable:
        @functools.wraps(f)
        def tagged(*args: object, **kwargs: object) -> PyTree:
            with _Tagging(self._pairs):
                return f(*args, **kwargs)

        return tagged


class MetadataTrace(Trace):
    """Trace that tags the results of each operation; values are those of the trace around it."""

    __slots__ = ("_pairs",)

    parent: Trace

    def __init__(self, parent: Trace, pairs: Pairs):
        if isinstance(parent, MetadataTrace):           # inner values hide outer ones
            pairs, parent = tuple(sorted({**dict(parent._pairs), **dict(pairs)}.items())), parent.parent
        super().__init__(parent, Tag("set_xla_metadata"))
        self._pairs = pairs

    def process(self, p: Primitive, args: tuple, params: dict) -> Sequence[ArrayLike] | ArrayLike:
        params = {name: self._tagged(value) for name, value in params.items()}
        out = self.parent.process(p, args, params)
        return [*map(self._tag, out)] if p.multiple_results else self._tag(out)

    def _tag(self, x: ArrayLike) -> ArrayLike:
        return self.parent.process(xla_metadata_value_p, (x,), {"xla_metadata_kvs": self._pairs})

    def _tagged(self, value: object) -> object:
        """A parameter whose programs have tagged operations."""
        if isinstance(value, tuple):
            return tuple(map(self._tagged, value)) if any(isinstance(v, ClosedJaxpr) for v in value) else value
        if not isinstance(value, ClosedJaxpr):
            return value
        key = "set_xla_metadata", self._pairs
        if key not in value.memo:
            def run(*args: ArrayLike) -> list[ArrayLike]:
                with _Tagging(self._pairs):
                    return value(*args)

            value.memo[key] = trace_to_jaxpr(run, value.in_avals, "set_xla_metadata")
        return value.memo[key]


def _type(x, *, xla_metadata_kvs):
    return x


def _lower(b: Builder, out: ShapedArray, x: Value, *, xla_metadata_kvs: Pairs) -> Value:
    """Add the attributes to the line that computes `x`; an argument of the program has none."""
    head = f"{x.name} = "
    for i in range(len(b.lines) - 1, -1, -1):
        if b.lines[i].startswith(head):
            b.lines[i] = _with_attributes(b.lines[i], xla_metadata_kvs)
            break
    return x


_NAME = "mhlo.frontend_attributes = {"


def _with_attributes(line: str, pairs: Pairs) -> str:
    if "stablehlo.constant" in line:                    # equal constants are one line
        return line
    if _NAME in line[line.rfind("})") + 1:]:            # of the operation itself, not of one in its regions
        start = line.rindex(_NAME) + len(_NAME)
        present = line[start:line.index("}", start)]
        new = [f"{k} = {_quoted(v)}" for k, v in pairs if f"{k} = " not in present]
        return line[:start] + ", ".join([present, *new]) + line[start + len(present):]
    text = f"{_NAME}{', '.join(f'{k} = {_quoted(v)}' for k, v in pairs)}}}"
    before, colon, types = line.rpartition(" : ")
    if before.endswith("}") and line.partition(" = ")[2].startswith('"') and not before.endswith("})"):
        return f"{before[:-1]}, {text}}}{colon}{types}"
    return f"{before} {{{text}}}{colon}{types}"


def _quoted(text: str) -> str:
    return '"' + "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else
                         "".join(f"\\{byte:02X}" for byte in c.encode()) for c in text) + '"'


def _transpose(ct, x, *, xla_metadata_kvs):
    return [ct]


def _batch(axis, args, bdims, *, xla_metadata_kvs):
    return xla_metadata_value_p.bind(args[0], xla_metadata_kvs=xla_metadata_kvs), bdims[0]


def _evaluate(x, *, xla_metadata_kvs):
    return x


xla_metadata_value_p = Primitive("xla_metadata_value", type_rule=_type, lower=_lower, jvp=LINEAR, transpose=_transpose,
                                 batch=_batch, evaluate=_evaluate)

__getattr__ = attributes_of(__name__)
