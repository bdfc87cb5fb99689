"""while_loop: against real JAX, forward mode, every combination of mapped arguments, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.lax.oracle import check
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import lax
from xjax.core.jaxpr import check_jaxpr

jax = real_jax()

LIMIT = np.float32(20)
START = np.array([0.5, 3.0, 30.0], np.float32)


def double(L, limit, x):
    """The condition depends on a captured value and on the carry; an integer counts the iterations."""
    return L.while_loop(lambda s: L.lt(s[1], limit), lambda s: (L.add(s[0], 1), L.mul(L.add(s[1], x), 1.5)), (0, x))


def fixed_turns(L, scale, x):
    """The condition does not depend on mapped values."""
    return L.while_loop(lambda s: L.lt(s[0], 3), lambda s: (L.add(s[0], 1), L.mul(L.sin(s[1]), scale)), (0, x))[1]


@pytest.mark.parametrize("limit", [0.0, 20.0, 1e4])
def test_value_as_jax(limit):
    check(jax, double, np.float32(limit), np.float32(0.5))
    check(jax, double, np.float32(limit), np.float32(0.5), eager=True)


@pytest.mark.parametrize("f", [double, fixed_turns])
def test_forward_mode_as_jax(f):
    def values(L, a, x):
        out = f(L, a, x)
        return out[1] if isinstance(out, tuple) else out
    xs = (LIMIT, np.float32(0.5))
    check(jax, values, *xs, transform=lambda lib, f: lambda *xs: lib.jvp(f, xs, xs))
    check(jax, values, *xs, transform=lambda lib, f: lambda *xs: lib.linearize(f, *xs)[1](*xs))
    check(jax, values, *xs, transform=lambda lib, f: lib.jacfwd(f, (0, 1)))
    check(jax, values, *xs, transform=lambda lib, f: lambda *xs: lib.jvp(lambda *ys: lib.jvp(f, ys, ys)[1], xs, xs))


@pytest.mark.parametrize("f", [double, fixed_turns])
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_vmap_as_jax(f, axes):
    args = [x if a is None else x * START for x, a in zip((LIMIT, np.float32(0.5)), axes, strict=True)]
    check(jax, f, *args, transform=lambda lib, f: lib.vmap(f, axes))
    check(jax, lambda L, *xs: [y for y in jax.tree_util.tree_leaves(f(L, *xs)) if y.dtype == np.float32], *args,
          transform=lambda lib, f: lib.vmap(lambda *xs: lib.jvp(f, xs, xs), axes))


@pytest.mark.parametrize("inner,outer", [((0, None), (None, 0)), ((None, 0), (0, None)), ((0, 0), (0, 0)),
                                         ((0, None), (0, None))])
def test_vmap_of_vmap_as_jax(inner, outer):
    def shape(k):
        return [3, 3][:sum(a[k] == 0 for a in (inner, outer))]
    args = [np.linspace(1, 40, int(np.prod(shape(k))), dtype=np.float32).reshape(shape(k)) for k in range(2)]
    check(jax, double, *args, transform=lambda lib, f: lib.vmap(lib.vmap(f, inner), outer))


def test_mapped_carry_of_arrays():
    """Elements stop after different numbers of iterations and keep their arrays."""
    def f(L, n):
        return L.while_loop(lambda s: L.lt(s[0], n), lambda s: (L.add(s[0], 1), L.mul(s[1], 2.0)),
                            (np.int32(0), np.ones((2, 2), np.float32)))
    check(jax, f, np.array([0, 3, 5], np.int32), transform=lambda lib, f: lib.vmap(f))


def test_weak_start_values_are_promoted():
    out = lax.while_loop(lambda c: lax.lt(c, np.float32(3)), lambda c: lax.add(c, np.float32(1)), 0.0)
    assert float(out) == 3.0
    n, x = lax.while_loop(lambda c: lax.lt(c[0], 2), lambda c: (lax.add(c[0], 1), np.float32(2.5)), (0, 0))
    assert (int(n), float(x), x.dtype) == (2, 2.5, np.float32)


def test_integer_loop_inside_a_gradient():
    def f(x):
        n = lax.while_loop(lambda n: lax.lt(n, 10), lambda n: lax.mul(n, 3), 1)
        return lax.mul(x, lax.convert_element_type(n, np.float32))
    assert float(xjax.grad(f)(1.0)) == 27.0


def test_results_without_tangent_do_not_hinder_reverse_mode():
    """The iteration count of a loop over a differentiated value, and a loop inside stop_gradient."""
    def count(L, x):
        n = L.while_loop(lambda s: L.lt(s[1], np.float32(10)), lambda s: (L.add(s[0], 1), L.mul(s[1], 2.0)), (0, x))[0]
        return L.mul(x, L.convert_element_type(n, np.float32))

    def stopped(L, x):
        return L.mul(x, L.stop_gradient(L.while_loop(lambda s: L.lt(s, LIMIT), lambda s: L.mul(s, 1.5), x)))
    x = np.float32(1.25)
    for f in (count, stopped):
        check(jax, f, x, transform=lambda lib, f: lib.grad(lib.checkpoint(lib.jit(f))))
        check(jax, f, x, transform=lambda lib, f: lambda x: lib.jvp(lib.grad(f), (x,), (x,)))


@pytest.mark.parametrize("wrap", ["", "jit"])
def test_derivative_rule_that_loops_over_its_tangent(wrap):
    """The counter and the value are computed with the primal values, the tangent with the tangents."""
    @xjax.custom_jvp
    def f(x):
        return lax.mul(x, 8.0)

    @f.defjvp
    def f_jvp(primals, tangents):
        def body(state):
            n, y, dy = state
            return lax.add(n, 1), lax.mul(y, 2.0), lax.mul(dy, lax.convert_element_type(lax.add(n, 1), np.float32))
        n, y, dy = lax.while_loop(lambda s: lax.lt(s[0], 3), body, (0, primals[0], tangents[0]))
        return lax.add(y, lax.mul(lax.convert_element_type(n, np.float32), 0.0)), dy

    g = xjax.jit(f) if wrap else f
    value, linear = xjax.linearize(g, np.float32(2))
    assert (float(value), float(linear(np.float32(1)))) == (16.0, 6.0)
    assert float(xjax.jvp(g, (np.float32(2),), (np.float32(1),))[1]) == 6.0
    with pytest.raises(ValueError, match="reverse-mode"):
        xjax.grad(g)(np.float32(2))


def test_derivative_rule_whose_tangent_decides_when_to_stop():
    """The whole loop then depends on the tangent, so the value must be computed outside of it."""
    @xjax.custom_jvp
    def f(x):
        return lax.mul(x, 2.0)

    @f.defjvp
    def f_jvp(primals, tangents):
        dy = lax.while_loop(lambda s: lax.lt(s[1], np.float32(10)), lambda s: (lax.add(s[0], 1), lax.mul(s[1], 2.0)),
                            (0, tangents[0]))[1]
        return f(primals[0]), dy

    assert float(xjax.linearize(f, np.float32(2))[1](np.float32(1))) == 16.0


def test_program():
    closed = xjax.make_jaxpr(lambda *xs: double(lax, *xs))(LIMIT, np.float32(1))
    check_jaxpr(closed.jaxpr)
    (eqn,) = closed.eqns
    assert set(eqn.params) == {"body_jaxpr", "body_nconsts", "cond_jaxpr", "cond_nconsts"}
    assert (eqn.params["cond_nconsts"], eqn.params["body_nconsts"]) == (1, 1)


def test_without_jit_conditions_are_python():
    seen = []
    with xjax.disable_jit():
        out = lax.while_loop(lambda n: n < 3, lambda n: seen.append(n) or n + 1, 0)
    assert (out, seen) == (3, [0, 1, 2])


@pytest.mark.parametrize("f", [
    lambda lax, x: lax.while_loop(lambda s: s < 10.0, lambda s: s * 2.0, x),
    lambda lax, x: lax.cond(x < 2.0, lambda x: x, lambda x: -x, x),
    lambda lax, x: lax.switch((x > 2.0).astype(int), [lambda: 1.0, lambda: 2.0])])
def test_without_jit_a_mapped_value_that_decides_is_staged(f):
    x = np.array([1.0, 3.0], np.float32)
    with xjax.disable_jit(), jax.disable_jit():
        assert_same(*(lib.vmap(lambda x, lib=lib: f(lib.lax, x))(x) for lib in (xjax, jax)))


def test_repeated_eager_calls_trace_once():
    traced = []

    def body(n):
        traced.append(1)
        return lax.add(n, 1)

    def condition(n):
        return lax.lt(n, 5)

    for k in range(3):
        assert int(lax.while_loop(condition, body, k)) == 5
    assert len(traced) == 1


ERRORS = {
    "float condition": (lambda: lax.while_loop(lambda c: c, lambda c: c, 1.0), TypeError, ["one bool scalar", "f32[]"]),
    "tuple condition": (lambda: lax.while_loop(lambda c: (lax.lt(c, 1.0),), lambda c: c, 1.0), TypeError,
                        ["one bool scalar"]),
    "condition with axes": (lambda: lax.while_loop(lambda c: lax.lt(c, START), lambda c: c, START), TypeError,
                            ["one bool scalar", "bool[3]"]),
    "type of the carry": (lambda: lax.while_loop(lambda c: True, lambda v: {"a": lax.broadcast(v["a"], (2,))},
                                                 {"a": 1.0}), TypeError, ["v['a']  in f32[]   out f32[2]"]),
    "structure of the carry": (lambda: lax.while_loop(lambda c: True, lambda v: (v, v), 1.0), TypeError,
                               ["changes structure", "got a tuple of 2"]),
    "text": (lambda: lax.while_loop(lambda c: True, lambda v: v, "a"), TypeError, ["init_val is not an array"]),
    "no function": (lambda: lax.while_loop(1, lambda v: v, 1.0), TypeError, ["`cond_fun` must be a function"]),
    "reverse mode": (lambda: xjax.grad(lambda x: fixed_turns(lax, 2.0, x))(1.0), ValueError,
                     ["reverse-mode", "lax.scan"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])
