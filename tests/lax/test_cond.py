"""cond and switch: against real JAX under every transformation, which branch runs, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.lax.oracle import DERIVATIVES, check, stacked, vmap_transforms, vmapped
from tests.oracle import real_jax
from tests.refusals import assert_refused
from tests.sampling import each_once
from xjax import lax
from xjax.core.jaxpr import check_jaxpr

jax = real_jax()

X = np.array([0.3, -1.2, 0.8], np.float32)
Y = np.array([1.5, 0.5, -0.7], np.float32)


def two(which):
    """Residuals that differ in number and type between the branches, and a result without a tangent in one branch."""
    def f(L, x, y):
        return L.cond(which, lambda x, y: (L.sin(L.mul(x, y)), L.exp(x)),
                      lambda x, y: (L.mul(x, L.reduce_sum(y, (0,))), L.mul(np.ones(3, np.float32), 3.0)), x, y)
    return f


def three(index):
    def f(L, x, y):
        return L.switch(index, [lambda x: L.mul(x, y), L.sin, lambda x: L.mul(L.cos(x), L.exp(x))], x)
    return f


def forwarding(L, x, y):
    """The conditional does not return a result that is the same operand or captured value in all branches."""
    return L.cond(L.gt(L.reduce_sum(x, (0,)), np.float32(0)), lambda x: (x, y, L.sin(x)), lambda x: (x, y, x), x)


@pytest.mark.parametrize("f", [forwarding, lambda L, x, y: L.switch(L.argmax(x, 0, np.int32), [lambda x: x] * 3, x)])
def test_a_conditional_has_the_results_that_it_has_in_jax(f):
    ours, theirs = ([len(e.outvars) for e in lib.make_jaxpr(lambda *xs, lib=lib: f(lib.lax, *xs))(X, Y).eqns
                     if e.primitive.name == "cond"] for lib in (xjax, jax))
    assert ours == theirs != []
    check(jax, f, X, Y, transform=DERIVATIVES["grad"])


def on_value(L, x, y):
    """The predicate depends on the data; a captured value is an operand."""
    return L.cond(L.gt(L.reduce_sum(x, (0,)), np.float32(0)), lambda: L.mul(x, y), lambda: L.sin(x))


FUNCTIONS = {"true": two(True), "false": two(False), "switch 0": three(0), "switch 2": three(2), "on_value": on_value}


# The fast set has "true" under all transformations, and each other function under some, so that all are covered.
@pytest.mark.parametrize("f, transform", [
    pytest.param(f, transform, marks=[pytest.mark.slow] * (f != "true" and (i + k) % 4 > 0))
    for i, f in enumerate(FUNCTIONS) for k, transform in enumerate(DERIVATIVES)])
def test_derivatives_as_jax(f, transform):
    check(jax, FUNCTIONS[f], X, Y, transform=DERIVATIVES[transform])


@pytest.mark.parametrize("transform", ["value", "grad", "jvp of grad"])
def test_eager_derivatives_as_jax(transform):
    check(jax, two(True), X, Y, transform=DERIVATIVES[transform], eager=True)


@pytest.mark.parametrize("case, f", each_once(
    [f"{choice} {kind}" for kind in ("vmap", "vmap of grad", "grad of vmap", "vmap of jvp")
     for choice in dict(vmap_transforms(2))], ["true", "switch 2", "on_value"]))
def test_vmap_as_jax(case, f):
    choice, kind = case.split(" ", 1)
    axes = dict(vmap_transforms(2))[choice]
    check(jax, FUNCTIONS[f], *stacked([X, Y], axes), transform=vmapped(kind, axes))


@pytest.mark.parametrize("branches", [2, 3])
def test_mapped_index_as_jax(branches):
    def f(L, i, x):
        return L.switch(i, [lambda x: L.mul(x, 2.0), L.sin, L.exp][:branches], x)

    index = np.array([-1, 0, 1, 2, 7], np.int32)
    x = np.linspace(0, 1, 5, dtype=np.float32)
    check(jax, f, index, x, transform=lambda lib, f: lib.vmap(f))
    check(jax, f, index, np.float32(0.5), transform=lambda lib, f: lib.vmap(f, (0, None)))
    check(jax, f, index, x, transform=lambda lib, f: lib.vmap(lib.grad(f, argnums=1)))


def test_nan_of_the_other_branch_stays_out_of_gradients():
    def f(x):
        return lax.cond(lax.gt(x, np.float32(0)), lax.log, lambda x: lax.mul(x, 2.0), x)

    x = np.array([-1.0, 0.0, 2.0], np.float32)
    np.testing.assert_array_equal(np.asarray(xjax.vmap(xjax.grad(f))(x)), [2.0, 2.0, 0.5])
    np.testing.assert_array_equal(
        np.asarray(xjax.grad(lambda x: lax.reduce_sum(xjax.vmap(f)(x), (0,)))(x)), [2.0, 2.0, 0.5])


@pytest.mark.parametrize("pred", [True, False, 1, 0, 0.0, 2.5, np.bool_(True), np.int32(0), np.array(True)])
def test_predicates(pred):
    want = 1.0 if pred else 2.0
    assert float(lax.cond(pred, lambda: 1.0, lambda: 2.0)) == want
    assert float(xjax.jit(lambda p: lax.cond(p, lambda: 1.0, lambda: 2.0))(pred)) == want


@pytest.mark.parametrize("index", [-5, 0, 1, 2, 9])
def test_index_is_moved_into_range(index):
    branches = [lambda x, k=k: lax.mul(x, float(k)) for k in range(3)]
    want = float(np.clip(index, 0, 2))
    assert float(lax.switch(index, branches, 1.0)) == want
    assert float(xjax.jit(lambda i: lax.switch(i, branches, 1.0))(index)) == want
    assert float(lax.switch(index, branches[:1], 1.0)) == 0.0
    with xjax.disable_jit():
        assert float(lax.switch(index, branches, 1.0)) == want


def test_operand_keyword_and_trees():
    out = lax.cond(True, lambda t: {"s": lax.add(t["a"], t["b"])}, lambda t: {"s": t["a"]},
                   operand={"a": 1.0, "b": 2.0})
    assert float(out["s"]) == 3.0
    assert lax.cond(True, lambda: None, lambda: None) is None


def test_weak_types_join():
    out = lax.cond(True, lambda: 1.0, lambda: np.float32(2))
    assert not out.weak_type and lax.cond(True, lambda: 1.0, lambda: 2.0).weak_type


def test_branches_are_programs_without_constants():
    w = xjax.device_put(X)
    closed = xjax.make_jaxpr(xjax.grad(lambda x: lax.reduce_sum(
        lax.cond(True, lambda x: lax.mul(x, w), lambda x: lax.sin(lax.mul(w, x)), x), (0,))))(X)
    check_jaxpr(closed.jaxpr)
    conds = [eqn for eqn in closed.eqns if eqn.primitive.name == "cond"]
    assert len(conds) == 2
    for eqn in conds:
        assert eqn.invars[0].aval.str_short() == "i32[]"
        assert all(not b.consts and len(b.in_avals) == len(eqn.invars) - 1 for b in eqn.params["branches"])


def test_branches_share_places_for_residuals():
    def f(x):
        return lax.cond(True, lambda x: lax.sin(x), lambda x: lax.exp(x), x)
    closed = xjax.make_jaxpr(lambda x: xjax.vjp(f, x)[0])(X)
    (first,) = [eqn for eqn in closed.eqns if eqn.primitive.name == "cond"]
    assert len(first.outvars) == 2                  # the value, and one residual: cos x or exp x


def test_only_the_chosen_branch_is_run_without_jit():
    seen = []
    with xjax.disable_jit():
        lax.cond(False, lambda: seen.append(1), lambda: seen.append(2))
    assert seen == [2]


def test_rule_that_branches_on_values_and_tangents():
    @xjax.custom_jvp
    def f(x):
        return lax.mul(x, 2.0)

    @f.defjvp
    def f_jvp(primals, tangents):
        (x,), (dx,) = primals, tangents
        return lax.cond(lax.gt(x, np.float32(0)), lambda: (lax.mul(x, 2.0), lax.mul(dx, x)),
                        lambda: (lax.mul(x, 2.0), lax.mul(dx, 5.0)))

    for x, slope in ((3.0, 3.0), (-3.0, 5.0)):
        assert float(xjax.grad(f)(x)) == slope
        assert float(xjax.jit(xjax.grad(f))(x)) == slope
        assert float(xjax.jvp(f, (x,), (1.0,))[1]) == slope


def test_repeated_eager_calls_trace_once():
    traced = []

    def yes(x):
        traced.append(1)
        return lax.sin(x)

    for k in range(4):
        lax.cond(k % 2, yes, lax.cos, X)
    assert len(traced) == 1


ERRORS = {
    "predicate with axes": (lambda: lax.cond(X, lambda: 1, lambda: 2), TypeError,
                            ["must be a scalar", "f32[3]"]),
    "predicate is text": (lambda: lax.cond("a", lambda: 1, lambda: 2), TypeError, ["not an array", "'a'"]),
    "types": (lambda: lax.cond(True, lambda: 1, lambda: 2.0), TypeError,
              ["`false_fun` and `true_fun` return different types", "i32[]", "f32[]"]),
    "structures": (lambda: lax.cond(True, lambda x: (x, x), lambda x: [x, x], 1.0), TypeError,
                   ["branch outputs must have the same pytree structure", "expected a list of 2, got a tuple of 2"]),
    "path": (lambda: lax.cond(True, lambda: {"a": 1.0}, lambda: {"a": X}), TypeError,
             ["result['a']", "f32[3]"]),
    "no function": (lambda: lax.cond(True, 1, 2), TypeError, ["`true_fun` must be a function"]),
    "float index": (lambda: lax.switch(1.0, [lambda: 1]), TypeError, ["must be an integer", "f32[]"]),
    "index with axes": (lambda: lax.switch(np.arange(2), [lambda: 1]), TypeError, ["must be a scalar"]),
    "no branch": (lambda: lax.switch(1, []), ValueError, ["no branch"]),
    "operand": (lambda: lax.cond(True, lambda x: x, lambda x: x, {"k": "a"}), TypeError, ["operands[0]['k']"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])
