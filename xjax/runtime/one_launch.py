"""`one_launch`: a function of the library that, called on arrays at the root, runs as one compiled program.

A function made of several operations would pay a launch (about 8 us, small arrays) for each of them. Decorated, it is
traced once for each combination of argument types and static values, and costs one. Every transformation still sees
the function's own operations, as does a call that does not qualify: arguments that are no plain arrays of one device, a
function that asks for values, `disable_jit`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.cache import Cache
from xjax.core.config import config
from xjax.core.context import at_root, context
from xjax.core.errors import JAXIndexError, JAXTypeError
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.arrays.number_cache import from_scalar, number_operand
from xjax.runtime.placement.places import ON_ONE_DEVICE, Place, common_place, default_place, sharding_of
from xjax.runtime.programs.executable import load
from xjax.runtime.programs.launch import Launcher, LaunchErrors, launch_error
from xjax.runtime.programs.lowering import lower_program
from xjax.runtime.watch import is_watching

_PLAIN = object()           # in place of a launcher: a call that cannot be one program, and is made plainly each time


def one_launch(fun: Callable | None = None, *, arrays: int = 1) -> Callable:
    """Decorator: at the root, `fun` is one launch.

    Args:
      arrays: how many of the leading arguments are operands: numbers among them do not select a program. `Array`s are
        operands wherever they stand; all else is static, and makes the call a plain one if it is not hashable.
    """
    if fun is None:
        return functools.partial(one_launch, arrays=arrays)
    operand_names = frozenset(fun.__code__.co_varnames[:arrays])
    launches: Cache[Any] = Cache("eager functions")

    @functools.wraps(fun)
    def launch(*args: Any, **kwargs: Any) -> Any:
        if not at_root():
            return fun(*args, **kwargs)
        if len(args) == 1 and not kwargs and type(args[0]) is Array:        # the most common call, the shortest way
            x, = args
            found = launches.young.get((context.trace_key, x.aval, x._place))
            if found is not None and found is not _PLAIN:
                return found.launch([x._buf], args)
        key, bufs, numbers = [config.trace_key()], [], False
        for x in args[:arrays]:
            if type(x) is not Array:
                if x is None:
                    key.append(None)
                    continue
                home = _home_of_number(x, args)
                if home is None:
                    return fun(*args, **kwargs)
                found = number_operand(x, home)
                if type(found) is not Array:
                    key += found, home
                    bufs.append(x)
                    numbers = True
                    continue
                x = found
            key += x.aval, x._place
            bufs.append(x._buf)
        for x in args[arrays:]:
            if type(x) is Array:
                key += x.aval, x._place
                bufs.append(x._buf)
            else:
                key += type(x), repr(x) if type(x) is float else x          # 0.0 == -0.0
        for name, x in kwargs.items():
            if name in operand_names and x is not None:
                x = _operand(x, args)
                if x is None:
                    return fun(*args, **kwargs)
            if type(x) is Array:
                key += name, x.aval, x._place
                bufs.append(x._buf)
            else:
                key += name, type(x), repr(x) if type(x) is float else x
        key = tuple(key)
        try:
            found = launches.get(key)
        except TypeError:                   # an unhashable static value
            return fun(*args, **kwargs)
        if found is None:
            found = launches[key] = _compile(fun, launch.__name__, arrays, operand_names, args, kwargs)
        if found is _PLAIN:
            return fun(*args, **kwargs)
        if numbers:
            return found.launch_with_host_values(bufs, (*args, *kwargs.values()))
        try:
            bufs = found.execute(bufs).consume_with_handlers(found.handlers)
        except LaunchErrors as error:
            raise launch_error(error, (*args, *kwargs.values())) from None
        if found.unflatten is None:
            return Array(bufs[0], found.aval, found.place)
        return found.unflatten([*map(Array, bufs, found.out_avals, found.out_places)])

    return launch


def _operand(x: Any, args: Sequence[Any]) -> Array | None:
    """An operand as an array; None if it becomes none."""
    if type(x) is Array:
        return x
    home = _home_of_number(x, args)
    return None if home is None else from_scalar(x, home)


def _home_of_number(x: Any, args: Sequence[Any]) -> Place | None:
    """Where a number goes: to where the first argument is, if that is an array on one device.

    None if it is no number, or may lose its value: a larger integer may not fit the dtype that it meets.
    """
    kind = type(x)
    if kind is float or kind is bool or kind is complex or (kind is int and 0 <= x < 128):
        place = args[0]._place if args and type(args[0]) is Array else None
        return place if type(place) in ON_ONE_DEVICE else default_place()
    return None


def _compile(fun: Callable, name: str, count: int, operand_names: frozenset[str], args: Sequence[Any],
             kwargs: dict) -> Any:
    """The launcher of the call, or _PLAIN."""
    kwargs = {k: _operand(x, args) if k in operand_names and x is not None else x for k, x in kwargs.items()}
    args = [x if x is None else _operand(x, args) for x in args[:count]] + list(args[count:])
    operands = [x for x in (*args, *kwargs.values()) if type(x) is Array]
    place = common_place([x._place for x in operands])
    if place is None or config.disable_jit or is_watching() or kwargs.get("device") is not None:
        return _PLAIN
    tree = None

    def of_operands(*values: Any) -> Sequence[Any]:
        nonlocal tree
        given = iter(values)
        new_args = [next(given) if type(x) is Array else x for x in args]
        new_kwargs = {k: next(given) if type(x) is Array else x for k, x in kwargs.items()}
        leaves, tree = flatten(fun(*new_args, **new_kwargs))
        return leaves

    try:
        closed = trace_to_jaxpr(of_operands, [x.aval for x in operands], name)
    except (JAXTypeError, JAXIndexError):               # it asks for values
        return _PLAIN
    program, consts = hoist_consts(closed)
    jaxpr = program.jaxpr
    if not jaxpr.eqns or any(v in jaxpr.invars for v in jaxpr.outvars):     # a program would copy its argument
        return _PLAIN
    module = lower_program(program, name, platform=sharding_of(place).devices[0].platform)
    if module.callbacks:                                # a launch of these is more than `execute`
        return _PLAIN
    executable = load(module, place, program.in_avals, program.out_avals, is_eager=True, name=name)
    return Launcher(executable, [to_array(c, place) for c in consts], tree, like=operands)
