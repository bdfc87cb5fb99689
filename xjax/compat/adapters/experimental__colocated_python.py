"""`jax.experimental.colocated_python`: Python functions on the hosts of devices, for Pathways.

A process of xjax controls only its own devices, so such functions are refused when they are called. Libraries such as
orbax define some when they are imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from xjax.core.errors import bad
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.xla import Device

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]


def colocated_cpu_devices(devices_or_mesh: Sequence[Device] | Mesh) -> Sequence[Device] | Mesh:
    """The CPU devices on the hosts of the devices: CPU devices themselves.

    Raises: NotImplementedError for other devices.
    """
    devices = devices_or_mesh.devices.flat if isinstance(devices_or_mesh, Mesh) else tuple(devices_or_mesh)
    others = [device for device in devices if device.platform != "cpu"]
    if others:
        raise bad("colocated_cpu_devices", "devices have no CPU devices of their own here", {"devices": others},
                  "use jax.devices('cpu').", exc=NotImplementedError)
    return devices_or_mesh if isinstance(devices_or_mesh, Mesh) else tuple(devices)


def colocated_python(fun: Callable) -> _Refused:
    """A function that would run on the hosts of its arguments; here its call is a NotImplementedError."""
    return _Refused(fun)


def colocated_python_class(cls: type) -> _Refused:
    """A class whose objects would exist on the hosts of devices; here its call is a NotImplementedError."""
    return _Refused(cls)


class _Refused:
    def __init__(self, wrapped: Callable):
        self._name = getattr(wrapped, "__name__", repr(wrapped))

    def specialize(self, **options: object) -> _Refused:
        return self

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise bad(f"colocated_python `{self._name}`", "Python on other hosts is for Pathways, a runtime for many hosts",
                  fix="call the function itself: each process of xjax controls its own devices.",
                  exc=NotImplementedError)
