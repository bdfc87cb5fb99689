"""Host functions called by programs on a GPU: arguments, results, and exceptions where the caller waits."""

import os
import subprocess
import sys

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.isolated import ROOT


class Mine(Exception):
    pass


def fails(x):
    raise Mine("of the user")


def call(function, x):
    return xjax.pure_callback(function, x, x)


def test_arguments_are_arrays_of_the_host():
    seen = []

    def double(x):
        seen.append(next(iter(x.devices())).platform)
        return np.asarray(x) * 2

    result = xjax.jit(lambda x: call(double, x) + 1)(jnp.arange(3.0))
    np.testing.assert_array_equal(result, [1.0, 3.0, 5.0])
    assert set(seen) == {"cpu"}


WAYS = {
    "block_until_ready": lambda y: y.block_until_ready(),
    "xjax.block_until_ready": xjax.block_until_ready,
    "asarray": np.asarray,
    "item": lambda y: y[0].item(),
}


@pytest.mark.parametrize("wait", WAYS.values(), ids=WAYS)
def test_exceptions_arrive_as_themselves(wait):
    with pytest.raises(Mine, match="of the user"):
        wait(xjax.jit(lambda x: call(fails, x))(jnp.arange(3.0)))
    np.testing.assert_array_equal(jnp.arange(3.0) + 1, [1.0, 2.0, 3.0])        # the device continues to work


def test_one_platform_is_enough():
    """Host functions have a CPU device even if `jax_platforms` names only the GPU."""
    if xjax.default_backend() == "cpu":
        pytest.skip("tested on CPUs by tests/runtime")
    code = ("import xjax; y = xjax.jit(lambda x: xjax.pure_callback(lambda v: v * 2, x, x))(xjax.numpy.ones(2)); "
            "print(y.tolist(), y.sharding.device_set == set(xjax.devices()), xjax.default_backend())")
    env = {**os.environ, "XJAX_PLATFORMS": "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
           "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True,
                          timeout=200)
    assert done.stdout.split("\n")[0] == "[2.0, 2.0] True gpu", done.stderr[-3000:]
