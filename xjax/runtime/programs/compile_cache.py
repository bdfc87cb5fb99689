"""Executables on disk: the next process loads in 1 ms an executable that took 30 ms to compile.

An entry is native code: write access to it means running code in this process. So the folder is used only if it
belongs to the user and is closed to others. Entries are written under a temporary name and then renamed, and contain a
checksum. When the folder is full, the entries that were not used for longest are deleted.
"""

import contextlib
import functools
import hashlib
import os
import platform
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xjax.core.config import config
from xjax.core.errors import warn
from xjax.core.once import once
from xjax.runtime import xla
from xjax.runtime.process import cpu_threads
from xjax.runtime.programs import events
from xjax.runtime.xla import Client, Device, Executable

_MAGIC = b"xjax-executable-1\n"
_DIGEST_SIZE = hashlib.sha256().digest_size
_DEFAULT_SIZE = 512 << 20
_STALE_SECONDS = 3600  # an older temporary file belongs to a dead process


class CompileCache:
    """Entries ``<key>.exe`` of one folder, at most `max_bytes` in total; several processes may use it.

    The folder is created (mode 0700) if it is absent. `usable`: whether it is the user's own and closed to others.
    """

    def __init__(self, directory: Path, max_bytes: int = _DEFAULT_SIZE) -> None:
        self.directory, self.max_bytes = directory, max_bytes
        self.hits = self.misses = 0
        self._since_trim = max_bytes  # trim at the first write of a process
        self.usable = self._check()

    def _check(self) -> bool:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            info = self.directory.stat()
        except OSError as error:
            self._refuse(f"it cannot be created ({error.strerror})", "choose another folder")
            return False
        if info.st_uid != os.getuid():
            self._refuse("it belongs to another user", "choose a folder of your own")
            return False
        if info.st_mode & 0o077:
            self._refuse("other users can open it", f"chmod 700 {self.directory}")
            return False
        return True

    def _refuse(self, why: str, fix: str) -> None:
        _complain(
            f"compile cache: the folder is not used: {why}.\n  folder  {self.directory}\n"
            f"  fix: {fix}, or set jax_enable_compilation_cache to False."
        )

    def get(self, key: str) -> bytes | None:
        """The entry, or None; an entry with a wrong checksum is deleted with a warning."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            self.misses += 1
            return None
        start = len(_MAGIC) + _DIGEST_SIZE
        blob = content[start:]
        if content[:start] != _MAGIC + hashlib.sha256(blob).digest():
            self.discard(key, "it is damaged")
            self.misses += 1
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # marks it as the most recently used
        self.hits += 1
        return blob

    def put(self, key: str, blob: bytes) -> None:
        """Store an entry; on a full or read-only disk, warns and disables the cache."""
        try:
            self._write(key, _MAGIC + hashlib.sha256(blob).digest() + blob)
        except OSError as error:
            self.usable = False
            self._refuse(f"it cannot be written ({error.strerror})", "make room")
            return
        self._since_trim += len(blob)
        if self._since_trim > self.max_bytes // 16:
            self._since_trim = 0
            self.trim()

    def _write(self, key: str, content: bytes) -> None:
        handle, temporary = tempfile.mkstemp(dir=self.directory, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, self._path(key))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def discard(self, key: str, why: str) -> None:
        """Delete an unusable entry, with a warning."""
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.unlink()
        _complain(f"compile cache: an entry is deleted and compiled again: {why}.\n  file  {path}")

    def trim(self) -> None:
        """Delete the least recently used entries until the rest fits `max_bytes`."""
        entries = []
        for path in self.directory.iterdir():
            with contextlib.suppress(OSError):  # another process may have deleted it
                info = path.stat()
                if path.suffix == ".exe":
                    entries.append((info.st_mtime, info.st_size, path))
                elif path.suffix == ".tmp" and time.time() - info.st_mtime > _STALE_SECONDS:
                    path.unlink()
        excess = sum(size for _, size, _ in entries) - self.max_bytes
        for _, size, path in sorted(entries):
            if excess <= 0:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            excess -= size

    def clear(self) -> None:
        """Delete all entries."""
        for path in self.directory.glob("*.exe"):
            with contextlib.suppress(OSError):
                path.unlink()

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.exe"


def _complain(text: str) -> None:
    if config.raise_persistent_cache_errors:
        raise RuntimeError(text)
    warn(text)


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of entries: `jax_compilation_cache_dir`, else XJAX_CACHE_DIR, else the user's cache."""
    chosen = config.compilation_cache_dir or environ.get("XJAX_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "xjax"


def current_cache() -> CompileCache | None:
    """The cache that the options select; None if it is disabled or not usable."""
    if not config.enable_compilation_cache:
        return None
    size = config.compilation_cache_max_size
    cache = _open(cache_directory(), _DEFAULT_SIZE if size < 0 else size)
    return cache if cache.usable else None


def reopen() -> None:
    """Forget what is known of folders: whether they are usable, and the numbers of hits and misses."""
    _open.cache_clear()


@once
def _open(directory: Path, max_bytes: int) -> CompileCache:
    return CompileCache(directory, max_bytes)


def compile_cached(
    client: Client, text: str, devices: Sequence[Device], **options: Any
) -> Executable:
    """`xla.compile` with the same arguments; the executable is loaded from disk where possible.

    Programs with host callbacks contain Python objects and are always compiled.
    """
    cache = None if options.get("host_callbacks") else current_cache()
    if cache is None:
        return xla.compile(client, text, devices, **options)
    options.pop("host_callbacks", None)
    key = program_key(client, text, devices, options)
    events.record_event(events.CACHE_REQUEST)
    start = time.perf_counter()
    if (blob := cache.get(key)) is not None:
        try:
            loaded = xla.deserialize(client, blob, devices, xla.compile_options(devices, **options))
        except xla.XlaRuntimeError as error:
            cache.discard(key, f"XLA does not load it ({str(error).splitlines()[0][:120]})")
        else:
            events.record_event(events.CACHE_HIT)
            events.record_event_duration_secs(events.CACHE_READ, time.perf_counter() - start)
            return loaded
    events.record_event(events.CACHE_MISS)
    start = time.perf_counter()
    exe = xla.compile(client, text, devices, **options)
    if time.perf_counter() - start < config.persistent_cache_min_compile_time_secs:
        return exe
    with contextlib.suppress(xla.XlaRuntimeError):  # some programs cannot be serialized
        blob = xla.serialize(exe)
        if len(blob) >= config.persistent_cache_min_entry_size_bytes:
            cache.put(key, blob)
    return exe


def program_key(
    client: Client, text: str, devices: Sequence[Device], options: Mapping[str, Any]
) -> str:
    """Name of an entry: equal for equal programs, options, devices, processor and jaxlib."""
    flags = sorted(xla.compiler_flags(devices[0].platform, text, options.get("options") or {}).items())
    rest = sorted((name, repr(value)) for name, value in options.items() if name != "options")
    device_ids = [(d.id, d.device_kind) for d in devices]
    digest = hashlib.sha256(
        repr((_machine(), client.platform_version, device_ids, flags, rest)).encode()
    )
    digest.update(text.encode())
    return digest.hexdigest()


@functools.lru_cache(maxsize=1)
def _machine() -> tuple[object, ...]:
    """The properties of the machine and the installation on which compiled code depends."""
    return (
        xla.jaxlib_version,
        xla.interface_version,
        platform.system(),
        platform.machine(),
        _cpu_features(),
        cpu_threads.num_threads() or cpu_threads.schedulable(),
        *(os.environ.get(name, "") for name in ("XLA_FLAGS", "PJRT_NPROC", "NPROC")),
    )


def _cpu_features() -> str:
    """The processor's instruction sets as Linux lists them; elsewhere its name."""
    try:
        with open("/proc/cpuinfo") as file:
            wanted = ("flags", "Features", "model name")
            return "".join(sorted({line for line in file if line.startswith(wanted)}))
    except OSError:
        return platform.processor()
