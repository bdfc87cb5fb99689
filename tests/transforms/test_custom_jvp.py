"""custom_jvp: the rule is used under every transform, static arguments, Python control flow, errors."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.lax.oracle import check
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import custom_jvp, lax
from xjax.custom_derivatives import SymbolicZero, zero_from_primal
from xjax.errors import UnexpectedTracerError

jax = real_jax()

X = np.array([0.3, -1.2, 0.8], np.float32)
TWO = np.stack([X, 2 * X])


def make(lib):
    """A function whose rule is three times its derivative, so results show whether the rule is used."""
    L = lib.lax

    @lib.custom_jvp
    def f(x, y):
        return L.mul(L.sin(x), y), L.mul(x, x)

    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        out = f(x, y)
        return out, (L.mul(np.float32(3), L.add(L.mul(L.mul(L.cos(x), y), dx), L.mul(L.sin(x), dy))),
                     L.mul(L.mul(np.float32(6), x), dx))

    return f


def loss(L, x, y):
    a, b = make(xjax if L is xjax.lax else jax)(x, y)
    return L.reduce_sum(L.add(a, L.sin(b)), (0,))


TRANSFORMS = {
    "value": lambda lib, f: f,
    "jvp": lambda lib, f: lambda x, y: lib.jvp(f, (x, y), (y, x)),
    "grad": lambda lib, f: lib.grad(f, (0, 1)),
    "grad of jit": lambda lib, f: lib.grad(lib.jit(f), (0, 1)),
    "vmap": lambda lib, f: lambda x, y: lib.vmap(f, (0, None))(lib.device_put(TWO), y),
    "vmap of grad": lambda lib, f: lambda x, y: lib.vmap(lib.grad(f, (0, 1)), (None, 0))(x, lib.device_put(TWO)),
    "grad of vmap": lambda lib, f: lib.grad(lambda x, y: lib.lax.reduce_sum(
        lib.vmap(f, (0, None))(lib.lax.broadcast(x, (2,)), y), (0,)), (0, 1)),
    "jvp of grad": lambda lib, f: lambda x, y: lib.jvp(lib.grad(f), (x, y), (y, x)),
    "grad of grad": lambda lib, f: lib.grad(lambda x, y: lib.lax.reduce_sum(lib.grad(f)(x, y), (0,)), (0, 1)),
    "in a scan": lambda lib, f: lib.grad(lambda x, y: lib.lax.scan(
        lambda c, _: (lib.lax.mul(c, f(x, y)), None), np.float32(1), None, length=2)[0]),
    "in a cond": lambda lib, f: lib.grad(lambda x, y: lib.lax.cond(True, f, lambda x, y: np.float32(0), x, y)),
}
EAGER = ("value", "grad", "vmap of grad", "grad of vmap")


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_as_jax(transform):
    check(jax, loss, X, X[::-1].copy(), transform=TRANSFORMS[transform])


@pytest.mark.parametrize("transform", EAGER)
def test_eager_as_jax(transform):
    check(jax, loss, X, X[::-1].copy(), transform=TRANSFORMS[transform], eager=True)


def test_nondiff_argnums_come_first_and_may_be_functions():
    apply = custom_jvp(lambda f, x: f(x), nondiff_argnums=(0,))
    seen = []

    @apply.defjvp
    def rule(f, primals, tangents):
        seen.append(f)
        return apply(f, *primals), lax.mul(tangents[0], 7.0)

    for transform in (lambda g: g, xjax.jit):
        assert float(transform(xjax.grad(lambda x: apply(lax.sin, x)))(1.0)) == 7.0
    assert seen == [lax.sin, lax.sin]


def test_python_control_flow_in_an_eager_rule():
    @custom_jvp
    def relu(x):
        return x if x > 0 else lax.mul(x, 0.0)

    @relu.defjvp
    def rule(primals, tangents):
        (x,), (dx,) = primals, tangents
        return relu(x), dx if float(x) > 0 else lax.mul(dx, 0.5)

    assert [float(xjax.grad(relu)(v)) for v in (2.0, -2.0)] == [1.0, 0.5]


def test_defjvps_keywords_and_defaults():
    @custom_jvp
    def f(x, y=2.0):
        return lax.mul(x, y)

    f.defjvps(lambda dx, out, x, y: lax.mul(dx, 10.0), None)
    assert float(xjax.grad(lambda x: f(x))(1.0)) == 10.0
    assert float(xjax.grad(lambda y: f(y=y, x=3.0))(1.0)) == 0.0
    assert float(f(x=3.0)) == 6.0


def test_symbolic_zeros():
    seen = []

    @custom_jvp
    def f(x, y):
        return lax.mul(x, y)

    def rule(primals, tangents):
        seen.append([type(t).__name__ for t in tangents])
        return f(*primals), lax.mul(tangents[0], primals[1])

    f.defjvp(rule, symbolic_zeros=True)
    assert float(xjax.grad(f)(2.0, 3.0)) == 3.0
    assert seen[0][1] == "SymbolicZero"


def test_integer_arguments_and_results():
    @custom_jvp
    def f(n, x):
        return lax.add(n, 1), lax.mul(x, 2.0)

    @f.defjvp
    def rule(primals, tangents):
        assert tangents[0].dtype == xjax.float0
        n, y = f(*primals)
        return (n, y), (np.zeros((), xjax.float0), lax.mul(tangents[1], 5.0))

    assert float(xjax.grad(lambda x: f(1, x)[1])(1.0)) == 5.0


def test_methods():
    class Model:
        scale = 4.0

        @custom_jvp
        def f(self, x):
            return lax.mul(x, self.scale)

    Model.f.nondiff_argnums = (0,)
    Model.f.defjvp(lambda self, primals, tangents: (self.f(*primals), lax.mul(tangents[0], self.scale)))
    assert float(xjax.grad(Model().f)(1.0)) == 4.0


def test_nondiff_argnames_and_traced_static_values():
    f = functools.partial(custom_jvp, nondiff_argnames=("scale",))(lambda x, scale=2.0: lax.mul(x, scale))
    f.defjvp(lambda scale, primals, tangents: (f(*primals, scale), lax.mul(tangents[0], 10.0)))
    assert float(xjax.grad(f)(3.0)) == 10.0
    # As in JAX, the derivative treats a traced static value as a constant.
    for transform in (lambda g: g, xjax.jit):
        result = transform(xjax.grad(lambda x, s: f(x, scale=s), (0, 1)))(3.0, 4.0)
        assert [float(g) for g in result] == [10.0, 0.0]


def test_symbolic_zeros_may_be_returned():
    @custom_jvp
    def f(x, y):
        return lax.mul(x, y), x

    def rule(primals, tangents):
        zero = zero_from_primal(primals[0], symbolic_zeros=True)
        assert isinstance(tangents[1], SymbolicZero) and zero == tangents[1] and zero.shape == primals[1].shape
        return f(*primals), (tangents[0], zero)

    f.defjvp(rule, symbolic_zeros=True)
    y = xjax.device_put(X)
    for transform in (lambda g: g, xjax.jit):
        _, (a, b) = transform(lambda x: xjax.jvp(lambda x: f(x, y), (x,), (x,)))(y)
        np.testing.assert_array_equal(a, X)
        np.testing.assert_array_equal(b, 0 * X)
    program = xjax.make_jaxpr(xjax.grad(lambda x: lax.reduce_sum(f(x, y)[1], (0,))))(y)
    assert {e.primitive.name for e in program.eqns} <= {"custom_jvp_call", "broadcast_in_dim", "reduce_sum"}


def test_a_linear_function_with_a_rule_is_transposed_by_its_program():
    def check(lib):
        @lib.custom_jvp
        def three(x, r):
            return 3 * x * r

        @three.defjvp
        def rule(primals, tangents):
            (x, r), (dx, dr) = primals, tangents
            return three(x, r), three(dx, r) + three(x, dr)

        f = lambda x: lib.numpy.sin(three(x, x)).sum()
        x = lib.numpy.asarray(X)
        pulled = lib.linear_transpose(lambda x: three(x, 2.0), x)(x)[0]
        return lib.grad(f)(x), lib.jit(lib.grad(f))(x), lib.hessian(f)(x), pulled, lib.vmap(lib.grad(f))(x[None])

    assert_same(check(xjax), jax.jit(lambda: check(jax))(), tol=1 / 4)


def test_a_rule_that_differentiates_again():
    """The rule of a minimum over t calls grad; it is itself differentiated, mapped and staged."""
    def cost(x, t):
        return lax.mul(lax.sin(x), lax.add(t, lax.mul(t, t)))

    @custom_jvp
    def lowest(x):
        return cost(x, -0.5)

    @lowest.defjvp
    def rule(primals, tangents):
        (x,), (dx,) = primals, tangents
        return lowest(x), lax.mul(xjax.grad(cost)(x, -0.5), dx)

    for f, sign in ((xjax.grad(lowest), -0.25 * np.cos(X)), (xjax.grad(xjax.grad(lowest)), 0.25 * np.sin(X)),
                    (xjax.grad(xjax.checkpoint(lambda x: lowest(x))), -0.25 * np.cos(X))):
        np.testing.assert_allclose(xjax.jit(xjax.vmap(f))(X), sign, rtol=1e-5)


def test_second_derivatives_of_a_scan_are_those_of_the_unrolled_loop():
    """With a rule that is not the derivative. (In JAX the forward pass of the scan ignores the rule.)"""
    @custom_jvp
    def f(x):
        return lax.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), lax.mul(3.0, lax.mul(lax.cos(primals[0]), tangents[0]))))

    def scanned(x):
        return lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0]

    result, want = xjax.jit(lambda x: [xjax.grad(xjax.grad(g))(x) for g in (scanned, lambda x: f(f(f(x))))])(0.3)
    np.testing.assert_allclose(result, want, rtol=1e-5)


def with_rule(rule):
    f = custom_jvp(lambda x: lax.mul(x, 2.0))
    f.defjvp(rule)
    return xjax.grad(lambda x: lax.reduce_sum(f(x), (0,)))


def closing_over(y, x):
    f = custom_jvp(lambda x: lax.mul(x, y))
    f.defjvp(lambda primals, tangents: (f(*primals), lax.mul(tangents[0], y)))
    return f(x)


def in_jit(rule):
    f = custom_jvp(lambda x: {"a": lax.mul(x, 2.0)})
    f.defjvp(rule)
    return xjax.jvp(xjax.jit(f), (X,), (X,))


def defjvps(*rules):
    f = custom_jvp(lambda x, y: lax.mul(x, y))
    f.defjvps(*rules)
    return xjax.grad(f)(1.0, 2.0)


def with_names():
    f = custom_jvp(lambda x, scale: x, nondiff_argnames=("scal",))
    f.defjvp(lambda scale, primals, tangents: (f(*primals, scale), tangents[0]))
    return f(1.0, 2.0)


def small(x):
    return lax.cond(x[0] < 2, lambda x: x * x, lambda x: x * 2, x)


# Inner loops of which some results depend on a tangent and others do not.
LOOPS = {
    "scan of cond": lambda x: lax.scan(lambda x, _: (small(x), None), x, None, 3)[0],
    "while of cond": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, small(c[1])), (0, x))[1],
    "scan of jit": lambda x: lax.scan(lambda x, _: (xjax.jit(small)(x), None), x, None, 3)[0],
    "scan of scan": lambda x: lax.scan(
        lambda x, _: (lax.scan(lambda y, _: (small(y) * x, None), x, None, 2)[0], None), x, None, 2)[0],
    "scan of while": lambda x: lax.scan(lambda x, n: (lax.fori_loop(0, n, lambda _, y: y * x, x), None), x,
                                        np.arange(3))[0],
    "cond of cond": lambda x: lax.cond(x[0] < 2, small, lambda x: x, x),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_rule_may_differentiate_loops(name):
    loop = LOOPS[name]
    f = custom_jvp(loop)

    @f.defjvp
    def rule(primals, tangents):
        y, dy = xjax.jvp(loop, primals, tangents)
        return y, 1.5 * dy
    y, dy = xjax.jvp(loop, (X,), (X,))
    result, linear = xjax.jit(lambda x: xjax.linearize(f, x))(X)
    np.testing.assert_allclose(result, y, rtol=1e-6)
    np.testing.assert_allclose(linear(X), 1.5 * dy, rtol=1e-6)
    if "while" not in name:
        np.testing.assert_allclose(xjax.grad(lambda x: f(x).sum())(X), 1.5 * xjax.grad(lambda x: loop(x).sum())(X),
                                   rtol=1e-6)


CLOSURE = ["custom_jvp `<lambda>`", "is not an argument", "closure_convert"]
ERRORS = {
    "closure": (lambda: xjax.grad(lambda y: closing_over(y, 3.0))(2.0), UnexpectedTracerError, CLOSURE),
    "closure over an argument": (lambda: xjax.jvp(lambda y: closing_over(y, y), (2.0,), (1.0,)), UnexpectedTracerError,
                                 CLOSURE),
    "closure in jit": (lambda: xjax.grad(xjax.jit(lambda y: closing_over(y, y)))(2.0), UnexpectedTracerError, CLOSURE),
    "closure in vmap": (lambda: xjax.grad(lambda y: xjax.vmap(lambda x: closing_over(y, x))(X).sum())(2.0),
                        UnexpectedTracerError, CLOSURE),
    "value of another structure": (lambda: in_jit(lambda p, t: (p[0], t[0])), TypeError,
                                   ["the structure of the value from `<lambda>`", "expected a dict with keys 'a'"]),
    "value of another type": (lambda: in_jit(lambda p, t: ({"a": lax.reduce_sum(p[0], (0,))},
                                                           {"a": lax.reduce_sum(t[0], (0,))})), TypeError,
                              ["value['a']", "f32[], expected f32[3]"]),
    "path of a tangent": (lambda: in_jit(lambda p, t: ({"a": p[0]}, {"a": lax.reduce_sum(t[0], (0,))})), TypeError,
                          ["tangent['a']", "f32[], expected f32[3]"]),
    "number of defjvps": (lambda: defjvps(None), ValueError, ["1 rules for 2 arguments", "None"]),
    "defjvps and nondiff": (lambda: custom_jvp(lambda f, x: f(x), nondiff_argnums=0).defjvps(None), TypeError,
                            ["defjvps does not support nondiff_argnums", "use defjvp"]),
    "nondiff_argnames": (with_names, ValueError, ["'scal'", "did you mean 'scale'?"]),
    "no rule": (lambda: custom_jvp(lambda x: x)(1.0), AttributeError, ["no derivative rule", "@f.defjvp"]),
    "no pair": (lambda: with_rule(lambda p, t: p[0])(X), TypeError, ["must return a pair"]),
    "structure": (lambda: with_rule(lambda p, t: (p[0], (t[0], t[0])))(X), TypeError,
                  ["different structures", "got a tuple of 2"]),
    "shape": (lambda: with_rule(lambda p, t: (p[0], lax.reduce_sum(t[0], (0,))))(X), TypeError,
              ["tangent of the wrong type", "f32[], expected f32[3]"]),
    "dtype": (lambda: with_rule(lambda p, t: (p[0], lax.convert_element_type(t[0], np.float16)))(X), TypeError,
              ["f16[3], expected f32[3]"]),
    "value from tangent": (lambda: with_rule(lambda p, t: (t[0], t[0]))(X), TypeError, ["depend on a tangent"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])


def test_an_integer_result_is_a_value_under_vmap_too():
    """It has no tangent, so NumPy reads it inside jvp and grad, also as a batch, and as a batch of batches."""
    @xjax.custom_jvp
    def f(x):
        return 3 * x, x.astype(np.int32)

    f.defjvp(lambda primals, tangents: (f(*primals), (3 * tangents[0], np.zeros((), xjax.dtypes.float0))))

    def run(x, mapped):
        y, whole = mapped(x)
        np.testing.assert_array_equal(np.asarray(whole), x_known.astype(np.int32))
        return y.sum()

    for mapped, shape in ((xjax.vmap(f), (4,)), (xjax.vmap(xjax.vmap(f)), (2, 2))):
        x_known = np.arange(4, dtype=np.float32).reshape(shape) + 0.5
        np.testing.assert_array_equal(xjax.grad(run)(x_known, mapped), np.full(shape, 3.0))
        _, slope = xjax.jvp(lambda x, mapped=mapped: run(x, mapped), (x_known,), (np.ones(shape, np.float32),))
        assert float(slope) == 12
