"""The cache on disk: hits, keys, damage, permissions, bounds; many processes; the allocator."""

import os
import stat
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from xjax.core.config import Override, config
from xjax.runtime import xla
from xjax.runtime.process import memory
from xjax.runtime.programs import compile_cache
from xjax.runtime.programs.compile_cache import CompileCache, compile_cached, program_key

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PROGRAM = """func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
%0 = stablehlo.add %a, %a : tensor<8xf32>
return %0 : tensor<8xf32> }"""


class Aval:
    shape, dtype, weak_type = (8,), np.dtype("f4"), False


@pytest.fixture(scope="module")
def devices():
    return xla.make_cpu_client(4).devices()


@pytest.fixture
def folder(tmp_path):
    """An empty folder that the options name as the cache."""
    path = tmp_path / "cache"
    with Override("compilation_cache_dir", str(path)), Override("enable_compilation_cache", True):
        yield path
    compile_cache._open.cache_clear()


def run(exe, device):
    sharding = xla.on_device(device)
    x = xla.device_put(Aval, sharding, [np.arange(8, dtype=np.float32)], [device])
    return xla.to_numpy(xla.execute(exe, [x], [xla.result_handler(Aval, sharding)])[0]).tolist()


def load(device, **options):
    return run(compile_cached(device.client, PROGRAM, [device], **options), device)


DOUBLED = list(range(0, 16, 2))


