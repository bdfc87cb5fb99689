"""How a compiled program runs: `Executable`, the program itself, and `Launcher`, with what a call adds to it.

Eager operations, `jit`, `one_launch`, `pmap` and compiled stages find one of the two by a key of the types and places
of their arguments (`types_and_places`), and call it. Four paths write ``execute(buffers).consume_with_handlers(
handlers)`` themselves and make an `Array` of each buffer, since benchmarks/eager.py shows that the call of a method
costs them 4 to 6 per cent: `EvalTrace.process`, `dispatch.launched`, `one_launch` and `Jitted.__call__`. Handlers that
make the arrays take 0.1 us more for each: jaxlib calls Python from C++.
"""

from __future__ import annotations

import copy
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
    NUMBERS,
    Array,
    default_sharding,
    deleted,
    is_guarded,
    number_operand,
    on_device_type,
    put,
)
from xjax.runtime.sharding import Sharding

# Runs a program's launch and looks at the results: watch(launch, args) gives what launch(args) gave.
Watch = Callable[[Callable[[Sequence[Array]], list[Array]], Sequence[Array]], list[Array]]


def types_and_places(args: Iterable[Array]) -> list[Any]:
    """What of arguments selects a program: the type of each and its sharding, for a cache key."""
    key: list[Any] = []
    for x in args:
        key += x.aval, x.sharding
    return key


# NumPy values that a launch takes along: jaxlib changes no value of these dtypes, whatever JAX has set.
_HOST_DTYPES = frozenset(map(np.dtype, (
    np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.float16, np.float32, np.complex64,
    ml_dtypes.bfloat16)))
_HOST_BYTES = 1 << 16                   # of larger arrays the copy costs more than the way it takes


def add_operands(values: Sequence[Any], key: list[Any], operands: list[Any]) -> bool | None:
    """Add what a launch takes for arrays, small NumPy arrays and numbers; whether values of the host are among it.

    `key` gets the types and places of the values. None if there is any other value, or one that loses something on its
    way to the device; key and operands are of no use then.
    """
    if len(values) > _MANY and type(values[0]) is Array:
        before = len(key)
        try:                            # a third faster than the loop, if they are arrays all
            key += map(_aval, values)
            key += map(_sharding, values)
            operands += map(_buffer, values)
            return False
        except AttributeError:
            del key[before:]
    of_host, home = False, None
    for x in values:
        kind = type(x)
        if kind is Array:
            key += x.aval, x.sharding
            operands.append(x._buf)
        elif kind is _ndarray:
            if x.dtype not in _HOST_DTYPES or x.nbytes > _HOST_BYTES:
                return None
            key += x.dtype, x.shape
            operands.append(x.copy())                   # which nobody writes to while the program runs
            of_host = True
        elif kind in NUMBERS:
            home = home or default_sharding()
            found = number_operand(x, home)
            if type(found) is Array:
                key += found.aval, home
                operands.append(found._buf)
            else:
                key += found, home
                operands.append(x)
                of_host = True
        else:
            return None
    if of_host:
        if is_guarded():
            return None
        key.append(home or config.default_device)       # where they go
    return of_host


_ndarray = np.ndarray
_MANY = 8
_aval, _sharding, _buffer = map(operator.attrgetter, ("aval", "sharding", "_buf"))


