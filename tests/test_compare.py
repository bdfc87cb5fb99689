"""The comparison and the data by version that other tests rely on: equal and different values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests import oracle
from tests.compare import assert_close, assert_same, assert_same_outcome, assert_same_types, difference, outcome

X = np.array([1.0, 2.0], np.float32)


@xjax.tree_util.register_dataclass
@dataclass
class Scaled:
    """A container of a user, with static data."""

    values: Any
    factor: int = field(metadata={"static": True})


DIFFERENT = {
    "container": ([X], (X,)), "keys": ({"a": X}, {"b": X}), "number of leaves": ([X], [X, X]), "None": (None, X),
    "shape": (X, X[:1]), "dtype": (X, X.astype(np.float64)), "weak type": (jnp.float32(1), jnp.asarray(1.0)),
    "Python number": (jnp.asarray(1.0), 1.0), "Python type": (1, 1.0), "text": ("a", "b"), "an array": (print, X),
    "value": (X, X * np.float32(1.0001)), "integer": (np.int32(3), np.int32(4)), "bool": (True, False),
    "NaN": (X, np.array([1, np.nan], np.float32)), "infinity": (np.float32(np.inf), np.float32(-np.inf)),
    "imaginary part": (np.complex64(1 + 2j), np.complex64(1 + 2.001j)),
    "half": (ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(1.0625)), "float8": (jnp.ones(1, "float8_e5m2"),
                                                                            jnp.ones(1, "float8_e5m2") * 2),
    "key": (xjax.random.key(0), xjax.random.key(1)), "kind of key": (xjax.random.key(0), np.zeros(2, np.uint32)),
    "struct": (xjax.ShapeDtypeStruct((2,), "float32"), xjax.ShapeDtypeStruct((2,), "int32")),
}
SAME = {
    "rounding": (X, X * np.float32(1 + 3e-6)), "cancellation": (np.float32(0), np.float32(1e-6)),
    "array of NumPy": (jnp.asarray(X), X), "weak bool": (jnp.asarray(True), np.bool_(True)), "zeros": (0.0, -0.0),
    "NaNs": (np.float32(np.nan), np.float32(np.nan)), "nested": ({"a": [X, None]}, {"a": [X, None]}),
    "float0": (np.zeros(2, xjax.float0), np.zeros(2, xjax.float0)), "key": (xjax.random.key(3), xjax.random.key(3)),
    "function": (print, print),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_differences_are_seen(case):
    for pair in (DIFFERENT[case], DIFFERENT[case][::-1]):
        with pytest.raises(AssertionError, match="here"):
            assert_same(*pair, what="here")


@pytest.mark.parametrize("case", SAME)
def test_the_same_is_the_same(case):
    assert_same(*SAME[case])


def test_kinds_of_differences():
    assert [difference(*DIFFERENT[k]).kind for k in ("shape", "weak type", "value", "text")] == [
        "type", "type", "value", "value"]
    assert difference(X, X) is None
    for other in (Scaled(X, 3), Scaled(None, 2), (X,)):
        assert difference(Scaled(X, 2), other).kind == "type"
    assert difference(Scaled(X, 2), Scaled(X + 1, 2)).kind == "value"
    assert_same_types(X, 2 * X)
    with pytest.raises(AssertionError, match=r"float32\[2\], expected float32\[1\]"):
        assert_same_types(X, X[:1])


def test_closeness_is_of_shapes_and_values():
    assert_close([X, 1], (X.astype(np.float64) + 1e-7, 1.0))
    for other in (X[:1], X + 1e-4, [X, X]):
        with pytest.raises(AssertionError):
            assert_close(X, other)
    assert_close([Scaled(X, 2), 1], (X, 1.0))


def test_tolerances():
    """`tol` scales the tolerance, `scale` bounds the scale of an array from below, `like` has the dtype."""
    with pytest.raises(AssertionError):
        assert_same(X, X * np.float32(1 + 1e-6), tol=0)
    with pytest.raises(AssertionError):
        assert_same(np.float32(1e-8), np.float32(2e-8), scale=1e-6)
    assert_same(X, X * np.float32(1.0001), tol=20)
    assert_same(np.float64(1), np.float64(1 + 1e-6), like="float32")
    assert_close(np.float64(1), np.float64(1 + 1e-6), like="float32")


def test_outcomes():
    def fail(error):
        raise error

    class Special(ValueError):
        pass

    value, wrong = outcome(lambda: X), outcome(fail, ValueError())
    assert_same_outcome(value, outcome(lambda: X))
    assert_same_outcome(wrong, outcome(fail, Special()))
    assert_same_outcome(outcome(fail, Special()), wrong)
    for ours, theirs in ((value, wrong), (wrong, value), (outcome(fail, TypeError()), wrong)):
        with pytest.raises(AssertionError):
            assert_same_outcome(ours, theirs)


@pytest.mark.parametrize(("version", "kept"), [
    ((0, 10, 2), ["old", "always"]), ((0, 12), ["new", "always"]), ((0, 12, 0, 1), ["new", "always"]),
    ((), ["new", "always"])])
def test_data_by_version(monkeypatch, version, kept):
    monkeypatch.setattr(oracle, "VERSION", version)
    data = [oracle.only("old", until="0.12"), oracle.only("new", since="0.12"), "always"]
    assert oracle.current(data) == kept and oracle.current(tuple(data)) == tuple(kept)
    assert list(oracle.current(dict(enumerate(data))).values()) == kept
