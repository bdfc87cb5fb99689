"""Platforms and their devices: XLA clients, each started at its first use.

Devices are jaxlib's own objects: ``id``, ``platform``, ``device_kind``, ``process_index``,
``local_hardware_id``, ``client``, ``memory_stats()``; hashable, equal by client and id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xjax.core.aliases import alias
from xjax.core.config import config, cpu_device_count
from xjax.core.errors import bad, did_you_mean, user_frame, warn
from xjax.core.once import once
from xjax.runtime import xla
from xjax.runtime.process import cpu_threads, cuda_wheels, local_gpus
from xjax.runtime.xla import Client, Device

_ALIASES = {"cuda": "gpu"}
_WORDS = "Unknown backend: "             # of JAX's message; libraries search for them


def _start_cpu(**distributed: object) -> Client:
    if distributed:
        distributed = {**distributed, "collectives": xla.make_gloo_collectives(distributed["distributed_client"])}
    with cpu_threads.limited():
        return xla.make_cpu_client(cpu_device_count(), config.cpu_enable_async_dispatch, **distributed)


_STARTERS: Mapping[str, Callable[..., Client]] = {"cpu": _start_cpu, "gpu": xla.make_gpu_client}


class _State:
    """The clients that have been started, and options for starting them."""

    def __init__(self) -> None:
        self.clients: dict[str, Client] = {}
        self.default_device: Device | None = None
        self.started_by = ""
        self.distributed: dict[str, Any] = {}


_state = _State()
_on_clear: list[Callable[[], None]] = []


def client(platform: str | None = None) -> Client:
    """The client of a platform (``"cpu"``, ``"gpu"`` or its alias ``"cuda"``; None: the default).

    The first call starts it, which fixes the options `jax_platforms` and `jax_num_cpu_devices`.

    Raises: RuntimeError if the platform is unknown, disabled by `jax_platforms`, or absent.
    """
    name = _platforms()[0] if platform is None else _ALIASES.get(platform, platform)
    running = _state.clients.get(name)
    if running is not None:
        return running
    if name not in _STARTERS:
        raise _unknown(platform or name, "devices")
    if config.platforms and name not in _platforms():
        raise bad(
            "devices",
            f"{_WORDS}platform {platform!r} is disabled",
            {"jax_platforms": repr(config.platforms)},
            f"add it: config.update('jax_platforms', '{config.platforms},{platform}').",
            exc=RuntimeError,
        )
    return _started(name)


@once
def _started(name: str) -> Client:
    """Start the client of a platform."""
    made = _STARTERS[name](**_state.distributed)
    _state.started_by = _state.started_by or _here()
    _state.clients[name] = made
    return made


@once
def _platforms() -> tuple[str, ...]:
    """The enabled platforms; the first is the default."""
    return _chosen_platforms(config.platforms)


def enabled_platforms() -> tuple[str, ...]:
    """The names of the enabled platforms; the first is the default."""
    return _platforms()


def _chosen_platforms(option: str | None) -> tuple[str, ...]:
    if option:
        names = [name.strip() for name in option.split(",") if name.strip()]
        return tuple(dict.fromkeys(platform_named("jax_platforms", name) for name in names))
    has_driver, plugin = cuda_wheels.gpu_visible(), cuda_wheels.find_plugin()
    if has_driver and plugin is not None:
        return ("gpu", "cpu")
    if has_driver or (plugin is not None and not cuda_wheels.gpu_hidden()):
        _warn_of_unused_gpu(driver=has_driver)
    return ("cpu",)


def _warn_of_unused_gpu(driver: bool) -> None:
    problem = "there is an NVIDIA driver, but no CUDA plugin" if driver else (
        "a CUDA plugin is installed, but there is no NVIDIA driver (no /dev/nvidiactl)")
    warn(str(bad("devices", f"{problem}: programs run on the CPU",
                 fix="see docs/gpu.md; set JAX_PLATFORMS=cpu if this is intended.")))


def platform_named(caller: str, name: str) -> str:
    """The internal name of a platform. Raises: RuntimeError for a platform that xjax does not support."""
    platform = _ALIASES.get(name, name)
    if platform not in _STARTERS:
        raise _unknown(name, caller)
    return platform


def _unknown(name: str, caller: str) -> Exception:
    known = (*_STARTERS, *_ALIASES)
    return bad(
        caller,
        f"{_WORDS if caller == 'devices' else ''}unknown platform {name!r}",
        {"platforms": ", ".join(known)},
        did_you_mean(name, known) or "choose one of these.",
        exc=RuntimeError,
    )


def _here() -> str:
    frame = user_frame()
    return f"{frame[0]}:{frame[1]} in {frame[2]}" if frame else "an unknown place"


def started() -> dict[str, Client]:
    """The clients that have been started, by platform."""
    return dict(_state.clients)


def default_backend() -> str:
    """Name of the default platform: ``"cpu"`` or ``"gpu"``."""
    return _platforms()[0]


def devices(backend: str | None = None) -> list[Device]:
    """All devices of a platform (None: the default platform), including those of other processes.

    Raises: RuntimeError if the platform is unknown, disabled, or absent.
    """
    return list(client(backend).devices())


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of one process (None: this process); `host_id` is an older name of `process_index`."""
    wanted = process_index if process_index is not None else host_id
    if wanted is None:
        return list(client(backend).local_devices())
    count = process_count(backend)
    if not 0 <= wanted < count:
        raise bad(
            "local_devices",
            f"process {wanted} does not exist",
            {"processes": count},
            "process_index counts from 0.",
            exc=ValueError,
        )
    return [d for d in client(backend).devices() if d.process_index == wanted]


