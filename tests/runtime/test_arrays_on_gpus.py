"""Arrays of other libraries on a GPU, which the test imitates: the calls on them, and the error without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.refusals import assert_refused
from xjax import lax
from xjax.dlpack import from_dlpack
from xjax.runtime.arrays import dlpack


class OfNumba:
    """An array on a GPU that has only the array interface."""

    def __init__(self, **changes):
        self.__cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3,
                                         **changes}


class OfTorch:
    """A tensor on a GPU, whose conversion to NumPy raises an error."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None):
        raise AssertionError("not called without a GPU")

    def __array__(self, *args, **kwargs):
        raise TypeError("can't convert a tensor on cuda:0 to numpy")


@pytest.mark.parametrize(("changes", "exc", "words"), [
    ({"strides": (24, 8)}, BufferError, "not contiguous"), ({"mask": OfNumba()}, BufferError, "masked"),
    ({"typestr": "|V4"}, TypeError, "is not supported"),
])
def test_what_the_interface_describes_is_checked(changes, exc, words):
    assert_refused(lambda: jnp.asarray(OfNumba(**changes)), exc, words)


def test_a_copy_is_not_avoided():
    assert_refused(lambda: from_dlpack(OfNumba(), copy=False), ValueError, ["copy=False", "cupy.asarray"])


@pytest.mark.parametrize(("shape", "strides", "in_order"), [
    ((2, 3), None, True), ((2, 3), (12, 4), True), ((2, 3), (4, 8), False), ((1, 3), (99, 4), True), ((), (), True),
    ((3,), (8,), False), ((3,), (-4,), False),
])
def test_contiguous(shape, strides, in_order):
    assert dlpack._is_in_order(shape, 4, strides) == in_order


@pytest.mark.parametrize("make", [OfNumba, OfTorch])
def test_without_a_gpu_the_error_says_so(make):
    """Functions that convert their argument give the same error; the others advise how to convert it."""
    for take in (jnp.asarray, from_dlpack, xjax.device_put, jnp.sin):
        assert_refused(lambda take=take: take(make()), RuntimeError, "gpu")
    assert_refused(lambda: xjax.jit(lambda x: x)(make()), TypeError, "xjax.numpy.asarray(x)")
    if make is OfNumba:
        assert_refused(lambda: lax.sin(make()), TypeError, "xjax.numpy.asarray(x)")


def test_the_memory_is_copied(monkeypatch):
    """The buffer of an array on the CPU imitates a GPU's."""
    source, cpu = jnp.arange(6, dtype=np.float32).reshape(2, 3), xjax.devices()[0]
    monkeypatch.setattr(dlpack.backend, "client", lambda platform: cpu.client)
    monkeypatch.setattr(dlpack.xla, "cuda_ordinal", lambda pointer: cpu.local_hardware_id)
    monkeypatch.setattr(dlpack.xla, "from_cuda_interface", lambda interface, client, ordinal: source._buf)
    result = jnp.asarray(OfNumba())
    np.testing.assert_array_equal(result, source)
    assert result.dtype == np.float32 and result.unsafe_buffer_pointer() != source.unsafe_buffer_pointer()
