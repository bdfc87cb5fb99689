"""Shared by all tests: four CPU devices (also in real JAX, the oracle), compile caches of their own, quiet XLA."""

import contextlib
import faulthandler
import gc
import os
import sys
import time

import pytest

from tests import caches, quick_compiling
from tests.compile_watch import CompileWatch

# Before anything imports xjax or jax. Both libraries read XLA_FLAGS when their backend starts.
os.environ.setdefault("XLA_FLAGS", f"{quick_compiling.FLAGS} --xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Level 3: launches that tests make fail on purpose are not logged.
os.environ.setdefault("XJAX_LOG_LEVEL", "3")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The tests start hundreds of processes, which start a second sooner with the sources compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
caches.use_for_xjax()
# The oracle, where it is installed, comes before xjax: jaxlib looks for JAX's types once, when a program first asks for
# the parts of an array, and xjax hides JAX from it then.
with contextlib.suppress(ImportError):
    caches.use_for_jax()

# Of each process. Programs that one file compiles are used again by others.
COMPILED_MEMORY_LIMIT = 1 << 30


def pytest_configure(config):
    """Watch compilations and tests that hang; pytest captures no output at this moment, so this is the terminal's."""
    import xjax  # here: after the environment above is set
    from xjax.runtime import xla

    xla.compile = CompileWatch(os.dup(2)).watched(xla.compile)
    quick_compiling.install()
    xjax.config.update("jax_compiled_memory_limit", COMPILED_MEMORY_LIMIT)
    config.pluginmanager.register(_Hanging(os.dup(2)))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect garbage seldom, and not among the libraries and the tests themselves: it took a fifth of the time."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()
    return result


class _Hanging:
    """A test that hangs, in a compiler say, ends after half an hour with the stacks of all threads.

    pytest has an option for it, which starts a thread for each test: half a millisecond. Here it is one a minute.
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
    """For tests of what XLA makes of a program: it is optimized as for users (see `quick_compiling`)."""
    with quick_compiling.as_shipped():
        yield


@pytest.fixture
def quick_collections():
    """For tests of what is freed: collections leave out what other tests keep, which takes most of their time."""
    gc.freeze()                 # for good, since what was frozen before cannot be told from it
