"""Setup for all tests: four CPU devices (also in real JAX, the oracle), separate compile caches, quiet XLA."""

import contextlib
import faulthandler
import gc
import os
import sys
import time

import pytest

from tests import caches, quick_compiling
from tests.compile_watch import CompileWatch

# Set before xjax or jax is imported. Both libraries read XLA_FLAGS when their backend starts.
os.environ.setdefault("XLA_FLAGS", f"{quick_compiling.FLAGS} --xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Level 3: launches that tests make fail on purpose are not logged.
os.environ.setdefault("XJAX_LOG_LEVEL", "3")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The tests start hundreds of processes, which start one second faster when the sources are already compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
caches.use_for_xjax()
# The oracle, where installed, is imported before xjax: jaxlib looks up JAX's types once, when a program first reads the
# shards of an array, and at that moment xjax hides JAX from it.
with contextlib.suppress(ImportError):
    caches.use_for_jax()

# For each process. Programs compiled by one test file are used again by others.
COMPILED_MEMORY_LIMIT = 1 << 30


def pytest_configure(config):
    """Watch compilations and hanging tests; pytest captures no output yet, so descriptor 2 is that of the terminal."""
    import xjax  # here, after the environment is set above
    from xjax.runtime import xla

    xla.compile = CompileWatch(os.dup(2)).watched(xla.compile)
    quick_compiling.install()
    xjax.config.update("jax_compiled_memory_limit", COMPILED_MEMORY_LIMIT)
    config.pluginmanager.register(_Hanging(os.dup(2)))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect garbage rarely, and never the libraries and tests themselves: collections took a fifth of the time."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()
    return result


class _Hanging:
    """Ends a test that hangs, for example in a compiler, after half an hour, with the stacks of all threads.

    pytest has an option for this, which starts one thread per test, at half a millisecond each. Here it is one thread
    per minute.
    """

    SECONDS, EVERY = 1800, 60
    started = -EVERY

    def __init__(self, terminal):
        self.terminal = terminal

    def pytest_runtest_setup(self, item):
        if time.monotonic() - self.started > self.EVERY:
            self.started = time.monotonic()
            faulthandler.dump_traceback_later(self.SECONDS, exit=True, file=self.terminal)

    def pytest_sessionfinish(self, session):
        faulthandler.cancel_dump_traceback_later()


def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        caches.trim(caches.folder() / "jax")


@pytest.fixture(scope="module")
def as_shipped():
    """For tests of XLA's optimizations (fusion, rounding, memory): programs are compiled as for users."""
    with quick_compiling.as_shipped():
        yield


@pytest.fixture
def quick_collections():
    """For tests of freed memory: collections skip the objects of other tests, which would take most of the time."""
    gc.freeze()                 # never undone: objects frozen earlier cannot be distinguished from these
