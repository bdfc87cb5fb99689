"""Dtypes and promotion, compared with real JAX for every pair of dtypes and weak types."""

import itertools
import warnings

import ml_dtypes
import numpy as np
import pytest

import xjax
import xjax.numpy
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.core import dtypes, promotion
from xjax.core.config import enable_x64, numpy_dtype_promotion
from xjax.core.errors import TypePromotionError

jax = real_jax()
jnp = jax.numpy
jax_dtypes = real_jax("_src.dtypes")._src.dtypes

X64 = pytest.mark.parametrize("x64", [False, True])
NAMES = [d.name for d in dtypes.ALL]


class Aval:
    """The minimum that promotion in both libraries requires of an array."""

    def __init__(self, dtype, weak):
        self.dtype, self.weak_type, self.shape = dtype, weak, ()


class Value:
    """A value with an aval; JAX accepts it as one of its own because it is registered below."""

    def __init__(self, dtype, weak):
        self.aval, self.dtype = Aval(dtype, weak), dtype


jax_dtypes.register_type_whose_dtype_should_not_be_canonicalized(Value)


def outcome(f, *args, **kwargs):
    """The result, or the name of the error class."""
    try:
        return f(*args, **kwargs)
    except (TypeError, ValueError) as error:
        return type(error).__name__


def test_the_same_dtypes_as_jax():
    assert set(dtypes.ALL) == set(jax_dtypes._jax_types)
    assert dtypes.float0 == jax_dtypes.float0


@X64
@pytest.mark.parametrize("mode", ["standard", "strict"])
def test_lattice_equals_jax_for_all_pairs(x64, mode):
    values = [(d, w) for d in dtypes.ALL for w in (False, True)]
    wrong, checked, joined = [], 0, 0
    with (
        enable_x64(x64),
        numpy_dtype_promotion(mode),
        jax.enable_x64(x64),
        jax.numpy_dtype_promotion(mode),
        warnings.catch_warnings(action="ignore"),
    ):
        for a, b in itertools.product(values, repeat=2):
            ours = outcome(promotion.lattice_join, a, b)
            theirs = outcome(jax_dtypes.lattice_result_type, Value(*a), Value(*b))
            checked += 1
            joined += not isinstance(ours, str)
            if ours != theirs:
                wrong.append((a, b, ours, theirs))
    assert not wrong, wrong[:5]
    assert checked == (2 * len(dtypes.ALL)) ** 2
    assert joined > len(values)


@X64
def test_lattice_of_three_equals_jax(x64):
    some = ["bool", "int4", "uint8", "int32", "uint32", "bfloat16", "float16", "complex64"]
    values = [(np.dtype(getattr(ml_dtypes, n, n)), w) for n in some for w in (False, True)]
    with enable_x64(x64), jax.enable_x64(x64), warnings.catch_warnings(action="ignore"):
        for three in itertools.product(values, repeat=3):
            ours = outcome(promotion.lattice_join, *three)
            theirs = outcome(jax_dtypes.lattice_result_type, *(Value(*v) for v in three))
            assert ours == theirs, three


@X64
def test_promote_types_equals_jax(x64):
    specs = [*dtypes.ALL, int, float, complex, bool, np.int8, "float32"]
    with enable_x64(x64), jax.enable_x64(x64):
        for a, b in itertools.product(specs, repeat=2):
            ours = outcome(promotion.promote_types, a, b)
            assert ours == outcome(jnp.promote_types, a, b), (a, b)


@X64
def test_result_type_of_mixes_equals_jax(x64):
    args = [
        1, True, 2.5, 1j, int, float, complex, bool, None, np.float16, "bfloat16", "float64",
        np.int64(3), np.uint8(3), np.ones(2), np.arange(3, dtype=np.int16), np.dtype("uint32"),
        np.complex128(1),
    ]  # fmt: skip
    with enable_x64(x64), jax.enable_x64(x64), warnings.catch_warnings(action="ignore"):
        for n in (1, 2):
            for some in itertools.product(args, repeat=n):
                for flag in (False, True):
                    ours = outcome(promotion.result_type, *some, return_weak_type_flag=flag)
                    theirs = outcome(jax_dtypes.result_type, *some, return_weak_type_flag=flag)
                    assert ours == theirs, some


