"""The array API standard: info functions of the namespace, `__array_namespace__` of arrays, devices, DLPack."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax

VERSIONS = ("2024.12", "2025.12")             # of the standard, as in JAX 0.10 and 0.12
INFO = jnp.__array_namespace_info__()
KINDS = [None, "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric",
         ("bool", "real floating")]


@pytest.mark.parametrize("x64", [False, True])
def test_dtypes_are_those_of_jax(x64):
    jax = real_jax()
    with xjax.enable_x64(x64), jax.enable_x64(x64):
        theirs = jax.numpy.__array_namespace_info__()
        for kind in KINDS:
            assert INFO.dtypes(kind=kind) == theirs.dtypes(kind=kind), kind
        assert INFO.default_dtypes() == theirs.default_dtypes()
    assert INFO.capabilities() == theirs.capabilities()
    assert jax.numpy.__array_api_version__ in VERSIONS
    assert jnp.__array_api_version__ == VERSIONS[-1]


def test_default_dtypes_are_those_of_new_arrays():
    made = {"real floating": jnp.ones(1), "complex floating": jnp.asarray(1j), "integral": jnp.asarray(1),
            "indexing": jnp.argmax(jnp.ones(3))}
    assert {kind: x.dtype for kind, x in made.items()} == INFO.default_dtypes()


def test_devices():
    assert INFO.devices() == xjax.local_devices() and INFO.default_device() == jnp.ones(1).device
    second = INFO.devices()[1]
    for make in (lambda d: jnp.ones(2, device=d), lambda d: jnp.asarray([1.0], device=d),
                 lambda d: jnp.arange(3, device=d), lambda d: jnp.linspace(0, 1, 3, device=d),
                 lambda d: jnp.zeros_like(jnp.ones(2), device=d), lambda d: jnp.full((2,), 1.0, device=d),
                 lambda d: jnp.eye(2, device=d), lambda d: jnp.empty(2, device=d), lambda d: jnp.ones(2).to_device(d)):
        assert make(second).device == second
    with pytest.raises(TypeError, match="(?s)needs a device.*fix:"):
        jnp.ones(2).to_device("cpu")


def test_arrays_name_their_namespace():
    x = jnp.ones(3)
    for version in (None, *VERSIONS):
        assert x.__array_namespace__(api_version=version) is jnp
    seen = []
    xjax.jit(lambda x: seen.append(x.__array_namespace__()) or x)(x)
    assert seen == [jnp]
    with pytest.raises(ValueError, match="(?s)this version.*fix:"):
        x.__array_namespace__(api_version="1999.01")
    with pytest.raises(ValueError, match="(?s)unknown kind.*fix:"):
        INFO.dtypes(kind="float")


# Every function of the standard that is not in `linalg` or `fft`.
FUNCTIONS = """
abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to can_cast

ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide empty empty_like
equal exp expand_dims expm1 eye finfo flip floor floor_divide from_dlpack full full_like greater greater_equal hypot

iinfo imag isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and
logical_not logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply

negative nextafter nonzero not_equal ones ones_like permute_dims positive pow prod real reciprocal remainder repeat
reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take

take_along_axis tan tanh tensordot tile tril triu trunc unique_all unique_counts unique_inverse unique_values unstack

var vecdot where zeros zeros_like e inf nan newaxis pi bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32
float64 complex64 complex128
""".split()  # noqa: SIM905
LINALG = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv
qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
""".split()  # noqa: SIM905
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift".split()  # noqa: SIM905
ATTRIBUTES = """
__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__ __float__
__floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__ __lt__ __matmul__ __mod__
__mul__ __ne__ __neg__ __or__ __pos__ __pow__ __radd__ __rsub__ __rmul__ __rtruediv__ __rfloordiv__ __rmod__ __rpow__
__rmatmul__ __rand__ __ror__ __rxor__ __rlshift__ __rrshift__ __rshift__ __sub__ __truediv__ __xor__ T mT device dtype
ndim shape size to_device
""".split()  # noqa: SIM905


def test_every_name_of_the_standard_is_there():
    assert not [name for name in FUNCTIONS if not hasattr(jnp, name)]
    assert not [name for name in LINALG if not hasattr(jnp.linalg, name)]
    assert not [name for name in FFT if not hasattr(jnp.fft, name)]
    assert not [name for name in ATTRIBUTES if not hasattr(jnp.ones((2, 2)), name)]


def test_dlpack_both_ways():
    x = jnp.arange(4.0)
    np.testing.assert_array_equal(np.from_dlpack(x), x)
    np.testing.assert_array_equal(np.from_dlpack(x, copy=True), x)
    np.testing.assert_array_equal(jnp.from_dlpack(np.arange(3.0, dtype=np.float32), copy=True), [0, 1, 2])
    assert x.__dlpack_device__() == (1, 0)


def test_arrays_of_torch():
    x, torch = jnp.arange(4.0), pytest.importorskip("torch")
    assert torch.from_dlpack(x).tolist() == [0, 1, 2, 3]
    assert jnp.from_dlpack(torch.ones(2)).tolist() == [1, 1]
