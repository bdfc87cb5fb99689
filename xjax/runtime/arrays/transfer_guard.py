"""The options transfer_guard*: log or refuse transfers of values between the host and devices, or between devices.

A transfer is implicit if the program does not request it: of a NumPy array or a number passed to an operation or a
jitted function, of an argument on another device than the program, by `float(x)` or by printing. `device_put` and
`device_get` are explicit. Reads are checked on every platform, so that a test on a CPU detects transfers that would
stall an accelerator. The guard is attached to `runtime.arrays` at the first use of such an option.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import numpy as np

from xjax.core.config import config
from xjax.core.errors import bad, location_text, user_location
from xjax.core.types import ShapedArray, typeof
from xjax.runtime import xla
from xjax.runtime.arrays import hooks, host_values
from xjax.runtime.arrays.hooks import BETWEEN, TO_DEVICE, TO_HOST
from xjax.typing import ArrayLike

_logger = logging.getLogger("xjax")
_FIXES = {
    TO_DEVICE: "make the value an array first, with jax.device_put(x).",
    TO_HOST: "make the read explicit: jax.device_get(x).",
    BETWEEN: "make the move explicit: jax.device_put(x, device).",
}


class TransferGuard(threading.local):
    """Called before each transfer. It records for each thread whether the current transfer is explicit."""

    _explicit = False

    def check(self, direction: str, x: object) -> None:
        """Raises: JaxRuntimeError if the options disallow the move of `x`."""
        level = getattr(config, f"transfer_guard_{direction.replace('-', '_')}")
        if level in (None, "allow") or (self._explicit and not level.endswith("_explicit")):
            return
        kind = "explicit" if self._explicit else "implicit"
        given = {"value": _describe(x), "line": location_text(user_location()) or "unknown"}
        if level.startswith("log"):
            _logger.warning("%s", bad("transfer_guard", f"{kind} {direction} transfer", given))
            return
        raise bad("transfer_guard", f"disallowed {kind} {direction} transfer", given, _FIXES[direction],
                  xla.XlaRuntimeError)

    def explicitly(self, move: Callable, *args: object) -> ArrayLike:
        """Call `move(*args)`, whose transfers are explicit."""
        saved, self._explicit = self._explicit, True
        try:
            return move(*args)
        finally:
            self._explicit = saved


def _describe(x: ArrayLike) -> str:
    if isinstance(x, np.ndarray):
        return typeof(x).str_short()
    aval = getattr(x, "aval", x)
    return aval.str_short() if isinstance(aval, ShapedArray) else repr(x)[:40]


_the_guard = TransferGuard()


def _install() -> None:
    hooks.guard_with(_the_guard)
    host_values.take_none()


for _direction in (TO_DEVICE, TO_HOST, BETWEEN):
    config.on_first_use(f"transfer_guard_{_direction.replace('-', '_')}", _install)
