"""Many threads: at their first calls in a new process, and in a mix of all kinds of work."""

import threading
import time

import pytest

from tests.isolated import run
from xjax.core.once import once

# -- objects made once --------------------------------------------------------------------------------------------


def in_threads(n, work):
    """The results of `work(i)` in n threads that start together."""
    gate, results = threading.Barrier(n), [None] * n

    def start(i):
        gate.wait()
        results[i] = work(i)

    threads = [threading.Thread(target=start, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_once_makes_one_object_for_each_key():
    made = []

    @once
    def slow(key):
        """A slow function."""
        made.append(key)
        time.sleep(0.05)
        return object()

    results = in_threads(8, lambda i: slow(i % 2))
    assert sorted(made) == [0, 1] and len(set(map(id, results))) == 2
    assert slow.made() == {(0,): slow(0), (1,): slow(1)} and slow.__doc__ == "A slow function."
    slow.cache_clear()
    assert slow(0) not in results


def test_once_tries_again_after_a_failure():
    attempts = []

    @once
    def fails_first():
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("not yet")

    with pytest.raises(OSError, match="not yet"):
        fails_first()
    assert fails_first() is None and fails_first() is None and len(attempts) == 2
    assert OSError("x").__context__ is None


# -- cold processes -----------------------------------------------------------------------------------------------

START = """
import random, sys, threading, time
import numpy as np
import xjax, xjax.numpy as jnp

def together(*works):
    '''Run functions in threads that start together; raises the first exception of any.'''
    gate, errors = threading.Barrier(len(works)), []
    def start(work):
        gate.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=start, args=(work,)) for work in works]
    [t.start() for t in threads], [t.join() for t in threads]
    if errors:
        raise errors[0]
"""

SAME_CALLBACK = START + """
x = np.arange(4, dtype=np.float32)
f = xjax.jit(lambda x: xjax.pure_callback(lambda v: np.asarray(v) * 2, xjax.ShapeDtypeStruct((4,), np.float32), x) + 1)
def work():
    assert f(x).tolist() == [1, 3, 5, 7]
together(*[work] * 8)
"""

ALL_KINDS = START + """
x = np.arange(4, dtype=np.float32)
spd = np.eye(3, dtype=np.float32) * 4
def callback():
    f = xjax.jit(lambda x: xjax.pure_callback(np.negative, x, x) + 1)
    assert f(x).tolist() == [1, 0, -1, -2]
def mapped():
    f = xjax.pmap(lambda x: xjax.lax.psum(x, "i"), axis_name="i")
    assert f(x).tolist() == [6.0] * 4
def lapack():
    assert np.allclose(jnp.linalg.cholesky(spd), np.eye(3) * 2) and np.allclose(jnp.linalg.eigvalsh(spd), 4)
def lazy():
    assert abs(float(xjax.scipy.special.erf(0.5)) - 0.5204999) < 1e-5 and xjax.image and xjax.scipy.stats.norm
def derivative():
    assert xjax.grad(lambda x: (x ** 3).sum())(x).tolist() == [0, 3, 12, 27]
def sharded():
    mesh = xjax.make_mesh((4,), ("i",))
    y = xjax.device_put(x, xjax.sharding.NamedSharding(mesh, xjax.sharding.PartitionSpec("i")))
    assert float(xjax.jit(jnp.sum)(y)) == 6
def draws():
    assert xjax.random.uniform(xjax.random.key(1), (3,)).shape == (3,)
def eager():
    assert (jnp.asarray(x) * 2 + 1).tolist() == [1, 3, 5, 7]
works = [callback, mapped, lapack, lazy, derivative, sharded, draws, eager]
random.Random(int(sys.argv[1])).shuffle(works)
together(*works)
"""


@pytest.mark.parametrize("code", [SAME_CALLBACK, ALL_KINDS], ids=["one callback", "all kinds"])
def test_first_calls_in_eight_threads(code):
    run(code, 0, devices=4)


@pytest.mark.slow
@pytest.mark.parametrize("tenth", range(10))
@pytest.mark.parametrize("code", [SAME_CALLBACK, ALL_KINDS], ids=["one callback", "all kinds"])
def test_first_calls_in_eight_threads_in_150_processes(code, tenth):
    for seed in range(15 * tenth, 15 * (tenth + 1)):
        run(code, seed, devices=4)


def test_programs_with_callbacks_are_compiled_by_many_threads():
    """XLA's compiler loads dialects into the MLIR context of a module; one context for all modules crashed here."""
    run(START + """
from xjax.runtime import xla
from xjax.runtime.devices import backend
sys.setswitchinterval(1e-5)
def text(i):
    f = xjax.jit(lambda x: xjax.pure_callback(lambda v: v, x, x) + i)
    return f.lower(np.ones(4, np.float32)).as_text()
texts, client, devices = [text(i) for i in range(8)], backend.client(), backend.devices()[:1]
def host(x):
    return (np.asarray(x),)
for _ in range(12):
    xla.programs._mlir.cache_clear()
    together(*[lambda t=t: xla.compile(client, t, devices, host_callbacks=[host]) for t in texts])
""")


# -- all kinds of work, for some time -----------------------------------------------------------------------------

STRESS = START + """
from xjax import lax
P = xjax.sharding.PartitionSpec
mesh = xjax.make_mesh((4,), ("i",))
cut = xjax.sharding.NamedSharding(mesh, P("i"))
all_sums = xjax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
shared = xjax.jit(lambda x, n: (x * n).sum(), static_argnums=1)
rolled = xjax.jit(xjax.shard_map(lambda x: lax.ppermute(x, "i", [(k, (k + 1) % 4) for k in range(4)]), mesh=mesh,
                                 in_specs=P("i"), out_specs=P("i")))
called = xjax.jit(lambda x: xjax.pure_callback(lambda v: np.asarray(v) + 1, x, x) * 2)

def trace(rng):
    n, k = rng.randrange(1, 40), rng.randrange(1, 9)
    f = xjax.jit(lambda x: lax.fori_loop(0, k, lambda _, y: y + n, x).sum())
    return f(np.zeros(n, np.float32)), n * n * k
def call(rng):
    n, size = rng.randrange(4), rng.choice([3, 5, 8])
    return shared(np.arange(size, dtype=np.float32), n), n * size * (size - 1) / 2
def eager(rng):
    n = rng.randrange(1, 30)
    return (jnp.arange(n) * 2 + 1).sum(), n * n
def mapped(rng):
    x = np.array([rng.randrange(9) for _ in range(4)], np.float32)
    return all_sums(x), [x.sum()] * 4
def collective(rng):
    x = np.array([rng.randrange(9) for _ in range(8)], np.float32)
    return rolled(x), np.roll(x, 2)
def derivative(rng):
    n, x = rng.randrange(2, 5), np.array([1.0, 2.0, 3.0], np.float32)
    return xjax.grad(lambda x: (x ** n).sum())(x), n * x ** (n - 1)
def batched(rng):
    n = rng.randrange(1, 6)
    return xjax.vmap(lambda v: v @ v)(np.ones((n, 7), np.float32)), [7.0] * n
def move(rng):
    x = np.arange(8, dtype=np.float32) * rng.randrange(9)
    y = xjax.device_put(x, cut)
    return xjax.device_put(y, xjax.devices()[rng.randrange(4)]) + 1, x + 1
def callback(rng):
    x = np.array([rng.randrange(9)], np.float32)
    return called(x), (x + 1) * 2
def forget(rng):
    if rng.random() < 0.05:
        xjax.clear_caches()
    return 0, 0

end, counts = time.monotonic() + float(sys.argv[1]), []
def work(seed):
    rng, done = random.Random(seed), 0
    while time.monotonic() < end:
        kind = rng.choice([trace, call, eager, mapped, collective, derivative, batched, move, callback, forget])
        got, expected = kind(rng)
        assert np.array_equal(np.asarray(got), np.asarray(expected)), (kind.__name__, got, expected)
        done += 1
    counts.append(done)
together(*[lambda seed=seed: work(8 * int(sys.argv[2]) + seed) for seed in range(8)])
assert len(counts) == 8 and min(counts) > 0
print(sum(counts))
"""


def test_stress():
    assert int(run(STRESS, 2, 0, devices=4)) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_stress_for_a_minute(seed):
    run(STRESS, 60, seed, devices=4, timeout=300)
