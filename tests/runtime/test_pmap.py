"""pmap and its collectives: values, derivatives, nesting with other transforms, misuse, and many queued programs."""

import os
import subprocess
import sys

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.oracle import real_jax
from tests.quick_compiling import flags
from xjax import lax

N = 4
X = np.arange(2 * N, dtype=np.float32).reshape(N, 2) + 1


@pytest.fixture(autouse=True)
def four_devices():
    if xjax.local_device_count() < N:
        pytest.skip(f"needs {N} devices: start with XLA_FLAGS=--xla_force_host_platform_device_count={N}")


def test_elementwise_keeps_rows_apart():
    y = xjax.pmap(lambda x: x ** 2 + 1)(X)
    np.testing.assert_array_equal(y, X ** 2 + 1)
    assert len(y.devices()) == N and y.addressable_shards[2].data.shape == (1, 2)


@pytest.mark.parametrize("f, expected", [
    (lambda x: lax.psum(x, "i"), np.broadcast_to(X.sum(0), X.shape)),
    (lambda x: lax.pmean(x, "i"), np.broadcast_to(X.mean(0), X.shape)),
    (lambda x: lax.pmax(x, "i"), np.broadcast_to(X.max(0), X.shape)),
    (lambda x: lax.pmin(x, "i"), np.broadcast_to(X.min(0), X.shape)),
    (lambda x: lax.all_gather(x, "i"), np.broadcast_to(X, (N, *X.shape))),
    (lambda x: lax.all_gather(x, "i", tiled=True), np.broadcast_to(X.reshape(-1), (N, X.size))),
    (lambda x: lax.ppermute(x, "i", [(k, (k + 1) % N) for k in range(N)]), np.roll(X, 1, 0)),
    (lambda x: lax.ppermute(x, "i", []), np.zeros_like(X)),
    (lambda x: x * lax.axis_index("i"), X * np.arange(N)[:, None]),
    (lambda x: x * lax.psum(1, "i"), X * N),
    (lambda x: lax.psum_scatter(lax.all_gather(x, "i"), "i"), N * X),
    (lambda x: lax.pbroadcast(x, "i", 2), np.broadcast_to(X[2], X.shape)),
    (lambda x: lax.pswapaxes(x[0] * np.arange(N, dtype=np.float32), "i", 0), np.outer(np.arange(N), X[:, 0])),
], ids=["psum", "pmean", "pmax", "pmin", "all_gather", "tiled", "ppermute", "to nobody", "axis_index", "psum(1)",
        "psum_scatter", "pbroadcast", "pswapaxes"])
def test_collectives_agree_with_vmap(f, expected):
    np.testing.assert_allclose(xjax.pmap(f, axis_name="i")(X), expected, rtol=1e-6)
    np.testing.assert_allclose(xjax.vmap(f, axis_name="i")(X), expected, rtol=1e-6)


def test_groups_sum_apart():
    y = xjax.pmap(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]), axis_name="i")(X)
    np.testing.assert_array_equal(y, np.repeat([X[:2].sum(0), X[2:].sum(0)], 2, axis=0))


@pytest.mark.parametrize("f", [
    lambda x: lax.psum(x, "i"),
    lambda x: lax.pmean(x, "i"),
    lambda x: lax.pmax(x, "i"),
    lambda x: lax.all_gather(x, "i"),
    lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
    lambda x: lax.psum_scatter(x[None], "i"),
    lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
    lambda x: lax.all_to_all(x[None], "i", 0, 1),
    lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True),
    lambda x: lax.ppermute(x, "i", [(0, 0)]),
    lambda x: lax.ppermute(x, "i", []),
    lambda x: x + lax.axis_index("i"),
    lambda x: xjax.grad(lambda x: (lax.psum(x, "i") * lax.all_gather(x, "i").sum(0)).sum())(x),
])
def test_one_device_alone_sends_nothing(f):
    x = np.arange(1, 7, dtype=np.float32).reshape(1, 2, 3)
    g = xjax.pmap(f, axis_name="i")
    np.testing.assert_array_equal(g(x), xjax.vmap(f, axis_name="i")(x))
    text = xjax.jit(g).lower(x).as_text()
    assert not any(word in text for word in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                           "collective_permute", "partition_id"))


