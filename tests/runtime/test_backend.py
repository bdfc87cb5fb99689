"""Platforms, devices, when they start, and their numbers of threads."""

import os
import subprocess
import sys

import pytest

from xjax.core.config import Override
from xjax.runtime import xla
from xjax.runtime.devices import backend
from xjax.runtime.process import cpu_threads, cuda_wheels

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def python(code, **env):
    """Run code in a new process, before any start of a backend; returns its output."""
    clean = {k: v for k, v in os.environ.items() if k not in {"XLA_FLAGS", "PJRT_NPROC", "NPROC"}}
    clean = {k: v for k, v in clean.items() if not k.startswith(("XJAX_", "JAX_"))}
    done = subprocess.run(
        [sys.executable, "-c", "from xjax.core.config import config\n"
         "from xjax.runtime.devices import backend\n" + code],
        capture_output=True, text=True, cwd=ROOT, env={**clean, "PYTHONPATH": ROOT, **env},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_device_facts():
    first = backend.devices()[0]
    assert (first.id, first.platform, first.device_kind) == (0, "cpu", "cpu")
    assert (first.process_index, first.local_hardware_id) == (0, 0)
    assert backend.default_backend() == first.platform
    assert backend.devices() == backend.local_devices() == backend.local_devices(0)
    assert backend.device_count() == backend.local_device_count() == len(backend.devices("cpu"))
    assert (backend.process_index(), backend.process_count()) == (0, 1)
    assert first.client is backend.client() and len({*backend.devices()}) == len(backend.devices())


def test_default_device_follows_the_option():
    first = backend.devices()[0]
    assert backend.default_device() is first
    with Override("default_device", "cpu"):
        assert backend.default_device() is first
    last = backend.devices()[-1]
    with Override("default_device", last):
        assert backend.default_device() is last


@pytest.mark.parametrize(
    ("env", "update", "count"),
    [
        ({}, None, 1),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, None, 3),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, 2, 2),
        ({"XJAX_NUM_CPU_DEVICES": "5"}, None, 5),
    ],
)
def test_number_of_cpu_devices(env, update, count):
    change = f"config.update('jax_num_cpu_devices', {update})\n" if update else ""
    assert python(change + "print(backend.device_count())", **env) == str(count)


def test_nothing_starts_at_import():
    assert python("print(backend._state.clients)") == "{}"


TOO_LATE = """
def user_function():
    backend.devices()
user_function()
for name, value in (("jax_num_cpu_devices", 4), ("jax_platforms", "cpu,gpu")):
    try:
        config.update(name, value)
    except RuntimeError as error:
        print(error)
config.update("jax_num_cpu_devices", config.num_cpu_devices)      # no change: no error
try:
    backend.use_distributed(node_id=0)
except RuntimeError as error:
    print(error)
backend.clear_backends()
config.update("jax_num_cpu_devices", 4)
print(backend.device_count())
"""


def test_a_late_change_names_what_started_the_backend():
    out = python(TOO_LATE)
    assert out.count("too late") == out.count("fix:") == 3
    assert out.count("started by  <string>:5 in user_function") == 3
    assert "config.update('jax_num_cpu_devices')" in out and "distributed.initialize" in out
    assert out.splitlines()[-1] == "4"


PLATFORMS = """
for name in ("cpu", "gpu", "tpu", "cdua"):
    try:
        print(name, [d.platform for d in backend.devices(name)])
    except RuntimeError as error:
        print(name, error)
"""


def test_platforms_that_are_not_there():
    out = python(PLATFORMS, XJAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="")
    assert "cpu ['cpu']" in out and "platform 'gpu' is disabled" in out
    assert "'cpu,gpu'" in out and "unknown platform 'tpu'" in out and "did you mean 'cuda'?" in out


def test_a_misspelt_option_is_told_at_once():
    code = "try: config.update('jax_platforms', 'cpu,cudaa')\nexcept RuntimeError as e: print(e)"
    out = python(code)
    assert "unknown platform 'cudaa'" in out and "did you mean 'cuda'?" in out


@pytest.mark.parametrize(
    ("option", "gpu", "expected"),
    [
        (None, False, ("cpu",)),
        (None, True, ("gpu", "cpu")),
        ("cpu", True, ("cpu",)),
        ("cuda,cpu", False, ("gpu", "cpu")),
        (" cpu , gpu ,cuda", False, ("cpu", "gpu")),
    ],
)
def test_choice_of_platforms(monkeypatch, option, gpu, expected):
    monkeypatch.setattr(cuda_wheels, "gpu_visible", lambda: gpu)
    monkeypatch.setattr(cuda_wheels, "find_plugin", lambda: ("12", "plugin.so") if gpu else None)
    assert backend._chosen_platforms(option) == expected


@pytest.mark.parametrize("driver, plugin, hidden, message", [
    (True, False, False, "no CUDA plugin"), (False, True, False, "no NVIDIA driver"), (False, True, True, None),
    (True, True, False, None), (False, False, False, None)])
def test_a_gpu_that_stays_unused_is_told(monkeypatch, recwarn, driver, plugin, hidden, message):
    monkeypatch.setattr(cuda_wheels, "gpu_visible", lambda: driver)
    monkeypatch.setattr(cuda_wheels, "gpu_hidden", lambda: hidden)
    monkeypatch.setattr(cuda_wheels, "find_plugin", lambda: ("13", "plugin.so") if plugin else None)
    assert backend._chosen_platforms("cpu") == ("cpu",) and not recwarn
    backend._chosen_platforms(None)
    texts = [str(warning.message) for warning in recwarn]
    assert len(texts) == (message is not None)
    assert all(message in text and "run on the CPU" in text and "fix: see docs/gpu.md" in text for text in texts)


