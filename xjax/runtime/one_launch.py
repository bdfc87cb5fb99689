"""`one_launch`: runs an eager call of a library function as one compiled program.

A function made of several operations would pay for a launch of each (about 8 us, small arrays). A decorated function is
traced once for each combination of argument types and static values, and a call is one launch. Transformations still
trace the function's own operations. A call that does not qualify runs them one by one: arguments that are not plain
arrays on one device, a function that reads the values of its arguments, `disable_jit`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from xjax.core.cache import Cache
from xjax.core.calls import leave_boundary
from xjax.core.config import config
from xjax.core.context import at_root, context
from xjax.core.errors import JAXIndexError, JAXTypeError
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, tree_unflatten
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.arrays.number_cache import NUMBERS, add_number, from_scalar
from xjax.runtime.placement.places import ON_ONE_DEVICE, Place, common_place, default_place, sharding_of
from xjax.runtime.programs import events
from xjax.runtime.programs.executable import load
from xjax.runtime.programs.launch import Launcher, LaunchErrors, launch_error
from xjax.runtime.programs.lowering import lower_program
from xjax.runtime.watch import checker, is_watching
from xjax.typing import PyTree

Args = ParamSpec("Args")
Result = TypeVar("Result")

_PLACES = "device", "out_sharding"      # arguments that place the result

class _Plain:
    """In place of a launcher: the call cannot be one program, so `fun` is called each time."""

    def call(self, fun: Callable, args: Sequence[Any], kwargs: dict) -> PyTree:
        return fun(*args, **kwargs)


class _Checked(_Plain):
    """A call in checked mode: a program with checks, whose failures are those of the user's line."""

    def __init__(self, operands: frozenset[int | str]):
        self.operands = operands
        self.programs: dict[str, Any] = {}              # by scope, since marks in it select checks

    def call(self, fun: Callable, args: Sequence[Any], kwargs: dict) -> PyTree:
        values = [to_array(x) if name in self.operands and type(x) in NUMBERS else x
                  for name, x in (*enumerate(args), *kwargs.items())]
        arrays = [x for x in values if type(x) is Array]
        scope = context.scope
        if scope not in self.programs:
            trees: list[Any] = []

            def of_arrays(*traced: Array) -> Sequence[Any]:
                context.scope = scope           # `trace_to_jaxpr` restores it
                leaves, tree = flatten(_with_arrays(fun, values, len(args), kwargs, traced))
                trees[:] = [tree]
                return leaves

            try:
                closed = trace_to_jaxpr(of_arrays, [x.aval for x in arrays], fun.__name__)
                self.programs[scope] = closed, trees[0]
            except (JAXTypeError, JAXIndexError):
                self.programs[scope] = None, None
        closed, tree = self.programs[scope]
        if closed is None:
            return fun(*args, **kwargs)
        return tree_unflatten(tree, checker().run_library(closed, fun.__name__, arrays))


_PLAIN = _Plain()


@overload
def one_launch(fun: Callable[Args, Result], *, arrays: int = 1) -> Callable[Args, Result]: ...
@overload
def one_launch(*, arrays: int) -> Callable[[Callable[Args, Result]], Callable[Args, Result]]: ...


