"""Profiles: files that viewers open, spans by name, one at a time; and DLPack's module."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from xjax import profiler


def test_a_profile_has_the_spans(tmp_path):
    options = profiler.ProfileOptions()
    options.python_tracer_level = 0

    @profiler.annotate_function
    def load_rows(n):
        return jnp.ones(n)

    with profiler.trace(tmp_path, profiler_options=options):
        with pytest.raises(RuntimeError, match="(?s)already being recorded.*stop_trace"):
            profiler.start_trace(tmp_path)
        for step in range(2):
            with profiler.StepTraceAnnotation("train_step", step_num=step), profiler.TraceAnnotation("forward"):
                load_rows(100).sum().block_until_ready()
    with pytest.raises(RuntimeError, match="(?s)no profile.*start_trace"):
        profiler.stop_trace()
    written, = tmp_path.rglob("*.trace.json.gz")
    names = {event.get("name", "") for event in json.loads(gzip.decompress(written.read_bytes()))["traceEvents"]}
    assert "forward" in names and any("load_rows" in name for name in names)
    assert any(name.startswith("train_step") for name in names)
    planes, = tmp_path.rglob("*.xplane.pb")
    assert list(profiler.ProfileData.from_file(str(planes)).planes)


def test_memory_profile(tmp_path):
    keep = jnp.ones(1000)
    profiler.save_device_memory_profile(tmp_path / "memory.prof")
    assert gzip.decompress((tmp_path / "memory.prof").read_bytes())
    assert keep.size == 1000


def test_wrong_calls(tmp_path):
    with pytest.raises(ValueError, match="ui.perfetto.dev"):
        profiler.start_trace(tmp_path, create_perfetto_link=True)
    with pytest.raises(ValueError, match="no server"):
        profiler.stop_server()


def test_dlpack():
    x = np.arange(3.0, dtype=np.float32)
    assert xjax.dlpack.from_dlpack(x).tolist() == [0, 1, 2]
    jax = real_jax()
    for name in ("bool", "int4", "int8", "uint64", "float16", "bfloat16", "float64", "complex128", "float8_e5m2"):
        assert xjax.dlpack.is_supported_dtype(name) == jax.dlpack.is_supported_dtype(name), name
