"""What the options transfer_guard* do: log or refuse values that move between Python and devices.

Implicit are the moves that nobody wrote down: a NumPy array or a number handed to an operation or a jitted function,
`float(x)`, printing, an argument that lies on another device than the program. `device_put` and `device_get` are
explicit. Reading counts on every platform, so that a test on a CPU finds what would stall an accelerator. The guards
take the place of functions of the runtime at the first use of such an option; before, they cost nothing.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

from xjax.core.config import config
from xjax.core.errors import bad, location_text, user_location
from xjax.core.types import ShapedArray
from xjax.runtime import array, xla
from xjax.runtime.array import Array

_logger = logging.getLogger("xjax")
_TO_DEVICE, _TO_HOST, _BETWEEN = "host-to-device", "device-to-host", "device-to-device"
_FIXES = {
    _TO_DEVICE: "make the value an array before, with jax.device_put(x).",
    _TO_HOST: "write the read down: jax.device_get(x).",
    _BETWEEN: "write the move down: jax.device_put(x, device).",
}


class _State(threading.local):
    explicit = False        # inside device_put or device_get
    busy = False            # inside a guarded function: what it calls belongs to it


_state = _State()


def _check(direction: str, what: str) -> None:
    level = getattr(config, f"transfer_guard_{direction.replace('-', '_')}")
    if level in (None, "allow") or (_state.explicit and not level.endswith("_explicit")):
        return
    kind = "explicit" if _state.explicit else "implicit"
    given = {"value": what, "line": location_text(user_location()) or "unknown"}
    if level.startswith("log"):
        _logger.warning("%s", bad("transfer_guard", f"{kind} {direction} transfer", given))
        return
    raise bad("transfer_guard", f"disallowed {kind} {direction} transfer", given, _FIXES[direction],
              xla.XlaRuntimeError)


def _describe(x: Any) -> str:
    aval = getattr(x, "aval", x)
    return aval.str_short() if isinstance(aval, ShapedArray) else repr(x)[:40]


def _guarded(fun: Callable, direction: str) -> Callable:
    """`fun(x, ...)`, which moves x, with the check before it."""

    @functools.wraps(fun)
    def guarded(x: Any, *args: Any, **kwargs: Any) -> Any:
        if _state.busy:
            return fun(x, *args, **kwargs)
        _check(direction, _describe(x))
        _state.busy = True
        try:
            return fun(x, *args, **kwargs)
        finally:
            _state.busy = False

    return guarded


def _asked_for(fun: Callable) -> Callable:
    """`fun`, whose moves are explicit."""

    @functools.wraps(fun)
    def explicit(*args: Any) -> Any:
        saved, _state.explicit = _state.explicit, True
        try:
            return fun(*args)
        finally:
            _state.explicit = saved

    return explicit


# What each option guards. Remembered numbers are not moved, but guarded too: which ones are remembered is chance.
_MOVES = {
    "transfer_guard_host_to_device": [(xla, "device_put"), (array, "from_scalar"), (array, "_remembered_scalar")],
    "transfer_guard_device_to_host": [(Array, "numpy")],
    "transfer_guard_device_to_device": [(array, "_move")],
}


def _install(option: str) -> None:
    if not hasattr(array.device_put, "__wrapped__"):
        array.device_put, array.device_get = _asked_for(array.device_put), _asked_for(array.device_get)
    direction = option.removeprefix("transfer_guard_").replace("_", "-")
    for owner, name in _MOVES[option]:
        setattr(owner, name, _guarded(getattr(owner, name), direction))


for _option in _MOVES:
    config.on_first_use(_option, functools.partial(_install, _option))
