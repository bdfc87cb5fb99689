"""Signals during work: when handlers run, and whether xjax still works afterwards."""

import signal
import threading
import time

import pytest

from tests.isolated import run
from xjax.core.interrupts import deferred, note_interrupt, shielded


@pytest.fixture(autouse=True)
def keyboard_interrupts():
    """SIGINT raises KeyboardInterrupt, even if pytest was started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def notes(error):
    return "\n".join(getattr(error, "__notes__", ()))


# -- one process --------------------------------------------------------------------------------------------------

def test_deferred_delivers_at_the_end_of_the_block():
    own, seen = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt) as caught, deferred("the outer work was done"):
        with deferred("the inner work was done"):
            signal.raise_signal(signal.SIGINT)
            seen.append(1)
        seen.append(2)
    assert seen == [1, 2] and signal.getsignal(signal.SIGINT) is own
    assert "interrupted while the outer work was done; it was delivered" in notes(caught.value)


def test_deferred_runs_the_handler_of_each_signal_that_came():
    arrived = []
    old = {n: signal.signal(n, lambda number, frame: arrived.append(number)) for n in (signal.SIGUSR1, signal.SIGTERM)}
    try:
        with pytest.raises(KeyboardInterrupt), deferred("work"):
            for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
                signal.raise_signal(number)
            assert arrived == []
        assert arrived == [signal.SIGUSR1, signal.SIGTERM]
        with deferred("work"):
            pass
        signal.raise_signal(signal.SIGTERM)
        assert arrived[2:] == [signal.SIGTERM]
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def test_deferred_leaves_default_actions_and_other_threads_alone():
    with deferred("work"):
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    failures = []

    def other():
        try:
            with deferred("work"):
                assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert not failures


def test_an_error_in_the_block_is_the_context_of_the_interrupt():
    with pytest.raises(KeyboardInterrupt) as caught, deferred("work"):
        signal.raise_signal(signal.SIGINT)
        raise OSError("failed")
    assert isinstance(caught.value.__context__, OSError)


def test_shielded_work_goes_on_after_an_interrupt():
    done = threading.Event()

    def work():
        signal.raise_signal(signal.SIGINT)
        time.sleep(2)
        done.set()
        return threading.current_thread() is threading.main_thread()

    with pytest.raises(KeyboardInterrupt):
        shielded(work)
    assert not done.is_set()
    assert done.wait(5)
    assert shielded(lambda: threading.current_thread().name) == "xjax compiler"
    with pytest.raises(OSError, match="failed"):
        shielded(lambda: (_ for _ in ()).throw(OSError("failed")))


def test_an_interrupt_while_the_thread_of_shielded_work_starts():
    for _ in range(200):
        with pytest.raises(KeyboardInterrupt):
            shielded(lambda: signal.raise_signal(signal.SIGINT))
    assert shielded(lambda: 3) == 3


def test_the_innermost_work_is_named():
    error = KeyboardInterrupt()
    note_interrupt(error, "f was traced")
    note_interrupt(error, "g was traced")
    assert notes(error) == "xjax: interrupted while f was traced."


# -- other processes ----------------------------------------------------------------------------------------------

INTERRUPTED = """
import os, random, signal, sys, threading, time
import numpy as np
import xjax, xjax.numpy as jnp
from xjax import lax

signal.signal(signal.SIGINT, signal.default_int_handler)        # ignored in jobs that a shell starts with &
kind, rng = sys.argv[1], random.Random(int(sys.argv[2]))
x = np.ones((1, 8), np.float32)
all_sums = xjax.pmap(lambda x: lax.psum(jnp.tanh(x @ x).sum(), "i"), axis_name="i")
rows = np.eye(200, dtype=np.float32)[None].repeat(4, 0)
loop = xjax.jit(lambda m: lax.fori_loop(0, 20, lambda _, m: m @ m, m))
called = xjax.jit(lambda x: xjax.pure_callback(lambda v: time.sleep(0.05) or np.asarray(v), x, x) + 1)

