"""The start of a GPU, with imitations of jaxlib and NVIDIA's libraries: order, names, missing libraries."""

import importlib
from types import SimpleNamespace

import pytest

from xjax.runtime import xla
from xjax.runtime.process import cuda_wheels
from xjax.runtime.xla import clients


class Jaxlib:
    """Records the calls of `clients` to jaxlib's `xla_client`; real JAX may have loaded its plugin before."""

    def __init__(self, jax_was_first=False, starts=True):
        self.plugins, self.calls, self.starts = {"cuda"} if jax_was_first else set(), [], starts

    def pjrt_plugin_loaded(self, name):
        return name in self.plugins

    pjrt_plugin_initialized = pjrt_plugin_loaded

    def load_pjrt_plugin_dynamically(self, name, library):
        self.plugins.add(name)
        self.calls.append(f"load {name}")
        return f"C API of {library}"

    def generate_pjrt_gpu_plugin_options(self):
        return {"preallocate": True}

    def make_c_api_client(self, name, options, client):
        self.calls.append(f"start {name}")
        if not self.starts:
            raise xla.XlaRuntimeError("INTERNAL: no supported devices found\nmore")
        return name, options, client

    def __getattr__(self, name):                # registrations of types and calls
        return lambda *args, **kwargs: None


@pytest.fixture
def play(monkeypatch):
    def start(jaxlib, libraries=(), **distributed):
        extension = SimpleNamespace(register_custom_type=print, register_custom_call_target=print, ffi_types=dict,
                                    ffi_handlers=dict, register_plugin_profiler=lambda api: None, registrations=dict)
        monkeypatch.setattr(clients, "xc", jaxlib)
        monkeypatch.setattr(clients, "importlib", SimpleNamespace(import_module=lambda name: extension))
        monkeypatch.setattr(cuda_wheels, "find_plugin", lambda: ("13", "plugin.so"))
        monkeypatch.setattr(cuda_wheels, "libraries", lambda version: libraries)
        return xla.make_gpu_client(**distributed)

    def forget():
        clients._load_cuda_plugin.cache_clear()
        clients._load_nvidia_libraries.cache_clear()

    forget()
    yield start
    forget()


def test_the_plugin_has_a_name_that_real_jax_leaves_free(play):
    jaxlib = Jaxlib()
    assert play(jaxlib) == ("xjax_cuda", {"preallocate": True}, None)
    assert jaxlib.calls == ["load xjax_cuda", "start xjax_cuda"]
    assert not jaxlib.pjrt_plugin_loaded("cuda")            # not for JAX, which registers it when it is imported


def test_the_plugin_of_real_jax_serves_where_it_is_loaded(play):
    jaxlib = Jaxlib(jax_was_first=True)
    assert play(jaxlib, libraries=["/none/libcudart.so"], node_id=1, distributed_client="client") == (
        "cuda", {"preallocate": True, "node_id": 1}, "client")
    assert jaxlib.calls == ["start cuda"]


def test_a_library_that_does_not_load_is_named_only_if_cuda_does_not_start(play, tmp_path):
    broken = tmp_path / "libnvshmem_host.so.3"
    broken.write_bytes(b"no library")
    assert play(Jaxlib(), [str(broken)])[0] == "xjax_cuda"
    for starts in (True, False):
        clients._load_cuda_plugin.cache_clear()
        clients._load_nvidia_libraries.cache_clear()
        if starts:
            play(Jaxlib(), [str(broken)])
            continue
        with pytest.raises(RuntimeError) as caught:
            play(Jaxlib(starts=False), [str(broken)])
        text = str(caught.value)
        assert "CUDA does not start" in text and "no supported devices found" in text and "more" not in text
        assert f"libraries not loaded  {broken}" in text and "fix: install the extra" in text


def test_a_package_of_the_plugin_that_is_missing_is_one_clear_error(play, monkeypatch):
    jaxlib = Jaxlib()
    jaxlib.load_pjrt_plugin_dynamically = lambda *args: importlib.import_module("jax_cuda13_plugin_that_is_not_there")
    with pytest.raises(RuntimeError, match="No module named 'jax_cuda13_plugin_that_is_not_there'"):
        play(jaxlib)
