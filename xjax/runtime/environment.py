"""Information for bug reports: versions, machine, devices, environment variables and options."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from xjax.core.config import config
from xjax.core.options import OPTIONS
from xjax.runtime.devices import backend
from xjax.runtime.process import cuda_wheels
from xjax.runtime.process.cpu_threads import cgroup_quota, num_threads, schedulable
from xjax.version import __version__

# jax is not imported by xjax, but a program may use both.
_PACKAGES = ("jaxlib", "numpy", "scipy", "ml_dtypes", "opt_einsum", "jax")
_ONLY_IF_INSTALLED = ("jax-cuda12-plugin", "jax-cuda13-plugin", "optax", "flax")
_VARIABLES = ("XJAX_", "JAX_", "XLA_", "TF_GPU_", "NVIDIA_", "CUDA_VISIBLE_DEVICES", "PJRT_NPROC", "NPROC", "OMP_NUM_")
# Extensions of x86 and ARM processors that determine the code that XLA generates.
_FEATURES = ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile",
             "amx_bf16", "asimd", "sve", "bf16")
_WIDTH = 11
_SECONDS = 10           # time-out of the GPU driver's answer


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the information that a bug report should contain, or return it as text.

    It contains the versions of xjax, of the packages it builds on, of Python and of the system; processors and devices;
    environment variables that affect computations; and options that differ from their defaults. A backend that has not
    been used yet is started; if it cannot start, its error is shown instead of the devices.

    >>> print(xjax.print_environment_info(return_string=True).splitlines()[0].split()[0])
    xjax
    """
    rows = [("xjax", __version__), *_packages(), ("python", sys.version.replace("\n", " ")),
            ("system", platform.platform()), ("processor", _processor()), ("processors", _processors()), *_devices(),
            *_section("environment", (f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES))),
            *_section("options", (f"jax_{name} = {getattr(config, name)!r} (default {option.default!r})"
                                  for name, option in OPTIONS.items() if getattr(config, name) != option.default))]
    text = "\n".join(f"{name:<{_WIDTH}} {value}" for name, value in rows)
    if return_string:
        return text
    print(text)
    return None


def _section(name: str, lines: Iterable[str]) -> list[tuple[str, str]]:
    """One row for each line, the first with the name."""
    lines = list(lines) or ["none set" if name == "environment" else "defaults"]
    return [(name if i == 0 else "", line) for i, line in enumerate(lines)]


def _packages() -> Iterator[tuple[str, str]]:
    for package in (*_PACKAGES, *_ONLY_IF_INSTALLED):
        try:
            yield package, importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            if package in _PACKAGES:
                yield package, "not installed"


def _processor() -> str:
    """Model and relevant instruction set extensions, if the system reports them."""
    cpuinfo = _cpuinfo()
    model = cpuinfo.get("model name") or platform.processor() or platform.machine()
    flags = (cpuinfo.get("flags") or cpuinfo.get("Features") or "").split()
    return f"{model} ({platform.machine()}: {' '.join(f for f in _FEATURES if f in flags) or 'extensions unknown'})"


def _cpuinfo() -> dict[str, str]:
    """Linux's description of the first processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _processors() -> str:
    quota = cgroup_quota()
    limit = "no cgroup quota" if quota is None else f"cgroup quota {quota:g}"
    try:
        threads = num_threads()
    except ValueError as error:
        threads = _first_line(error)
    return f"{os.cpu_count()} ({schedulable()} usable, {limit}), XLA threads: {threads or 'chosen by XLA'}"


def _devices() -> list[tuple[str, str]]:
    """The backend in use, its devices and processes; for GPUs the driver."""
    try:
        devices = backend.devices()
        process = f"process {backend.process_index()} of {backend.process_count()}"
        rows = [("backend", f"{backend.default_backend()}, {process}")]
        rows += _section("devices", (f"{d} ({d.device_kind})" for d in devices))
    except Exception as error:          # the report must show any error that prevents a start
        rows = [("backend", f"cannot start: {type(error).__name__}: {_first_line(error)}")]
    if cuda_wheels.gpu_visible():
        rows += _section("driver", _gpu_driver())
    return rows


def _gpu_driver() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return [f"unknown: {_first_line(error)}"]
    return output.stdout.strip().splitlines()


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
