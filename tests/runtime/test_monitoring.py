"""Events of the library, under the names that JAX gives them, and their listeners."""

from __future__ import annotations

import inspect
import threading

import numpy as np
import pytest

import xjax
from tests.oracle import real_jax
from xjax import monitoring

jax = real_jax("monitoring")
TRACE, LOWER, COMPILE = (f"/jax/core/compile/{name}_duration" for name in (
    "jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile"))
KINDS = {"event": (), "event_duration_secs": (2.5,), "event_time_span": (1.0, 2.0), "scalar": (7,)}


def remove_name(kind):
    return f"unregister_{kind.removesuffix('_secs')}_listener"


@pytest.fixture(autouse=True)
def no_listeners():
    yield
    for lib in (xjax, jax):
        lib.monitoring.clear_event_listeners()


class Recorded(list):
    """All events of a library as (kind, event, more), in order."""

    def __init__(self, lib):
        for kind in KINDS:
            getattr(lib.monitoring, f"register_{kind}_listener")(self._listener(kind))

    def _listener(self, kind):
        return lambda event, *values, **more: self.append((kind, event, more))

    def compiling(self):
        """The events of tracing, lowering and compiling."""
        return [x for x in self if x[1].startswith("/jax/core/compile")]


@pytest.mark.parametrize("kind", KINDS)
def test_listeners_get_each_event_of_their_kind(kind):
    def seen(lib):
        seen, module = [], lib.monitoring
        record = getattr(module, f"record_{kind}")

        def listener(*args, **more):
            seen.append((args, more))

        record("/before", *KINDS[kind])
        getattr(module, f"register_{kind}_listener")(listener)
        getattr(module, f"register_{kind}_listener")(listener)
        record("/both", *KINDS[kind], size=3, name="a")
        getattr(module, remove_name(kind))(listener)
        record("/one", *KINDS[kind])
        getattr(module, remove_name(kind))(listener)
        record("/none", *KINDS[kind])
        getattr(module, f"register_{kind}_listener")(listener)
        for other in KINDS:
            if other != kind:
                getattr(module, f"record_{other}")("/other", *KINDS[other])
        return seen
    assert seen(xjax) == seen(jax) != []


def test_signatures_are_those_of_jax():
    for name in monitoring.__all__:
        ours, theirs = (inspect.signature(getattr(lib.monitoring, name)).parameters for lib in (xjax, jax))
        assert list(ours) == list(theirs), name


@pytest.mark.parametrize("kind", KINDS)
def test_mistakes(kind):
    with pytest.raises(ValueError, match="(?s)not registered.*fix:"):
        getattr(monitoring, remove_name(kind))(print)
    with pytest.raises(TypeError, match="(?s)must be callable.*fix:"):
        getattr(monitoring, f"register_{kind}_listener")(3)


def test_a_compilation_has_the_events_of_jax():
    def of_one_compilation(lib):
        x, seen = lib.numpy.ones((2, 3)), Recorded(lib)

        def a_function(x):
            return lib.numpy.sin(lib.jit(lambda y: y * 17.25)(x))

        compiled = lib.jit(a_function)
        compiled(compiled(x))
        return seen.compiling()
    ours, theirs = of_one_compilation(xjax), of_one_compilation(jax)
    assert ours == theirs
    assert [e[1] for e in ours] == [TRACE] * 3 + [LOWER] * 3 + [COMPILE] * 3
    assert [e[2]["fun_name"] for e in ours] == ["a_function"] * 3 + ["jit(a_function)"] * 6


def test_durations_and_spans_are_times():
    seen = {}
    monitoring.register_event_duration_secs_listener(lambda event, seconds, **_: seen.update({event: seconds}))
    spans = {}
    monitoring.register_event_time_span_listener(lambda event, start, end, **_: spans.update({event: end - start}))
    xjax.jit(lambda x: x * 17.75)(np.ones(3))
    assert {TRACE, LOWER, COMPILE} <= set(seen) and all(0 < s < 60 for s in seen.values())
    assert {event: seen[event] for event in spans} == spans != {}


def test_eager_operations_and_failed_functions_are_seen():
    seen = Recorded(xjax)
    xjax.lax.expand_dims(xjax.numpy.arange(13), (0,))
    assert any("expand" in e[2]["fun_name"] or "reshape" in e[2]["fun_name"] or "broadcast" in e[2]["fun_name"]
               for e in seen if e[1] == COMPILE)
    seen.clear()
    with pytest.raises(ZeroDivisionError):
        xjax.jit(lambda x: 1 / 0)(1.0)
    assert [e[:2] for e in seen] == [("scalar", TRACE), ("event_duration_secs", TRACE), ("event_time_span", TRACE)]


def test_a_program_over_devices_is_seen():
    seen = Recorded(xjax)
    xjax.pmap(lambda x: x * 18.25)(np.ones(2, np.float32))
    assert [e[1] for e in seen.compiling()].count(COMPILE) == 3


def test_the_cache_on_disk(tmp_path):
    old = xjax.config.compilation_cache_dir
    xjax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        def events():
            seen = Recorded(xjax)
            xjax.clear_caches()
            xjax.lax.expand_dims(xjax.numpy.zeros((11, 3)), (1,)).block_until_ready()
            monitoring.clear_event_listeners()
            return {e[1].rpartition("/")[2] for e in seen if "compilation_cache" in e[1]}
        assert events() == {"compile_requests_use_cache", "cache_misses"}
        assert events() == {"compile_requests_use_cache", "cache_hits", "cache_retrieval_time_sec"}
    finally:
        xjax.config.update("jax_compilation_cache_dir", old)


def test_a_listener_may_remove_itself_and_others_may_register_meanwhile():
    seen = []

    def once(event, **_):
        seen.append(event)
        monitoring.unregister_event_listener(once)

    monitoring.register_event_listener(once)
    monitoring.register_event_listener(lambda event, **_: seen.append("other"))
    monitoring.record_event("/first")
    monitoring.record_event("/second")
    assert seen == ["/first", "other", "other"]
    threads = [threading.Thread(target=lambda: [monitoring.register_scalar_listener(lambda *_: seen.append("t"))
                                                for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen.clear()
    monitoring.record_scalar("/s", 1)
    assert len(seen) == 200
