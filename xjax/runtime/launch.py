"""How a compiled program runs: `Executable`, the program itself, and `Launcher`, with what a call adds to it.

Eager operations, `jit`, `one_launch`, `pmap` and compiled stages find one of the two by a key of the types and places
of their arguments (`types_and_places`), and call it. Four paths write ``execute(buffers).consume_with_handlers(
handlers)`` themselves, since benchmarks/eager.py shows that the call of a method costs them 4 to 6 per cent:
`EvalTrace.process`, `dispatch.launched`, `one_launch` and `Jitted.__call__`.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xjax.core.config import config
from xjax.core.errors import bad
from xjax.core.tree import registry, treedef_is_leaf
from xjax.core.types import ShapedArray
from xjax.runtime import xla
from xjax.runtime.array import (
    Array,
    FirstSight,
    deleted,
    is_guarded,
    on_device_type,
    put,
    scalar_operand,
)
from xjax.runtime.placement import Place, default_place, sharding_of
from xjax.runtime.sharding import Sharding

# Runs a program's launch and looks at the results: watch(launch, args) gives what launch(args) gave.
Watch = Callable[[Callable[[Sequence[Array]], list[Array]], Sequence[Array]], list[Array]]


def types_and_places(args: Iterable[Array]) -> list[Any]:
    """What of arguments selects a program: the type of each and its place, for a cache key."""
    key: list[Any] = []
    for x in args:
        key += x.aval, x._place
    return key


# NumPy values that a launch takes along: jaxlib changes no value of these dtypes, whatever JAX has set.
_HOST_DTYPES = frozenset(map(np.dtype, (
    np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.float16, np.float32, np.complex64,
    ml_dtypes.bfloat16)))
_HOST_BYTES = 1 << 16                   # of larger arrays the copy costs more than the way it takes
_NUMBERS = frozenset((float, int, bool, complex))


def operands_of(values: Sequence[Any], key: list[Any]) -> tuple[list[Any], bool] | None:
    """What a launch takes for arrays, small NumPy arrays and numbers, and whether values of the host are among it.

    `key` gets the types and places of the values. None if there is any other value, or one that loses something on its
    way to the device.
    """
    if len(values) > _MANY and type(values[0]) is Array:
        before = len(key)
        try:                            # a third faster than the loop, if they are arrays all
            key += map(_aval, values)
            key += map(_place, values)
            return list(map(_buffer, values)), False
        except AttributeError:
            del key[before:]
    operands: list[Any] = []
    of_host = False
    for x in values:
        kind = type(x)
        if kind is np.ndarray and x.dtype in _HOST_DTYPES and x.nbytes <= _HOST_BYTES and not is_guarded():
            key += x.dtype, x.shape
            operands.append(x.copy())                   # which nobody writes to while the program runs
            of_host = True
            continue
        if kind in _NUMBERS:
            x = scalar_operand(x, default_place())
            of_host = of_host or type(x) is FirstSight
        elif kind is not Array:
            return None
        key += x.aval, x._place
        operands.append(x._buf)
    if of_host:
        key.append(config.default_device)               # where they go
    return operands, of_host


_MANY = 8
_aval, _place, _buffer = map(operator.attrgetter, ("aval", "_place", "_buf"))


class Executable:
    """A loaded program with the types and places of its arguments and results: arrays in, list of arrays out.

    XLA compares neither shapes nor dtypes of arguments with the program, only their bytes, so whoever calls one
    guarantees the avals (their cache key did); places are compared here, and arguments elsewhere are moved.

    Attributes:
      listeners: functions that take the token of each launch; see `executable.listeners_of`.
      execute, handlers: ``execute(buffers).consume_with_handlers(handlers)`` is a launch that no listener waits for.
      weight: bytes in memory, by estimate; see `xjax.core.cache`.
      admit: moves an argument that is elsewhere to its place, or raises.
    """

    __slots__ = ("loaded", "out_avals", "in_places", "out_places", "execute", "handlers", "listeners", "weight",
                 "admit", "_host_call")

    def __init__(self, loaded: xla.Executable, out_avals: Sequence[ShapedArray], in_places: Sequence[Place],
                 out_places: Sequence[Place], weight: int, listeners: Sequence[Callable[[Any], None]] = ()):
        self.loaded = loaded
        self.out_avals, self.in_places, self.out_places = tuple(out_avals), tuple(in_places), tuple(out_places)
        self.execute = loaded.execute_sharded
        self.handlers = [_array_handler(a, p) for a, p in zip(out_avals, out_places, strict=True)]
        self.listeners, self.weight = tuple(listeners), weight
        self.admit: Callable[[Array, Place], Array] = put
        self._host_call: Callable | None = None         # made when it is first asked for

    def __call__(self, args: Sequence[Array]) -> list[Array]:
        """Launch. Results are ready later; an error of the computation is raised where a result is read."""
        bufs = [x._buf if x._place is p else self.admit(x, p)._buf for x, p in zip(args, self.in_places, strict=True)]
        return self.launch(bufs, args)

    def launch(self, bufs: list[xla.Buffer], args: Sequence[Array]) -> list[Array]:
        """Launch on buffers that lie where the program wants them; `args` are the arrays they come from, for errors."""
        try:
            if not self.listeners:
                return self.execute(bufs).consume_with_handlers(self.handlers)
            out, token = xla.execute_with_token(self.loaded, bufs, self.handlers)
        except xla.XlaRuntimeError as error:
            raise launch_error(error, args) from None
        for listener in self.listeners:
            listener(token)
        return out

    def launch_with_host_values(self, operands: list[Any], args: Sequence[Any]) -> list[Array]:
        """`launch` on buffers and NumPy values that nobody writes to; for programs of one device without listeners."""
        if self._host_call is None:
            self._host_call = xla.host_call(self.loaded, self.in_shardings[0].devices[0],
                                            [on_device_type(a) for a in self.out_avals], registry)
        try:
            bufs = self._host_call(*operands)
        except xla.XlaRuntimeError as error:
            raise launch_error(error, args) from None
        except ValueError:              # jaxlib's switches are not set yet, since another thread is importing JAX
            bufs = self._host_call.__wrapped__(*operands)
        return [*map(Array, bufs, self.out_avals, self.out_places)]

    @property
    def in_shardings(self) -> tuple[Sharding, ...]:
        """How the program wants its arguments laid out."""
        return tuple(map(sharding_of, self.in_places))

    @property
    def out_shardings(self) -> tuple[Sharding, ...]:
        """How its results are laid out."""
        return tuple(map(sharding_of, self.out_places))

    def as_text(self) -> str:
        """The optimised program."""
        return xla.hlo_text(self.loaded)

    def cost_analysis(self) -> dict[str, float]:
        return xla.cost_analysis(self.loaded)

    def memory_analysis(self) -> xla.MemoryStats:
        return xla.memory_stats(self.loaded)


class Launcher:
    """An executable as calls with arguments of some types and places use it; their result has its structure.

    Attributes:
      execute: from the buffers of the arguments to what `consume_with_handlers` takes; None if a launch is more than
        that, and only calling the launcher will do.
      unflatten: from the list of arrays to the result; None: the result is its one array.
    """

    __slots__ = ("execute", "handlers", "unflatten", "weight", "executable", "_consts", "_watch")

    def __init__(self, executable: Executable, consts: Sequence[Array], out_tree: Any, *,
                 places: Sequence[Place] | None = None, watch: Watch | None = None):
        """Make the launcher of a call.

        Args:
          consts: captured arrays, which the program takes first.
          places: of the arguments; None: these may differ from call to call.
          watch: looks at the results.
        """
        self.executable, self._watch = executable, watch
        self.handlers, self.weight = executable.handlers, executable.weight
        self._consts = [put(c, p) for c, p in zip(consts, executable.in_places, strict=False)]
        self.unflatten = None if out_tree.num_leaves == 1 and treedef_is_leaf(out_tree) else out_tree.unflatten
        self.execute = None
        wanted = self.argument_shardings()
        fits = places is not None and all([sharding_of(p) is s for p, s in zip(places, wanted, strict=True)])
        if fits and watch is None and not executable.listeners:
            self.execute = _with_consts(executable.execute, [c._buf for c in self._consts])

    def __call__(self, args: Sequence[Array]) -> Any:
        """The result; arguments that lie elsewhere than the program wants them are moved."""
        out = self._arrays(args) if self._watch is None else self._watch(self._arrays, args)
        return out[0] if self.unflatten is None else self.unflatten(out)

    def _arrays(self, args: Sequence[Array]) -> list[Array]:
        return self.executable([*self._consts, *args] if self._consts else args)

    def launch(self, bufs: list[xla.Buffer], args: Sequence[Array]) -> Any:
        """The result of a launch on buffers, where `execute` is one; `args` are their arrays, for errors."""
        try:
            out = self.execute(bufs).consume_with_handlers(self.handlers)
        except xla.XlaRuntimeError as error:
            raise launch_error(error, args) from None
        return out[0] if self.unflatten is None else self.unflatten(out)

    def launch_with_host_values(self, operands: list[Any], args: Sequence[Any]) -> Any:
        """`launch` on what `operands_of` made of `args`, on one device."""
        if self._consts:
            operands = [*[c._buf for c in self._consts], *operands]
        out = self.executable.launch_with_host_values(operands, args)
        return out[0] if self.unflatten is None else self.unflatten(out)

    def argument_places(self) -> tuple[Place, ...]:
        """Where the program wants its arguments."""
        return self.executable.in_places[len(self._consts):]

    def argument_shardings(self) -> tuple[Sharding, ...]:
        """How the program wants its arguments laid out."""
        return tuple(map(sharding_of, self.argument_places()))


def _with_consts(execute: Callable, consts: list[xla.Buffer]) -> Callable:
    return (lambda bufs: execute(consts + bufs)) if consts else execute


def _array_handler(aval: ShapedArray, place: Place) -> xla.ResultHandler:
    """Makes the `Array` of one result."""
    stored = on_device_type(aval)
    handler = xla.result_handler(stored, sharding_of(place).xla(stored.ndim))
    return handler.wrap(lambda buf: Array(buf, aval, place))


def launch_error(error: Exception, args: Sequence[Any]) -> Exception:
    """The error to raise for one of a launch; `args` are its arguments."""
    for x in args:
        if type(x) is Array and x.is_deleted():
            return deleted(x)
    return _host_error(str(error)) or error


_HOST = os.path.join(os.path.dirname(__file__), "callbacks.py")


def _host_error(text: str) -> Exception | None:
    """The error of a function on the host, with its own frames only: XLA tells those of the launch too."""
    *_, last = text.split(f'  File "{_HOST}"')
    if last == text:
        return None
    _, _, raised = last.partition("\n")
    fix = None if "\n  fix: " in raised else "call the function with NumPy arrays to find the fault."
    return bad("", "a function on the host, called by a compiled program, raised an exception", raised.splitlines(),
               fix, xla.XlaRuntimeError)
