"""Arrays written to files and read back, and arrays of other libraries."""

from __future__ import annotations

import io

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16"])
def test_save_and_load(dtype, tmp_path):
    x = xnp.arange(6).reshape(2, 3).astype(dtype)
    xnp.save(tmp_path / "x.npy", x)
    back = xnp.load(tmp_path / "x.npy")
    assert isinstance(back, xjax.Array) and back.dtype == x.dtype and (back == x).all()


def test_several_arrays():
    file = io.BytesIO()
    xnp.savez(file, a=xnp.arange(3), b=xnp.ones((2, 2)))
    file.seek(0)
    loaded = xnp.load(file)
    assert sorted(loaded) == ["a", "b"] and loaded["b"].tolist() == [[1, 1], [1, 1]]


def test_fromfile(tmp_path):
    np.arange(4, dtype=np.int16).tofile(tmp_path / "numbers")
    numbers = xnp.fromfile(tmp_path / "numbers", np.int16, 3)
    assert numbers.dtype == np.int16 and numbers.tolist() == [0, 1, 2]


def test_fromiter():
    numbers = xnp.fromiter((i * i for i in range(4)), np.int16, count=3)
    assert numbers.dtype == np.int16 and numbers.tolist() == [0, 1, 4]


def test_from_dlpack():
    host = np.arange(6.0, dtype=np.float32)
    assert xnp.from_dlpack(host).tolist() == [0, 1, 2, 3, 4, 5]
    copy = xnp.from_dlpack(host, copy=True)
    host[0] = 9
    assert copy.tolist() == [0, 1, 2, 3, 4, 5]
    x = xnp.arange(3)
    same, copied = xnp.from_dlpack(x), xnp.from_dlpack(x, copy=True)
    assert same.unsafe_buffer_pointer() == x.unsafe_buffer_pointer() != copied.unsafe_buffer_pointer()
    moved = xnp.from_dlpack(x, device=xjax.devices()[-1])
    assert moved.devices() == {xjax.devices()[-1]}
    with pytest.raises(TypeError, match="does not support DLPack"):
        xnp.from_dlpack([1, 2])
    with pytest.raises(ValueError, match="copy=False"):
        xnp.from_dlpack(host[::2], copy=False)