def visible_gpus() -> list[str]:
    """The GPUs that this process sees, named as in `CUDA_VISIBLE_DEVICES`; [] if it runs on CPUs. Starts no client."""
    return local_gpus.visible() if "gpu" in _platforms() else []


def device_count(backend: str | None = None) -> int:
    """Number of devices of all processes."""
    return client(backend).device_count()


def local_device_count(backend: str | None = None) -> int:
    """Number of devices of this process."""
    return client(backend).local_device_count()


def process_index(backend: str | None = None) -> int:
    """Rank of this process, from 0."""
    return client(backend).process_index()


def process_count(backend: str | None = None) -> int:
    """Number of processes that work together."""
    return len(process_indices(backend))


def process_indices(backend: str | None = None) -> list[int]:
    """Ranks of all processes."""
    return sorted({d.process_index for d in client(backend).devices()})


# JAX's older names.
host_id, host_count = alias(process_index, "host_id"), alias(process_count, "host_count")
host_ids = alias(process_indices, "host_ids")


def host_device() -> Device:
    """The CPU device of host functions, also if `jax_platforms` excludes CPUs."""
    return (_state.clients.get("cpu") or _started("cpu")).local_devices()[0]


def default_device() -> Device:
    """The device of new arrays: the option `jax_default_device` (a device or platform), else the first device."""
    chosen = config.default_device
    if chosen is None:
        first = _state.default_device
        if first is None:
            first = _state.default_device = client().local_devices()[0]
        return first
    return local_devices(backend=chosen)[0] if isinstance(chosen, str) else chosen


def use_distributed(**options: object) -> None:
    """Pass options of a job of several processes to the clients; must be called before a client starts."""
    refuse_if_started("distributed.initialize")
    _state.distributed = options


def clear_backends() -> None:
    """Delete all clients, so that the next use starts new ones; arrays made before become unusable."""
    with _started.lock:
        _started.cache_clear()
        _platforms.cache_clear()
        _state.clients.clear()
        _state.default_device = None
        _state.started_by = ""
        for hook in _on_clear:
            hook()


def on_clear(hook: Callable[[], None]) -> Callable[[], None]:
    """Call `hook` when the backends are cleared: for caches that hold devices or programs."""
    _on_clear.append(hook)
    return hook


on_clear(xla.forget_devices)


def refuse_if_started(caller: str) -> None:
    """Raise RuntimeError if a client runs, since `caller` must be called before."""
    if _state.clients:
        raise bad(
            caller,
            "too late: a backend is already running",
            {"running": ", ".join(_state.clients), "started by": _state.started_by},
            "move this call before that line, which was the first to use a device.",
            exc=RuntimeError,
        )


def _platforms_changed(old: str | None, new: str | None) -> None:
    refuse_if_started("config.update('jax_platforms')")
    if new:
        _chosen_platforms(new)  # raises for a misspelt name
    _platforms.cache_clear()


def _num_cpu_devices_changed(old: object, new: object) -> None:
    if "cpu" in _state.clients:
        refuse_if_started("config.update('jax_num_cpu_devices')")


def _async_dispatch_changed(old: object, new: object) -> None:
    if "cpu" in _state.clients:
        refuse_if_started("config.update('jax_cpu_enable_async_dispatch')")


config.on_update("jax_platforms", _platforms_changed)
config.on_update("jax_cpu_enable_async_dispatch", _async_dispatch_changed)
config.on_update("jax_num_cpu_devices", _num_cpu_devices_changed)
