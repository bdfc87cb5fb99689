"""Launches of programs, on buffers and host values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from jaxlib import _jax
from jaxlib import xla_client as xc

from xjax.core.once import once
from xjax.runtime.xla.arrays import device_put
from xjax.runtime.xla.names import AvalLike, Buffer, Device, Executable, ResultHandler
from xjax.runtime.xla.real_jax import imported_jax
from xjax.runtime.xla.shardings import GSPMDSharding, SingleDeviceSharding, on_device
from xjax.typing import ArrayLike

# Feature probe of the installed jaxlib.
_HANDLER_SKIPS_CHECKS = "_skip_checks" in (xc.array_result_handler.__doc__ or "")


def result_handler(aval: AvalLike, sharding: SingleDeviceSharding | GSPMDSharding) -> ResultHandler:
    """The handler that makes the buffer of one output; outputs of equal type and sharding can share one.

    ``handler.wrap(f)`` is a handler that returns ``f(buffer)``.
    """
    if _HANDLER_SKIPS_CHECKS:  # jaxlib 0.10 has a fourth argument; its checks need jax
        return xc.array_result_handler(aval, sharding, True, True)
    return xc.array_result_handler(aval, sharding, True)


def execute(
    exe: Executable, buffers: Sequence[Buffer], handlers: Sequence[ResultHandler]
) -> list[Any]:
    """Launch a program; hot paths bind ``exe.execute_sharded`` once and inline this line."""
    return exe.execute_sharded(buffers).consume_with_handlers(handlers)


def execute_with_token(
    execute_sharded: Callable[..., Any], buffers: Sequence[Buffer], handlers: Sequence[ResultHandler]
) -> tuple[list[Any], Any]:
    """`execute` by a program's bound method, and a token whose ``block_until_ready()`` waits for the side effects."""
    results = execute_sharded(buffers, with_tokens=True)
    return results.consume_with_handlers(handlers), results.consume_token()


# --- Calls with host values ----------------------------------------------------------------------


class _Call(NamedTuple):
    """Description of a program for jaxlib's own calls; jaxlib defines the names of the fields."""

    xla_executable: Executable
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[None]
    const_args: Sequence[Any]


class _HostType(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype
    weak_type: bool = False


def host_call(
    exe: Executable, device: Device, out_avals: Sequence[Any], registry: Any
) -> Callable[..., list[Buffer]]:
    """A call of a one-device program that takes buffers, NumPy values of up to 32 bits and Python numbers, which also
    become 32-bit values.

    jaxlib transfers the host values within the call, in 1 us where `device_put` takes 3. It may read the memory of
    NumPy arrays until the program has ended, so the caller must not write to them.

    Args:
      registry: jaxlib's registry of pytrees.

    Returns: the call; its attribute `__wrapped__` is a slower one that does not need jaxlib's switches.
    """
    _set_switches()
    place = on_device(device)
    handlers = [result_handler(aval, place) for aval in out_avals]
    _, tree = registry.flatten([0] * len(out_avals))

    def call(*args: Buffer | ArrayLike) -> list[Buffer]:
        return execute(exe, [x if type(x) is Buffer else put_host_value(x, device) for x in args], handlers)

    def call_for_new_types(*args: Buffer | ArrayLike) -> tuple[list[Buffer], _Call | None, bool]:
        if not _OF_NUMBER.keys().isdisjoint(map(type, args)) and _makes_64_bits():
            return call(*args), None, True
        n, m = len(args), len(out_avals)
        description = _Call(exe, tree, [place] * n, [place] * m, out_avals, [True] * m, [True] * n, [None] * n, [])
        return call(*args), description, False

    fast = _jax.pjit("call", call, call_for_new_types, [], [], object(), registry, _not_on_device,
                     _jax.PjitFunctionCache(8))
    fast.__wrapped__ = call
    return fast


def put_host_value(x: ArrayLike, device: Device) -> Buffer:
    """The buffer of a host value that `host_call` accepts."""
    x = _OF_NUMBER[type(x)](x) if type(x) in _OF_NUMBER else x
    return device_put(_HostType(x.shape, x.dtype), on_device(device), [x], [device])


_OF_NUMBER = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}


def _makes_64_bits() -> bool:
    """Whether jaxlib's calls convert numbers to 64-bit values, which the real JAX sets for this thread."""
    jax = imported_jax()
    return jax is not None and getattr(getattr(jax, "config", None), "jax_enable_x64", True)


def _not_on_device(*args: object) -> NoReturn:
    raise RuntimeError("xjax: a call with host values got a buffer on another device")


@once
def _set_switches() -> list[Any]:
    """Set the three switches that jaxlib's calls read and that JAX sets at its import; without JAX they are off."""
    switches: list[Any] = []  # kept alive as long as the process
    if imported_jax() is None:
        for name, value in (("disable_jit", False), ("enable_x64", False), ("post_hook", None)):
            switches.append(_jax.config.Config(f"xjax_{name}", value))
            getattr(_jax.jax_jit, f"set_{name}_state")(switches[-1])
    return switches
