"""Profiles of time and memory: `with profiler.trace(folder):` writes files for XProf, TensorBoard and Perfetto."""

from __future__ import annotations

import contextlib
import functools
import gzip
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.runtime import xla
from xjax.runtime.devices import backend
from xjax.runtime.devices.backend import client as _client

__all__ = ["ProfileData", "ProfileEvent", "ProfileLine", "ProfileOptions", "ProfilePlane", "ProfileSession",
           "StepTraceAnnotation", "TraceAnnotation", "annotate_function", "device_memory_profile",
           "export_profile_data", "register_subprocess", "save_device_memory_profile", "start_server", "start_trace",
           "stop_server", "stop_trace", "trace"]

_profiler, _data = xla.profiler(), xla.profile_data()
ProfileOptions = _profiler.ProfileOptions
ProfileData, ProfileEvent, ProfileLine, ProfilePlane = (
    _data.ProfileData, _data.ProfileEvent, _data.ProfileLine, _data.ProfilePlane)
# `with TraceAnnotation("load", rows=10):` adds a span to the profile; it costs 0.2 us while no profile is recorded.
TraceAnnotation = _profiler.TraceMe
register_subprocess = _profiler.register_subprocess


P = ParamSpec("P")
R = TypeVar("R")


class StepTraceAnnotation(TraceAnnotation):
    """`with StepTraceAnnotation("train", step_num=i):` marks a step of a training loop, which viewers group by step."""

    def __init__(self, name: str, **kwargs: object) -> None:
        super().__init__(name, _r=1, **kwargs)


def annotate_function(func: Callable[P, R], name: str | None = None, **arguments: object) -> Callable[P, R]:
    """`func`, each call of which adds a span to the profile; `arguments` are shown with it."""
    name = name or getattr(func, "__qualname__", None) or repr(func)

    @functools.wraps(func)
    def annotated(*args: P.args, **kwargs: P.kwargs) -> R:
        with TraceAnnotation(name, **arguments):
            return func(*args, **kwargs)

    return annotated


class _Running:
    """The session that records a profile, and the server; a process has at most one of each."""

    lock = threading.Lock()
    session: ProfileSession | None = None
    server: Any = None


class ProfileSession:
    """A profile from `start` to `stop`, or of a block `with ProfileSession() as session:`.

    Args:
      log_dir: `stop` writes the profile under `log_dir/plugins/profile/<time>/`; None: it is kept in memory.
      create_perfetto_trace: no effect; a `trace.json.gz` for Perfetto is always written.
      create_perfetto_link: must be False: profiles are not served or uploaded.
      profiler_options: a `ProfileOptions`: `host_tracer_level`, `python_tracer_level` (0: without Python calls), ...
    """

    def __init__(self, log_dir: os.PathLike[str] | str | None = None, create_perfetto_link: bool = False,
                 create_perfetto_trace: bool = False, profiler_options: object = None) -> None:
        _refuse_link("profiler.ProfileSession", create_perfetto_link)
        self.log_dir = None if log_dir is None else os.fspath(log_dir)
        self.profiler_options = profiler_options
        self._raw: Any = None
        self._profile = b""                 # the finished profile, in the profiler's own format

    def start(self) -> ProfileSession:
        """Start the profile. Raises: RuntimeError if a profile is already being recorded."""
        with _Running.lock:
            if _Running.session is not None:
                raise bad("profiler.start_trace", "a profile is already being recorded",
                          {"log_dir": _Running.session.log_dir}, "end it with stop_trace().", exc=RuntimeError)
            backend.devices()               # the backend must run, or its events are missing
            self._raw, self._profile = _profiler.ProfilerSession(self.profiler_options or ProfileOptions()), b""
            _Running.session = self
        return self

    def stop(self) -> Any:
        """End the profile, write it if there is a `log_dir`, and return it.

        Raises: RuntimeError if this session does not record a profile.
        """
        with _Running.lock:
            if not self.is_running:
                raise bad("profiler.ProfileSession.stop", "this session does not run", fix="call start() first.",
                          exc=RuntimeError)
            _Running.session = None
            self._profile = self._raw.stop()
            if self.log_dir is not None:
                self._raw.export(self._profile, self.log_dir)
        return self.profile_data

    def export_profile_data(self, log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
                            create_perfetto_trace: bool = False, session_id: str | None = None) -> None:
        """Write the finished profile: the function `export_profile_data` for this session."""
        export_profile_data(self, log_dir, create_perfetto_link, create_perfetto_trace, session_id)

    @property
    def is_running(self) -> bool:
        """Whether the profile is being recorded."""
        return _Running.session is self

    @property
    def profile_data(self) -> Any:
        """The finished profile, a `ProfileData`; None before `stop`."""
        return ProfileData.from_serialized_xspace(self._profile) if self._profile else None

    def __enter__(self) -> ProfileSession:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        if self.is_running:
            self.stop()


