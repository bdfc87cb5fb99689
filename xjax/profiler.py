"""Profiles of time and memory: `with profiler.trace(folder):` writes what XProf, TensorBoard and Perfetto open."""

from __future__ import annotations

import contextlib
import functools
import gzip
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.runtime import backend, xla
from xjax.runtime.backend import client as _client

__all__ = ["ProfileData", "ProfileEvent", "ProfileOptions", "ProfilePlane", "StepTraceAnnotation", "TraceAnnotation",
           "annotate_function", "device_memory_profile", "register_subprocess", "save_device_memory_profile",
           "start_server", "start_trace", "stop_server", "stop_trace", "trace"]

_profiler, _data = xla.profiler(), xla.profile_data()
ProfileOptions = _profiler.ProfileOptions
ProfileData, ProfileEvent, ProfilePlane = _data.ProfileData, _data.ProfileEvent, _data.ProfilePlane
# `with TraceAnnotation("load", rows=10):` is a span of the profile; 0.2 us where no profile is taken.
TraceAnnotation = _profiler.TraceMe
register_subprocess = _profiler.register_subprocess


class StepTraceAnnotation(TraceAnnotation):
    """`with StepTraceAnnotation("train", step_num=i):` one step of a training loop, which viewers line up."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, _r=1, **kwargs)


def annotate_function(func: Callable, name: str | None = None, **arguments: Any) -> Callable:
    """`func`, of which each call is a span of the profile; `arguments` are shown with it."""
    name = name or getattr(func, "__qualname__", None) or repr(func)

    @functools.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(name, **arguments):
            return func(*args, **kwargs)

    return annotated


class _Running:
    """The profile that is being taken, and the server: one of each in a process."""

    lock = threading.Lock()
    session: Any = None
    folder = ""
    server: Any = None


def start_trace(log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
                create_perfetto_trace: bool = False, profiler_options: Any = None) -> None:
    """Begin a profile, which `stop_trace` writes under `log_dir/plugins/profile/<time>/`.

    Args:
      create_perfetto_trace: accepted; a `trace.json.gz`, which Perfetto opens, is always written.
      create_perfetto_link: must be False: nothing is served or uploaded.
      profiler_options: a `ProfileOptions`: `host_tracer_level`, `python_tracer_level` (0 leaves Python calls out), ...

    Raises: RuntimeError if a profile is being taken already.
    """
    if create_perfetto_link:
        raise bad("profiler.start_trace", "links to Perfetto are not made",
                  fix="open <log_dir>/plugins/profile/<time>/*.trace.json.gz at ui.perfetto.dev.", exc=ValueError)
    with _Running.lock:
        if _Running.session is not None:
            raise bad("profiler.start_trace", "a profile is being taken already", {"log_dir": _Running.folder},
                      "end it with stop_trace().", exc=RuntimeError)
        backend.devices()                   # the platform must run, or its events are missing
        _Running.session = _profiler.ProfilerSession(profiler_options or ProfileOptions())
        _Running.folder = os.fspath(log_dir)


def stop_trace() -> None:
    """End the profile and write it. Raises: RuntimeError if none is being taken."""
    with _Running.lock:
        if _Running.session is None:
            raise bad("profiler.stop_trace", "no profile is being taken", fix="begin one with start_trace(folder).",
                      exc=RuntimeError)
        session, _Running.session = _Running.session, None
        session.stop_and_export(_Running.folder)


@contextlib.contextmanager
def trace(log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False, create_perfetto_trace: bool = False,
          profiler_options: Any = None) -> Iterator[None]:
    """A profile of the block; the arguments are those of `start_trace`. Wait for results inside of the block."""
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


def start_server(port: int, requires_backend: bool = True) -> Any:
    """A server on `port` that TensorBoard's "capture profile" asks. Raises: ValueError if one runs already."""
    with _Running.lock:
        if _Running.server is not None:
            raise bad("profiler.start_server", "a server runs already", fix="end it with stop_server().",
                      exc=ValueError)
        if requires_backend:
            backend.devices()
        _Running.server = _profiler.start_server(port)
        return _Running.server


def stop_server() -> None:
    """End the server. Raises: ValueError if none runs."""
    with _Running.lock:
        if _Running.server is None:
            raise bad("profiler.stop_server", "no server runs", fix="start one with start_server(port).",
                      exc=ValueError)
        _Running.server = None


def device_memory_profile(backend: str | None = None) -> bytes:
    """The memory that arrays and programs hold on a platform, in pprof's gzipped format."""
    return gzip.compress(xla.memory_profile(_client(backend)))


def save_device_memory_profile(filename: os.PathLike[str] | str, backend: str | None = None) -> None:
    """Write `device_memory_profile` to a file; `pprof --web <file>` shows it."""
    Path(filename).write_bytes(device_memory_profile(backend))


__getattr__ = attributes_of(__name__)
