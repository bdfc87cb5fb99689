"""scan: against real JAX under every transformation, against Python loops; stored residuals, caching, errors."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close
from tests.lax.oracle import DERIVATIVES, check, stacked, vmap_transforms, vmapped
from tests.oracle import real_jax
from tests.refusals import assert_refused
from tests.sampling import each_once, one_in
from xjax import lax
from xjax.core.jaxpr import check_jaxpr
from xjax.runtime.dispatch import eval_trace

jax = real_jax()
from tests.core.test_printing_as_jax import Rebuild  # noqa: E402  (needs jax)

W = np.array([0.5, -1.0, 1.5], np.float32)
C = np.array([0.1, 0.7, -0.3], np.float32)
XS = np.linspace(-1, 1, 4, dtype=np.float32)


def rnn(L, w, c, xs):
    """A constant, a carry and rows, all with derivatives."""
    def body(c, x):
        h = L.tanh(L.add(L.mul(w, c), x))
        return h, L.mul(h, x)
    return L.scan(body, c, xs)


def counter(L, w, c, xs):
    """An integer in the carry, an unused row, and a carry that is returned unchanged."""
    def body(state, x):
        i, c, d = state
        c = L.add(c, L.mul(L.convert_element_type(i, np.float32), w))
        return (L.add(i, 1), c, d), (i, L.sin(L.mul(c, d)))
    return L.scan(body, (0, c, w), (xs, np.arange(4)))


def becomes_active(L, w, c, xs):
    """A carry without a tangent at the start that gets one in the second step, and a carry that loses its tangent."""
    def body(state, x):
        a, b, e = state
        return (L.mul(b, x), L.add(e, L.sin(w)), np.ones(3, np.float32)), L.mul(a, b)
    return L.scan(body, (np.zeros(3, np.float32), np.ones(3, np.float32), c), xs)


def backwards(L, w, c, xs):
    return L.scan(lambda c, x: (L.sin(L.add(c, L.mul(w, x))), c), c, xs, reverse=True)


def unrolled(L, w, c, xs):
    return L.scan(lambda c, x: (L.sin(L.add(c, L.mul(w, x))), c), c, xs, unroll=3)


def nested(L, w, c, xs):
    def outer(c, x):
        c, ys = L.scan(lambda c, y: (L.mul(L.sin(c), y), L.mul(c, x)), c, xs)
        return L.mul(c, w), ys
    return L.scan(outer, c, xs)


def hands_on(L, w, c, xs):
    """Carries that are returned unchanged, one of which is also a result, and carries that are exchanged."""
    def body(state, x):
        w, a, b, n = state
        return (w, b, L.mul(L.sin(a), w), n), (w, L.mul(b, x))
    return L.scan(body, (w, c, L.mul(c, w), np.int32(3)), xs)


FUNCTIONS = {f.__name__: f for f in (rnn, counter, becomes_active, backwards, unrolled, nested, hands_on)}


@pytest.mark.parametrize("transform", one_in(4, DERIVATIVES))
@pytest.mark.parametrize("f", FUNCTIONS)
def test_derivatives_as_jax(f, transform):
    check(jax, FUNCTIONS[f], W, C, XS, transform=DERIVATIVES[transform])


@pytest.mark.parametrize("transform", ["value", "jvp", "linearize", "grad"])
def test_eager_derivatives_as_jax(transform):
    check(jax, counter, W, C, XS, transform=DERIVATIVES[transform], eager=True)


def test_tangents_of_integers_are_float0():
    _, (carry, ys) = xjax.jvp(lambda *xs: counter(lax, *xs), (W, C, XS), (W, C, XS))
    assert carry[0].dtype == ys[0].dtype == xjax.float0 and ys[0].shape == (4,)


@pytest.mark.parametrize("choice, kind", each_once(
    dict(vmap_transforms(3)), ["vmap", "vmap of grad", "grad of vmap", "vmap of jvp"]))
def test_vmap_as_jax(choice, kind):
    f, axes = rnn if kind != "vmap" else counter, dict(vmap_transforms(3))[choice]
    check(jax, f, *stacked([W, C, XS], axes), transform=vmapped(kind, axes))


def test_vmap_of_rows_along_another_axis():
    xs = np.arange(12, dtype=np.float32).reshape(4, 3)
    check(jax, lambda L, xs: L.scan(lambda c, x: (L.add(c, x), c), np.float32(0), xs), xs,
          transform=lambda lib, f: lib.vmap(f, in_axes=1, out_axes=(0, 1)))


def test_vmap_in_the_body_and_outside():
    def f(L, c, xs):
        lib = xjax if L is xjax.lax else jax
        return L.scan(lambda c, x: (lib.vmap(lambda a: L.mul(L.sin(a), x))(c), c), c, xs)
    check(jax, f, C, XS, transform=DERIVATIVES["grad"])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 3, 5, 7, True, False])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_equals_a_python_loop(length, unroll, reverse):
    xs = np.arange(length, dtype=np.float32)
    carry, ys = lax.scan(lambda c, x: (lax.add(lax.mul(c, 2.0), x), c), np.float32(1), xs, reverse=reverse,
                         unroll=unroll)
    want, rows = np.float32(1), np.zeros(length, np.float32)
    for i in reversed(range(length)) if reverse else range(length):
        rows[i], want = want, want * 2 + xs[i]
    assert float(carry) == want
    np.testing.assert_array_equal(np.asarray(ys), rows)


def test_without_a_loop_rows_are_neither_stored_nor_read():
    """XLA removes the stacks of residuals: the gradient uses the values directly."""
    def loss(c, xs):
        return lax.reduce_sum(lax.scan(lambda c, x: (lax.sin(lax.mul(c, x)), None), c, xs, unroll=True)[0], (0,))

    text = xjax.jit(xjax.grad(loss)).lower(C, XS).compile().as_text()
    assert not any(word in text for word in ("while(", "dynamic-slice", "dynamic-update-slice", "concatenate("))


def test_split_transpose_is_accepted():
    def f(c):
        return lax.reduce_sum(lax.scan(lambda c, x: (lax.mul(c, x), None), c, XS, _split_transpose=True)[0], (0,))
    np.testing.assert_allclose(np.asarray(xjax.grad(f)(C)), np.full(3, np.prod(XS)), rtol=1e-5)


def test_without_rows():
    carry, ys = lax.scan(lambda c, x: (lax.mul(c, 2), None if x is None else x), 1, None, length=5)
    assert int(carry) == 32 and ys is None


def test_trees_keep_their_containers():
    xs = {"a": np.arange(3.0, dtype=np.float32), "b": [np.arange(3)]}
    carry, ys = lax.scan(lambda c, x: ({"n": lax.add(c["n"], x["a"])}, (x["b"], c["n"])), {"n": np.float32(0)}, xs)
    assert set(carry) == {"n"} and isinstance(ys, tuple) and isinstance(ys[0], list)
    assert ys[0][0].shape == (3,) and ys[0][0].dtype == np.int32


WEAK = {
    "int to float": (0, lambda c, x: (x, x)), "float stays weak": (0.0, lambda c, x: (c, c)),
    "float to float32": (0.0, lambda c, x: (x, c)), "strong stays": (np.float32(0), lambda c, x: (c, x)),
    "strong from weak": (np.float32(0), lambda c, x: (1.0, c)), "int stays": (np.int32(0), lambda c, x: (c, c))}


@pytest.mark.parametrize("case", WEAK)
def test_weak_start_values_as_jax(case):
    start, body = WEAK[case]
    c1, y1 = jax.jit(lambda: jax.lax.scan(body, start, XS))()       # eager JAX returns the start value itself
    c2, y2 = lax.scan(body, start, XS)
    assert (c1.dtype, c1.weak_type, y1.dtype, y1.weak_type) == (c2.dtype, c2.weak_type, y2.dtype, y2.weak_type)


# -- stored residuals ---------------------------------------------------------------------------------------------

def scans(jaxpr):
    return [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]


def test_programs_print_as_in_jax():
    f = rnn
    ours = str(xjax.make_jaxpr(lambda *xs: f(xjax.lax, *xs))(W, C, XS))
    theirs = str(Rebuild().bare(jax.make_jaxpr(lambda *xs: f(jax.lax, *xs))(W, C, XS).jaxpr))
    assert ours == theirs.replace(" accuracy=None", "").replace("[accuracy=None]", "")


def test_grad_is_a_scan_forward_and_a_scan_backward():
    closed = xjax.make_jaxpr(xjax.grad(lambda w: lax.reduce_sum(rnn(lax, w, C, XS)[0], (0,))))(W)
    check_jaxpr(closed.jaxpr)
    forward, back = scans(closed.jaxpr)
    assert (forward.params["reverse"], back.params["reverse"]) == (False, True)
    assert all(not eqn.params["jaxpr"].consts for eqn in (forward, back))


def test_invariant_residuals_are_not_stacked():
    big = np.ones((64, 64), np.float32)

    def loss(c, m):
        def body(c, x):
            return lax.tanh(lax.dot_general(lax.sin(m), c, (((1,), (0,)), ((), ())))), None
        return lax.reduce_sum(lax.scan(body, c, None, length=100)[0], (0,))

    closed = xjax.make_jaxpr(xjax.grad(loss, (0, 1)))(np.ones(64, np.float32), big)
    check_jaxpr(closed.jaxpr)
    forward, back = scans(closed.jaxpr)
    stored = sum(v.aval.size for v in forward.outvars)
    assert stored <= 100 * 64 * 3 + 64              # only vectors per step, neither the matrix nor its sine
    assert not any(v.aval.shape == (100, 64, 64) for eqn in closed.eqns for v in eqn.outvars)


def test_rows_are_read_again_instead_of_stored():
    def loss(c, xs):
        return lax.reduce_sum(lax.scan(lambda c, x: (lax.mul(c, x), None), c, xs)[0], (0,))

    closed = xjax.make_jaxpr(xjax.grad(loss))(C, np.ones((4, 3), np.float32))
    forward, _ = scans(closed.jaxpr)
    assert [v.aval.shape for v in forward.outvars] == [(3,)]


def test_derivative_rule_that_scans_over_its_tangent():
    """The rule of a custom_jvp runs a loop, with a counter, over values and tangents together."""
    @xjax.custom_jvp
    def power(x):
        return lax.integer_pow(x, 3)

    @power.defjvp
    def power_jvp(primals, tangents):
        (x,), (dx,) = primals, tangents

        def body(state, _):
            i, y, dy = state
            return (lax.add(i, 1), lax.mul(y, x), lax.add(lax.mul(dy, x), lax.mul(y, dx))), lax.mul(dy, 0.0)
        (_, y, dy), _ = lax.scan(body, (0, np.float32(1), np.float32(0)), None, length=3)
        return y, dy

    with pytest.raises(TypeError, match="depend on a tangent"):
        xjax.grad(lambda x: xjax.jit(lambda v: v)(BadRule(x)))(np.float32(2))
    assert float(xjax.grad(power)(np.float32(2))) == 12.0
    assert float(xjax.jit(xjax.grad(power))(np.float32(2))) == 12.0
    assert float(xjax.jvp(power, (np.float32(2),), (np.float32(1),))[1]) == 12.0


@xjax.custom_jvp
def BadRule(x):
    return lax.mul(x, 2.0)


@BadRule.defjvp
def _bad(primals, tangents):
    return lax.add(primals[0], tangents[0]), tangents[0]


def test_transpose_of_a_scan_with_known_carries():
    """A linear function that counts: the counter is computed first, then the rest runs backwards."""
    @xjax.custom_jvp
    def f(x):
        return lax.mul(x, 6.0)

    @f.defjvp
    def f_jvp(primals, tangents):
        @xjax.jit
        def tangent(dx):
            def body(state, _):
                i, s = state
                return (lax.add(i, 1.0), lax.add(s, lax.mul(dx, i))), i
            return lax.scan(body, (np.float32(1), np.zeros_like(W)), None, length=3)[0][1]
        return f(primals[0]), tangent(tangents[0])

    g = xjax.grad(lambda x: lax.reduce_sum(lax.mul(f(x), W), (0,)))
    np.testing.assert_allclose(np.asarray(g(C)), 6 * W, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(xjax.jit(g)(C)), 6 * W, rtol=1e-6)


# -- caching and modes --------------------------------------------------------------------------------------------

def test_repeated_eager_calls_trace_and_compile_once():
    traced = 0

    def body(c, x):
        nonlocal traced
        traced += 1
        return lax.add(c, x), c

    for k in range(3):
        carry, _ = lax.scan(body, np.float32(k), XS)
    assert traced == 1 and float(carry) == pytest.approx(2.0, abs=1e-5)
    lax.scan(body, np.float32(0), XS[:2])
    assert traced == 1                              # the length is not part of the body
    lax.scan(body, W, XS[:2])
    assert traced == 2


def test_programs_die_with_the_function(quick_collections):
    def body(c, x):
        return lax.add(c, x), c

    lax.scan(body, np.float32(0), XS)
    alive = weakref.ref(body)
    del body
    gc.collect()
    assert alive() is None


def test_body_that_captures_a_traced_value_is_not_remembered():
    scale = []

    def body(c, x):
        return lax.mul(c, scale[0]), None

    def f(s):
        scale[:] = [s]
        return lax.scan(body, np.float32(1), None, length=2)[0]

    assert float(xjax.grad(f)(np.float32(3))) == 6.0
    assert float(xjax.grad(f)(np.float32(5))) == 10.0
    assert float(xjax.jit(f)(np.float32(4))) == 16.0


@pytest.mark.parametrize("f", FUNCTIONS)
def test_without_jit(f):
    f = FUNCTIONS[f]
    want = f(lax, W, C, XS)
    with xjax.disable_jit():
        result = f(lax, W, C, XS)
    assert_close(result, want, tol=1 / 8)


def test_without_jit_the_body_sees_values():
    seen = []
    with xjax.disable_jit():
        lax.scan(lambda c, x: (seen.append(float(x)) or c, None), 0.0, XS)
    assert seen == XS.tolist()


def test_an_error_in_the_body_leaves_the_state_as_it_was():
    with pytest.raises(ZeroDivisionError):
        lax.scan(lambda c, x: 1 / 0, 0.0, XS)
    assert xjax.core.context.context.trace is eval_trace
    assert float(lax.scan(lambda c, x: (lax.add(c, x), None), np.float32(0), np.ones(3, np.float32))[0]) == 3.0


# -- errors -------------------------------------------------------------------------------------------------------

def test_carry_type_error_is_the_one_of_the_style_guide():
    def body(carry, x):
        return {"h": lax.convert_element_type(carry["h"], np.float16)}, None

    with pytest.raises(TypeError) as error:
        lax.scan(body, {"h": np.zeros(4, np.float32)}, XS)
    assert str(error.value) == (
        "scan: the carry changes type between input and output of `body`.\n"
        "  carry['h']  in f32[4]   out f16[4]\n"
        "  fix: return carry['h'].astype(f32), or start from a float16 value.")


ERRORS = {
    "the shape of the carry": (lambda: lax.scan(lambda s, x: (lax.broadcast(s, (2,)), x), 0.0, XS), TypeError,
                               ["s  in f32[]   out f32[2]"]),
    "the structure of the carry": (lambda: lax.scan(lambda s, x: ((s, s), x), 0.0, XS), TypeError,
                                   ["changes structure", "s  expected a leaf, got a tuple of 2"]),
    "no pair": (lambda: lax.scan(lambda s, x: s, 0.0, XS), TypeError, ["must return a pair", "f32[]"]),
    "a triple": (lambda: lax.scan(lambda s, x: (s, s, s), 0.0, XS), TypeError, ["must return a pair"]),
    "a string in the carry": (lambda: lax.scan(lambda s, x: (s, x), {"k": "a"}, XS), TypeError,
                              ["init['k'] is not an array", "'a'"]),
    "a list of strings as rows": (lambda: lax.scan(lambda s, x: (s, x), 0.0, ["a"]), TypeError,
                                  ["xs[0] is not an array"]),
    "lengths that differ": (lambda: lax.scan(lambda s, x: (s, x), 0.0, {"a": XS, "b": XS[:2]}), ValueError,
                            ["xs['a']  f32[4]   4 rows", "xs['b']  f32[2]   2 rows"]),
    "length and rows": (lambda: lax.scan(lambda s, x: (s, x), 0.0, XS, length=7), ValueError,
                        ["length  7", "xs      f32[4]   4 rows"]),
    "a scalar as rows": (lambda: lax.scan(lambda s, x: (s, x), 0.0, 3.0), ValueError, ["has no axis"]),
    "no length": (lambda: lax.scan(lambda s, x: (s, x), 0.0, None), ValueError, ["number of steps is unknown"]),
    "a negative length": (lambda: lax.scan(lambda s, x: (s, x), 0.0, None, length=-1), ValueError,
                          ["`length` is negative"]),
    "no function": (lambda: lax.scan(3, 0.0, XS), TypeError, ["`f` must be a function"]),
    "unroll": (lambda: lax.scan(lambda s, x: (s, x), 0.0, XS, unroll=-1), ValueError, ["`unroll`"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])


def test_a_carry_that_no_result_depends_on_gets_no_cotangent():
    """An instantiated zero cotangent would become NaN when multiplied by an infinite derivative, here of sqrt at 0."""
    def f(a, b):
        def body(carry, _):
            return (jnp.zeros(()), jnp.tanh(carry[1])), None
        return lax.scan(body, (jnp.sqrt(a), jnp.tanh(b)), None, length=3)[0][1]

    for g in (xjax.grad(f, (0, 1)), xjax.jit(xjax.grad(f, (0, 1)))):
        da, db = g(0.0, 0.5)
        assert da == 0 and np.isfinite(db)
