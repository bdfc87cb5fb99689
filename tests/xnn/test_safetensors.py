"""Files in the safetensors format: their own library reads them, and other dtypes and metadata are refused."""

import json

import numpy as np
import pytest

import xjax.numpy as jnp
from tests.refusals import assert_refused
from xnn import safetensors

library = pytest.importorskip("safetensors.numpy")

ARRAYS = {
    "transposed": np.arange(6, dtype=np.float32).reshape(3, 2).T, "strided": np.arange(9)[::2],
    "empty": np.ones((0, 3)), "scalar": np.float32(3), "big endian": np.arange(3, dtype=">i4"),
    "complex": np.array([1 + 2j], np.complex64),
    "bools": np.array([True, False]), "of xjax": jnp.arange(3), "a list": [1.0, 2.0],
}


def test_the_library_reads_what_is_written(tmp_path):
    safetensors.write(tmp_path / "a", ARRAYS, {"step": "3"})
    for read in (library.load_file, lambda file: safetensors.read(file).tensors):
        tensors = read(tmp_path / "a")
        assert set(tensors) == set(ARRAYS)
        for name, array in ARRAYS.items():
            want = np.asarray(array)
            assert tensors[name].dtype == want.dtype.newbyteorder("=")
            np.testing.assert_array_equal(tensors[name], want)


@pytest.mark.parametrize("spaces", range(4))
def test_tensors_at_any_byte_are_read(tmp_path, spaces):
    """Other writers do not always align them."""
    x = np.arange(7, dtype=np.float32)
    header = json.dumps({"x": {"dtype": "F32", "shape": [7], "data_offsets": [0, 28]}}).encode() + b" " * spaces
    (tmp_path / "a").write_bytes(len(header).to_bytes(8, "little") + header + x.tobytes())
    np.testing.assert_array_equal(jnp.sin(safetensors.read(tmp_path / "a").tensors["x"]), jnp.sin(x))


@pytest.mark.parametrize("tensors, metadata, texts", [
    ({"w": jnp.ones(2, "float8_e4m3fn")}, None, ["safetensors.write: the format has no such dtype", "float8_e4m3fn"]),
    ({"w": np.ones(2, complex)}, None, ["no such dtype", "complex128", "complex64"]),
    ({"w": np.array(["a"])}, None, ["no such dtype", "w "]),
    ({"w": np.ones(2)}, {"step": 3}, ["metadata must be strings", "step  3", "str(step)"]),
], ids=["float8", "complex128", "text", "metadata"])
def test_what_the_format_does_not_have_is_refused(tmp_path, tensors, metadata, texts):
    assert_refused(lambda: safetensors.write(tmp_path / "a", tensors, metadata), TypeError, texts)
    assert not (tmp_path / "a").exists()