def one_launch(fun: Callable | None = None, *, arrays: int = 1) -> Callable:
    """Decorator: an eager call of `fun` is one launch.

    Args:
      arrays: number of leading arguments that are operands: numbers among them do not select a program. An `Array` is
        an operand at any position. All other arguments are static; if one is not hashable, `fun` is called as it is.
    """
    if fun is None:
        return functools.partial(one_launch, arrays=arrays)
    operands = frozenset((*range(arrays), *fun.__code__.co_varnames[:arrays]))
    launchers: Cache[Any] = Cache("eager functions")

    @functools.wraps(fun)
    def launch(*args: object, **kwargs: object) -> PyTree:
        try:
            if not at_root():
                return fun(*args, **kwargs)
            if len(args) == 1 and not kwargs and type(args[0]) is Array:        # shortcut for the most common call
                x, = args
                launcher = launchers.young.get((context.trace_key, x.aval, x._place))
                if type(launcher) is Launcher:
                    return launcher.launch([x._buf], args)
            key, bufs, has_numbers = [config.trace_key(), *kwargs], [], False
            for name, x in (*enumerate(args), *kwargs.items()) if kwargs else enumerate(args):
                if type(x) is Array:
                    key += x.aval, x._place
                    bufs.append(x._buf)
                elif x is not None and name in operands:
                    place = _place_of_number(x, args)
                    if place is None:
                        if config.check:
                            return _checked(launch, fun, operands, args, kwargs)
                        return fun(*args, **kwargs)
                    has_numbers = add_number(x, place, key, bufs) or has_numbers
                else:
                    key += type(x), repr(x) if type(x) is float else x          # 0.0 == -0.0
            key = tuple(key)
            try:
                launcher = launchers.get(key)
            except TypeError:                   # an unhashable static value
                if type(kwargs.get("where")) is np.ndarray:
                    return launch(*args, **{**kwargs, "where": to_array(kwargs["where"])})
                return fun(*args, **kwargs)
            if launcher is None:
                launcher = launchers[key] = _compile(fun, launch.__name__, operands, args, kwargs)
            if type(launcher) is not Launcher:
                return launcher.call(fun, args, kwargs)
            if has_numbers:
                return launcher.launch_with_host_values(bufs, (*args, *kwargs.values()))
            try:
                bufs = launcher.execute(bufs).consume_with_handlers(launcher.handlers)
            except LaunchErrors as error:
                raise launch_error(error, (*args, *kwargs.values())) from None
            if launcher.unflatten is None:
                return Array(bufs[0], launcher.aval, launcher.place)
            return launcher.unflatten([*map(Array, bufs, launcher.out_avals, launcher.out_places)])
        except Exception as error:
            leave_boundary(error)
            raise

    return launch


def _with_arrays(fun: Callable, values: Sequence[Any], count: int, kwargs: dict, arrays: Sequence[Any]) -> PyTree:
    """`fun` of `values`, `count` of them by position, in which `arrays` replace the arrays."""
    rest = iter(arrays)
    all_args = [next(rest) if type(x) is Array else x for x in values]
    return fun(*all_args[:count], **dict(zip(kwargs, all_args[count:], strict=True)))


def _checked(launch: Callable, fun: Callable, operands: frozenset, args: tuple, kwargs: dict) -> PyTree:
    """The call in checked mode, with its NumPy arrays as arrays.

    So it is one program, and only there can a selection drop the values that a check would refuse.
    """
    values = [to_array(x) if type(x) is np.ndarray and i in operands else x for i, x in enumerate(args)]
    if all(x is y for x, y in zip(values, args, strict=True)):
        return fun(*args, **kwargs)
    return launch(*values, **kwargs)


def _place_of_number(x: Any, args: Sequence[Any]) -> Place | None:
    """Placement of a number: that of the first argument, if that is an array on one device.

    None for another value, and for an integer that may not fit the dtype of the arrays it is combined with.
    """
    kind = type(x)
    if kind is float or kind is bool or kind is complex or (kind is int and 0 <= x < 128):
        place = args[0]._place if args and type(args[0]) is Array else None
        return place if type(place) in ON_ONE_DEVICE else default_place()
    return None


def _compile(fun: Callable, name: str, operands: frozenset[int | str], args: Sequence[Any], kwargs: dict) -> Any:
    """The launcher of the call, or _PLAIN."""
    values = [from_scalar(x, _place_of_number(x, args)) if name in operands and type(x) in NUMBERS else x
              for name, x in (*enumerate(args), *kwargs.items())]
    arrays = [x for x in values if type(x) is Array]
    place = common_place([x._place for x in arrays])
    placed = any([kwargs.get(x) is not None for x in _PLACES])
    if config.check and place is not None and not config.disable_jit and not placed:
        return _Checked(operands)
    if place is None or config.disable_jit or is_watching() or placed:
        return _PLAIN
    tree = None

    def of_arrays(*traced: Array) -> Sequence[Any]:
        nonlocal tree
        leaves, tree = flatten(_with_arrays(fun, values, len(args), kwargs, traced))
        return leaves

    try:
        with events.span(events.TRACE, fun_name=name):
            closed = trace_to_jaxpr(of_arrays, [x.aval for x in arrays], name)
    except (JAXTypeError, JAXIndexError):               # `fun` reads the values of its arguments
        return _PLAIN
    program, consts = hoist_consts(closed)
    jaxpr = program.jaxpr
    if not jaxpr.eqns or any(v in jaxpr.invars for v in jaxpr.outvars):     # the executable would copy its argument
        return _PLAIN
    module = lower_program(program, name, platform=sharding_of(place).devices[0].platform)
    if module.callbacks:                                # their launch needs more than `execute`
        return _PLAIN
    executable = load(module, place, program.in_avals, program.out_avals, is_eager=True, name=name)
    return Launcher(executable, [to_array(c, place) for c in consts], tree, like=arrays)
