"""Linear algebra on a batch of matrices that is sharded over devices: each device uses only its own matrices."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close
from xjax import lax
from xjax.sharding import NamedSharding
from xjax.sharding import PartitionSpec as P

MESH = xjax.make_mesh((2, 2), ("x", "y"))
A = np.random.default_rng(0).normal(size=(8, 2, 3, 3)).astype(np.float32)
SYMMETRIC = A @ A.swapaxes(-1, -2) + 3 * np.eye(3, dtype=np.float32)

FUNCTIONS = {
    "cholesky": jnp.linalg.cholesky,
    "qr": jnp.linalg.qr,
    "svd": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "eigh": lambda x: jnp.linalg.eigh(x)[0],
    "eigvals": lambda x: jnp.abs(jnp.linalg.eigvals(x)).sum(-1),
    "inv": jnp.linalg.inv,
    "slogdet": jnp.linalg.slogdet,
    "solve": lambda x: jnp.linalg.solve(x, x[..., :2]),
    "pinv": jnp.linalg.pinv,
    "triangular_solve": lambda x: lax.linalg.triangular_solve(x, x, left_side=True, lower=True),
    "schur": lambda x: lax.linalg.schur(x)[0],
    "hessenberg": lambda x: lax.linalg.hessenberg(x)[0],
    "gradient of cholesky": xjax.grad(lambda x: jnp.linalg.cholesky(x).sum()),
    "gradient of inv": xjax.grad(lambda x: jnp.linalg.inv(x).sum()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_device_sees_the_matrices_of_another(name):
    x = xjax.device_put(SYMMETRIC, NamedSharding(MESH, P("x", "y")))
    f = xjax.jit(FUNCTIONS[name]).lower(x).compile()
    text = f.as_text()
    assert "all-gather" not in text and "all-to-all" not in text
    out = f(x)
    for leaf in xjax.tree.leaves(out):
        assert tuple(leaf.sharding.spec)[:2] == ("x", "y")
    assert_close(out, f(SYMMETRIC), tol=16)


def test_one_matrix_split_over_devices_is_gathered():
    x = np.tri(4, dtype=np.float32) + 4 * np.eye(4, dtype=np.float32)
    assert_close(xjax.jit(jnp.linalg.inv)(xjax.device_put(x, NamedSharding(MESH, P("x")))), np.linalg.inv(x), tol=16)


def test_inside_of_a_manual_region_and_beside_one():
    x = xjax.device_put(SYMMETRIC[:, 0], NamedSharding(MESH, P("x")))
    own = xjax.shard_map(jnp.linalg.cholesky, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    both = xjax.jit(lambda v: own(v) + jnp.linalg.cholesky(v))(x)
    assert_close(both, 2 * np.linalg.cholesky(SYMMETRIC[:, 0]), tol=16)
