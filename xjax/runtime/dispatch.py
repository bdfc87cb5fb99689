"""Eager execution: the root trace runs each operation immediately, as a compiled program of its own.

The path of `x + y`: one dictionary gives the executable for (primitive, types and placements of arguments, parameters),
which is launched. All other cases (arrays over several devices, or on different ones, operations that hold programs)
run as a program of one equation, by `_run_program`.

Operations on uncommitted arrays run on the default device of the thread, or on its mesh of `set_mesh`. As long as
neither was ever chosen, they are not part of the keys; see `_ReadyHere`.
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
from xjax.runtime.arrays.moves import to_array, to_operand
from xjax.runtime.arrays.number_cache import NUMBERS, add_number
from xjax.runtime.placement.current_mesh import placing_mesh
from xjax.runtime.placement.places import ON_ONE_DEVICE, Place, common_place, default_place, sharding_of
from xjax.runtime.programs.executable import load, program_executable
from xjax.runtime.programs.launch import Executable, LaunchErrors, launch_error, types_and_places
from xjax.runtime.programs.lowering import lower_primitive, lower_program
from xjax.typing import ArrayLike


class EvalTrace(Trace):
    """The root of all traces: executes each operation."""

    __slots__ = ("_executables", "_programs", "_watch", "ready")

    def __init__(self):
        super().__init__(None, Tag("eager execution"))
        self._executables: Cache[Executable] = Cache("eager operations")
        self._programs: Cache[ClosedJaxpr] = Cache()
        self._watch: Callable | None = None
        # Executables that can be launched without further checks, by operation, types and placements of arguments,
        # and parameters.
        self.ready: Any = self._executables.young

    def watch_with(self, watch: Callable[[Callable, Primitive, tuple, dict], Any]) -> None:
        """From now on, run each operation by ``watch(run, p, args, params)``, which calls ``run(p, args, params)``.

        This empties `ready`, so unwatched operations never check for a watcher.
        """
        self._watch, self.ready = watch, {}

    def choose_by_context(self) -> None:
        """From now on, an executable is `ready` only for the default device or the mesh for which it was compiled."""
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

    def run_unwatched(self, p: Primitive, args: Sequence[Any], params: dict) -> Any:
        """Compute one operation, without the watcher."""
        return self._run(p, args, params)

    def _run_or_watch(self, p: Primitive, args: tuple, params: dict) -> Any:
        return self._run(p, args, params) if self._watch is None else self._watch(self._run, p, args, params)

    def _run(self, p: Primitive, args: Sequence[Any], params: dict) -> Any:
        """Compute one operation, in the general case; other arguments become arrays on the first array's device."""
        if p.evaluate is not None:
            return p.evaluate(*args, **params)
        home = _home(args)
        args = [to_operand(x, home) for x in args]
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
        """Run a program of one equation, compiled for the placements of its arguments.

        Args:
          key: the executable is stored under this key for `process`, if it takes these arguments without moving them.
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
    """`EvalTrace.ready` once a default device or mesh was chosen: both are then part of the keys."""

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
    if any(map(is_key, (*avals, *closed.out_avals))):       # on a device, an operation on keys is one on their words
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
    """Cache on a program among the parameters: its executables are freed with it."""
    programs = [item for value in params.values() for item in (value if isinstance(value, tuple) else (value,))
                if isinstance(item, ClosedJaxpr)]
    return newest(programs).memo if programs else {}


def _home(args: Sequence[Any]) -> Place:
    """Placement of arguments that are not arrays yet: that of the first array, if that is on one device."""
    for x in args:
        if type(x) is Array:
            return x._place if type(x._place) in ON_ONE_DEVICE else default_place()
    return default_place()


eval_trace = EvalTrace()
set_root_trace(eval_trace)
config.on_first_use("default_device", eval_trace.choose_by_context)
config.on_first_use("context_mesh", eval_trace.choose_by_context)
# An array is its own value, so nothing is launched. The rule is given here, since operations do not import arrays.
stage_p.evaluate = to_array


def launched(p: Primitive, fallback: Callable[[ArrayLike], Array]) -> Callable[[ArrayLike], Array]:
    """A function of one array that launches `p` directly if the executable for the array's type is cached.

    Otherwise it returns `fallback(x)`, which must bind `p`. The shortcut saves three Python calls, a quarter of the
    time of a small operation.
    """
    def launch(x: ArrayLike, /) -> Any:
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