def test_the_second_compile_is_a_hit(folder, devices, monkeypatch):
    assert load(devices[0], optimization_level=1) == DOUBLED
    monkeypatch.setattr(xla, "compile", None)  # no compilation from here on
    assert load(devices[0], optimization_level=1) == DOUBLED
    cache = compile_cache.current_cache()
    assert (cache.hits, cache.misses) == (1, 1)
    assert [p.suffix for p in folder.iterdir()] == [".exe"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(next(folder.iterdir()).stat().st_mode) == 0o600


def test_a_partitioned_program_is_loaded_on_its_devices(folder, devices, monkeypatch):
    text = PROGRAM.replace("%a: tensor<8xf32>)", "%a: tensor<8xf32> {sdy.sharding = SH})")
    text = text.replace("-> tensor<8xf32>", "-> (tensor<8xf32> {sdy.sharding = SH})")
    text = 'sdy.mesh @m = <["x"=4]>\n' + text.replace("SH", '#sdy.sharding<@m, [{"x"}]>')
    sharding = xla.on_devices(devices, xla.hlo_sharding_tiled((4,), (0, 1, 2, 3)))
    pieces = np.split(np.arange(8, dtype=np.float32), 4)
    for _ in range(2):
        exe = compile_cached(devices[0].client, text, devices, num_partitions=4)
        x = xla.device_put(Aval, sharding, pieces, devices)
        out = xla.execute(exe, [x], [xla.result_handler(Aval, sharding)])[0]
        assert xla.to_numpy(out).tolist() == DOUBLED
        monkeypatch.setattr(xla, "compile", None)


def test_keys_tell_programs_apart(devices, monkeypatch):
    client, one = devices[0].client, devices[:1]
    base = {"optimization_level": 1, "options": {"a": 1, "b": 2}}
    keys = [
        program_key(client, PROGRAM, one, base),
        program_key(client, PROGRAM + " ", one, base),
        program_key(client, PROGRAM, devices[1:2], base),
        program_key(client, PROGRAM, one, base | {"optimization_level": 2}),
        program_key(client, PROGRAM, one, base | {"options": {"a": 1, "b": 3}}),
        program_key(client, PROGRAM, one, base | {"propagate_outputs": (True,)}),
    ]
    compile_cache._machine.cache_clear()
    monkeypatch.setattr(xla, "jaxlib_version", "0.0.0")
    keys.append(program_key(client, PROGRAM, one, base))
    compile_cache._machine.cache_clear()
    monkeypatch.setattr(compile_cache, "_cpu_features", lambda: "another processor")
    keys.append(program_key(client, PROGRAM, one, base))
    monkeypatch.undo()
    compile_cache._machine.cache_clear()
    assert len(set(keys)) == len(keys)
    reordered = base | {"options": {"b": 2, "a": 1}}
    assert program_key(client, PROGRAM, one, reordered) == keys[0]


DAMAGE = {
    "cut": lambda blob: blob[: len(blob) // 2],
    "flipped bit": lambda blob: blob[:-9] + bytes([blob[-9] ^ 1]) + blob[-8:],
    "empty": lambda blob: b"",
    "another format": lambda blob: b"something else" + blob,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_compiled_again(folder, devices, damage):
    load(devices[0])
    (entry,) = folder.iterdir()
    entry.write_bytes(DAMAGE[damage](entry.read_bytes()))
    with pytest.warns(UserWarning, match="damaged"):
        assert load(devices[0]) == DOUBLED
    with warnings.catch_warnings():
        warnings.simplefilter("error")              # the entry is complete again
        assert load(devices[0]) == DOUBLED


def test_an_entry_that_xla_refuses_is_compiled_again(folder, devices):
    load(devices[0])
    (entry,) = folder.iterdir()
    compile_cache.current_cache().put(entry.stem, b"well kept, but no program")
    with pytest.warns(UserWarning, match="XLA does not load it"):
        assert load(devices[0]) == DOUBLED
    assert load(devices[0]) == DOUBLED


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_an_open_folder_is_refused_once(folder, devices, mode):
    folder.mkdir()
    folder.chmod(mode)
    with pytest.warns(UserWarning, match=r"other users can open it(.|\n)*chmod 700") as caught:
        assert load(devices[0]) == load(devices[0]) == DOUBLED
    assert len(caught) == 1 and list(folder.iterdir()) == []


def test_a_foreign_folder_is_refused(folder, devices, monkeypatch):
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert load(devices[0]) == DOUBLED
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made(folder, devices):
    folder.write_text("a file is here")
    with pytest.warns(UserWarning, match="cannot be created"):
        assert load(devices[0]) == DOUBLED


def test_a_full_disk_ends_the_use(folder, devices, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="No space left"):
        assert load(devices[0]) == DOUBLED
    assert list(folder.iterdir()) == [] and compile_cache.current_cache() is None


def test_the_longest_unused_entries_go_first(tmp_path):
    cache = CompileCache(tmp_path / "c", max_bytes=1000)
    for i in range(4):
        cache.put(f"k{i}", bytes(200))
        os.utime(cache.directory / f"k{i}.exe", (i, i))
    assert cache.get("k0") == bytes(200)  # k0 is now the newest
    stale, fresh = cache.directory / "a.tmp", cache.directory / "b.tmp"
    stale.touch(), fresh.touch()
    os.utime(stale, (time.time() - 7200,) * 2)
    cache.put("k4", bytes(600))
    assert sorted(p.name for p in cache.directory.iterdir()) == ["b.tmp", "k0.exe", "k4.exe"]
    cache.clear()
    assert [p.name for p in cache.directory.iterdir()] == ["b.tmp"]


def test_switched_off_nothing_is_hashed_or_written(folder, devices, monkeypatch):
    monkeypatch.setattr(compile_cache, "program_key", None)
    with Override("enable_compilation_cache", False):
        assert load(devices[0]) == DOUBLED
    assert not folder.exists()


def test_programs_with_callbacks_are_not_stored(folder, devices):
    call = (
        '"stablehlo.custom_call"(%a) {call_target_name = "xla_ffi_python_cpu_callback", '
        "api_version = 4 : i32, backend_config = {index = 0 : ui64}} : "
        "(tensor<8xf32>) -> tensor<8xf32>"
    )
    text = PROGRAM.replace("stablehlo.add %a, %a : tensor<8xf32>", call)
    for add in (1, 2):
        exe = compile_cached(devices[0].client, text, devices[:1],
                             host_callbacks=[lambda x, add=add: (x + add,)])  # fmt: skip
        assert run(exe, devices[0])[0] == add
    assert not folder.exists()


def test_where_the_folder_is(monkeypatch):
    with Override("compilation_cache_dir", None):
        assert str(compile_cache.cache_directory({"XJAX_CACHE_DIR": "/a/b"})) == "/a/b"
        assert str(compile_cache.cache_directory({"XDG_CACHE_HOME": "/x"})) == "/x/xjax"
        monkeypatch.setenv("HOME", "/h")
        assert str(compile_cache.cache_directory({})) == "/h/.cache/xjax"
    with Override("compilation_cache_dir", "/c"):
        assert str(compile_cache.cache_directory({"XJAX_CACHE_DIR": "/a/b"})) == "/c"
    assert config.compilation_cache_dir != "/c"


OTHER_PROCESS = """
import sys
from tests.runtime import test_compile_cache as t
from xjax.runtime import xla
from xjax.runtime.programs import compile_cache
device = xla.make_cpu_client(4).devices()[0]
for level in range(4):
    assert t.load(device, optimization_level=level) == t.DOUBLED
print(compile_cache.current_cache().misses)
"""


def test_processes_share_a_folder(folder):
    env = {**os.environ, "XJAX_COMPILATION_CACHE_DIR": str(folder),
           "XJAX_ENABLE_COMPILATION_CACHE": "1", "PYTHONPATH": ROOT}  # fmt: skip
    command = [sys.executable, "-W", "error", "-c", OTHER_PROCESS]
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE) for _ in range(2)]
    for process in both:
        process.communicate(timeout=60)
        assert process.returncode == 0
    third = subprocess.run(command, env=env, capture_output=True, text=True)
    assert third.stdout.strip() == "0" and len(list(folder.glob("*.exe"))) == 4


def test_the_allocator_is_tuned_unless_asked_not_to(monkeypatch):
    assert memory.trim() in (True, False)
    monkeypatch.setenv("XJAX_MALLOC", "default")
    assert memory._tune() is False
    monkeypatch.setattr(memory, "_glibc", lambda: None)
    monkeypatch.delenv("XJAX_MALLOC")
    assert memory._tune() is False and memory.trim() is False


@pytest.mark.parametrize("processors, shared", [(1, True), (4, True), (16, False)])
def test_threads_share_a_heap_on_few_processors_only(monkeypatch, processors, shared):
    """With many processors, compiling threads would wait for each other at its lock."""
    class Libc:
        settings = {}

        def mallopt(self, name, value):
            self.settings[name] = value
            return 1

    monkeypatch.delenv("XJAX_MALLOC", raising=False)
    monkeypatch.setattr(memory, "_glibc", Libc)
    monkeypatch.setattr(memory, "schedulable", lambda: processors)
    assert memory._tune() is True
    assert (Libc.settings.get(memory._M_ARENA_MAX) == 1) == shared


FAULTS = """
import ctypes, os, resource, threading
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:4])
from xjax.runtime.process import memory
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def fill():
    for size in [40 << 20, 100 << 20] * 5:
        block = ctypes.c_void_p(libc.malloc(size))
        ctypes.memset(block, 1, size)
        libc.free(block)

before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
thread = threading.Thread(target=fill)          # XLA's workspaces are made by threads
thread.start()
thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(memory._glibc() is None, reason="the allocator is not glibc's")
def test_freed_pages_are_used_again():
    faults = {}
    for setting in ("default", "tuned"):
        env = {**os.environ, "XJAX_MALLOC": setting, "PYTHONPATH": ROOT}
        done = subprocess.run(
            [sys.executable, "-c", FAULTS], env=env, capture_output=True, text=True
        )
        faults[setting] = int(done.stdout)
    assert faults["tuned"] < faults["default"] / 3
