"""Programs within programs, hundreds of levels deep."""

import sys
import threading

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.sampling import one_in
from xjax import lax

# Python 3.12 also limits calls that pass through C, and this limit is fixed: 200 levels of jit (150 in JAX).
LIMITED = sys.version_info[:2] == (3, 12)
LEVELS = 100 if LIMITED else 300


def custom(f):
    g = xjax.custom_jvp(f)
    g.defjvp(lambda primals, tangents: xjax.jvp(f, primals, tangents))
    return g


NESTED = {
    "jit": lambda f: xjax.jit(lambda x: f(x) + 0.001),
    "checkpoint": lambda f: xjax.checkpoint(lambda x: f(x) + 0.001),
    "jit of checkpoint": lambda f: xjax.jit(xjax.checkpoint(lambda x: f(x) + 0.001)),
    "custom_jvp": lambda f: custom(lambda x: f(x) + 0.001),
    "fori_loop": lambda f: lambda x: lax.fori_loop(0, 1, lambda i, x: f(x) + 0.001, x),
}


def nested(name):
    f = jnp.sin
    for _ in range(LEVELS // len(name.split(" of "))):
        f = NESTED[name](f)
    return f


@pytest.mark.parametrize("name", one_in(2, NESTED))
def test_values_and_derivatives_of_deep_programs(name):
    f, limit = nested(name), sys.getrecursionlimit()
    want, slope = np.sin(0.25) + 0.001 * LEVELS / len(name.split(" of ")), np.cos(0.25)
    close = dict(rtol=LEVELS * 1e-7)                            # one rounding per level
    np.testing.assert_allclose(xjax.jit(f)(0.25), want, **close)
    if name != "fori_loop":                                     # a loop with a dynamic length has no reverse derivative
        np.testing.assert_allclose(xjax.jit(xjax.grad(f))(0.25), slope, rtol=1e-6)
    np.testing.assert_allclose(xjax.jvp(f, (0.25,), (1.0,))[1], slope, rtol=1e-6)
    np.testing.assert_allclose(xjax.vmap(f)(np.full(2, 0.25, np.float32)), [want, want], **close)
    assert sys.getrecursionlimit() == limit


def test_maps_in_each_other():
    f = lambda x: x + 0.001
    for _ in range(LEVELS):
        f = xjax.vmap(f, in_axes=None, out_axes=None, axis_size=2)
    np.testing.assert_allclose(f(0.25), 0.251, rtol=1e-6)


def test_deep_programs_print():
    assert str(xjax.make_jaxpr(nested("jit"))(0.5)).count("lambda") > 1


def test_deep_programs_in_threads():
    limit, results = sys.getrecursionlimit(), []
    threads = [threading.Thread(target=lambda: results.append(float(xjax.jit(nested("jit"))(0.25)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1 and len(results) == 4 and sys.getrecursionlimit() == limit


def test_recursion_without_end_says_so():
    def endless(x):
        return xjax.jit(lambda x: endless(x + 1))(x)

    limit = sys.getrecursionlimit()
    with pytest.raises(RecursionError, match="maximum recursion depth" if LIMITED else "seems to be infinite"):
        endless(1.0)
    assert sys.getrecursionlimit() == limit and float(jnp.sin(0.0)) == 0
