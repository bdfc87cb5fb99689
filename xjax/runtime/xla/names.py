"""jaxlib's classes under the names used in xjax, its version, and the level of XLA's log."""

from __future__ import annotations

import os

from jaxlib import _jax, utils
from jaxlib import version as _version
from jaxlib import xla_client as xc

from xjax.core.errors import bad
from xjax.runtime.xla import compile_error


def _set_log_level(name: str = "XJAX_LOG_LEVEL") -> None:
    """Set the level of XLA's log: 0 shows everything, 1 (the default) warnings, 2 errors, 3 fatal errors."""
    level = os.environ.get(name, "1")
    if level not in {"0", "1", "2", "3"}:
        raise bad(
            name,
            "the log level of XLA must be a number from 0 to 3.",
            {name: repr(level)},
            f"set {name}=1, or unset it.",
            exc=ValueError,
        )
    utils.absl_set_min_log_level(int(level))


_set_log_level()

ArrayCopySemantics = xc.ArrayCopySemantics
Buffer = _jax.ArrayImpl
Client = xc.Client
CompileError = compile_error.CompileError
CompileOptions = xc.CompileOptions
Device = xc.Device
DeviceList = xc.DeviceList
Executable = xc.LoadedExecutable
HloSharding = xc.HloSharding
ResultHandler = _jax.ResultHandler
XlaRuntimeError = xc.XlaRuntimeError
jaxlib_version: str = _version.__version__
interface_version: int = xc._version
