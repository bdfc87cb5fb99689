"""Compiled programs stay within one bound, and programs in use are kept."""

import gc
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax import lax
from xjax.core import cache
from xjax.runtime.programs.launch import Executable

MB = 1 << 20


@pytest.fixture
def bound(request, quick_collections):
    """A bound of `request.param` bytes, with empty caches."""
    saved = xjax.config.read("compiled_memory_limit")
    xjax.clear_caches()
    xjax.config.update("jax_compiled_memory_limit", request.param)
    cache.forget_warnings()
    yield request.param
    xjax.config.update("jax_compiled_memory_limit", saved)
    xjax.clear_caches()


def in_programs():
    return sum(size for _, size in cache.held().values())       # without a report's search for arrays


def ones(*shape):
    return xjax.device_put(np.ones(shape, np.float32))


@pytest.mark.parametrize("bound", [2 * MB], indirect=True)
@pytest.mark.parametrize("make", [lambda: xjax.jit(lambda x: x * 2), lambda: jnp.exp2, lambda: jnp.nanmean,
                                  lambda: xjax.pmap(lambda x: x * 2)], ids=["jit", "eager", "one launch", "pmap"])
def test_many_shapes_stay_within_the_bound(bound, make):
    f, largest = make(), 0
    for n in range(1, 20):
        f(ones(1, n))
        largest = max(largest, in_programs())
    assert bound // 4 < largest <= bound


@pytest.mark.parametrize("bound", [2 * MB], indirect=True)
def test_what_is_remembered_on_programs_stays_within_the_bound(bound):
    """An eager loop is compiled for the program of its body, which holds the executable."""
    def body(c, x):
        return c + x, None

    def in_memory():
        return sum(type(x) is Executable for x in gc.get_objects())

    gc.collect()
    before = in_memory()
    for n in range(1, 30):
        lax.scan(body, ones(n), ones(1, n))
    assert in_memory() - before <= 30           # each is at least 250 kB by estimate, and a scan has a second one


@pytest.mark.parametrize("bound", [-1], indirect=True)
def test_without_a_bound_nothing_is_forgotten(bound):
    f = xjax.jit(lambda x: x * 2)
    for n in range(1, 20):
        f(ones(n))
    assert xjax.memory_report().programs["jit `<lambda>`"][0] == 19


@pytest.mark.parametrize("bound", [2 * MB], indirect=True)
def test_what_is_used_is_kept(bound):
    traced = []

    @xjax.jit
    def used(x):
        traced.append(x.shape)
        return x + 1

    other = xjax.jit(lambda x: x * 2)
    for n in range(1, 30):
        used(ones(3))
        other(ones(n))
    assert traced == [(3,)]


@pytest.mark.parametrize("bound", [2 * MB], indirect=True)
def test_a_program_that_comes_back_is_named_once(bound):
    def doubled(x):
        return x * 2

    f = xjax.jit(doubled)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", xjax.errors.RetraceWarning)
        for _ in range(3):
            for n in range(1, 20):
                np.testing.assert_array_equal(f(ones(n)), np.full(n, 2, np.float32))
    texts = [str(w.message) for w in caught if "doubled" in str(w.message)]
    assert len(texts) == 1 and "jax_compiled_memory_limit" in texts[0]


@pytest.mark.parametrize("bound", [2 * MB], indirect=True)
def test_a_running_program_may_be_forgotten(bound):
    f = xjax.jit(lambda x: lax.fori_loop(0, 200_000, lambda i, x: jnp.sin(x), x))
    running = f(ones(50))
    del f
    xjax.clear_caches()
    gc.collect()
    np.testing.assert_allclose(running, running.at[0].get(), rtol=1e-6)


@pytest.mark.parametrize("bound", [2 * MB], indirect=True)
def test_threads_share_the_bound(bound):
    f, wrong = xjax.jit(lambda x: x.sum() * 2), []

    def work(seed):
        for n in np.random.default_rng(seed).integers(1, 30, 15):
            if float(f(ones(n))) != 2 * n or float(jnp.exp2(ones(n))[0]) != 2:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and in_programs() <= bound