class Executable:
    """A loaded program with the types and shardings of its arguments and results: arrays in, list of arrays out.

    XLA compares neither shapes nor dtypes of arguments with the program, only their bytes, so whoever calls one
    guarantees the avals (their cache key did); shardings are compared here, and arguments that lie elsewhere are moved.

    Attributes:
      listeners: functions that take the token of each launch; see `executable.listeners_of`.
      execute, handlers: ``execute(buffers).consume_with_handlers(handlers)`` is a launch that no listener waits for; it
        gives the buffers of the results.
      aval, sharding: of the first result; None if there is none.
      weight: bytes in memory, by estimate; see `xjax.core.cache`.
    """

    __slots__ = ("loaded", "out_avals", "in_shardings", "out_shardings", "aval", "sharding", "execute", "handlers",
                 "listeners", "weight", "_host_call")

    def __init__(self, loaded: xla.Executable, out_avals: Sequence[ShapedArray], in_shardings: Sequence[Sharding],
                 out_shardings: Sequence[Sharding], weight: int, listeners: Sequence[Callable[[Any], None]] = ()):
        self.loaded = loaded
        self.out_avals, self.in_shardings, self.out_shardings = (
            tuple(out_avals), tuple(in_shardings), tuple(out_shardings))
        self.aval, self.sharding = _first_of(self.out_avals), _first_of(self.out_shardings)
        self.execute = loaded.execute_sharded
        self.handlers = [_buffer_handler(a, s) for a, s in zip(out_avals, out_shardings, strict=True)]
        self.listeners, self.weight = tuple(listeners), weight
        self._host_call: Callable | None = None         # made when it is first asked for

    def __call__(self, args: Sequence[Array]) -> list[Array]:
        """Launch. Results are ready later; an error of the computation is raised where a result is read."""
        bufs = [x._buf if x.sharding is s else put(x, s)._buf for x, s in zip(args, self.in_shardings, strict=True)]
        return self.launch(bufs, args)

    def launch(self, bufs: list[xla.Buffer], args: Sequence[Array]) -> list[Array]:
        """Launch on buffers that lie where the program wants them; `args` are the arrays they come from, for errors."""
        try:
            if not self.listeners:
                return self.arrays(self.execute(bufs).consume_with_handlers(self.handlers))
            out, token = xla.execute_with_token(self.loaded, bufs, self.handlers)
        except xla.XlaRuntimeError as error:
            raise launch_error(error, args) from None
        for listener in self.listeners:
            listener(token)
        return self.arrays(out)

    def arrays(self, bufs: Sequence[xla.Buffer]) -> list[Array]:
        """The results that lie in these buffers."""
        return [*map(Array, bufs, self.out_avals, self.out_shardings)]

    def launch_with_host_values(self, operands: Sequence[Any], args: Sequence[Any]) -> list[xla.Buffer]:
        """The buffers of the results, from buffers, NumPy arrays that nobody writes to, and Python's numbers.

        For programs of one device without listeners; `args` are what the operands come from, for errors.
        """
        call = self._host_call
        if call is None:
            call = self._host_call = xla.host_call(self.loaded, self.in_shardings[0].devices[0],
                                                   [on_device_type(a) for a in self.out_avals], registry)
        try:
            return call(*operands)
        except xla.XlaRuntimeError as error:
            raise launch_error(error, args) from None
        except ValueError:              # jaxlib's switches are not set yet, since another thread is importing JAX
            return call.__wrapped__(*operands)

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
      aval, sharding: of the first result.
      out_avals, out_shardings: of all of them.
      unflatten: from the list of arrays to the result; None: the result is its one array.
    """

    __slots__ = ("execute", "handlers", "aval", "sharding", "out_avals", "out_shardings", "unflatten", "weight",
                 "executable", "_consts", "_watch")

    def __init__(self, executable: Executable, consts: Sequence[Array], out_tree: Any, *,
                 places: Sequence[Sharding] | None = None, watch: Watch | None = None):
        """Make the launcher of a call.

        Args:
          consts: captured arrays, which the program takes first.
          places: of the arguments; None: these may differ from call to call.
          watch: looks at the results.
        """
        self.executable, self._watch = executable, watch
        self.handlers, self.weight = executable.handlers, executable.weight
        self.aval, self.sharding = executable.aval, executable.sharding
        self.out_avals, self.out_shardings = executable.out_avals, executable.out_shardings
        self._consts = [put(c, s) for c, s in zip(consts, executable.in_shardings, strict=False)]
        self.unflatten = None if out_tree.num_leaves == 1 and treedef_is_leaf(out_tree) else out_tree.unflatten
        self.execute = None
        wanted = self.argument_shardings()
        fits = places is not None and all([p is s for p, s in zip(places, wanted, strict=True)])
        if fits and watch is None and not executable.listeners:
            self.execute = _with_consts(executable.execute, [c._buf for c in self._consts])

    def __call__(self, args: Sequence[Array]) -> Any:
        """The result; arguments that lie elsewhere than the program wants them are moved."""
        out = self._arrays(args) if self._watch is None else self._watch(self._arrays, args)
        return out[0] if self.unflatten is None else self.unflatten(out)

    def _arrays(self, args: Sequence[Array]) -> list[Array]:
        return self.executable([*self._consts, *args] if self._consts else args)

    def launch(self, bufs: list[xla.Buffer], args: Sequence[Any]) -> Any:
        """The result of a launch on buffers, where `execute` is one; `args` are their arrays, for errors."""
        try:
            bufs = self.execute(bufs).consume_with_handlers(self.handlers)
        except xla.XlaRuntimeError as error:
            raise launch_error(error, args) from None
        if self.unflatten is None:
            return Array(bufs[0], self.aval, self.sharding)
        return self.unflatten([*map(Array, bufs, self.out_avals, self.out_shardings)])

    def launch_with_host_values(self, operands: list[Any], args: Sequence[Any]) -> Any:
        """`launch` on what `add_operands` made of `args`, on one device."""
        if self._consts:
            operands = [*[c._buf for c in self._consts], *operands]
        bufs = self.executable.launch_with_host_values(operands, args)
        if self.unflatten is None:
            return Array(bufs[0], self.aval, self.sharding)
        return self.unflatten([*map(Array, bufs, self.out_avals, self.out_shardings)])

    def taking(self, order: Sequence[int]) -> Launcher:
        """The same launch on buffers in another order: the program's argument `i` is their number `order[i]`."""
        execute, found = self.execute, copy.copy(self)
        found.execute = lambda bufs: execute([bufs[i] for i in order])
        return found

    def argument_shardings(self) -> tuple[Sharding, ...]:
        """Where the program wants its arguments."""
        return self.executable.in_shardings[len(self._consts):]


def _with_consts(execute: Callable, consts: list[xla.Buffer]) -> Callable:
    return (lambda bufs: execute(consts + bufs)) if consts else execute


def _buffer_handler(aval: ShapedArray, sharding: Sharding) -> xla.ResultHandler:
    """Makes the buffer of one result."""
    stored = on_device_type(aval)
    return xla.result_handler(stored, sharding.xla(stored.ndim))


def _first_of(items: Sequence[Any]) -> Any:
    return items[0] if items else None


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
