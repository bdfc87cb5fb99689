"""`test_util`: right derivatives pass, wrong ones raise AssertionError, in both libraries."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import outcome
from tests.oracle import real_jax
from xjax import lax, test_util


@xjax.custom_jvp
def wrong(x):
    return jnp.sin(x)


wrong.defjvps(lambda dx, y, x: dx)


@pytest.mark.parametrize("f, args", [
    (jnp.sin, (1.0,)), (lambda x, y: x * y, (2.0, jnp.ones(3))), (lambda d: d["a"] * d["b"], ({"a": 1.0, "b": 2.0},)),
    (lambda x: x * (1 + 2j), (1 + 2j,)), (lambda x: (x, jnp.exp(x)), (jnp.arange(2.0),)),
    (lambda x: lax.scan(lambda c, _: (c * x, c), 1.0, None, length=3), (0.5,))])
@pytest.mark.parametrize("modes", ["fwd", "rev", ("fwd", "rev")])
def test_right_derivatives_pass(f, args, modes):
    test_util.check_grads(f, args, order=2, modes=modes, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("modes", ["fwd", "rev"])
def test_wrong_derivatives_are_found(modes):
    with pytest.raises(AssertionError, match="jvp tangent" if modes == "fwd" else "vjp cotangent projection"):
        test_util.check_grads(wrong, (1.0,), order=1, modes=modes)


def test_derivatives_wrong_from_the_second_order_on():
    def cut(x):
        return lax.stop_gradient(jnp.cos(x)) * x

    with pytest.raises(AssertionError):
        test_util.check_grads(cut, (1.0,), order=1)
    with pytest.raises(ValueError, match="(?s)mode.*nope.*fix:"):
        test_util.check_grads(jnp.sin, (1.0,), 1, modes=("nope",))


def test_the_same_verdicts_as_jax():
    jax = real_jax("test_util")
    for call in ("u.check_jvp(jnp.sin, partial(j.jvp, jnp.sin), (1.,))",
                 "u.check_jvp(jnp.sin, partial(j.jvp, jnp.cos), (1.,))",
                 "u.check_vjp(jnp.sin, partial(j.vjp, jnp.sin), (1.,), err_msg='sine')",
                 "u.check_vjp(jnp.sin, partial(j.vjp, jnp.cos), (1.,), err_msg='sine')",
                 "u.check_vjp(lambda x: x ** 3, partial(j.vjp, lambda x: x ** 3), (jnp.arange(3.),), 1e-2, 1e-2)",
                 "u.check_grads(lambda x: x ** 2, (1.,), 2, atol={np.float32: 1e-2}, rtol=1e-2, eps=1e-3)",
                 "u.check_grads(lambda x: j.lax.stop_gradient(x) ** 2, (1.,), 1)"):
        ours, theirs = (outcome(eval, call, {"u": lib.test_util, "j": lib, "jnp": lib.numpy, "partial": partial,
                                             "np": np}) for lib in (xjax, jax))
        assert type(ours.error) is type(theirs.error), (call, ours, theirs)


def test_the_points_and_cotangents_of_jax():
    jax = real_jax("test_util")
    numbers = {xjax: [], jax: []}
    for lib, seen in numbers.items():
        def f(x):
            if not isinstance(x, lib.core.Tracer):
                seen.append(np.asarray(x))
            return lib.numpy.sin(x)

        def f_vjp(x):
            y, back = lib.vjp(lib.numpy.sin, x)
            return y, lambda ct: seen.append(np.asarray(ct)) or back(ct)

        lib.test_util.check_grads(f, (np.float32([0, 1, 2]),), order=1)
        lib.test_util.check_vjp(lib.numpy.sin, f_vjp, (np.float32([0, 1, 2]),))
    np.testing.assert_allclose(numbers[xjax], numbers[jax], rtol=1e-6)