def test_only_names_of_64_bits_warn():
    """As in JAX, `numpy.float64` is narrowed without a warning, and "float64" with one."""
    for numpy in (xjax.numpy, jnp):
        with warnings.catch_warnings(action="error"):
            assert numpy.result_type(numpy.float64) == numpy.result_type(numpy.float64, numpy.int8) == np.float32
        with pytest.warns(UserWarning, match="float64"):
            numpy.result_type("float64")


def test_result_type_reads_avals():
    weak, strong = Value(dtypes.float32, True), Aval(dtypes.float16, False)
    assert promotion.result_type(weak, strong) == dtypes.float16
    assert promotion.result_type(weak, 1, return_weak_type_flag=True) == (dtypes.float32, True)
    with pytest.raises(ValueError, match="no argument"):
        promotion.result_type()


def test_promotion_error_names_both_and_a_fix():
    assert_refused(lambda: promotion.promote_types("float8_e5m2", "float32"), TypePromotionError,
                   ["f8_e5m2 and f32", "fix: narrow types"])
    with numpy_dtype_promotion("strict"), pytest.raises(TypePromotionError, match="'strict'"):
        promotion.lattice_join((dtypes.int32, False), (dtypes.float32, False))
    with pytest.raises(TypePromotionError, match="f32 and float0"):
        promotion.lattice_join((dtypes.float32, False), (dtypes.float0, False))


class Key(dtypes.ExtendedDType):
    name = "key<fry>"
    type = dtypes.prng_key

    def __repr__(self):
        return self.name


def test_extended_dtypes_meet_only_themselves():
    key = Key()
    assert promotion.lattice_join((key, False), (key, False)) == (key, False)
    assert promotion.promote_types(key, key) is key
    with pytest.raises(TypePromotionError, match="key_data"):
        promotion.lattice_join((key, False), (dtypes.float32, False))
    with pytest.raises(TypePromotionError, match="key_data"):
        promotion.lattice_join((key, False), (dtypes.float32, True))
    assert dtypes.issubdtype(key, dtypes.prng_key)
    assert dtypes.issubdtype(key, dtypes.extended)
    assert not dtypes.issubdtype(key, np.number)
    assert not dtypes.issubdtype("float32", dtypes.extended)
    assert dtypes.issubdtype(key, key)
    assert not dtypes.issubdtype("float32", key)
    assert dtypes.canonicalize_dtype(key, allow_extended=True) is key
    assert dtypes.short_name(key) == "key<fry>"
    with pytest.raises(TypeError, match="key_data"):
        dtypes.canonicalize_dtype(key)


@pytest.mark.parametrize("name", NAMES)
def test_names_kinds_and_limits_equal_jax(name):
    d = next(d for d in dtypes.ALL if d.name == name)
    assert dtypes.short_name(d) == jax_dtypes.short_dtype_name(d)
    assert dtypes.scalar_type_of(Aval(d, False)) is jax_dtypes.scalar_type_of(np.zeros((), d))
    parents = (np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger,
               np.inexact, np.floating, np.complexfloating, np.bool_)  # fmt: skip
    for other in (*parents, *dtypes.ALL):
        assert dtypes.issubdtype(d, other) == jax_dtypes.issubdtype(d, other), other
    for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating",
                 "complex floating", "numeric", "int8", ("bool", np.float32)):  # fmt: skip
        assert dtypes.isdtype(d, kind) == jax_dtypes.isdtype(d, kind), kind
    if not dtypes.is_bool(d):
        assert dtypes.itemsize_bits(d) == jax_dtypes.itemsize_bits(d)
    for spelling in (d, d.type, d.name):
        assert dtypes.is_int(spelling) == jnp.issubdtype(d, np.integer)
        assert dtypes.is_unsigned(spelling) == jnp.issubdtype(d, np.unsignedinteger)
        assert dtypes.is_float(spelling) == jnp.issubdtype(d, np.floating)
        assert dtypes.is_complex(spelling) == jnp.issubdtype(d, np.complexfloating)
        assert dtypes.is_inexact(spelling) == jnp.issubdtype(d, np.inexact)
        assert dtypes.is_number(spelling) == jnp.issubdtype(d, np.number)
        assert dtypes.is_real(spelling) == (dtypes.is_int(d) or dtypes.is_float(d))
        assert dtypes.is_bool(spelling) == (d == np.bool_)


def test_float0_is_of_no_kind():
    assert dtypes.short_name(dtypes.float0) == "float0"
    assert dtypes.is_supported(dtypes.float0)
    for test in (dtypes.is_bool, dtypes.is_number, dtypes.is_inexact):
        assert not test(dtypes.float0)


