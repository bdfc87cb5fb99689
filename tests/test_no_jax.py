"""xjax and xnn never load JAX, even if it is installed: neither at import nor indirectly through jaxlib."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.oracle import real_jax

ROOT = Path(__file__).resolve().parent.parent

SPY = """
import importlib.machinery, sys

class Spy:
    tried = []
    def find_spec(self, name, path=None, target=None):
        if name == "jax" or name.startswith("jax."):
            self.tried.append(name)

sys.meta_path.insert(0, Spy())
"""
VERDICT = """
assert not Spy.tried, f"tried to import {Spy.tried}"
assert not [m for m in sys.modules if m == "jax" or m.startswith("jax.")]
print("clean")
"""


def run(code: str, **env: str) -> None:
    """Run code in a new interpreter that records imports of jax."""
    program = SPY + textwrap.dedent(code) + VERDICT
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120,
                          env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(Path.home()), **env})
    assert done.returncode == 0 and done.stdout.endswith("clean\n"), done.stdout + done.stderr


def test_import_is_light():
    run("""
        import xjax, xjax.numpy, xnn
        assert xnn.Dense
        for heavy in ("scipy", "opt_einsum", "matplotlib", "optax", "networkx"):
            assert heavy not in sys.modules, f"{heavy} was imported"
        from xjax.runtime.devices import backend
        assert not backend._state.clients, "a backend was started"
        """)


def test_configs_of_models_need_no_jaxlib():
    run("""
        import xnn.models
        config = xnn.models.ResNetConfig(classes=10)
        assert not [m for m in sys.modules if m.split(".")[0] in ("jaxlib", "xjax", "numpy")]
        assert xnn.models.ResNet(config).init and xnn.Dense and "serial" in dir(xnn)
        for name in xnn.models.__all__:
            assert getattr(xnn.models, name)
        """)


def test_programs_of_one_device():
    """Arrays and transforms, random numbers, layers."""
    run("""
        import numpy as np
        import xjax, xjax.numpy as jnp

        x = jnp.arange(6.0).reshape(2, 3)
        loss = lambda w: jnp.sum(jnp.tanh(x @ w) ** 2)
        w = jnp.ones((3, 2))
        xjax.jit(xjax.value_and_grad(loss))(w)
        xjax.vmap(lambda row: row[0] * 2 + row.sum())(x)
        print(repr(x), x[0], x.at[0, 1].set(3.0), float(x.mean()))
        np.asarray(x), np.asarray(x.astype(jnp.bfloat16)), xjax.device_get({"x": x})
        print(repr(x.astype(jnp.bfloat16)))
        xjax.device_put(np.ones(3)).block_until_ready()
        print(xjax.make_jaxpr(loss)(w), xjax.jit(loss).lower(w).as_text()[:10])

        from xjax import random
        key = random.key(0)
        print(random.normal(random.split(key)[0], (3,)), random.PRNGKey(1), repr(key))

        from xnn import GCN

        init, predict = GCN(4, 2, sparse=True)
        edges = (np.array([0, 1, 1]), np.array([1, 0, 1])), np.ones(3, np.float32)
        _, params = init(random.PRNGKey(0), (-1, 3))
        print(predict(params, jnp.ones((2, 3)), edges, rng=random.PRNGKey(1)))
        """)


def test_several_devices():
    run("""
        import numpy as np
        import xjax, xjax.numpy as jnp
        from xjax.sharding import Mesh, NamedSharding, PartitionSpec

        assert xjax.device_count() == 2
        doubled = xjax.pmap(lambda x: x * 2 + xjax.lax.psum(x, "i"), axis_name="i")(jnp.arange(2.0))
        assert np.asarray(doubled).tolist() == [1.0, 3.0]
        cut = xjax.device_put(np.arange(4.0), NamedSharding(Mesh(np.array(xjax.devices()), ("d",)), PartitionSpec("d")))
        assert float(cut.sum()) == 6.0 and len(cut.addressable_shards) == 2
        print(repr(cut), cut.sharding)
        """, XLA_FLAGS="--xla_force_host_platform_device_count=2")


def test_the_spy_sees_an_import():
    real_jax()
    with pytest.raises(AssertionError, match="tried to import"):
        run("import jax.numpy")