def _refuse_link(caller: str, create_perfetto_link: bool) -> None:
    if create_perfetto_link:
        raise bad(caller, "links to Perfetto are not supported",
                  fix="open <log_dir>/plugins/profile/<time>/*.trace.json.gz at ui.perfetto.dev.", exc=ValueError)


def export_profile_data(profile_data: Any, log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
                        create_perfetto_trace: bool = False, session_id: str | None = None) -> None:
    """Write a finished profile under `log_dir/plugins/profile/<time>/`.

    Args:
      profile_data: a `ProfileSession` that was stopped, or (jaxlib 0.12) a `ProfileData`.
      create_perfetto_link, create_perfetto_trace: as in `ProfileSession`.
      session_id: (jaxlib 0.12) name of the folder instead of the time.
    """
    caller = "profiler.export_profile_data"
    _refuse_link(caller, create_perfetto_link)
    if isinstance(profile_data, ProfileSession) and profile_data.profile_data is None:
        raise bad(caller, "there is no profile yet", fix="call stop() first.", exc=RuntimeError)
    export = getattr(_profiler, "export_to_xprof", None)
    if export is not None:
        data = profile_data.profile_data if isinstance(profile_data, ProfileSession) else profile_data
        export(data, os.fspath(log_dir), session_id=session_id or "")
    elif isinstance(profile_data, ProfileSession) and session_id is None:
        profile_data._raw.export(profile_data._profile, os.fspath(log_dir))
    else:
        raise bad(caller, "the installed jaxlib supports neither a ProfileData nor session_id here",
                  {"profile_data": type(profile_data).__name__, "session_id": session_id},
                  "pass the ProfileSession alone, or install jaxlib 0.12.", exc=NotImplementedError)


def start_trace(log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
                create_perfetto_trace: bool = False, profiler_options: object = None) -> ProfileSession:
    """Start a profile, which `stop_trace` ends; arguments as in `ProfileSession`.

    Raises: RuntimeError if a profile is already being recorded.
    """
    return ProfileSession(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options).start()


def stop_trace() -> Any:
    """End the profile, write it, and return a `ProfileData`. Raises: RuntimeError if no profile is being recorded."""
    session = _Running.session
    if session is None:
        raise bad("profiler.stop_trace", "no profile is being recorded", fix="start one with start_trace(folder).",
                  exc=RuntimeError)
    return session.stop()


@contextlib.contextmanager
def trace(log_dir: os.PathLike[str] | str | None = None, create_perfetto_link: bool = False,
          create_perfetto_trace: bool = False, profiler_options: object = None) -> Iterator[ProfileSession]:
    """Profile a block; arguments as in `ProfileSession`. Wait for results inside the block."""
    with ProfileSession(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options) as session:
        yield session


def start_server(port: int, requires_backend: bool = True) -> Any:
    """Start a server on `port` for TensorBoard's "capture profile". Raises: ValueError if a server is running."""
    with _Running.lock:
        if _Running.server is not None:
            raise bad("profiler.start_server", "a server is already running", fix="end it with stop_server().",
                      exc=ValueError)
        if requires_backend:
            backend.devices()
        _Running.server = _profiler.start_server(port)
        return _Running.server


def stop_server() -> None:
    """End the server. Raises: ValueError if no server is running."""
    with _Running.lock:
        if _Running.server is None:
            raise bad("profiler.stop_server", "no server is running", fix="start one with start_server(port).",
                      exc=ValueError)
        _Running.server = None


def device_memory_profile(backend: str | None = None) -> bytes:
    """The memory use of arrays and programs on a platform, in pprof's gzipped format."""
    return gzip.compress(xla.memory_profile(_client(backend)))


def save_device_memory_profile(filename: os.PathLike[str] | str, backend: str | None = None) -> None:
    """Write the result of `device_memory_profile` to a file; `pprof --web <file>` shows it."""
    Path(filename).write_bytes(device_memory_profile(backend))


__getattr__ = attributes_of(__name__)
