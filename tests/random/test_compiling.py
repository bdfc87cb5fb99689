"""Programs that draw with keys created inside them compile quickly, on every jaxlib."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.isolated import done_together

# LLVM of jaxlib 0.12 takes very long if a loop contains two ciphers: see `xjax.ops.prng`. So the programs are compiled
# in a process that can be killed.
PROGRAMS = {
    "normal, one each": "jit(lambda: rows(random.normal))()",
    "normal, an array of one each": "jit(lambda: rows(lambda key: random.normal(key, (1,))))()",
    "log of uniform": "jit(lambda: jnp.log(rows(random.uniform)))()",
    "keys of keys": "jit(lambda: rows(lambda key: random.gumbel(random.split(random.fold_in(key, 1))[0])))()",
    "gamma": "jit(lambda: rows(lambda key: random.gamma(key, 2.0)))()",
    "gradient": "jit(grad(lambda s: jnp.sum(s * rows(random.normal))))(1.0)",
    "pmap": "pmap(lambda x: x * rows(random.normal))(jnp.ones((2, 128)))",
    "shard_map": "jit(xjax.shard_map(lambda x: x * rows(random.normal), mesh=mesh, in_specs=P('x'), out_specs=P('x')))"
                 "(jnp.ones(256))",
    "jit over devices": "jit(lambda x: x * rows(random.normal), in_shardings=NamedSharding(mesh, P('x')))"
                        "(jnp.ones(128))",
}
SETTING = """
import xjax, xjax.numpy as jnp
from xjax import grad, jit, pmap, random
from xjax.sharding import NamedSharding, PartitionSpec as P

mesh = xjax.make_mesh((2,), ("x",))
key = random.key(0)
def rows(draw):
    return xjax.vmap(lambda i: draw(random.fold_in(key, i)))(jnp.arange(128))
"""


def run(program):
    """Run a program in a process of its own."""
    env = {**os.environ, "XJAX_ENABLE_COMPILATION_CACHE": "false", "PYTHONPATH": str(Path(__file__).parents[2]),
           "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    return subprocess.run([sys.executable, "-c", f"{SETTING}\n{program}"], env=env, timeout=100, text=True,
                          capture_output=True)


@pytest.fixture(scope="module")
def compiled_together():
    return done_together(PROGRAMS, run)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_compiles(name, compiled_together):
    if name not in compiled_together:
        done = run(PROGRAMS[name])
        assert done.returncode == 0, done.stderr