@X64
def test_canonical_dtypes_equal_jax(x64):
    specs = [*dtypes.ALL, bool, int, float, complex, None, np.float64, "int64", np.dtype("uint64")]
    with enable_x64(x64), jax.enable_x64(x64):
        for spec in specs:
            assert dtypes.canonicalize_dtype(spec) == jax_dtypes.canonicalize_dtype(spec), spec
        assert dtypes.canonicalize_dtype(np.zeros(2)) == (np.float64 if x64 else np.float32)


def test_canonical_dtype_errors():
    for wrong in ("flaot32", [1, 2]):
        with pytest.raises(TypeError, match="is not a dtype"):
            dtypes.canonicalize_dtype(wrong)
    with pytest.raises(TypeError, match="did you mean 'float32'"):
        dtypes.canonicalize_dtype("flaot32")


def test_dtype_of_values():
    assert dtypes.dtype(True) == np.bool_
    assert dtypes.dtype(np.zeros(3)) == np.float32
    assert dtypes.dtype(Value(dtypes.float64, False)) == np.float64
    with enable_x64():
        assert dtypes.dtype(1) == np.int64
    for wrong in (None, "nonsense", object(), np.array(["a"]), np.array([None])):
        with pytest.raises(TypeError, match="fix:"):
            dtypes.dtype(wrong)


def test_dtype_of_foreign_values():
    class Tensor:
        dtype = "their.float16"  # as in torch: not a NumPy dtype

        def __array__(self, dtype=None, copy=None):
            return np.zeros(2, np.float16)

    assert dtypes.dtype(Tensor()) == np.float16
    assert dtypes.dtype(np.zeros(2, np.longlong)) == np.int32
    with pytest.raises(TypeError, match="newbyteorder"):
        dtypes.dtype(np.zeros(2, ">f4"))


def test_user_dtype_warns_at_the_users_line():
    with pytest.warns(UserWarning, match="numpy.zeros: dtype float64 was requested") as caught:
        assert dtypes.user_dtype("float64", "numpy.zeros") == np.float32
    assert caught[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        assert dtypes.user_dtype(float, "numpy.zeros") == np.float32
        with enable_x64():
            assert dtypes.user_dtype("float64", "numpy.zeros") == np.float64
    with pytest.raises(TypeError, match="numpy.zeros: arrays cannot have dtype object"):
        dtypes.user_dtype(object, "numpy.zeros")


def test_integers_that_do_not_fit():
    assert dtypes.scalar_dtype(2**31 - 1) == np.int32
    assert dtypes.scalar_dtype(-(2**31)) == np.int32
    with pytest.raises(OverflowError, match="does not fit i32"):
        dtypes.scalar_dtype(2**31)
    with enable_x64():
        assert dtypes.scalar_dtype(2**31) == np.int64
    with pytest.raises(OverflowError, match="numpy.asarray: integer -1 does not fit u8"):
        dtypes.check_int_range(np.array([3, -1]), dtypes.uint8, "numpy.asarray")
    dtypes.check_int_range(np.array([], int), dtypes.uint8, "numpy.asarray")
    dtypes.check_int_range(7, dtypes.int4, "numpy.asarray")
    with pytest.raises(OverflowError, match="i4"):
        dtypes.check_int_range(8, dtypes.int4, "numpy.asarray")


def test_inexact_and_complex_partners():
    narrow = {"int1", "uint1", "int2", "uint2"}  # JAX leaves these as integers; ours become float32
    for d in dtypes.ALL:
        if d.name in narrow:
            assert dtypes.to_inexact_dtype(d) == np.float32
        else:
            assert dtypes.to_inexact_dtype(d) == jax_dtypes.to_inexact_dtype(d)
            assert dtypes.to_complex_dtype(d) == jax_dtypes.to_complex_dtype(d)


def test_limits():
    assert dtypes.finfo("bfloat16").bits == 16
    assert dtypes.finfo(np.complex64).eps == np.finfo(np.float32).eps
    assert (dtypes.iinfo(dtypes.int4).min, dtypes.iinfo(np.uint8).max) == (-8, 255)
    assert dtypes.isdtype("float32", np.float32)
    with pytest.raises(ValueError, match="fix:"):
        dtypes.isdtype("float32", "floating")
    with pytest.raises(TypeError, match="fix:"):
        dtypes.isdtype("float32", 3.5)
