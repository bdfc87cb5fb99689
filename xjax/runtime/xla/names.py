"""jaxlib's classes under the names used in xjax, its version, and the level of XLA's log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
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
CompileError = compile_error.CompileError
jaxlib_version: str = _version.__version__
interface_version: int = xc._version


class AvalLike(Protocol):
    """The type of an array, as far as jaxlib reads it."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype: ...
    @property
    def weak_type(self) -> bool: ...


class Waitable(Protocol):
    """A buffer, or the token of a launch."""

    def block_until_ready(self) -> object: ...
    def is_ready(self) -> bool: ...


if TYPE_CHECKING:
    # jaxlib's compiled modules come without types. These classes declare the attributes that xjax and its users read;
    # an attribute of type `Any` is another object of jaxlib.
    class Buffer:
        aval: Any
        _sharding: Any
        _arrays: list[Buffer]
        _pjrt_layout: object

        def __init__(self, aval: AvalLike, sharding: object, arrays: list[Buffer], committed: bool,
                     skip_checks: bool): ...
        def __buffer__(self, flags: int, /) -> memoryview: ...
        def _to_np_array_did_copy(self) -> tuple[np.ndarray, bool]: ...
        def _single_device_array_to_np_array_did_copy(self) -> tuple[np.ndarray, bool]: ...
        def _copy_single_device_array_to_host_async(self) -> None: ...
        def block_until_ready(self) -> Buffer: ...
        def is_ready(self) -> bool: ...
        def is_deleted(self) -> bool: ...
        def delete(self) -> None: ...
        def on_device_size_in_bytes(self) -> int: ...
        def unsafe_buffer_pointer(self) -> int: ...

    class Memory:
        kind: str
        platform: str

        def addressable_by_devices(self) -> list[Device]: ...

    class Device:
        id: int
        process_index: int
        host_id: int
        task_id: int
        local_hardware_id: int
        platform: str
        device_kind: str
        client: Client

        def addressable_memories(self) -> list[Memory]: ...
        def default_memory(self) -> Memory: ...
        def memory(self, kind: str) -> Memory: ...
        def memory_stats(self) -> dict[str, int] | None: ...

    class Client:
        platform: str
        platform_version: str
        runtime_type: str

        def process_index(self) -> int: ...
        def device_count(self) -> int: ...
        def local_device_count(self) -> int: ...
        def devices(self) -> list[Device]: ...
        def local_devices(self) -> list[Device]: ...
        def compile_and_load(self, *args: object, **options: object) -> Executable: ...
        def deserialize_executable(self, blob: bytes, devices: DeviceList, options: CompileOptions) -> Executable: ...
        def heap_profile(self) -> bytes: ...

    class DeviceList:
        def __init__(self, devices: tuple[Device, ...]): ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Device]: ...

    class CompileOptions:
        num_replicas: int
        num_partitions: int
        device_assignment: Any
        executable_build_options: Any
        env_option_overrides: list[tuple[str, Any]]

    class Executable:
        def execute_sharded(self, buffers: Sequence[Buffer], with_tokens: bool = False) -> Any: ...
        def cost_analysis(self) -> dict[str, float]: ...
        def get_compiled_memory_stats(self) -> Any: ...
        def get_hlo_text(self) -> str: ...
        def get_output_shardings(self) -> list[Any] | None: ...
        def serialize(self) -> bytes: ...
        def size_of_generated_code_in_bytes(self) -> int: ...

    class HloSharding:
        @staticmethod
        def from_proto(proto: Any) -> HloSharding: ...
        @staticmethod
        def replicate() -> HloSharding: ...
        def is_replicated(self) -> bool: ...
        def replicate_on_last_tile_dim(self) -> bool: ...
        def tile_assignment_dimensions(self) -> list[int]: ...
        def tile_assignment_devices(self) -> list[int]: ...
        def to_proto(self) -> Any: ...

    class ResultHandler:
        def wrap(self, f: Callable[[Buffer], Any]) -> ResultHandler: ...

    class XlaRuntimeError(RuntimeError): ...
else:
    Buffer = _jax.ArrayImpl
    Client = xc.Client
    CompileOptions = xc.CompileOptions
    Device = xc.Device
    DeviceList = xc.DeviceList
    Executable = xc.LoadedExecutable
    HloSharding = xc.HloSharding
    ResultHandler = _jax.ResultHandler
    XlaRuntimeError = xc.XlaRuntimeError
