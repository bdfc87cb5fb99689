"""Exchange of arrays on a GPU with other libraries; real JAX on the same GPU, imported before or after xjax."""

import os
import subprocess
import sys

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.isolated import ROOT


@pytest.fixture
def torch():
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("torch does not find a GPU")
    return module


@pytest.mark.parametrize("convert", [xjax.dlpack.from_dlpack, jnp.asarray], ids=["from_dlpack", "asarray"])
def test_tensors_share_their_memory(torch, convert):
    tensor = torch.arange(6.0, device="cuda").reshape(2, 3)
    x = convert(tensor)
    assert x.sharding.device_set == {xjax.devices()[0]}
    tensor += 1                                         # for the test only: users must not change shared memory
    torch.cuda.synchronize()
    np.testing.assert_array_equal(x, np.arange(6.0).reshape(2, 3) + 1)
    np.testing.assert_array_equal(xjax.jit(lambda x: x * 2)(x), np.arange(6.0).reshape(2, 3) * 2 + 2)


def test_tensors_that_are_still_computed(torch):
    """The streams of both libraries are ordered: the product is complete before it is read here."""
    a = torch.ones(4000, 4000, device="cuda")
    for _ in range(5):
        product = a @ a
        assert float(jnp.min(jnp.asarray(product))) == 4000


def test_order_of_axes_gaps_and_dtypes(torch):
    tensor = torch.arange(6.0, device="cuda").reshape(2, 3)
    np.testing.assert_array_equal(jnp.asarray(tensor.T.contiguous()) + 1, np.arange(6.0).reshape(2, 3).T + 1)
    np.testing.assert_array_equal(jnp.asarray(tensor[:1].T) + 1, [[1.0], [2.0], [3.0]])
    for elsewhere in (tensor.T, tensor[:, ::2]):
        with pytest.raises(BufferError, match="fix: make it contiguous"):
            jnp.asarray(elsewhere)
    whole = torch.arange(3, device="cuda")              # int64
    assert jnp.asarray(whole).dtype == np.int32
    with pytest.raises(ValueError, match="copy=False"):
        xjax.dlpack.from_dlpack(whole, copy=False)
    for dtype in (torch.bfloat16, torch.float16, torch.complex64, torch.int8):
        x = jnp.asarray(torch.ones(3, device="cuda", dtype=dtype))
        assert str(x.dtype) == str(dtype).removeprefix("torch.")
        assert (np.asarray(x) == 1).all()


def test_there_and_back(torch):
    x = jnp.arange(5.0)
    tensor = torch.from_dlpack(x)
    assert tensor.device.type == "cuda"
    assert jnp.asarray(tensor).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    on_host = xjax.dlpack.from_dlpack(tensor, device=xjax.devices("cpu")[0])
    assert on_host.sharding.device_set == {xjax.devices("cpu")[0]}


@pytest.mark.parametrize("first", ["xjax", "jax"])
def test_real_jax_on_the_same_gpu(first):
    """Both libraries compute on it and share an array of each without a copy, and there are no warnings."""
    if xjax.default_backend() == "cpu":
        pytest.skip("tested on CPUs by tests/interop")
    second = {"xjax": "jax", "jax": "xjax"}[first]
    code = f"""
        import importlib, sys
        modules = {{}}
        for name in ({first!r}, {second!r}):
            modules[name] = importlib.import_module(name)
            print(name, modules[name].devices()[0].platform, float(modules[name].numpy.linalg.det(
                modules[name].numpy.eye(3) * 2)))
        jax, xjax = modules["jax"], modules["xjax"]
        theirs, ours = jax.numpy.arange(3.0), xjax.numpy.arange(3.0)
        print((xjax.numpy.asarray(theirs) + 1).tolist(), (jax.dlpack.from_dlpack(ours) + 1).tolist())
        print(xjax.numpy.asarray(theirs).unsafe_buffer_pointer() == theirs.unsafe_buffer_pointer())
    """
    env = {**os.environ, "XJAX_PLATFORMS": "cuda,cpu", "JAX_PLATFORMS": "cuda,cpu", "PYTHONPATH": os.pathsep.join(
        [str(ROOT), os.environ.get("PYTHONPATH", "")]), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", "\n".join(x[8:] for x in code.splitlines())], env=env,
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines() == [f"{first} gpu 8.0", f"{second} gpu 8.0", "[1.0, 2.0, 3.0] [1.0, 2.0, 3.0]",
                                        "True"]
