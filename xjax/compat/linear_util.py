"""`WrappedFun` and transformations of functions, as `jax.extend.linear_util` has them.

    @transformation
    def negated(*args):
        results = yield args, {}
        yield [-x for x in results]

    negated(wrap_init(f)).call_wrapped(1.0)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any

from xjax.core.errors import bad

Thunk = Callable[[], object]


class StoreException(Exception):
    """The second result of a transformation was read before the function was called, or set twice."""


class WrappedFun:
    """A function and the transformations applied to it; `call_wrapped` calls the transformed function.

    Attributes:
      f: the function itself.
      debug_info: its names in messages, as the library gave them.
    """

    def __init__(self, f: Callable, call: Callable | None = None, debug_info: object = None):
        self.f, self.debug_info = f, debug_info
        self.call_wrapped: Callable = f if call is None else call

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed function>")

    def with_call(self, call: Callable) -> WrappedFun:
        """The same function with another `call_wrapped`."""
        return WrappedFun(self.f, call, self.debug_info)

    def __repr__(self) -> str:
        return f"WrappedFun({self.__name__})"


def wrap_init(f: Callable, params: dict[str, Any] | None = None, *, debug_info: object = None) -> WrappedFun:
    """A function without transformations.  Args: params: keyword arguments of all calls."""
    return WrappedFun(f, functools.partial(f, **params) if params else f, debug_info)


# A function, and the function that returns the second result of its transformation.
WithThunk = tuple[WrappedFun, Thunk]


class Store:
    """The second result of a transformation, known after a call of the function."""

    def __init__(self) -> None:
        self._values: list[object] = []

    def store(self, value: object) -> None:
        self._values = [value]

    def __call__(self) -> object:
        if not self._values:
            raise bad("linear_util", "the second result of a transformation is not known yet",
                      fix="call the transformed function first.", exc=StoreException)
        return self._values[0]


def _run(steps: Generator, call: Callable) -> Any:
    """The last value of a generator that yields (args, kwargs), receives the results, and yields its own."""
    args, kwargs = next(steps)
    out = steps.send(call(*args, **kwargs))
    steps.close()
    return out


def transformation(steps: Callable[..., Generator], fun: WrappedFun | None = None,
                   *bound: object) -> WrappedFun | functools.partial:
    """A transformation written as a generator; a decorator if `fun` is missing."""
    if fun is None:
        return functools.partial(transformation, steps)
    return fun.with_call(lambda *args, **kwargs: _run(steps(*bound, *args, **kwargs), fun.call_wrapped))


def transformation_with_aux(steps: Callable[..., Generator], fun: WrappedFun | None = None,
                            *bound: object) -> WithThunk | functools.partial:
    """As `transformation`, for a generator that yields (results, second result).  Returns: (function, thunk)."""
    if fun is None:
        return functools.partial(transformation_with_aux, steps)
    store = Store()

    def call(*args: object, **kwargs: object) -> object:
        out, second = _run(steps(*bound, *args, **kwargs), fun.call_wrapped)
        store.store(second)
        return out

    return fun.with_call(call), store


def transformation2(apply: Callable, fun: WrappedFun | None = None,
                    *bound: object) -> WrappedFun | functools.partial:
    """A transformation ``apply(f, *bound, *args, **kwargs)`` that calls `f` itself; a decorator if `fun` is missing."""
    if fun is None:
        return functools.partial(transformation2, apply)
    return fun.with_call(functools.partial(apply, fun.call_wrapped, *bound))


def transformation_with_aux2(apply: Callable, fun: WrappedFun | None = None,
                             *bound: object) -> WithThunk | functools.partial:
    """As `transformation2`; ``apply(f, store, *bound, *args)`` calls ``store.store(second result)``."""
    if fun is None:
        return functools.partial(transformation_with_aux2, apply)
    store = Store()
    return fun.with_call(functools.partial(apply, fun.call_wrapped, store, *bound)), store


def merge_linear_aux(first: Thunk, second: Thunk) -> tuple[bool, object]:
    """(True, the second result of `first`), or (False, that of `second`) if only the second function was called."""
    try:
        return True, first()
    except StoreException:
        return False, second()
