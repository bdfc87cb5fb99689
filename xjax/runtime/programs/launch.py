"""How an executable runs: `Executable`, the compiled program itself, and `Launcher`, which adds what calls need.

Eager operations, `jit`, `one_launch`, `pmap` and compiled stages look up one of the two by the types and placements
of their arguments (`types_and_places`), and call it. Four callers write
``execute(buffers).consume_with_handlers(handlers)`` themselves and make an `Array` of each buffer. Calling `launch`
would cost them part of the time of a call with one array: 7 % in `EvalTrace.process` and `dispatch.launched`, 3 % in
`one_launch` and `Jitted.__call__`. Handlers that make the arrays would take 0.1 us more each: jaxlib calls Python
from C++.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xjax.core.interrupts import note_interrupt
from xjax.core.tree import PyTreeDef, registry, treedef_is_leaf
from xjax.core.types import ShapedArray
from xjax.runtime import xla
from xjax.runtime.arrays import donation, memory_use
from xjax.runtime.arrays.array import Array, deleted, on_device_type, put
from xjax.runtime.devices import host_errors, in_flight
from xjax.runtime.placement.places import Place, sharding_of
from xjax.runtime.placement.sharding import Sharding, same_placement
from xjax.runtime.process import fork
from xjax.typing import PyTree

# Runs a launch and inspects its results: watch(launch, args) returns launch(args).
Watch = Callable[[Callable[[Sequence[Array]], list[Array]], Sequence[Array]], list[Array]]


def types_and_places(args: Iterable[Array]) -> list[Any]:
    """The types and placements of arguments, as the part of a cache key that selects an executable."""
    key: list[Any] = []
    for x in args:
        key += x.aval, x._place
    return key


class Executable:
    """A loaded program with the types and placements of its arguments and results: arrays in, list of arrays out.

    XLA does not compare the shapes and dtypes of arguments with the program, only their bytes. So callers guarantee
    the avals, by their cache keys; placements are compared here, and arguments on other devices are moved.

    Attributes:
      listeners: functions called with the token of each launch; see `executable.listeners_of`.
      donated: for each argument, whether its memory may be reused for a result; () if none is.
      execute, handlers: ``execute(buffers).consume_with_handlers(handlers)`` launches without calling the listeners
        and returns the buffers of the results.
      host_call: launches on `host_values.Operand`s, one argument each, and returns the same buffers; None before the
        first `launch_with_host_values`.
      aval, place: of the first result; None if there is none.
      weight: estimated bytes in memory; see `xjax.core.cache`.
      shared_calls: of a program over several devices that calls functions on the host; see `host_errors`.
      admit: moves an argument with another placement to the executable's, or raises.
    """

    __slots__ = ("loaded", "out_avals", "in_places", "out_places", "aval", "place", "execute", "handlers", "listeners",
                 "weight", "donated", "shared_calls", "admit", "host_call", "__weakref__")

    def __init__(self, loaded: xla.Executable, out_avals: Sequence[ShapedArray], in_places: Sequence[Place],
                 out_places: Sequence[Place], weight: int, listeners: Sequence[Callable[[Any], None]] = (),
                 donated: Sequence[bool] = (), shared_calls: host_errors.SharedCalls | None = None):
        self.loaded, self.donated = loaded, tuple(donated)
        self.out_avals, self.in_places, self.out_places = tuple(out_avals), tuple(in_places), tuple(out_places)
        self.aval, self.place = _first_of(self.out_avals), _first_of(self.out_places)
        self.listeners, self.weight, self.shared_calls = tuple(listeners), weight, shared_calls
        self.execute = loaded.execute_sharded
        if any([len(sharding_of(p).devices) > 1 for p in (*self.in_places[:1], *self.out_places[:1])]):
            checked = donation.checked(self.execute, self.donated, calls_host=in_flight.wait in self.listeners)
            self.execute = host_errors.outside_of_calls(checked)
        self.handlers = [_buffer_handler(a, p) for a, p in zip(out_avals, out_places, strict=True)]
        self.admit: Callable[[Array, Place], Array] = put
        self.host_call: Callable | None = None
        fork.track(self)

    def refuse_with(self, refuse: Callable) -> None:
        """From now on, each launch calls `refuse`; the loaded program is never freed."""
        self.execute = self.host_call = refuse
        fork.keep_for_ever(self.loaded)

    def __call__(self, args: Sequence[Array]) -> list[Array]:
        """Launch. Results are ready later; an error of the computation is raised when a result is read."""
        bufs = [x._buf if x._place is p else self.admit(x, p)._buf for x, p in zip(args, self.in_places, strict=True)]
        return self.launch(bufs, args)

    def takes(self, args: Sequence[Array], first: int = 0) -> bool:
        """Whether a launch on these arguments, from position `first` on, is just `execute`: none has to be moved."""
        return not self.listeners and all([x._place is p or same_placement(x.sharding, sharding_of(p), x.ndim)
                                           for x, p in zip(args, self.in_places[first:], strict=True)])

    def launch(self, bufs: list[xla.Buffer], args: Sequence[Array]) -> list[Array]:
        """Launch on buffers already at the executable's input placements; `args` are their arrays, for errors."""
        if self.shared_calls is not None:
            return self.shared_calls.launch(lambda: self._launch_with_token(bufs, args))
        if not self.listeners:
            try:
                return self.arrays(self.execute(bufs).consume_with_handlers(self.handlers))
            except LaunchErrors as error:
                raise launch_error(error, args) from None
        out, token = self._launch_with_token(bufs, args)
        for listener in self.listeners:
            listener(token)
        return out

    def arrays(self, bufs: Sequence[xla.Buffer]) -> list[Array]:
        """The results in these buffers, as arrays."""
        return [*map(Array, bufs, self.out_avals, self.out_places)]

    def _launch_with_token(self, bufs: list[xla.Buffer], args: Sequence[Array]) -> tuple[list[Array], Any]:
        try:
            out, token = xla.execute_with_token(self.execute, bufs, self.handlers)
            return self.arrays(out), token
        except LaunchErrors as error:
            raise launch_error(error, args) from None

    def launch_with_host_values(self, operands: Sequence[Any], args: Sequence[Any]) -> list[xla.Buffer]:
        """The buffers of the results, from `host_values.Operand`s; `args` are the original values, for errors.

        For programs on one device without listeners.
        """
        call = self.host_call or xla.host_call(self.loaded, sharding_of(self.in_places[0]).devices[0],
                                               [on_device_type(a) for a in self.out_avals], registry)
        try:
            bufs = call(*operands)
        except LaunchErrors as error:
            raise launch_error(error, args) from None
        except ValueError:              # jaxlib's switches are not set yet, since another thread is importing JAX
            return call.__wrapped__(*operands)
        self.host_call = call
        return bufs

    @property
    def in_shardings(self) -> tuple[Sharding, ...]:
        """Shardings of the arguments."""
        return tuple(map(sharding_of, self.in_places))

    @property
    def out_shardings(self) -> tuple[Sharding, ...]:
        """Shardings of the results."""
        return tuple(map(sharding_of, self.out_places))

    def as_text(self) -> str:
        """The optimised program, as HLO text."""
        return xla.hlo_text(self.loaded)

    def cost_analysis(self) -> dict[str, float]:
        return xla.cost_analysis(self.loaded)

    def memory_analysis(self) -> xla.MemoryStats:
        return xla.memory_stats(self.loaded)


