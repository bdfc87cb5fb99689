"""`lower(lowering_platforms=)`: texts for absent devices, and operations that a platform's library does not have."""

import numpy as np
import pytest

import xjax
from tests.refusals import assert_refused
from xjax.lax import linalg
from xjax.lax.linalg import EighImplementation, EigImplementation, SvdAlgorithm

X = np.eye(3, dtype=np.float32)


def lowered(function, platform, x=X):
    return xjax.jit(function).trace(x).lower(lowering_platforms=(platform,))


def test_each_platform_has_its_library():
    assert "lapack_sgetrf_ffi" in lowered(linalg.lu, "cpu").as_text()
    assert "cusolver_getrf_ffi" in lowered(linalg.lu, "cuda").as_text()
    assert "lapack" not in lowered(linalg.lu, "cuda").as_text()
    assert lowered(linalg.lu, "cpu").as_text() == xjax.jit(linalg.lu).lower(X).as_text()


def test_a_text_for_the_devices_that_are_there_compiles():
    np.testing.assert_array_equal(lowered(linalg.cholesky, "cpu").compile()(X), X)


@pytest.mark.filterwarnings("ignore:.*runs on the host")
@pytest.mark.parametrize("function", [linalg.schur, linalg.hessenberg])
def test_what_cusolver_lacks_runs_on_the_host(function):
    text = lowered(function, "cuda").as_text()
    assert "xla_ffi_python_gpu_callback" in text
    assert "lapack" not in text


def test_empty_matrices_need_no_routine():
    """Decompositions of empty matrices are constants."""
    for function in (linalg.lu, linalg.qr, linalg.svd, linalg.eigh, linalg.eig, linalg.schur):
        text = lowered(function, "cuda", np.zeros((0, 0), np.float32)).as_text()
        assert "custom_call" not in text


REFUSED = {
    "eigh, Jacobi": ("cpu", lambda x: linalg.eigh(x, implementation=EighImplementation.JACOBI), "JACOBI"),
    "eigh, QDWH": ("cuda", lambda x: linalg.eigh(x, implementation=EighImplementation.QDWH), "QDWH", "platform  gpu"),
    "eig, cuSOLVER": ("cpu", lambda x: linalg.eig(x, implementation=EigImplementation.CUSOLVER), "CUSOLVER"),
    "eig, MAGMA": ("cpu", lambda x: linalg.eig(x, use_magma=True), "MAGMA"),
    "eig, left vectors by cuSOLVER": ("cuda", lambda x: linalg.eig(x, implementation=EigImplementation.CUSOLVER),
                                      "no left eigenvectors"),
    "svd, Jacobi": ("cpu", lambda x: linalg.svd(x, algorithm=SvdAlgorithm.JACOBI), "JACOBI"),
    "svd, polar": ("cpu", lambda x: linalg.svd(x, algorithm=SvdAlgorithm.POLAR), "POLAR"),
    "svd, gesdd": ("cuda", lambda x: linalg.svd(x, algorithm=SvdAlgorithm.DIVIDE_AND_CONQUER), "DIVIDE_AND_CONQUER"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_library_has_not(name):
    platform, function, *texts = REFUSED[name]
    assert_refused(lambda: lowered(function, platform).as_text(), NotImplementedError, ("lax.linalg", *texts))


def test_refusals():
    trace = xjax.jit(linalg.lu).trace(X)
    assert_refused(lambda: trace.lower(lowering_platforms=("cpu", "cuda")), NotImplementedError,
                   "lower of `lu`: a program is written for one platform")
    assert_refused(lambda: trace.lower(lowering_platforms=("tpu",)), RuntimeError, "unknown platform 'tpu'")
    assert_refused(lambda: trace.lower(lowering_platforms=("cuda",)).compile(), ValueError, "another platform")


class _OnGpu:
    """A tensor that reports an NVIDIA GPU as its device."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        raise AssertionError("called although xjax has no such device")


def test_a_tensor_on_a_gpu_where_xjax_has_none():
    for convert in (xjax.dlpack.from_dlpack, xjax.numpy.asarray):
        assert_refused(lambda convert=convert: convert(_OnGpu()), RuntimeError, "gpu")
