"""What custom_jvp and custom_vjp share: positional arguments, static ones, rules run per element under vmap."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.calls import function_name
from xjax.core.errors import bad
from xjax.core.trace import Tag
from xjax.core.types import typeof
from xjax.transforms.batching import BatchAxis, batch_flat, place_axis


class FunctionWithRule:
    """Base of custom_jvp and custom_vjp: the function, and which of its arguments are static.

    Args:
      nondiff_argnums, nondiff_argnames: arguments that are passed to the rule as they are.
    """

    transform = ""

    def __init__(self, fun: Callable, nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()):
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums, self.nondiff_argnames = tuple(nondiff_argnums), tuple(nondiff_argnames)
        self._where = f"{self.transform} `{function_name(fun)}`"

    def __get__(self, instance: Any, owner: type) -> Callable:
        return self if instance is None else functools.partial(self, instance)

    def _static_positions(self, count: int) -> set[int]:
        positions = {n % count for n in self.nondiff_argnums if -count <= n < count}
        if self.nondiff_argnames:
            code = getattr(self.fun, "__code__", None)
            names = code.co_varnames[:code.co_argcount] if code else ()
            positions |= {names.index(n) for n in self.nondiff_argnames if n in names}
        return positions


def positional_arguments(fun: Callable, args: Sequence[Any], kwargs: dict, where: str) -> list[Any]:
    """Arguments in the order of the signature, defaults filled in: rules are written for positional arguments."""
    code = getattr(fun, "__code__", None)
    if not kwargs and (code is None or len(args) >= code.co_argcount):
        return list(args)
    try:
        bound = inspect.signature(fun).bind(*args, **kwargs)
    except TypeError as error:
        raise bad(where, f"the arguments do not fit the function: {error}",
                  fix="call it as its signature says.") from None
    bound.apply_defaults()
    if bound.kwargs:
        raise bad(where, "keyword-only arguments have no place in a derivative rule",
                  given={"keywords": ", ".join(bound.kwargs)}, fix="make them positional parameters.")
    return list(bound.args)


def open_axis(axis: BatchAxis) -> BatchAxis:
    """The axis for running a function again: with its own tag while its vmap runs, with a new one afterwards."""
    return axis._replace(tag=Tag(axis.tag.where)) if axis.tag.closed else axis


def batched_call(f: Callable[..., Sequence[Any]], axis: BatchAxis, bdims: Sequence[int | None]) -> Callable:
    """`f(*flat) -> flat` on arrays mapped at `bdims`; every result is mapped at axis 0."""
    def call(*args: Any) -> list[Any]:
        outs, dims = batch_flat(f, open_axis(axis), args, bdims)
        return [place_axis(y, b, 0, axis.size) for y, b in zip(outs, dims, strict=True)]
    return call


def check_like(where: str, what: str, paths: Sequence[str], found: Sequence[Any], expected: Sequence[Any],
               fix: str) -> None:
    """Raise if a rule's results differ in shape or dtype from what they stand for."""
    wrong = {}
    for path, x, aval in zip(paths, found, expected, strict=True):
        got = typeof(x)
        if got.shape != aval.shape or got.dtype != aval.dtype:
            wrong[f"{what}{path}"] = f"{got.str_short()}, expected {aval.str_short()}"
    if wrong:
        raise bad(where, f"the rule returned a {what} of the wrong type", given=wrong, fix=fix)
