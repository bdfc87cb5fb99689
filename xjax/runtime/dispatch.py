"""Eager execution: the root trace runs each operation at once, as a compiled program of its own.

The path of `x + y`: (primitive, sharding, argument types, parameters) -> launcher in one dictionary, launch, wrap.
Everything else (arrays cut over devices, or on different ones, operations that hold programs) goes through
`run_program` on a program of one equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.cache import Cache
from xjax.core.context import context, set_root_trace
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, newest
from xjax.core.key_types import is_key
from xjax.core.primitive import Primitive
from xjax.core.trace import Tag, Trace
from xjax.core.types import ShapedArray
from xjax.runtime.array import Array, default_sharding, to_array
from xjax.runtime.executable import EAGER_LEVEL, Launch, launch_error, load, program_executable
from xjax.runtime.lowering import lower_primitive, lower_program
from xjax.runtime.sharding import SingleDeviceSharding
from xjax.runtime.xla import XlaRuntimeError


class EvalTrace(Trace):
    """The root of all traces: computes."""

    __slots__ = ("_launchers", "_programs", "express")

    def __init__(self):
        super().__init__(None, Tag("eager execution"))
        self._launchers: Cache[Launch] = Cache("eager operations")
        self._programs: Cache[ClosedJaxpr] = Cache()
        # (operation, aval, sharding) -> launcher, for launches that need not come by `process`; None: all must.
        self.express: dict[tuple, Launch] | None = self._launchers.young

    def process(self, p: Primitive, args: tuple, params: dict) -> Any:
        key, bufs = [p], []
        for x in args:
            if type(x) is not Array:
                return self._convert_and_process(p, args, params)
            key += x.aval, x.sharding
            bufs.append(x._buf)
        if params:
            key.extend(params.items())
        if not args:
            key.append(default_sharding())
        launcher = self._launchers.young.get(tuple(key)) if p.cacheable else None
        if launcher is None:
            return self._first_launch(p, args, params, tuple(key))
        execute, handlers, _, _ = launcher
        try:
            out = execute(bufs).consume_with_handlers(handlers)
        except XlaRuntimeError as error:
            raise launch_error(error, args) from None
        return out if p.multiple_results else out[0]

    def _convert_and_process(self, p: Primitive, args: tuple, params: dict) -> Any:
        """`process` for arguments of which some are no arrays yet: they become arrays where the first array lies."""
        if p.evaluate is not None:
            return p.evaluate(*args, **params)
        home = next((x.sharding for x in args if type(x) is Array), None)
        if type(home) is not SingleDeviceSharding:
            home = None
        return self.process(p, tuple([to_array(x, home) for x in args]), params)

    def _first_launch(self, p: Primitive, args: tuple, params: dict, key: tuple) -> Any:
        """`process` for what has no launcher, or cannot have one: arrays that do not all lie on one device."""
        if p.evaluate is not None:
            return p.evaluate(*args, **params)
        home = args[0].sharding if args else default_sharding()
        apart = type(home) is not SingleDeviceSharding or any(x.sharding is not home for x in args)
        if apart or not p.cacheable:
            return self._run_program(p, args, params)
        if self._launchers.get(key) is None:
            self._launchers[key] = _launcher(p, [x.aval for x in args], params, home)
        return self.process(p, args, params)

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


def _launcher(p: Primitive, avals: Sequence[ShapedArray], params: dict, home: SingleDeviceSharding) -> Launch:
    """Compile one operation for arrays on one device."""
    platform = home.devices[0].platform
    closed = _one_equation(p, avals, params)
    if any(map(is_key, (*avals, *closed.out_avals))):       # on a device it is not this operation, but one on words
        module, outs = lower_program(closed, p.name, platform=platform), closed.out_avals
    else:
        module, outs = lower_primitive(p, avals, params, platform)
    return load(module, home.devices[0], avals, outs, optimization_level=EAGER_LEVEL, name=p.name).as_launch()


def _one_equation(p: Primitive, avals: Sequence[ShapedArray], params: dict) -> ClosedJaxpr:
    out = p.out_type(tuple(avals), params)
    invars = [Var(a) for a in avals]
    outvars = [Var(a) for a in (out if p.multiple_results else (out,))]
    return ClosedJaxpr(Jaxpr((), invars, [Eqn(invars, outvars, p, params)], outvars))


def _memo_of(params: dict) -> dict:
    """Cache of a program among the parameters: what is compiled for a program dies with it."""
    programs = [item for value in params.values() for item in (value if isinstance(value, tuple) else (value,))
                if isinstance(item, ClosedJaxpr)]
    return newest(programs).memo if programs else {}


eval_trace = EvalTrace()
set_root_trace(eval_trace)


def launched(p: Primitive, otherwise: Callable) -> Callable:
    """A function of one array: the launch of `p` at once, where it has been launched for this type before.

    Else it is `otherwise(x)`, which must come to `p` with arrays of such types. It spares three calls of Python, a
    fourth of the time of a small operation.
    """
    def launch(x: Any, /) -> Any:
        if type(x) is Array and context.trace is eval_trace and eval_trace.express is not None:
            launcher = eval_trace.express.get((p, x.aval, x.sharding))
            if launcher is not None:
                execute, handlers, _, _ = launcher
                try:
                    return execute([x._buf]).consume_with_handlers(handlers)[0]
                except XlaRuntimeError as error:
                    raise launch_error(error, [x]) from None
        return otherwise(x)

    return launch