def test_programs_are_freed_with_their_function():
    def short_lived(x):
        return x * 3

    f = xjax.jit(short_lived)
    f(ones(2))
    assert xjax.memory_report().programs["jit `short_lived`"][0] == 1
    del f
    gc.collect()
    assert "jit `short_lived`" not in xjax.memory_report().programs


def test_programs_of_functions_that_are_gone_are_freed():
    """A loop that creates functions leaves a few executables, not one for each: one takes some hundred kilobytes."""
    client = xjax.devices()[0].client
    gc.collect()
    before = len(client.live_executables())
    for k in range(100):
        g = xjax.jit(xjax.grad(lambda x, k=k: jnp.sum(jnp.sin(x) * (k + 0.37))))
        g(ones(3))
    del g
    gc.collect()
    assert len(client.live_executables()) - before <= 65


def test_a_function_that_is_made_again_is_not_compiled_again():
    client, programs = xjax.devices()[0].client, []
    for _ in range(3):
        for k in range(8):
            xjax.jit(lambda x, k=k: jnp.sin(x) * (k + 0.73))(ones(3))
        gc.collect()
        programs.append({id(program) for program in client.live_executables()})
    assert programs[0] == programs[1] == programs[2]


def test_programs_in_use_are_kept_whatever_is_compiled_meanwhile():
    traced = []
    used = xjax.jit(lambda x: traced.append(x) or jnp.cos(x) * 0.41)
    used(ones(3))
    client = xjax.devices()[0].client
    for k in range(80):
        xjax.jit(lambda x, k=k: jnp.cos(x) * (k + 0.43))(ones(3))
    alive = len(client.live_executables())
    used(ones(3))
    assert len(traced) == 1 and len(client.live_executables()) <= alive


_CLOSURES = """
import gc
import xjax
import xjax.numpy as jnp

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def make(first, last):
    for k in range(first, last):
        xjax.jit(xjax.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.exp(x * k))))(jnp.ones(3))
    gc.collect()

make(0, 100)
start = resident()
make(100, 900)
print((resident() - start) / 2**20)
"""


@pytest.mark.slow
def test_800_new_closures_take_little_memory():
    done = subprocess.run([sys.executable, "-c", _CLOSURES], capture_output=True, text=True, check=True)
    assert float(done.stdout) <= 20


@pytest.mark.parametrize("bound", [256 * MB], indirect=True)
def test_the_report_is_a_table(bound):
    f = xjax.jit(lambda x: x - 7)
    kept = f(ones(1000))
    report = xjax.memory_report()
    assert report.arrays[0] >= 1 and report.arrays[1] >= kept.nbytes
    first, *_, last = str(report).splitlines()
    assert first.split()[0] == "arrays" and last.startswith("programs: ") and last.endswith(" MiB of at most 256")


_GROWTH = """
import sys
import numpy as np
import xjax
import xjax.numpy as jnp

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

xjax.config.update("jax_enable_compilation_cache", False)
f = {"jit": xjax.jit(lambda x: jnp.sin(x) * 2), "eager": jnp.exp2}[sys.argv[1]]
for n in range(1, 50):
    f(xjax.device_put(np.ones(n, np.float32)))
start = resident()
for n in range(50, 5050):
    f(xjax.device_put(np.ones(n, np.float32)))
print((resident() - start) >> 20)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jit", "eager"])
def test_thousands_of_shapes_take_little_memory(kind):
    done = subprocess.run([sys.executable, "-c", _GROWTH, kind], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 300


def test_of_parts_finds_what_the_tuple_finds():
    table = cache.Cache()
    table[1, 2], table[1, 3] = "a", "b"
    for parts in ([1, 2], [1, 2], [1, 3], [1, 3], [1, 2], [2], []):
        assert table.of_parts(parts) == table.young.get(tuple(parts))
    for forget in (table.drop_old, table.clear):
        table[1, 2] = "a"
        assert table.of_parts([1, 2]) == "a"
        forget()
        assert table.of_parts([1, 2]) is None
