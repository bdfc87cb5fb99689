"""Casts to the float8 types: text for CUDA as in JAX, and values out of range on CPUs as in JAX.

On GPUs XLA drops a cast that is undone in the same program, unless the option of a row of compiler faults is set.
"""

import ml_dtypes
import numpy as np
import pytest

import xjax
from tests.oracle import real_jax
from tests.sampling import each_once
from xjax import lax
from xjax.runtime.xla.compiler_faults import with_workarounds

jax = real_jax()
SMALL = [np.dtype(getattr(ml_dtypes, name)) for name in dir(ml_dtypes) if name.startswith("float8_")]
WIDE = [np.dtype(dtype) for dtype in (np.float32, np.float16, ml_dtypes.bfloat16, np.float64)]
NUMBERS = np.array([0, 1.03, -300, 448, 464.5, 500, 57344, 65504, np.inf, -np.inf, np.nan])


def _operations(text):
    """The operations of a program, each with the type of its result."""
    return [(line.split("stablehlo.")[1].split()[0], line.rsplit("tensor<", 1)[1])
            for line in text.splitlines() if "stablehlo." in line]


@pytest.mark.parametrize(("wide", "small"), each_once(WIDE, SMALL))
def test_as_in_jax(wide, small):
    with jax.enable_x64(True), xjax.enable_x64(True):
        x = NUMBERS.astype(wide)
        texts = [_operations(lib.jit(lambda x, lib=lib: lib.lax.convert_element_type(x, small)).trace(x).lower(
            lowering_platforms=("cuda",)).as_text()) for lib in (xjax, jax)]
        assert texts[0] == texts[1] == [("convert", texts[0][0][1])]
        ours, theirs = (np.asarray(lib.jit(lambda x, lib=lib: lib.lax.convert_element_type(
            lib.lax.convert_element_type(x, small), np.float32))(x)) for lib in (xjax, jax))
        np.testing.assert_array_equal(ours, theirs)


def test_a_cast_that_is_undone_is_kept_on_gpus():
    def text(f, x):
        return xjax.jit(f).trace(x).lower(lowering_platforms=("cuda",)).as_text()

    def option(*program):
        return with_workarounds("gpu", text(*program), {}).get("xla_allow_excess_precision")

    x, small = np.ones(3, np.float32), np.dtype(ml_dtypes.float8_e4m3fn)
    assert option(lambda x: lax.convert_element_type(lax.convert_element_type(x, small), np.float32), x) is False
    assert option(lambda x: lax.convert_element_type(x, small), x) is None
    assert option(lambda x: lax.convert_element_type(x, np.float32), x.astype(small)) is None
    assert with_workarounds("cpu", text(lambda x: x, x), {}) == {}
