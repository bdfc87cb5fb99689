"""`debug.print`, `debug.log` and `debug.callback`: inspect values while a program runs.

    debug_print[fmt=x is {} ... ordered=False partitioned=False ...] a

They have no results and show what is computed: under `grad` the forward values, under `vmap` each element, in a loop
each iteration, in `pmap` each device. They repeat where `checkpoint` recomputes. The compiler and transforms keep them.
"""

from __future__ import annotations

import copy
import logging
import math
import string
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjax.core.calls import function_name
from xjax.core.errors import bad, user_frame
from xjax.core.primitive import Effects, Primitive
from xjax.core.tree import tree_unflatten
from xjax.core.types import is_array_like
from xjax.core.varying import vary_apart
from xjax.lax.callbacks import one_by_one
from xjax.ops.slice import index_in_dim
from xjax.runtime.callbacks import call_now, emit_call, flatten_arguments
from xjax.typing import PyTree

_logger = logging.getLogger("xjax.debug")


# -- public -------------------------------------------------------------------------------------------------------

def debug_callback(callback: Callable | None = None, *args: PyTree, ordered: bool = False, partitioned: bool = False,
                   **kwargs: PyTree) -> Callable | None:
    """Call ``callback(*args, **kwargs)`` when the program runs; its result is dropped.

    ``debug.callback(ordered=True)(f, *args, **kwargs)`` keeps the options apart from the keywords of `f`.

    Args:
      callback: gets arrays on the CPU; arguments that are not arrays, such as strings, are passed as they are.
      ordered: run after all earlier ordered effects. Not available in programs of several devices.
      partitioned: in a program whose arrays are sharded, call it for each shard instead of on the whole array.

    Raises: when it runs, the exception of the function.

    >>> seen = []
    >>> total = xjax.jit(lambda x: (xjax.debug.callback(lambda v: seen.append(float(v)), x), x + 1)[1])(2.0)
    >>> xjax.effects_barrier()
    >>> seen
    [2.0]
    """
    def bind(callback: Callable, *args: Any, **kwargs: Any) -> None:
        if not callable(callback):
            raise bad("debug.callback", "needs a function", given={"callback": repr(callback)[:80]},
                      fix="pass the function, then its arguments.")
        arrays, rest = Arguments.of(args, kwargs)
        debug_callback_p.bind(*arrays, callback=HostFunction(callback, rest),
                              effect="OrderedDebug" if ordered else "Debug", partitioned=partitioned)

    return _one_call_or_two("debug.callback", bind, callback, args, kwargs)


def debug_print(fmt: str | None = None, *args: PyTree, ordered: bool = False, partitioned: bool = False,
                skip_format_check: bool = False, _use_logging: bool = False, **kwargs: PyTree) -> Callable | None:
    """Print ``fmt.format(*args, **kwargs)`` when the program runs.

    ``debug.print(ordered=True)("{x}", x=x)`` keeps the options apart from the values.

    Args:
      fmt: as for `str.format`; an f-string would show tracers. It is checked when the function is traced.
      ordered, partitioned: as in `callback`.
      skip_format_check: allow values without a field in the format; they follow a format that has no fields at all.

    Raises: IndexError or KeyError if a value is missing, ValueError if a value is not used.

    >>> xjax.jit(lambda x: xjax.debug.print("x is {}, twice x {twice:.1f}", x, twice=2 * x))(1.5)
    x is 1.5, twice x 3.0
    """
    def bind(fmt: str, *args: Any, **kwargs: Any) -> None:
        if not isinstance(fmt, str):
            raise bad("debug.print", "the format must be a string", given={"fmt": repr(fmt)[:80]},
                      fix='write debug.print("x = {}", x).')
        fields = list(_fields(fmt))
        if not skip_format_check:
            _check_format(fmt, fields, args, kwargs)
        arrays, rest = Arguments.of(args, kwargs)
        debug_print_p.bind(*arrays, fmt=fmt, ordered=ordered, partitioned=partitioned, in_tree=rest.in_tree,
                           static_args=rest.static_args, np_printoptions=tuple(np.get_printoptions().items()),
                           has_placeholders=bool(fields), logging_record=_record() if _use_logging else None)

    return _one_call_or_two("debug.print", bind, fmt, args, kwargs)


def debug_log(fmt: str | None = None, *args: PyTree, **kwargs: PyTree) -> Callable | None:
    """`debug.print` to the logger "xjax.debug" at level INFO; the record has the position of this call."""
    return debug_print(fmt, *args, _use_logging=True, **kwargs)


def _one_call_or_two(caller: str, bind: Callable[..., None], first: Any, args: tuple, kwargs: dict) -> Callable | None:
    if first is not None:
        return bind(first, *args, **kwargs)
    if args or kwargs:
        raise bad(caller, "values without a first argument", given={"args": repr(args), "kwargs": repr(kwargs)},
                  fix=f"write {caller}(ordered=True)(...), with the values in the second call.")
    return bind


# -- arguments ----------------------------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class Arguments:
    """Structure of the arguments, and the leaves that are not arrays, with their positions."""

    in_tree: Any
    static_args: tuple[tuple[int, Any], ...]

    @classmethod
    def of(cls, args: tuple, kwargs: dict,
           is_array: Callable[[Any], bool] = is_array_like) -> tuple[list[Any], Arguments]:
        """The arrays among the leaves, and the rest."""
        leaves, tree = flatten_arguments(args, kwargs)
        arrays = [is_array(x) for x in leaves]
        rest = tuple([(i, x) for i, x in enumerate(leaves) if not arrays[i]])
        return [x for x, flag in zip(leaves, arrays, strict=True) if flag], cls(tree, rest)

    def merge(self, arrays: Sequence[Any]) -> tuple[tuple, dict]:
        fixed, values = dict(self.static_args), iter(arrays)
        return tree_unflatten(self.in_tree, [fixed[i] if i in fixed else next(values)
                                             for i in range(len(fixed) + len(arrays))])


