"""`debug.inspect_array_sharding`: called as often as in JAX, with an equivalent sharding."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.oracle import real_jax

jax = real_jax()
X = np.arange(8, dtype=np.float32).reshape(4, 2)


def sharded(lib, spec):
    mesh = lib.sharding.Mesh(np.array(lib.devices()[:2]), "x")
    return lib.device_put(X, lib.sharding.NamedSharding(mesh, lib.P(*spec)))


def inspected(lib, f, x):
    """The shardings seen by two calls, each as the shape of a shard."""
    seen = []

    def inspecting(y):
        lib.debug.inspect_array_sharding({"y": y}, callback=seen.append)

    g = f(lib, inspecting)
    out = [g(x), g(x)]
    lib.block_until_ready(out)
    return [s.shard_shape(np.shape(x)) for s in seen], np.asarray(out[0])


def twice(lib, inspect):
    def f(x):
        y = lib.numpy.sin(x)
        inspect(y)
        return y * 2
    return f


FUNCTIONS = {
    "eager": twice, "jit": lambda lib, inspect: lib.jit(twice(lib, inspect)),
    "grad": lambda lib, inspect: lib.jit(lib.grad(lambda x: twice(lib, inspect)(x).sum())),
    "unused": lambda lib, inspect: lib.jit(lambda x: (inspect(x + 1), x)[1]),
}


@pytest.mark.parametrize("spec", [("x",), (None, "x"), ()], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_shardings_are_those_of_jax(name, spec):
    (ours, a), (theirs, b) = (inspected(lib, FUNCTIONS[name], sharded(lib, spec)) for lib in (xjax, jax))
    assert ours == theirs and ours
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_on_one_device():
    for name, times in (("eager", 2), ("jit", 1)):
        seen, _ = inspected(xjax, FUNCTIONS[name], xjax.numpy.asarray(X))
        assert seen == [X.shape] * times
    seen = []
    other = xjax.devices()[1]
    f = xjax.jit(lambda x: xjax.debug.inspect_array_sharding(x, callback=seen.append))
    f(xjax.device_put(X, other))
    assert [s.devices for s in seen] in ([(other,)], [[other]])


def test_in_loops_and_batches():
    seen = []

    def f(x):
        xjax.debug.inspect_array_sharding(x, callback=seen.append)
        return x * 2

    x = xjax.numpy.asarray(X)
    np.testing.assert_allclose(xjax.jit(xjax.vmap(f))(x), 2 * X)
    np.testing.assert_allclose(xjax.jit(lambda x: xjax.lax.fori_loop(0, 2, lambda i, y: f(y), x))(x), 4 * X)
    assert len(seen) >= 2
    with pytest.raises(TypeError, match="fix:"):
        xjax.debug.inspect_array_sharding(x, callback=3)
