"""`out_sharding=`: every function of JAX that has it constrains its result, eagerly and in programs."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from tests.sampling import one_in
from xjax import P, lax, nn, random

jax = real_jax("nn.initializers", "ops")
MODULES = ("numpy", "numpy.linalg", "lax", "lax.linalg", "nn", "nn.initializers", "random", "ops")
KEY, X, V = random.key(0), np.ones((2, 4), np.float32), np.arange(4, dtype=np.float32)
IDS = np.array([0, 1, 0, 1])

CALLS = {
    "arange": lambda s: jnp.arange(4, out_sharding=s), "array": lambda s: jnp.array([1, 2, 3, 4], out_sharding=s),
    "asarray": lambda s: jnp.asarray(V, out_sharding=s), "zeros": lambda s: jnp.zeros((4, 2), out_sharding=s),
    "bincount": lambda s: jnp.bincount(IDS, length=4, out_sharding=s), "ones": lambda s: jnp.ones(4, out_sharding=s),
    "broadcast_to": lambda s: jnp.broadcast_to(1.0, (4,), out_sharding=s),
    "dot": lambda s: jnp.dot(X, V, out_sharding=s),
    "einsum": lambda s: jnp.einsum("ij,j->i", X, V, out_sharding=s), "empty": lambda s: jnp.empty(4, out_sharding=s),
    "full": lambda s: jnp.full((4,), 3.0, out_sharding=s), "full_like": lambda s: jnp.full_like(V, 2, out_sharding=s),
    "histogram": lambda s: jnp.histogram(V, 4, out_sharding=s)[0], "matmul": lambda s: jnp.matmul(X, V, out_sharding=s),
    "ones_like": lambda s: jnp.ones_like(V, out_sharding=s), "zeros_like": lambda s: jnp.zeros_like(V, out_sharding=s),
    "percentile": lambda s: jnp.percentile(X, 50, axis=1, out_sharding=s),
    "ravel": lambda s: jnp.ravel(X, out_sharding=s),
    "repeat": lambda s: jnp.repeat(V, 2, total_repeat_length=8, out_sharding=s),
    "reshape": lambda s: jnp.reshape(X, (4, 2), out_sharding=s),
    "tensordot": lambda s: jnp.tensordot(X, V, 1, out_sharding=s),
    "lax.broadcast": lambda s: lax.broadcast(V, (2,), out_sharding=s),
    "lax.broadcast_in_dim": lambda s: lax.broadcast_in_dim(V, (2, 4), (1,), out_sharding=s),
    "lax.broadcasted_iota": lambda s: lax.broadcasted_iota("int32", (4, 2), 0, out_sharding=s),
    "lax.conv_general_dilated": lambda s: lax.conv_general_dilated(
        np.ones((2, 1, 4), np.float32), np.ones((1, 1, 2), np.float32), (1,), "SAME", out_sharding=s),
    "lax.dot": lambda s: lax.dot(X, V, out_sharding=s),
    "lax.dot_general": lambda s: lax.dot_general(X, V, (((1,), (0,)), ((), ())), out_sharding=s),
    "lax.empty": lambda s: lax.empty((4,), "float32", out_sharding=s),
    "lax.ragged_dot": lambda s: lax.ragged_dot(X, np.ones((1, 4, 2), np.float32), np.array([2]), out_sharding=s),
    "lax.reduce": lambda s: lax.reduce(X, np.float32(0), lax.add, (1,), out_sharding=s),
    "lax.reduce_max": lambda s: lax.reduce_max(X, (1,), out_sharding=s),
    "lax.reduce_min": lambda s: lax.reduce_min(X, (1,), out_sharding=s),
    "lax.reduce_sum": lambda s: lax.reduce_sum(X, (1,), out_sharding=s),
    "lax.reshape": lambda s: lax.reshape(X, (4, 2), out_sharding=s),
    "one_hot": lambda s: nn.one_hot(IDS, 2, out_sharding=s),
    **{f"initializers.{name}": lambda s, name=name: getattr(nn.initializers, name)(KEY, (4, 2), out_sharding=s)
       for name in ("zeros", "ones")},
    **{f"initializers.{name}": lambda s, name=name: getattr(nn.initializers, name)()(KEY, (4, 2), "float32", s)
       for name in ("normal", "uniform", "truncated_normal", "lecun_normal", "lecun_uniform", "he_normal", "he_uniform",
                    "glorot_normal", "glorot_uniform", "orthogonal")},
    "initializers.constant": lambda s: nn.initializers.constant(2.0)(KEY, (4,), out_sharding=s),
    "initializers.delta_orthogonal": lambda s: nn.initializers.delta_orthogonal()(KEY, (4, 2, 2), out_sharding=s),
    **{f"ops.{name}": lambda s, name=name: getattr(xjax.ops, name)(V, IDS, 2, out_sharding=s)
       for name in ("segment_sum", "segment_prod", "segment_max", "segment_min")},
    **{f"random.{name}": lambda s, name=name: getattr(random, name)(KEY, shape=(4,), out_sharding=s)
       for name in ("bernoulli", "bits", "cauchy", "exponential", "gumbel", "laplace", "logistic", "lognormal",
                    "maxwell", "normal", "rademacher", "uniform")},
    **{f"random.{name}": lambda s, name=name: getattr(random, name)(KEY, 2.0, shape=(4,), out_sharding=s)
       for name in ("chisquare", "gamma", "generalized_normal", "loggamma", "pareto", "poisson", "rayleigh", "t",
                    "wald")},
    "random.geometric": lambda s: random.geometric(KEY, 0.5, shape=(4,), out_sharding=s),
    **{f"random.{name}": lambda s, name=name: getattr(random, name)(KEY, 2.0, 3.0, shape=(4,), out_sharding=s)
       for name in ("beta", "f")},
    "random.ball": lambda s: random.ball(KEY, 3, shape=(4,), out_sharding=s),
    "random.categorical": lambda s: random.categorical(KEY, V, shape=(4,), out_sharding=s),
    "random.dirichlet": lambda s: random.dirichlet(KEY, V + 1, shape=(4,), out_sharding=s),
    "random.multivariate_normal": lambda s: random.multivariate_normal(
        KEY, np.zeros(2, np.float32), np.eye(2, dtype=np.float32), shape=(4,), out_sharding=s),
    "random.orthogonal": lambda s: random.orthogonal(KEY, 2, shape=(4,), out_sharding=s),
    "random.permutation": lambda s: random.permutation(KEY, V, out_sharding=s),
    "random.randint": lambda s: random.randint(KEY, (4,), 0, 9, out_sharding=s),
    "random.triangular": lambda s: random.triangular(KEY, 0.0, 0.5, 1.0, shape=(4,), out_sharding=s),
    "random.truncated_normal": lambda s: random.truncated_normal(KEY, -1.0, 1.0, shape=(4,), out_sharding=s),
}


@pytest.fixture(scope="module")
def mesh():
    return xjax.make_mesh((2,), ("x",), devices=xjax.devices()[:2])


def test_every_function_of_jax_that_has_it():
    missing = []
    for module in MODULES:
        ours, theirs = (importlib.import_module(f"{lib.__name__}.{module}") for lib in (xjax, jax))
        for name in dir(theirs):
            function = getattr(theirs, name)
            if name.startswith("_") or not callable(function) or inspect.isclass(function) or not hasattr(ours, name):
                continue
            try:
                has = "out_sharding" in inspect.signature(function).parameters
            except ValueError:
                continue
            if has and "out_sharding" not in inspect.signature(getattr(ours, name)).parameters:
                missing.append(f"{module}.{name}")
    assert not missing


@pytest.mark.parametrize("name", one_in(3, CALLS))
def test_the_result_is_sharded(name, mesh):
    call, sharding = CALLS[name], xjax.NamedSharding(mesh, P("x"))
    plain = call(None)
    for out in (call(sharding), xjax.jit(lambda: call(sharding))()):
        np.testing.assert_allclose(np.asarray(out), np.asarray(plain), rtol=1e-5)
        assert out.sharding.is_equivalent_to(sharding, out.ndim)
    with xjax.set_mesh(mesh):
        assert call(P("x")).sharding.is_equivalent_to(sharding, plain.ndim)


def test_mistakes(mesh):
    with pytest.raises(TypeError, match="(?s)numpy.zeros: out_sharding.*fix:"):
        jnp.zeros(4, out_sharding="x")
    with pytest.raises(RuntimeError, match="(?s)mesh.*fix:"):
        jnp.zeros(4, out_sharding=P("x"))
    with pytest.raises(ValueError, match="fix:"):
        jnp.zeros(3, out_sharding=xjax.NamedSharding(mesh, P("x")))