@dataclass(frozen=True, slots=True)
class HostFunction:
    """The user's function, as a function of the arrays among its arguments."""

    callback: Callable
    rest: Arguments

    def __call__(self, *arrays: np.ndarray) -> tuple:
        args, kwargs = self.rest.merge(arrays)
        self.callback(*args, **kwargs)
        return ()

    @property
    def name(self) -> str:
        return function_name(self.callback)


# -- formats ------------------------------------------------------------------------------------------------------

class FormatKeyError(KeyError):
    """A KeyError that shows its message without quotes."""

    __str__ = Exception.__str__


def _fields(fmt: str) -> Iterator[str]:
    """The argument that each field of a format refers to: "0", "x", or "" for the next one."""
    for _, field, spec, _ in string.Formatter().parse(fmt):
        if field is not None:
            yield field.partition(".")[0].partition("[")[0]
            yield from _fields(spec or "")


def _check_format(fmt: str, fields: Sequence[str], args: tuple, kwargs: dict) -> None:
    if "" in fields and any(map(str.isdigit, fields)):
        raise bad("debug.print", "the format mixes {} with numbered fields", given={"fmt": repr(fmt)},
                  fix="number all fields, or none.", exc=ValueError)
    used, position = set(), 0
    for field in fields:
        key: int | str = int(field) if field.isdigit() else field or position
        position += not field
        used.add(key)
        if isinstance(key, int) and key >= len(args):
            raise bad("debug.print", f"the format has a field for value {key}, but {len(args)} were given",
                      given={"fmt": repr(fmt)}, fix="pass one value for each pair of braces.", exc=IndexError)
        if isinstance(key, str) and key not in kwargs:
            raise bad("debug.print", f"the format has a field for {key!r}, which was not given",
                      given={"fmt": repr(fmt), "given": ", ".join(kwargs) or "no keywords"},
                      fix=f"pass {key}=...", exc=FormatKeyError)
    unused = [str(i) for i in range(len(args)) if i not in used] + [k for k in kwargs if k not in used]
    if unused:
        raise bad("debug.print", "the format has no field for some values",
                  given={"fmt": repr(fmt), "unused": ", ".join(unused)},
                  fix="name them in braces; an f-string has been formatted already, so write the string without the f.",
                  exc=ValueError)


def _record() -> logging.LogRecord:
    file, line, _ = user_frame() or ("(unknown file)", 0, "")
    return _logger.makeRecord(_logger.name, logging.INFO, file, line, "", (), None)


def _printer(*, fmt, ordered, partitioned, in_tree, static_args, np_printoptions, has_placeholders,
             logging_record) -> Callable[..., tuple]:
    """The function that prints on the host."""
    rest = Arguments(in_tree, static_args)

    def write(*arrays: np.ndarray) -> tuple:
        args, kwargs = rest.merge(arrays)
        with np.printoptions(**dict(np_printoptions)):
            text = fmt.format(*args, **kwargs) if has_placeholders or not args else " ".join([fmt, *map(str, args)])
        if logging_record is None:
            sys.stdout.write(text + "\n")
        else:
            record = copy.copy(logging_record)
            record.msg = text
            _logger.handle(record)
        return ()

    return write


# -- rules --------------------------------------------------------------------------------------------------------

UNROLLED = 32       # maximum number of mapped elements without a loop


def _debug_primitive(name: str, caller: str, effects: Callable[..., Effects],
                     host: Callable[..., Callable]) -> Primitive:
    """An operation without results that calls `host(**params)` on its arguments."""
    def lower(b, outs, *args, partitioned, **params):
        function = host(partitioned=partitioned, **params)
        if "ordered" in effects(**params) and b.axes is not None and math.prod(b.axes.sizes) > 1:
            raise bad(caller, "an ordered effect in a program of several devices (pmap, shard_map), where calls have "
                      "no common order", exc=ValueError,
                      fix="leave out ordered=True, or use io_callback, which orders the calls of each device.")
        return emit_call(b, caller, function, args, (), has_effect=True, partitioned=partitioned,
                         ordered="ordered" in effects(**params))

    def batch(axis, args, bdims, **params):
        if axis.size > UNROLLED:
            return one_by_one(p, axis, args, bdims, params)
        for i in range(axis.size):
            p.bind(*[x if d is None else index_in_dim(x, i, d, keepdims=False)
                     for x, d in zip(args, bdims, strict=True)], **params)
        return [], []

    p = Primitive(
        name, type_rule=lambda *avals, **params: (), lower=lower, batch=batch,
        evaluate=lambda *args, **params: call_now(caller, host(**params), args, ()),
        jvp=lambda primals, tangents, **params: (p.bind(*primals, **params), []),
        transpose=lambda cts, *args, **params: [None] * len(args),      # no output in the transposed program
        effects=effects, multiple_results=True, vary=vary_apart, cacheable=False)
    return p


debug_callback_p = _debug_primitive(
    "debug_callback", "debug.callback",
    effects=lambda *, effect, **_: frozenset(("debug", "ordered") if effect == "OrderedDebug" else ("debug",)),
    host=lambda *, callback, **_: callback)

debug_print_p = _debug_primitive(
    "debug_print", "debug.print",
    effects=lambda *, ordered, **_: frozenset(("debug", "ordered") if ordered else ("debug",)), host=_printer)
