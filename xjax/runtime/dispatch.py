"""Eager execution: the root trace runs each operation at once, as a compiled program of its own.

The path of `x + y`: (primitive, types and places of arguments, parameters) -> executable in one dictionary, launch.
Everything else (arrays over several devices, or on different ones, operations that hold programs) goes through
`run_program` on a program of one equation.

Uncommitted arrays are computed with on the default device of the thread, or on its mesh of `set_mesh`. As long as
nobody chose one, they are not part of the keys; see `_ReadyHere`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.cache import Cache
from xjax.core.config import config
from xjax.core.context import at_root, set_root_trace
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, newest
from xjax.core.key_types import is_key
from xjax.core.primitive import Primitive
from xjax.core.trace import Tag, Trace
from xjax.core.types import ShapedArray
from xjax.ops.identity import stage_p
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.arrays.number_cache import NUMBERS, add_number
from xjax.runtime.placement.current_mesh import placing_mesh
from xjax.runtime.placement.places import ON_ONE_DEVICE, Place, common_place, default_place, sharding_of
from xjax.runtime.programs.executable import load, program_executable
from xjax.runtime.programs.launch import Executable, LaunchErrors, launch_error, types_and_places
from xjax.runtime.programs.lowering import lower_primitive, lower_program


class EvalTrace(Trace):
    """The root of all traces: computes."""

    __slots__ = ("_executables", "_programs", "_watch", "ready")

    def __init__(self):
        super().__init__(None, Tag("eager execution"))
        self._executables: Cache[Executable] = Cache("eager operations")
        self._programs: Cache[ClosedJaxpr] = Cache()
        self._watch: Callable | None = None
        # By operation, types and places of arguments, and parameters: what a launch may take without another look.
        self.ready: Any = self._executables.young

    def watch_with(self, watch: Callable[[Callable, Primitive, tuple, dict], Any]) -> None:
        """From now on each operation is done by ``watch(run, p, args, params)``, which calls ``run(p, args, params)``.

        Nothing is `ready` any more, so that operations that nobody watches pay nothing for the question.
        """
        self._watch, self.ready = watch, {}

    def choose_by_context(self) -> None:
        """From now on an executable is `ready` only for the default device or the mesh for which it was compiled."""
        if self._watch is None:
            self.ready = _ReadyHere(self._executables)

    def process(self, p: Primitive, args: tuple, params: dict) -> Any:
        key, bufs, has_numbers = [p], [], False
        for x in args:
            if type(x) is Array:
                key += x.aval, x._place
                bufs.append(x._buf)
            elif type(x) in NUMBERS and p.cacheable:
                has_numbers = add_number(x, _home(args), key, bufs) or has_numbers
            else:
                return self._run_or_watch(p, args, params)
        if params:
            key.extend(params.items())
        if not args:
            key.append(default_place())
        executable = self.ready.get(tuple(key)) if p.cacheable else None
        if executable is None:
            return self._run_or_watch(p, args, params)
        if has_numbers:
            bufs = executable.launch_with_host_values(bufs, args)
        else:
            try:
                bufs = executable.execute(bufs).consume_with_handlers(executable.handlers)
            except LaunchErrors as error:
                raise launch_error(error, args) from None
        return executable.arrays(bufs) if p.multiple_results else Array(bufs[0], executable.aval, executable.place)

    def _run_or_watch(self, p: Primitive, args: tuple, params: dict) -> Any:
        return self._run(p, args, params) if self._watch is None else self._watch(self._run, p, args, params)

    def _run(self, p: Primitive, args: tuple, params: dict) -> Any:
        """Compute one operation in general; arguments that are no arrays yet become some where the first array is."""
        if p.evaluate is not None:
            return p.evaluate(*args, **params)
        home = _home(args)
        args = [to_array(x, home) for x in args]
        if not p.cacheable:
            return self._run_program(p, args, params)
        key = _of_context((p, *types_and_places(args), *params.items(), *([] if args else [default_place()])))
        executable = self._executables.get(key)
        if executable is None:
            place = common_place([x._place for x in args])
            if place is None:
                return self._run_program(p, args, params, key)
            executable = self._executables[key] = _compile(p, [x.aval for x in args], params, place)
        out = executable.launch([x._buf for x in args], args)
        return out if p.multiple_results else out[0]

    def _run_program(self, p: Primitive, args: Sequence[Any], params: dict, key: tuple | None = None) -> Any:
        """A program of one equation, compiled for where its arguments lie.

        Args:
          key: by which `process` finds the executable from now on, if a launch takes these arguments as they are.
        """
        avals = tuple(x.aval for x in args)
        cache = self._programs if p.cacheable else _memo_of(params)
        equation = ("eager", p, avals, *params.items())
        closed = cache.get(equation)
        if closed is None:
            closed = cache[equation] = _one_equation(p, avals, params)
        executable = program_executable(closed, p.name, [x._place for x in args])
        if key is not None and executable.takes(args):
            self._executables[key] = executable
        out = executable(args)
        return out if p.multiple_results else out[0]


class _ReadyHere:
    """`EvalTrace.ready` where default devices or meshes are chosen, which are part of the keys then."""

    __slots__ = ("_executables",)

    def __init__(self, executables: Cache[Executable]):
        self._executables = executables

    def get(self, key: tuple) -> Executable | None:
        return self._executables.young.get(_of_context(key))


def _of_context(key: tuple) -> tuple:
    device, mesh = config.default_device, placing_mesh()
    return key if device is None and mesh is None else (*key, device, mesh)


def _compile(p: Primitive, avals: Sequence[ShapedArray], params: dict, place: Place) -> Executable:
    """Compile one operation for arrays on one device."""
    platform = sharding_of(place).devices[0].platform
    closed = _one_equation(p, avals, params)
    if any(map(is_key, (*avals, *closed.out_avals))):       # on a device it is not this operation, but one on words
        module, outs = lower_program(closed, p.name, platform=platform), closed.out_avals
    else:
        module, outs = lower_primitive(p, avals, params, platform)
    return load(module, place, avals, outs, is_eager=True, name=p.name)


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


def _home(args: Sequence[Any]) -> Place:
    """Where what is no array yet goes: to the place of the first array, if that is on one device."""
    for x in args:
        if type(x) is Array:
            return x._place if type(x._place) in ON_ONE_DEVICE else default_place()
    return default_place()


eval_trace = EvalTrace()
set_root_trace(eval_trace)
config.on_first_use("default_device", eval_trace.choose_by_context)
config.on_first_use("context_mesh", eval_trace.choose_by_context)
# An array is its own value, so nothing is launched; the rule is given here, since operations do not know arrays.
stage_p.evaluate = to_array


def launched(p: Primitive, fallback: Callable) -> Callable:
    """A function of one array: the launch of `p` at once, where it has been launched for this type before.

    Else it is `fallback(x)`, which must bind `p`. This saves three Python calls, a quarter of the time of a small
    operation.
    """
    def launch(x: Any, /) -> Any:
        if type(x) is Array and at_root():
            executable = eval_trace.ready.get((p, x.aval, x._place))
            if executable is not None:
                try:
                    buf, = executable.execute([x._buf]).consume_with_handlers(executable.handlers)
                except LaunchErrors as error:
                    raise launch_error(error, (x,)) from None
                return Array(buf, executable.aval, executable.place)
        return fallback(x)

    return launch
