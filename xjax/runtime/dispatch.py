"""Eager execution: the root trace runs each operation at once, as a compiled program of its own.

The path of `x + y`: (primitive, sharding, argument types, parameters) -> launcher in one dictionary, launch, wrap.
Everything else (arrays cut over devices, or on different ones, operations that hold programs) goes through
`run_program` on a program of one equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.config import config
from xjax.core.context import set_root_trace
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from xjax.core.primitive import Primitive
from xjax.core.trace import Tag, Trace
from xjax.core.types import ShapedArray
from xjax.runtime.array import Array, check_nans, default_sharding, to_array
from xjax.runtime.executable import Executable, launch_error, load, program_executable
from xjax.runtime.lowering import lower_primitive
from xjax.runtime.sharding import SingleDeviceSharding
from xjax.runtime.xla import XlaRuntimeError

# One operation takes 6 to 40 ms to compile; level 1 saves a third of that and costs nothing at this size.
_EAGER_LEVEL = 1


class EvalTrace(Trace):
    """The root of all traces: computes."""

    __slots__ = ("_launchers", "_programs")

    def __init__(self):
        super().__init__(None, Tag("eager execution"))
        self._launchers: dict[tuple, Callable] = {}
        self._programs: dict[tuple, ClosedJaxpr] = {}

    def process(self, p: Primitive, args: tuple, params: dict) -> Any:
        if p.evaluate is not None:
            return p.evaluate(*args, **params)
        home = None
        for x in args:                                  # where the first array lies
            if type(x) is Array:
                home = x.sharding
                if type(home) is not SingleDeviceSharding:
                    return self._run_program(p, args, params)
                break
        key, bufs = [p, id(home)], []
        for x in args:
            if type(x) is not Array:
                x = to_array(x, home)
            if x.sharding is not home and home is not None:
                return self._run_program(p, args, params)
            key.append(x.aval)
            bufs.append(x._buf)
        if params:
            key.extend(params.items())
        key = tuple(key)
        launch = self._launchers.get(key) if p.cacheable else None
        if launch is None:
            if not p.cacheable:
                return self._run_program(p, args, params)
            launch = self._launchers[key] = _launcher(p, args, params, home or default_sharding())
        try:
            out = launch(bufs)
        except XlaRuntimeError as error:
            raise launch_error(error, [x for x in args if type(x) is Array]) from None
        if config.debug_nans:
            check_nans(p.name, out if p.multiple_results else [out])
        return out

    def _run_program(self, p: Primitive, args: Sequence[Any], params: dict) -> Any:
        """The general way: a program of one equation, compiled for where its arguments lie."""
        args = [to_array(x) for x in args]
        avals = tuple(x.aval for x in args)
        cache = self._programs if p.cacheable else _memo_of(params)
        key = ("eager", p, avals, *params.items())
        closed = cache.get(key)
        if closed is None:
            closed = cache[key] = _one_equation(p, avals, params)
        out = program_executable(closed, p.name, args)(args)
        return out if p.multiple_results else out[0]

    def clear(self) -> None:
        self._launchers.clear()
        self._programs.clear()


def _launcher(p: Primitive, args: Sequence[Any], params: dict, home: SingleDeviceSharding) -> Callable:
    """Compile one operation; the function returned launches it on raw buffers."""
    avals = [to_array(x, home).aval for x in args]
    text, outs = lower_primitive(p, avals, params)
    exe: Executable = load(text, home.devices[0], avals, outs, optimization_level=_EAGER_LEVEL)
    execute, handlers = exe.execute, exe.handlers
    if p.multiple_results:
        return lambda bufs: execute(bufs).consume_with_handlers(handlers)
    return lambda bufs: execute(bufs).consume_with_handlers(handlers)[0]


def _one_equation(p: Primitive, avals: Sequence[ShapedArray], params: dict) -> ClosedJaxpr:
    out = p.out_type(tuple(avals), params)
    invars = [Var(a) for a in avals]
    outvars = [Var(a) for a in (out if p.multiple_results else (out,))]
    return ClosedJaxpr(Jaxpr((), invars, [Eqn(invars, outvars, p, params)], outvars))


def _memo_of(params: dict) -> dict:
    """Cache of the first program among the parameters: what is compiled for a program dies with it."""
    for value in params.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, ClosedJaxpr):
                return item.memo
    return {}


eval_trace = EvalTrace()
set_root_trace(eval_trace)