def test_one_client_for_all_threads():
    code = """
import threading
seen, gate = [], threading.Barrier(8)
def look():
    gate.wait()
    seen.append(backend.client())
threads = [threading.Thread(target=look) for _ in range(8)]
[t.start() for t in threads], [t.join() for t in threads]
print(len(set(map(id, seen))), len(seen))
"""
    assert python(code) == "1 8"


def test_local_devices_of_an_absent_process():
    with pytest.raises(ValueError, match=r"process 3 does not exist(.|\n)*fix:"):
        backend.local_devices(3)


# --- The GPU's wheels ----------------------------------------------------------------------------


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """A folder on the path that imitates an installation of the CUDA 12 wheels."""
    for name in (
        "jax_plugins/xla_cuda12/__init__.py",
        "nvidia/cudnn/lib/libcudnn.so.9",
        "nvidia/cuda_runtime/lib/libcudart.so.12",
        "nvidia/cuda_nvcc/bin/ptxas",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("raise ImportError('must not be imported')")
    monkeypatch.syspath_prepend(tmp_path)
    cuda_wheels.toolkit.cache_clear()
    earlier = sys.modules.pop("jax_plugins", None)          # a namespace package, which looking for a plugin imports
    yield tmp_path
    cuda_wheels.toolkit.cache_clear()
    sys.modules.pop("jax_plugins", None)
    if earlier is not None:
        sys.modules["jax_plugins"] = earlier


def test_wheels_are_found_without_import(wheels):
    plugin = str(wheels / "jax_plugins/xla_cuda12/xla_cuda_plugin.so")
    assert cuda_wheels.find_plugin() == ("12", plugin)
    assert cuda_wheels.toolkit() == str(wheels / "nvidia/cuda_nvcc")
    names = [os.path.basename(path) for path in cuda_wheels.libraries("12")]
    assert names == ["libcudart.so.12", "libcudnn.so.9"]  # each after the libraries that it needs


def test_a_visible_gpu(monkeypatch):
    monkeypatch.setattr(os.path, "exists", lambda path: path == "/dev/nvidiactl")
    assert cuda_wheels.gpu_visible({}) and cuda_wheels.gpu_visible({"CUDA_VISIBLE_DEVICES": "0"})
    assert not cuda_wheels.gpu_visible({"CUDA_VISIBLE_DEVICES": ""})
    assert not cuda_wheels.gpu_visible({"CUDA_VISIBLE_DEVICES": "-1"})
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    assert not cuda_wheels.gpu_visible({})


# --- Threads -------------------------------------------------------------------------------------


def group(root, path, **files):
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.mark.parametrize(
    ("groups", "own", "quota"),
    [
        ({}, "", None),
        ({"": {"cpu__max": "max 100000\n"}}, "0::/\n", None),
        ({"": {"cpu__max": "150000 100000\n"}}, "0::/\n", 1.5),
        ({"a": {"cpu__max": "400000 100000"}, "a/b": {"cpu__max": "max 100000"}}, "0::/a/b\n", 4),
        ({"a": {"cpu__max": "400000 100000"}, "a/b": {"cpu__max": "200000 100000"}}, "0::/a/b", 2),
        ({"other": {"cpu__max": "100000 100000"}}, "0::/a\n", None),
        ({"cpu": {"cpu__cfs_quota_us": "-1", "cpu__cfs_period_us": "100000"}}, "", None),
        ({"cpu/j": {"cpu__cfs_quota_us": "300000", "cpu__cfs_period_us": "100000"}},
         "4:memory:/j\n3:cpu,cpuacct:/j\n", 3),
    ],
)  # fmt: skip
def test_cgroup_quota(tmp_path, groups, own, quota):
    for path, files in groups.items():
        group(tmp_path / "fs", path, **files)
    (tmp_path / "own").write_text(own)
    assert cpu_threads.cgroup_quota(tmp_path / "fs", tmp_path / "own") == quota


def test_number_of_threads(monkeypatch):
    monkeypatch.setattr(cpu_threads, "schedulable", lambda: 8)
    monkeypatch.setattr(cpu_threads, "cgroup_quota", lambda: 1.5)
    assert cpu_threads.num_threads({}) == 2
    assert cpu_threads.num_threads({"XJAX_NUM_THREADS": "3"}) == 3
    assert cpu_threads.num_threads({"XJAX_NUM_THREADS": "3", "NPROC": "9"}) is None
    monkeypatch.setattr(cpu_threads, "cgroup_quota", lambda: 16.0)
    assert cpu_threads.num_threads({}) is None
    for text in ("0", "-2", "many", "1.5", ""):
        with pytest.raises(ValueError, match=r"XJAX_NUM_THREADS(.|\n)*fix:"):
            cpu_threads.num_threads({"XJAX_NUM_THREADS": text})


def test_the_environment_is_left_as_it_was(monkeypatch):
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.setenv("XJAX_NUM_THREADS", "2")
    with cpu_threads.limited():
        assert os.environ["PJRT_NPROC"] == "2"
    assert "PJRT_NPROC" not in os.environ


THREADS = """
import os
before = len(os.listdir("/proc/self/task"))
backend.devices()
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="no /proc")
def test_xla_starts_fewer_threads():
    few, many = (int(python(THREADS, XJAX_NUM_THREADS=n)) for n in ("1", "6"))
    assert 0 < few < many


def test_a_client_starts_in_the_limit(monkeypatch):
    seen = []
    monkeypatch.setattr(xla, "make_cpu_client", lambda n, *args, **kw: seen.append(dict(os.environ)))
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    monkeypatch.setenv("XJAX_NUM_THREADS", "7")
    backend._start_cpu()
    assert seen[0]["PJRT_NPROC"] == "7"
