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
from xjax.core.context import context
from xjax.core.errors import JAXIndexError, JAXTypeError
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, treedef_is_leaf
from xjax.runtime import array
from xjax.runtime.array import Array, default_sharding, to_array
from xjax.runtime.dispatch import eval_trace
from xjax.runtime.executable import EAGER_LEVEL, Launch, launch_error, load
from xjax.runtime.lowering import lower_program
from xjax.runtime.sharding import SingleDeviceSharding
from xjax.runtime.watch import is_watching
from xjax.runtime.xla import XlaRuntimeError

# A call that is made plainly each time, because it cannot be one program.
_PLAIN = Launch(lambda bufs: None, [], None, 0)


def one_launch(fun: Callable | None = None, *, arrays: int = 1) -> Callable:
    """Decorator: at the root, `fun` is one launch.

    Args:
      arrays: how many of the leading arguments are operands: numbers among them do not select a program. `Array`s are
        operands wherever they stand; all else is static, and makes the call a plain one if it is not hashable.
    """
    if fun is None:
        return functools.partial(one_launch, arrays=arrays)
    operand_names = frozenset(fun.__code__.co_varnames[:arrays])
    launches: Cache[Launch] = Cache(f"`{fun.__name__}`")

    @functools.wraps(fun)
    def launch(*args: Any, **kwargs: Any) -> Any:
        if context.trace is not eval_trace:
            return fun(*args, **kwargs)
        if len(args) == 1 and not kwargs and type(args[0]) is Array:        # the most common call, the shortest way
            x, = args
            found = launches.young.get((config.common_key, x.aval, x.sharding))
            if found is not None and found is not _PLAIN:
                execute, handlers, unflatten, _ = found
                try:
                    out = execute([x._buf]).consume_with_handlers(handlers)
                except XlaRuntimeError as error:
                    raise launch_error(error, args) from None
                return out[0] if unflatten is None else unflatten(out)
        key, bufs = [config.trace_key()], []
        for x in args[:arrays]:
            if type(x) is not Array:
                if x is None:
                    key.append(None)
                    continue
                x = _operand(x, args)
                if x is None:
                    return fun(*args, **kwargs)
            key += x.aval, x.sharding
            bufs.append(x._buf)
        for x in args[arrays:]:
            if type(x) is Array:
                key += x.aval, x.sharding
                bufs.append(x._buf)
            else:
                key += type(x), repr(x) if type(x) is float else x          # 0.0 == -0.0
        for name, x in kwargs.items():
            if name in operand_names and x is not None:
                x = _operand(x, args)
                if x is None:
                    return fun(*args, **kwargs)
            if type(x) is Array:
                key += name, x.aval, x.sharding
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
        execute, handlers, unflatten, _ = found
        try:
            out = execute(bufs).consume_with_handlers(handlers)
        except XlaRuntimeError as error:
            raise launch_error(error, [x for x in (*args, *kwargs.values()) if type(x) is Array]) from None
        return out[0] if unflatten is None else unflatten(out)

    return launch


def _operand(x: Any, args: Sequence[Any]) -> Array | None:
    """An operand as an array; a number becomes one, beside the first argument, if no value is lost. Else None.

    A larger integer may not fit the dtype that it meets.
    """
    kind = type(x)
    if kind is Array:
        return x
    if kind is float or kind is bool or kind is complex or (kind is int and 0 <= x < 128):
        first = args[0] if args else None
        return array.from_scalar(x, first.sharding if type(first) is Array else None)
    return None


def _compile(fun: Callable, name: str, count: int, operand_names: frozenset[str], args: Sequence[Any],
             kwargs: dict) -> Launch:
    """How the call is launched, or _PLAIN."""
    kwargs = {k: _operand(x, args) if k in operand_names and x is not None else x for k, x in kwargs.items()}
    args = [x if x is None else _operand(x, args) for x in args[:count]] + list(args[count:])
    operands = [x for x in (*args, *kwargs.values()) if type(x) is Array]
    home = operands[0].sharding if operands else default_sharding()
    apart = type(home) is not SingleDeviceSharding or any(x.sharding is not home for x in operands)
    if apart or config.disable_jit or is_watching() or kwargs.get("device") is not None:
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
    device = home.devices[0]
    module = lower_program(program, name, platform=device.platform)
    if module.callbacks:                                # a launch of these is more than `execute`
        return _PLAIN
    exe = load(module, device, program.in_avals, program.out_avals, EAGER_LEVEL, name)
    execute = exe.execute
    if consts:
        captured = [to_array(c, home) for c in consts]
        execute = lambda bufs: exe.execute([c._buf for c in captured] + bufs)   # noqa: E731
    return exe.as_launch(None if treedef_is_leaf(tree) else tree.unflatten)._replace(execute=execute)
