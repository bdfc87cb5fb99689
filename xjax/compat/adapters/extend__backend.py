"""`jax.extend.backend`: the clients of jaxlib, which run programs on the devices of a platform."""

from __future__ import annotations

from typing import NoReturn

from xjax.core.config import config
from xjax.core.errors import bad
from xjax.runtime import xla
from xjax.runtime.api import clear_caches
from xjax.runtime.devices import backend
from xjax.runtime.devices.backend import clear_backends

__all__ = ["backend_xla_version", "backends", "clear_backends", "clear_in_memory_compilation_cache", "get_backend",
           "get_default_device", "register_backend_cache", "register_backend_factory"]


def get_backend(platform: xla.Client | str | None = None) -> xla.Client:
    """The client of a platform: "cpu", "gpu"; None is the default. A client is returned itself."""
    if platform is not None and not isinstance(platform, str):
        return platform
    return backend.client(platform)


def backends() -> dict[str, xla.Client]:
    """The clients of all enabled platforms, by name."""
    return {name: backend.client(name) for name in backend.enabled_platforms()}


def backend_xla_version(platform: str | None = None) -> int | None:
    """The version of XLA's interface, if the client reports it."""
    return getattr(backend.client(platform), "xla_version", None)


def get_default_device() -> xla.Device:
    """The device of new arrays."""
    chosen = config.default_device
    return chosen if isinstance(chosen, xla.Device) else backend.default_device()


def clear_in_memory_compilation_cache() -> None:
    """Forget all compiled programs."""
    clear_caches()


def register_backend_cache(cache: object, name: str = "") -> None:
    """From now on, `clear_backends` also calls ``cache.cache_clear()``."""
    backend.on_clear(cache.cache_clear if hasattr(cache, "cache_clear") else cache)


def register_backend_factory(name: str, *args: object, **options: object) -> NoReturn:
    """Raises NotImplementedError: the platforms are those of jaxlib."""
    raise bad("register_backend_factory", "other platforms cannot be added", {"name": name},
              "run on the CPU, or on GPUs with jaxlib's CUDA plugin.", exc=NotImplementedError)