class Launcher:
    """An executable prepared for calls with arguments of given types and placements.

    Attributes:
      execute: takes the buffers of the arguments and returns an object with `consume_with_handlers`; None if a launch
        needs more steps, so that only calling the launcher works.
      aval, place: of the first result.
      out_avals, out_places: of all results.
      unflatten: makes the result from the list of arrays; None: the result is the one array.
      host_call: takes `host_values.Operand`s, one argument each, and returns the buffers of the results; None before
        the first `launch_with_host_values`.
    """

    __slots__ = ("execute", "handlers", "aval", "place", "out_avals", "out_places", "unflatten", "weight", "host_call",
                 "executable", "_consts", "_watch", "__weakref__")

    def __init__(self, executable: Executable, consts: Sequence[Array], out_tree: PyTreeDef, *,
                 like: Sequence[Array] | None = None, watch: Watch | None = None):
        """Make the launcher of a call.

        Args:
          consts: captured arrays, the first arguments of the program.
          like: arrays with the types and shardings of all later arguments; None: shardings may differ between calls.
          watch: inspects the results.
        """
        self.executable, self._watch = executable, watch
        self.handlers, self.weight = executable.handlers, executable.weight
        self.aval, self.place = executable.aval, executable.place
        self.out_avals, self.out_places = executable.out_avals, executable.out_places
        self._consts = [put(c, p) for c, p in zip(consts, executable.in_places, strict=False)]
        self.unflatten = None if out_tree.num_leaves == 1 and treedef_is_leaf(out_tree) else out_tree.unflatten
        # Any, not `Callable | None`: hot code calls them without a test where it knows that they are set.
        self.execute: Any = None
        self.host_call: Any = None
        if like is not None and watch is None and executable.takes(like, first=len(consts)):
            self.execute = _with_consts(executable.execute, [c._buf for c in self._consts])
            fork.track(self)

    def refuse_with(self, refuse: Callable) -> None:
        """From now on, each launch calls `refuse`."""
        self.execute = self.host_call = refuse

    def __call__(self, args: Sequence[Array]) -> PyTree:
        """The result; arguments on other devices are first moved to the executable's input shardings."""
        out = self._arrays(args) if self._watch is None else self._watch(self._arrays, args)
        return out[0] if self.unflatten is None else self.unflatten(out)

    def _arrays(self, args: Sequence[Array]) -> list[Array]:
        return self.executable([*self._consts, *args] if self._consts else args)

    def launch(self, bufs: list[xla.Buffer], args: Sequence[Any]) -> PyTree:
        """The result of a launch on buffers, if `execute` is not None; `args` are their arrays, for errors."""
        try:
            bufs = self.execute(bufs).consume_with_handlers(self.handlers)
        except LaunchErrors as error:
            raise launch_error(error, args) from None
        if self.unflatten is None:
            return Array(bufs[0], self.aval, self.place)
        return self.unflatten([*map(Array, bufs, self.out_avals, self.out_places)])

    def launch_with_host_values(self, operands: Sequence[Any], args: Sequence[Any]) -> PyTree:
        """`launch` on operands that `host_values` made from the values `args`, on one device."""
        if len(operands) > _FEW:
            on_host = [i for i, x in enumerate(operands) if type(x) is not xla.Buffer]
            if _FEW * len(on_host) < len(operands):
                device = sharding_of(self.executable.in_places[0]).devices[0]
                bufs = [*operands]
                for i in on_host:
                    bufs[i] = xla.put_host_value(bufs[i], device)
                return self.launch(bufs, args)
        if self.host_call is None:
            consts = [c._buf for c in self._consts]
            bufs = self.executable.launch_with_host_values([*consts, *operands], args)
            call = self.executable.host_call
            self.host_call = functools.partial(call, *consts) if call and consts else call
        else:
            try:
                bufs = self.host_call(*operands)
            except LaunchErrors as error:
                raise launch_error(error, args) from None
        if self.unflatten is None:
            return Array(bufs[0], self.aval, self.place)
        return self.unflatten([*map(Array, bufs, self.out_avals, self.out_places)])

    def reordered(self, order: Sequence[int]) -> Launcher:
        """The same launch on buffers in another order: argument `i` of the program is the buffer `order[i]`."""
        if [*order] == sorted(order):
            return self
        execute, launcher = self.execute, copy.copy(self)
        launcher.execute = lambda bufs: execute([bufs[i] for i in order])
        fork.track(launcher)
        return launcher

    def argument_places(self) -> tuple[Place, ...]:
        """Placements of the arguments."""
        return self.executable.in_places[len(self._consts):]

    def argument_shardings(self) -> tuple[Sharding, ...]:
        """Shardings of the arguments."""
        return tuple(map(sharding_of, self.argument_places()))


