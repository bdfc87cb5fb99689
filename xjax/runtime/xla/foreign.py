"""Foreign functions that compiled programs call by name: registration, and the headers to write them."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import jaxlib
from jaxlib import xla_client as xc


def register_target(name: str, function: object, platform: str, api_version: int, **options: object) -> None:
    """Register a function, as a capsule, or a dict of the capsules of its stages."""
    xc.register_custom_call_target(name, function, platform, api_version, **options)


def register_type(name: str, registration: dict[str, Any], platform: str) -> None:
    """Register a C++ type of state that functions share."""
    xc.register_custom_type(name, registration, platform=platform)


def register_as_batch_partitionable(name: str) -> None:
    """From now on, XLA may call the function on parts of arrays that are split along their leading axes."""
    xc.register_custom_call_as_batch_partitionable(name)


def capsule(function: Any) -> object:
    """A C function pointer of `ctypes` as a capsule of Python."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.cast(function, ctypes.c_void_p), None, None)


def include_dir() -> str:
    """The folder with the header files of XLA's interface for foreign functions."""
    return os.path.join(os.path.dirname(os.path.abspath(str(jaxlib.__file__))), "include")
