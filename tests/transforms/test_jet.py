"""jet: every rule against nested jvp in JAX (in float64), the same programs against JAX's own jet, cost, errors."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same, tolerance
from tests.core.test_rules import load_all
from tests.oracle import real_jax
from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax import lax
from xjax.core.primitive import all_primitives
from xjax.experimental import jet_rules
from xjax.experimental.jet import jet

jax = real_jax()
jax_jet = real_jax("experimental.jet").experimental.jet.jet

ORDER = 3
EVERY = 6                                           # one of so many rows is fast
FACTORIALS = 1e-6 / tolerance("float64")           # JAX's come from exp(lgamma)
X = np.array([0.3, 0.7, 1.2])
SMALL = np.array([0.2, -0.5, 0.6])

def named(names, x):
    return {name: (lambda np_, lib, x, name=name: getattr(np_, name)(x), x) for name in names.split()}


# name -> (function of (numpy of a library, the library, array), array)
UNARY = {
    **named("""sin cos tan exp exp2 expm1 log log1p sqrt cbrt square sinh cosh tanh abs negative reciprocal arctan
               arcsinh floor sign sort cumsum cumprod prod max min mean var""", X),
    **named("arcsin arccos arctanh", SMALL),
    "arccosh": (lambda np_, lib, x: np_.arccosh(x + 1), X),
    "rsqrt": (lambda np_, lib, x: lib.lax.rsqrt(x), X),
    "logistic": (lambda np_, lib, x: lib.nn.sigmoid(x), SMALL),
    "softplus": (lambda np_, lib, x: lib.nn.softplus(x), SMALL),
    "softmax": (lambda np_, lib, x: lib.nn.softmax(x), SMALL),
    "relu": (lambda np_, lib, x: lib.nn.relu(x), SMALL),
    "gelu": (lambda np_, lib, x: lib.nn.gelu(x), SMALL),
    "erf": (lambda np_, lib, x: lib.lax.erf(x), SMALL),
    "erfc": (lambda np_, lib, x: lib.lax.erfc(x), SMALL),
    "erf_inv": (lambda np_, lib, x: lib.lax.erf_inv(x), SMALL),
    "lgamma": (lambda np_, lib, x: lib.lax.lgamma(x), X),
    "x ** 5": (lambda np_, lib, x: x ** 5, SMALL),
    "x ** 2 at 0": (lambda np_, lib, x: x ** 2, np.zeros(3)),
    "x ** -3": (lambda np_, lib, x: x ** -3, SMALL),
    "x ** 2.5": (lambda np_, lib, x: x ** 2.5, X),
    "2 ** x": (lambda np_, lib, x: 2.0 ** x, SMALL),
    "x ** x": (lambda np_, lib, x: x ** x, X),
    "1 / (1 + x x)": (lambda np_, lib, x: 1 / (1 + x * x), SMALL),
    "x / 3": (lambda np_, lib, x: x / 3, SMALL),
    "arctan2": (lambda np_, lib, x: np_.arctan2(x, 1 + x * x), X),
    "maximum": (lambda np_, lib, x: np_.maximum(x * x, x), SMALL),
    "clip": (lambda np_, lib, x: np_.clip(x, -0.3, 0.4), SMALL),
    "remainder": (lambda np_, lib, x: lib.lax.rem(3 * x, 0.9 * x * x), X),
    "where": (lambda np_, lib, x: np_.where(x > 0, np_.sin(x), x * x), SMALL),
    "matmul": (lambda np_, lib, x: np_.outer(x, np_.sin(x)) @ x, X),
    "norm": (lambda np_, lib, x: np_.sqrt(np_.sum(x * x)), X),
    "shapes": (lambda np_, lib, x: np_.pad(np_.concatenate([x[::-1], np_.stack([x, x * x]).T.reshape(-1)]), 1), X),
    "take": (lambda np_, lib, x: np_.sin(x)[np.array([2, 0, 2])] * x[1], X),
    "set": (lambda np_, lib, x: x.at[1].set(np_.sin(x[0])).at[np.array([0, 2])].add(x[1:]), X),
    "dynamic slice": (lambda np_, lib, x: lib.lax.dynamic_slice(x * x, (1,), (2,)), X),
    "jit": (lambda np_, lib, x: lib.jit(lambda x: np_.sin(x) * x)(np_.exp(x)), SMALL),
    "checkpoint": (lambda np_, lib, x: lib.checkpoint(lambda x: np_.sin(x) * x)(x), SMALL),
    "cond": (lambda np_, lib, x: lib.lax.cond(x[0] > 0, np_.sin, lambda x: x * x, x), X),
    "scan": (lambda np_, lib, x: lib.lax.scan(lambda c, x: (np_.sin(c) * x, c), x[0], x)[0], X),
    "while": (lambda np_, lib, x: lib.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np_.sin(c[1]) * x),
                                                     (0, x))[1], X),
    "grad": (lambda np_, lib, x: lib.grad(lambda x: np_.sum(np_.sin(x) ** 3))(x), X),
    "vmap": (lambda np_, lib, x: lib.vmap(lambda y: np_.sum(np_.sin(x * y)))(x), X),
    "complex": (lambda np_, lib, x: np_.abs(np_.exp(1j * x) + np_.conj(lib.lax.complex(x, x * x))), X),
    "constant": (lambda np_, lib, x: {"one": np_.ones(2), "x": x}, X),
}
# JAX's jet has no rule for these, or one that fails (clip of numbers, custom_jvp in a jitted function).
NOT_IN_JAX = {
    "arccos", "arcsin", "arctan", "cbrt", "checkpoint", "clip", "complex", "cond", "cumprod", "erf_inv", "exp2", "grad",
    "lgamma", "max", "min", "prod", "relu", "remainder", "scan", "set", "softplus", "sort", "tan", "vmap", "while",
    "2 ** x", "x ** 2 at 0"}


def terms_of(x):
    """Derivatives of the curve, with different numbers in each order."""
    return [np.cos(np.arange(x.size) + k).reshape(x.shape) for k in range(ORDER)]


def nested(f, x):
    """Derivatives of f along the curve, by jvp of jvp of ... with respect to its parameter, in JAX."""
    def along(t):
        return f(x + sum(term * t ** (k + 1) / math.factorial(k + 1) for k, term in enumerate(terms_of(x))))

    x, values = jax.numpy.asarray(x), []
    for _ in range(ORDER):
        along = functools.partial(lambda g, t: jax.jvp(g, (t,), (1.0,))[1], along)
        values.append(along(0.0))
    return values


@functools.cache
def results(part):
    """Every sixth row from `part` on, in one compiled program for each library: xjax's jet, nested jvp, JAX's jet."""
    rows = dict(list(UNARY.items())[part::EVERY])
    with xjax.enable_x64(True), jax.enable_x64(True):
        ours = xjax.jit(lambda: {
            name: jet(functools.partial(f, jnp, xjax), (jnp.asarray(x),), (terms_of(x),))
            for name, (f, x) in rows.items()})()
        want = jax.jit(lambda: {
            name: (f(jax.numpy, jax, jax.numpy.asarray(x)), nested(functools.partial(f, jax.numpy, jax), x))
            for name, (f, x) in rows.items()})()
        theirs = jax.jit(lambda: {
            name: jax_jet(functools.partial(f, jax.numpy, jax), (jax.numpy.asarray(x),), (terms_of(x),))
            for name, (f, x) in rows.items() if name not in NOT_IN_JAX})()
    return {name: (ours[name], want[name], theirs.get(name)) for name in rows}


@pytest.mark.parametrize("name", one_in(EVERY, UNARY))
def test_as_nested_jvp_and_as_jax(name):
    (value, terms), (there, derivatives), theirs = results(list(UNARY).index(name) % EVERY)[name]
    assert_same(value, there)
    per_order = [xjax.tree_util.tree_map(lambda _, t, k=k: t[k], value, terms) for k in range(ORDER)]
    assert_same(per_order, derivatives)
    if name not in NOT_IN_JAX:
        assert_same((value, terms), theirs, tol=FACTORIALS)


def test_every_name_in_the_table_is_an_operation():
    load_all()
    assert not jet_rules.RULES.keys() - all_primitives().keys()


def test_several_arguments_trees_and_unscaled_terms():
    def f(x, y):
        return {"p": x * y, "s": (jnp.sin(x), 3)}

    args, series = (2.0, 3.0), ((1.0, 0.5), (0.25, 4.0))
    value, terms = jet(f, args, series)
    assert float(value["p"]) == 6.0 and value["s"][1] == 3
    np.testing.assert_allclose(terms["p"], [1 * 3 + 2 * 0.25, 0.5 * 3 + 2 * 1 * 0.25 + 2 * 4], rtol=1e-6)
    assert [float(t) for t in terms["s"][1]] == [0.0, 0.0]
    raw = jet(f, args, ((1.0, 0.25), (0.25, 2.0)), factorial_scaled=False)[1]
    np.testing.assert_allclose(raw["p"], np.array(terms["p"]) / [1, 2], rtol=1e-6)
    assert jet(jnp.sin, (0.0,), ((),)) == (0.0, [])


def test_under_other_transforms():
    def second(x):
        return jet(jnp.sin, (x,), ((1.0, 0.0),))[1][1]

    x = X.astype(np.float32)
    np.testing.assert_allclose(xjax.jit(xjax.vmap(second))(x), -np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(xjax.vmap(xjax.grad(second))(x), -np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(xjax.vmap(lambda x: jet(second, (x,), ((1.0, 0.0),))[1][1])(x), np.sin(x), rtol=1e-5)


def test_python_control_flow_and_closed_over_values():
    seen = []

    def f(x):
        seen.append(float(x))
        return xjax.jvp(lambda y: x * y * y, (x,), (1.0,))[1] if x > 0 else -x

    value, terms = jet(f, (2.0,), ((1.0, 0.0),))
    assert seen == [2.0] and (float(value), [float(t) for t in terms]) == (8.0, [8.0, 4.0])


def test_cost_is_polynomial_in_the_order():
    def count(order):
        def f(x):
            return jet(lambda x: lax.tanh(lax.sin(lax.exp(x)) / (2 + x)), (x,), ([x] * order,))
        return len(xjax.make_jaxpr(f)(1.0).eqns)

    # Quadratic, like a product of series; the cost of nested jvp grows by 2^6 from 4 to 10.
    assert count(10) < 6.5 * count(4)


def test_unmoved_values_cost_nothing():
    def f(x, y):
        return x * lax.exp(lax.sin(y)), lax.cos(y)

    program = xjax.make_jaxpr(lambda x, y: jet(f, (x, y), ((1.0, 0.0), (0.0, 0.0))))(1.0, 2.0)
    plain = xjax.make_jaxpr(lambda x, y: jet(lambda x: f(x, y), (x,), ((1.0, 0.0),)))(1.0, 2.0)
    names = [e.primitive.name for e in plain.eqns]
    assert [names.count(n) for n in ("exp", "sin", "cos")] == [1, 1, 1] and len(names) < len(program.eqns)


ERRORS = {
    "orders": (lambda: jet(jnp.add, (1.0, 2.0), ((1.0,), (1.0, 2.0))), ValueError,
               ["jet terms have inconsistent lengths", "argument 1  2 terms"]),
    "number": (lambda: jet(jnp.add, (1.0, 2.0), ((1.0,),)), ValueError, ["one entry for each argument"]),
    "tree": (lambda: jet(jnp.sum, ({"a": 1.0},), ((1.0,),)), ValueError,
             ["primal value at position 0 is not an array", "dict"]),
    "integer": (lambda: jet(jnp.sin, (1,), ((1.0,),)), ValueError, ["position 0", "floating-point"]),
    "shape": (lambda: jet(jnp.sin, (X,), ((1.0,),)), ValueError, ["a term of argument 0", "f32[3]", "f32[]"]),
    "no derivative": (lambda: jet(lambda x: jnp.nextafter(x, 2.0), (1.0,), ((1.0,),)), NotImplementedError,
                      ["`nextafter` has no derivative"]),
    "escaped": (lambda: [jet(lambda x: kept.append(x) or x, (1.0,), ((1.0,),)), kept[0] + 1], TypeError,
                ["EscapedTracerError", "jet of"]),
}
kept: list = []


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])