def test_an_axis_of_one_device_beside_one_of_several():
    mesh = xjax.sharding.Mesh(np.array(xjax.devices()[:N]).reshape(N, 1), ("i", "j"))
    rows = xjax.sharding.PartitionSpec("i")
    f = xjax.shard_map(lambda x: lax.psum(lax.psum(x, "j"), ("i", "j")) + lax.axis_index("j"), mesh=mesh,
                       in_specs=rows, out_specs=rows, check_vma=False)
    np.testing.assert_array_equal(f(X), np.broadcast_to(X.sum(0), X.shape))


def test_trees_axes_and_whole_arguments():
    def f(p, x):
        return {"y": p["w"] * x, "sum": lax.psum(p["w"] * x, "i")}
    out = xjax.pmap(f, axis_name="i", in_axes=({"w": None}, 1), out_axes={"y": 1, "sum": None})({"w": 2.0}, X.T)
    np.testing.assert_array_equal(out["y"], 2 * X.T)
    np.testing.assert_array_equal(out["sum"], 2 * X.sum(0))


def test_static_argument_and_fewer_rows_than_devices():
    f = xjax.pmap(lambda x, n: x * n, static_broadcasted_argnums=1)
    np.testing.assert_array_equal(f(X[:3], 3), 3 * X[:3])
    np.testing.assert_array_equal(f(X, 2), 2 * X)


# Derivatives: each device computes its own value; the loss is the sum over devices, as in JAX.

def test_grad_inside_and_through_pmap():
    inside = xjax.pmap(xjax.grad(lambda x: (x ** 3).sum()))(X)
    np.testing.assert_allclose(inside, 3 * X ** 2, rtol=1e-6)
    through = xjax.grad(lambda x: xjax.pmap(lambda v: lax.psum(v, "i") * v, axis_name="i")(x).sum())(X)
    np.testing.assert_allclose(through, np.broadcast_to(2 * X.sum(0), X.shape), rtol=1e-6)


def test_grad_of_whole_argument_sums_over_devices():
    g = xjax.grad(lambda w: xjax.pmap(lambda w, x: w * x, in_axes=(None, 0))(w, X).sum())(np.ones(2, np.float32))
    np.testing.assert_allclose(g, X.sum(0), rtol=1e-6)


def test_grad_of_replicated_result():
    g = xjax.grad(lambda x: xjax.pmap(lambda v: lax.psum(v ** 2, "i"), axis_name="i", out_axes=None)(x).sum())(X)
    np.testing.assert_allclose(g, 2 * X, rtol=1e-6)


def test_jvp_and_second_derivative_through_pmap():
    f = xjax.pmap(lambda x: jnp.sin(x) * lax.psum(x, "i"), axis_name="i")
    y, dy = xjax.jvp(f, (X,), (np.ones_like(X),))
    np.testing.assert_allclose(dy, np.cos(X) * X.sum(0) + N * np.sin(X), rtol=1e-5)
    second = xjax.grad(lambda x: xjax.grad(lambda z: (xjax.pmap(jnp.sin)(z)).sum())(x).sum())(X)
    np.testing.assert_allclose(second, -np.sin(X), rtol=1e-5)


def test_nesting():
    cube = lambda x: x ** 3
    np.testing.assert_allclose(xjax.pmap(xjax.vmap(xjax.jit(xjax.grad(cube))))(X), 3 * X ** 2, rtol=1e-6)
    np.testing.assert_allclose(xjax.jit(xjax.pmap(lambda x: lax.psum(x, "i"), axis_name="i"))(X),
                               np.broadcast_to(X.sum(0), X.shape))
    np.testing.assert_allclose(xjax.vmap(xjax.pmap(lambda x: x + 1))(np.stack([X, X])), np.stack([X, X]) + 1)
    np.testing.assert_allclose(xjax.jit(xjax.grad(lambda x: xjax.pmap(cube)(x).sum()))(X), 3 * X ** 2, rtol=1e-6)


def test_results_mix_with_ordinary_arrays():
    y = xjax.pmap(lambda x: x * 2)(X)
    np.testing.assert_array_equal(y + 1, 2 * X + 1)
    np.testing.assert_array_equal(y[0], 2 * X[0])
    np.testing.assert_array_equal(xjax.jit(lambda a, b: a + b)(y, X), 3 * X)
    np.testing.assert_array_equal(xjax.pmap(lambda x: x + 1)(y), 2 * X + 1)


def test_donation_deletes_the_argument():
    x = xjax.pmap(lambda x: x)(X)
    y = xjax.pmap(lambda x: x + 1, donate_argnums=0)(x)
    np.testing.assert_array_equal(y, X + 1)
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="fix: do not use an array after it was donated"):
        np.asarray(x)


