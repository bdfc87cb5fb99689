"""The inspection functions of the Python array API standard; https://data-apis.org/array-api/2024.12."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.runtime.devices import backend
from xjax.typing import ArrayLike

__array_api_version__ = "2025.12"
_VERSIONS = ("2024.12", __array_api_version__)

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class _NamespaceInfo:
    """The result of `__array_namespace_info__`: capabilities, devices and dtypes of `xjax.numpy`."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and data-dependent shapes work outside of `jit` only, so both are False."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Any:
        """The device of new arrays."""
        return backend.default_device()

    def devices(self) -> list[Any]:
        """All devices of this process."""
        return backend.local_devices()

    def default_dtypes(self, *, device: object = None) -> dict[str, np.dtype]:
        """Default dtypes of new arrays, by kind; 32 bits, or 64 with jax_enable_x64."""
        named = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
        return {kind: dtypes.canonicalize_dtype(name) for kind, name in named.items()}

    def dtypes(self, *, device: object = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype]:
        """Dtypes of the standard that arrays can have, by name: of one of the kinds of `isdtype`, or of several.

        Raises: ValueError for an unknown kind.
        """
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for name in kinds:
            if name not in _KINDS:
                raise bad("__array_namespace_info__().dtypes", "unknown kind of dtypes", {"kind": repr(name)},
                          f"pass {', '.join(_KINDS)}, or a tuple of them.", exc=ValueError)
        names = [name for each in kinds for name in _KINDS[each]]
        return {name: np.dtype(name) for name in names if dtypes.canonicalize_dtype(name).name == name}


def __array_namespace_info__() -> _NamespaceInfo:
    """Information on this namespace: `capabilities()`, `devices()`, `default_device()`, `dtypes()`, `default_dtypes()`.

    >>> sorted(xjax.numpy.__array_namespace_info__().dtypes(kind="real floating"))
    ['float32']
    """
    return _NamespaceInfo()


def array_namespace(self: ArrayLike, *, api_version: str | None = None) -> ModuleType:
    """`x.__array_namespace__()`: the module of the functions that work on `x`.

    Raises: ValueError for an unsupported version of the standard.
    """
    if api_version is not None and api_version not in _VERSIONS:
        raise bad("__array_namespace__", "this version of the array API is not supported",
                  {"api_version": repr(api_version), "supported": ", ".join(_VERSIONS)}, "leave it out.",
                  exc=ValueError)
    return sys.modules["xjax.numpy"]