def layers(x, count, c):
    for i in range(count):
        x = jnp.tanh(x @ (x.T + i)) @ x * c
    return x
def compile():
    xjax.jit(lambda x: layers(x, 30, rng.random()))(x)
def trace():
    xjax.make_jaxpr(lambda x: layers(x, 3000, 1.0))(x)
def launch():
    for _ in range(20):
        all_sums(rows)
    loop(np.eye(300, dtype=np.float32)).block_until_ready()
def callback():
    called(x)
def everything():
    rng.choice([compile, trace, launch, callback])()

longest = 3.0 if kind in ("compile", "everything") else 1.5
threading.Timer(rng.uniform(0, longest), lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start, work = time.monotonic(), globals()[kind]
try:
    while True:
        work()
except KeyboardInterrupt as error:
    print(time.monotonic() - start, *getattr(error, "__notes__", ()))
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

for i in range(1, 6):
    assert float(xjax.jit(lambda x: (x * i).sum())(np.arange(5, dtype=np.float32))) == 10 * i
    assert xjax.grad(lambda x: (x ** 2).sum() * i)(jnp.arange(3.0)).tolist() == [0, 2 * i, 4 * i]
assert np.allclose(all_sums(rows), [4 * 200 * np.tanh(1)] * 4, rtol=1e-4)
assert called(x).tolist() == [[2.0] * 8] and loop(np.eye(3, dtype=np.float32)).tolist() == np.eye(3).tolist()
compile()
assert xjax.make_jaxpr(lambda x: layers(x, 3, 1.0))(x).out_avals[0].shape == (1, 8)
"""

@pytest.mark.parametrize("kind", ["compile", "trace", "launch", "callback"])
def test_work_after_an_interrupt(kind):
    run(INTERRUPTED, kind, 0, devices=4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compile", "trace", "launch", "callback", "everything"])
def test_work_after_interrupts_at_random_moments(kind):
    for seed in range(1, 13):
        run(INTERRUPTED, kind, seed, devices=4)


def test_an_interrupt_leaves_a_long_compilation_at_once():
    out = run("""
import os, signal, sys, threading, time
import numpy as np
import xjax, xjax.numpy as jnp
signal.signal(signal.SIGINT, signal.default_int_handler)

def long(x):
    for i in range(100):
        x = jnp.tanh(x @ (x.T + i)) @ x
    return x

lowered = xjax.jit(long).lower(np.ones((1, 8), np.float32))
threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    lowered.compile()
except KeyboardInterrupt as error:
    print(error.__notes__)
names = [t.name for t in threading.enumerate()]
assert "xjax compiler" in names, names          # it continues
assert float(xjax.jit(jnp.sum)(np.ones(3))) == 3
sys.stdout.flush()
os._exit(0)                                     # without waiting for the compiler
""")
    assert out.strip() == "['xjax: interrupted while XLA compiled jit `long`.']"


def test_what_was_interrupted_is_named():
    out = run("""
import signal, time
import numpy as np
import xjax, xjax.numpy as jnp
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupt(*args):
    signal.raise_signal(signal.SIGINT)
    return np.float32(0)

def tell(work, *args):
    try:
        work(*args)
    except KeyboardInterrupt as error:
        print(*error.__notes__)

def outer(x):
    return xjax.jit(inner)(x) + 1
def inner(x):
    interrupt()
    return x

tell(xjax.jit(outer), 1.0)
tell(xjax.grad(outer), 1.0)
tell(xjax.jit(lambda x: xjax.pure_callback(interrupt, x, x)), np.float32(1))
print(float(xjax.jit(lambda x: x + 1)(1.0)))
""")
    assert out.splitlines() == [
        "xjax: interrupted while jit `inner` was traced.", "xjax: interrupted while jit `inner` was traced.",
        "raised in pure_callback of `interrupt`, called by a compiled program", "2.0"]