def test_equals_jax():
    jax = real_jax()
    import jax.numpy as jax_numpy

    def loss(lib, numpy):
        def f(w, x):
            h = numpy.tanh(x @ w)
            return lib.lax.pmean((h ** 2).mean(), "i")
        return lib.pmap(lib.value_and_grad(f), axis_name="i", in_axes=(None, 0))
    w, x = np.ones((2, 3), np.float32) / 3, X[:, None]
    assert_same(loss(xjax, jnp)(w, x), loss(jax, jax_numpy)(w, x), tol=1 / 8)


@pytest.mark.parametrize("call, message", [
    (lambda: xjax.pmap(lambda x: x)(np.ones((2 * N, 1))),
     r"more rows than devices: .* size 8, but there are 4 devices"),
    (lambda: xjax.pmap(lambda x, y: x)(np.ones((4, 2)), {"b": np.ones((3, 2))}),
     r"pmap got inconsistent sizes for array axes to be mapped.\n.*\n  y\['b'\]: f32\[3,2\], axis 0 has size 3"),
    (lambda: xjax.pmap(lambda x: x)(1.0), r"cannot map axis 0 of an array with 0 axes"),
    (lambda: xjax.pmap(lambda x, y: x, in_axes=(0,))(X, X), r"in_axes has 1 entries for 2 positional arguments"),
    (lambda: xjax.pmap(lambda x: x, in_axes=2)(X), r"cannot map axis 2 of an array with 2 axes"),
    (lambda: xjax.pmap(lambda x: x, in_axes=({"a": 0},))({"b": X}), r"in_axes: a prefix does not match"),
    (lambda: xjax.pmap(lambda x: x, in_axes=None)(X), r"no argument is mapped"),
    (lambda: xjax.pmap(lambda x: x, out_axes=3)(X), r"out_axes 3 is out of bounds"),
    (lambda: xjax.pmap(lambda x: lax.psum(x, "j"), axis_name="i")(X), r"unbound axis name: j"),
    (lambda: xjax.pmap(lambda x, n: x, static_broadcasted_argnums=1)(X, [1]), r"static argument 1 is not hashable"),
    (lambda: xjax.pmap(X), r"pmap: needs a function"),
    (lambda: xjax.pmap(lambda x: x, devices=xjax.devices()[:2])(X), r"4 rows for 2 chosen devices"),
    (lambda: xjax.pmap(lambda x: xjax.pmap(lambda y: y)(x))(X[:2]), r"a pmap or shard_map inside another one"),
])
def test_misuse(call, message):
    with pytest.raises((ValueError, TypeError, NameError, NotImplementedError), match=message) as info:
        call()
    assert "fix: " in str(info.value)


_QUEUE = """
import numpy as np, xjax
from xjax import lax
n = {n}
xjax.config.update("jax_num_cpu_devices", n)
step = xjax.pmap(lambda x: lax.psum(x, "i") - (n - 1) * x, axis_name="i")
x = step(np.ones((n, 3), np.float32))
for _ in range(2000):
    x = step(x)
assert (np.asarray(x) == 1).all()
total = [xjax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.full((n, 1), k, np.float32)) for k in range(20)]
assert all((np.asarray(t) == n * k).all() for k, t in enumerate(total))
print("exact")
"""


@pytest.mark.parametrize("n", [4, 16, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 8))])
def test_thousands_of_queued_programs(n):
    """JAX 0.10 aborts here: the devices share one pool of threads, and a queue of collectives can occupy all."""
    env = {**os.environ, "XLA_FLAGS": flags(), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", _QUEUE.format(n=n)], env=env, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0 and done.stdout.strip() == "exact", done.stderr[-2000:]


def test_jit_of_pmap_moves_arrays_that_lie_on_one_device():
    f = xjax.jit(xjax.pmap(lambda x: lax.psum(x, "i"), axis_name="i"))
    for _ in range(2):                       # the second call uses the first one's cache
        np.testing.assert_array_equal(f(jnp.asarray(X)), np.broadcast_to(X.sum(0), X.shape))


def test_the_function_runs_in_each_call_under_disable_jit():
    calls = []
    mapped = xjax.pmap(lambda x: (calls.append(1), x + lax.psum(x, "i"))[1], axis_name="i")
    x = jnp.ones((1, 3))
    mapped(x), mapped(x)
    assert len(calls) == 1
    with xjax.disable_jit():
        assert mapped(x).tolist() == [[2, 2, 2]]
        xjax.eval_shape(mapped, x)
    assert len(calls) == 3
    mapped(x)
    assert len(calls) == 3
