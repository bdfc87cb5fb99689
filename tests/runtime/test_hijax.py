"""Types of values that libraries define: classes as in JAX, eager operations, and the refusal under transforms."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import holds, real_jax
from tests.refusals import assert_refused
from xjax.experimental import hijax


class Pair:
    """A value of two arrays, not a pytree."""

    def __init__(self, a, b):
        self.a, self.b = a, b


def define(lib, hijax):
    """(The class of types of pairs, the sum of a pair as an operation)."""
    class PairType(hijax.HiType):
        def __init__(self, inner):
            self.inner = inner

        def __eq__(self, other):
            return type(other) is PairType and self.inner == other.inner

        def __hash__(self):
            return hash(self.inner)

        def lo_ty(self):
            return [self.inner, self.inner]

        def lower_val(self, x):
            return [x.a, x.b]

        def raise_val(self, a, b):
            return Pair(a, b)

        total = hijax.aval_property(lambda x: add(x))
        add_all = hijax.aval_method(lambda x: add(x))

    base = hijax.HiPrim if hasattr(hijax, "HiPrim") else hijax.VJPHiPrimitive

    class Add(base):
        def __init__(self, aval, *, scale):
            self.in_avals, self.out_aval, self.params = (aval,), aval.inner, {"scale": scale}
            super().__init__()

        def expand(self, x):
            return (x.a + x.b) * self.scale

    def add(x, scale=2.0):
        return Add(lib.typeof(x), scale=scale)(x)

    hijax.register_hitype(Pair, lambda x: PairType(lib.typeof(x.a)))
    return PairType, add


def test_eager_operations_as_jax():
    jax = real_jax()
    results = []
    for lib, module in ((xjax, hijax), (jax, importlib.import_module("jax.experimental.hijax"))):
        kind, add = define(lib, module)
        x = Pair(lib.numpy.ones(3), lib.numpy.arange(3.0))
        assert isinstance(lib.typeof(x), kind) and lib.typeof(x).inner == lib.typeof(x.a) and lib.typeof(x).is_high
        results.append(np.asarray(add(x, 3.0)))
    assert results[0].tolist() == results[1].tolist() == [3.0, 6.0, 9.0]


def test_values_are_not_traced():
    _, add = define(xjax, hijax)
    x = Pair(jnp.ones(3), jnp.ones(3))
    assert_refused(lambda: xjax.jit(lambda x: x)(x), TypeError, "Pair is not an array")
    assert_refused(lambda: jnp.sin(x), TypeError, "values of hijax types are not traced")
    assert_refused(lambda: xjax.jit(lambda: add(x))(), NotImplementedError, "run eagerly only")
    assert_refused(lambda: xjax.grad(lambda y: add(Pair(y, y)).sum())(jnp.ones(3)), NotImplementedError, "run eagerly")
    assert_refused(lambda: hijax.register_hitype("Pair", lambda x: x), TypeError, "must be a class")
    assert_refused(lambda: hijax.HiPrim()(1.0), NotImplementedError, "does not define expand")


def test_names():
    assert hijax.ShapedArray is type(xjax.typeof(1.0)) and hijax.AbstractRef is xjax.ref.AbstractRef
    zero = hijax.Zero(xjax.typeof(jnp.ones(2)))
    assert hijax.instantiate_zeros(zero).tolist() == [0.0, 0.0] and hijax.instantiate_zeros(3.0) == 3.0
    assert not hijax.is_undefined_primal(1.0) and issubclass(hijax.MutableHiType, hijax.AbstractValue)


@pytest.mark.skipif(not holds(since="0.12"), reason="JAX 0.10 has other names")
def test_names_of_jax():
    real_jax()
    theirs = importlib.import_module("jax.experimental.hijax")
    assert all(hasattr(theirs, name) or name in ("HiPrimitive", "MutableHiType", "VJPHiPrimitive")
               for name in hijax.__all__)


def test_operations_with_names_are_defined_and_refused():
    class Allocate(hijax.HiPrimitive):
        pass

    class Allocates:
        pass

    assert Allocate("allocate").name == "allocate"
    assert_refused(lambda: Allocate("allocate").bind(1.0), NotImplementedError, "allocate")
    hijax.control_flow_allowed_effects.add_type(Allocates)
    assert hijax.control_flow_allowed_effects.contains(Allocates())
    assert hijax.control_flow_allowed_effects.filter_not_in([Allocates(), "other"]) == ["other"]
