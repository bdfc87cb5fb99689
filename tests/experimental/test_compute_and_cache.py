"""`compute_on`, and the folder of the cache on disk."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import xjax
from tests.oracle import holds, real_jax
from xjax.experimental.compilation_cache import compilation_cache
from xjax.experimental.compute_on import compute_on, compute_on2
from xjax.memory import Space

jax = real_jax("experimental.compute_on")
X = np.arange(4, dtype=np.float32)


def wrapped(lib, f, **options):
    module = importlib.import_module(f"{lib.__name__}.experimental.compute_on")
    wrap = module.compute_on if lib is xjax or holds(since="0.12") else module.compute_on2
    return wrap(f, compute_type="device", out_memory_spaces=lib.memory.Space.Device, **options)


@pytest.mark.parametrize("transform", [
    lambda lib, f: f, lambda lib, f: lib.jit(f), lambda lib, f: lib.vmap(f),
    lambda lib, f: lib.jit(lib.grad(lambda x: f(x).sum()))])
def test_a_function_on_the_device(transform):
    ours, theirs = (transform(lib, wrapped(lib, lambda x: lib.numpy.sin(x) * 2))(X) for lib in (xjax, jax))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_forms():
    with compute_on("device"):
        assert (xjax.numpy.ones(2) + 1).tolist() == [2, 2]
    assert compute_on("device")(np.sin) is np.sin
    assert compute_on2(compute_type="device", out_memory_spaces=(Space.Device, Space.Host))(
        lambda x: (x, x))(xjax.numpy.asarray(X))[1].sharding.memory_kind != "device"
    assert compute_on(lambda x: x, compute_type="device")(3) == 3


@pytest.mark.parametrize("error,call", [
    (TypeError, lambda: compute_on(3)), (ValueError, lambda: compute_on("host")),
    (NotImplementedError, lambda: compute_on("device_host")), (NotImplementedError, lambda: compute_on("gpu_stream:1")),
    (TypeError, lambda: compute_on(np.sin)),
    (NotImplementedError, lambda: compute_on(np.sin, compute_type="device", compiler_options={"a": 1})),
    (ValueError, lambda: compute_on(lambda x: x, compute_type="device", out_memory_spaces="device")(X)),
    (ValueError, lambda: compute_on(lambda x: x, compute_type="device", out_memory_spaces=Space.Any)(X))])
def test_mistakes(error, call):
    with pytest.raises(error, match="fix:"):
        call()


def test_a_folder_for_compiled_functions(tmp_path):
    folder, old = tmp_path / "programs", (xjax.config.compilation_cache_dir, xjax.config.cache_compiled_functions)
    seen = []
    xjax.monitoring.register_event_listener(lambda event, **_: seen.append(event.rpartition("/")[2]))
    try:
        compilation_cache.set_cache_dir(folder)
        xjax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        for expected in ("cache_misses", "cache_hits"):
            seen.clear()
            xjax.clear_caches()
            compilation_cache.reset_cache()
            xjax.jit(lambda x: x * 19.25 + 3)(X).block_until_ready()
            assert expected in seen
        assert list(folder.glob("*.exe"))
    finally:
        xjax.monitoring.clear_event_listeners()
        xjax.config.update("jax_compilation_cache_dir", old[0])
        xjax.config.update("cache_compiled_functions", old[1])