# jaxlib's own call costs 0.3 us more than a launch for each buffer, but transfers a host value in 3 us less. So it is
# slower with more than about 8 operands for each host value.
_FEW = 8


def _with_consts(execute: Callable, consts: list[xla.Buffer]) -> Callable:
    return (lambda bufs: execute(consts + bufs)) if consts else execute


def _buffer_handler(aval: ShapedArray, place: Place) -> xla.ResultHandler:
    """The handler that makes the buffer of one result."""
    stored = on_device_type(aval)
    return xla.result_handler(stored, sharding_of(place).xla(stored.ndim))


def _first_of(items: Sequence[Any]) -> Any:
    return items[0] if items else None


# Exceptions raised by a launch; each handler must raise `launch_error(error, args)` instead.
LaunchErrors = (xla.XlaRuntimeError, KeyboardInterrupt)


def launch_error(error: BaseException, args: Sequence[Any]) -> BaseException:
    """The error to raise instead of one raised by a launch; `args` are its arguments.

    Raises: the exception of a function on the host, if that caused the error.
    """
    if isinstance(error, KeyboardInterrupt):
        note_interrupt(error, "a program was launched")
        return error
    raised = host_errors.original(error)
    if raised is not None:
        host_errors.raise_again(raised)
    for x in args:
        if type(x) is Array and x.is_deleted():
            return deleted(x)
    return donation.readable(str(error)) or memory_use.explained(error)
