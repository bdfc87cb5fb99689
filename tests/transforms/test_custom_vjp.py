"""custom_vjp: the rule is used under every transform, static arguments, Python control flow, errors."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.lax.oracle import check
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import custom_derivatives, custom_vjp, lax
from xjax.errors import UnexpectedTracerError

jax = real_jax()

X = np.array([0.3, -1.2, 0.8], np.float32)
TWO = np.stack([X, 2 * X])


def make(lib):
    """A function whose rule is three times its gradient, with a tree of residuals."""
    L = lib.lax

    @lib.custom_vjp
    def f(args):
        return L.mul(L.sin(args["x"]), args["y"]), L.mul(args["x"], args["x"])

    def fwd(args):
        return f(args), {"cos": L.cos(args["x"]), "args": args}

    def bwd(res, cts):
        x, y = res["args"]["x"], res["args"]["y"]
        a, b = cts
        dx = L.add(L.mul(L.mul(a, y), res["cos"]), L.mul(L.mul(b, x), np.float32(2)))
        return {"x": L.mul(dx, np.float32(3)), "y": L.mul(L.mul(a, L.sin(x)), np.float32(3))},

    f.defvjp(fwd, bwd)
    return f


def loss(L, x, y):
    a, b = make(xjax if L is xjax.lax else jax)({"x": x, "y": y})
    return L.reduce_sum(L.add(a, L.sin(b)), (0,))


TRANSFORMS = {
    "value": lambda lib, f: f,
    "grad": lambda lib, f: lib.grad(f, (0, 1)),
    "grad of jit": lambda lib, f: lib.grad(lib.jit(f), (0, 1)),
    "vmap": lambda lib, f: lambda x, y: lib.vmap(f, (0, None))(lib.device_put(TWO), y),
    "vmap of grad": lambda lib, f: lambda x, y: lib.vmap(lib.grad(f, (0, 1)), (None, 0))(x, lib.device_put(TWO)),
    "grad of vmap": lambda lib, f: lib.grad(lambda x, y: lib.lax.reduce_sum(
        lib.vmap(f, (0, None))(lib.lax.broadcast(x, (2,)), y), (0,)), (0, 1)),
    "grad of grad": lambda lib, f: lib.grad(lambda x, y: lib.lax.reduce_sum(lib.grad(f)(x, y), (0,)), (0, 1)),
    "in a scan": lambda lib, f: lib.grad(lambda x, y: lib.lax.scan(
        lambda c, _: (lib.lax.mul(c, f(x, y)), None), np.float32(1), None, length=2)[0]),
    "in a cond": lambda lib, f: lib.grad(lambda x, y: lib.lax.cond(True, f, lambda x, y: np.float32(0), x, y)),
    "in a checkpoint": lambda lib, f: lib.grad(lib.checkpoint(f), (0, 1)),
}
EAGER = ("value", "grad", "vmap of grad", "grad of vmap")


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_as_jax(transform):
    check(jax, loss, X, X[::-1].copy(), transform=TRANSFORMS[transform])


@pytest.mark.parametrize("transform", EAGER)
def test_eager_as_jax(transform):
    check(jax, loss, X, X[::-1].copy(), transform=TRANSFORMS[transform], eager=True)


def test_forward_mode_over_reverse_mode():
    """The forward rule calls the function, whose tangent does not exist, and is not used."""
    def transform(lib, f):
        def g(x, y):
            return lib.lax.reduce_sum(make(lib)({"x": x, "y": y})[0], (0,))
        return lambda x, y: lib.jvp(lib.grad(g, (0, 1)), (x, y), (y, x))
    check(jax, None, X, X[::-1].copy(), transform=transform)


def test_nondiff_argnums_come_first_in_bwd():
    f = custom_vjp(lambda x, g, n: g(x), nondiff_argnums=(1, 2))
    f.defvjp(lambda x, g, n: (g(x), x), lambda g, n, res, ct: (lax.mul(ct, float(n)),))
    assert float(xjax.grad(lambda x: f(x, lax.sin, 7))(1.0)) == 7.0
    assert float(xjax.jit(xjax.grad(lambda x: f(x, lax.sin, 5)))(1.0)) == 5.0


def test_the_cotangent_is_an_array():
    kinds = []
    f = custom_vjp(lambda x: lax.sin(x))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: kinds.append((isinstance(ct, xjax.Array), ct.shape)) or (ct,))
    assert float(xjax.grad(f)(2.0)) == float(xjax.jit(xjax.grad(f))(2.0)) == 1.0
    assert kinds == [(True, ())] * 2
    g = custom_vjp(lambda x: (lax.sin(x), 3))           # the cotangent of an integer is NumPy's, of dtype float0
    g.defvjp(lambda x: (g(x), x), lambda x, cts: kinds.append(cts[1].dtype) or (cts[0],))
    assert float(xjax.grad(lambda x: g(x)[0])(2.0)) == 1.0 and kinds[2:] == [xjax.float0]


def test_python_control_flow_in_an_eager_rule():
    seen = []
    f = custom_vjp(lambda x: lax.sin(x))

    def bwd(x, ct):
        seen.append(float(x))
        return (ct if x > 0 else lax.mul(ct, 0.5),)

    f.defvjp(lambda x: (f(x), x), bwd)
    assert [float(xjax.grad(f)(v)) for v in (2.0, -2.0)] == [1.0, 0.5]
    assert seen == [2.0, -2.0]


def test_none_is_a_zero_cotangent_and_integers_need_none():
    f = custom_vjp(lambda n, x, y: lax.mul(x, y))
    f.defvjp(lambda n, x, y: (f(n, x, y), y), lambda y, ct: (None, lax.mul(ct, y), None))
    dx, dy = xjax.grad(f, (1, 2))(2, 3.0, 4.0)
    assert (float(dx), float(dy)) == (4.0, 0.0)


def test_keywords_and_defaults():
    f = custom_vjp(lambda x, y=2.0: lax.mul(x, y))
    f.defvjp(lambda x, y: (f(x, y), None), lambda _, ct: (lax.mul(ct, 10.0), None))
    assert float(xjax.grad(lambda x: f(x))(1.0)) == 10.0
    assert float(f(y=3.0, x=1.0)) == 3.0


def product(lib, seen):
    """x y with a rule that reads the symbolic zeros, and records its arguments in `seen`."""
    rules = custom_derivatives if lib is xjax else jax.custom_derivatives
    L = lib.lax
    f = lib.custom_vjp(lambda args: (L.mul(args["x"], args["y"]), args["x"]))

    def fwd(args):
        seen.append({k: v.perturbed for k, v in args.items()})
        values = rules.custom_vjp_primal_tree_values(args)
        return f(values), (values, args["x"].perturbed, args["y"].perturbed)

    def bwd(res, cts):
        values, by_x, by_y = res
        seen.append([type(ct).__name__ for ct in cts])
        assert [np.shape(values["x"]), np.shape(values["x"])] == [ct.shape for ct in cts]
        ct = cts[1] if type(cts[0]) is rules.SymbolicZero else cts[0]
        return {"x": L.mul(ct, values["y"]) if by_x else None,
                "y": (L.mul(np.float32(5), L.mul(ct, values["x"])) if by_y
                      else rules.zero_from_primal(values["y"], True))},

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return lambda x, y: f({"x": x, "y": y})


SYMBOLIC = {
    "by one": lambda lib, f: lib.grad(lambda x, y: f(x, y)[0]),
    "by the other": lambda lib, f: lib.grad(lambda x, y: f(x, y)[1], 1),
    "by both": lambda lib, f: lib.grad(lambda x, y: lib.lax.add(*f(x, y)), (0, 1)),
    "of jit": lambda lib, f: lib.grad(lib.jit(lambda x, y: f(x, y)[0])),
    "of vmap": lambda lib, f: lambda x, y: lib.grad(lambda x: lib.lax.reduce_sum(
        lib.vmap(f, (0, None))(lib.lax.broadcast(x, (2,)), y)[0], (0,)))(x),
    "in vmap": lambda lib, f: lambda x, y: lib.vmap(lib.grad(lambda x, y: f(x, y)[0], 1))(TWO[:, 0], TWO[:, 1]),
    "in a scan": lambda lib, f: lib.grad(lambda x, y: lib.lax.scan(
        lambda c, _: (f(c, y)[0], None), x, None, length=2)[0]),
}


@pytest.mark.parametrize("case", SYMBOLIC)
def test_symbolic_zeros_as_jax(case):
    ours, theirs = [], []
    a = SYMBOLIC[case](xjax, product(xjax, ours))(np.float32(2), np.float32(3))
    b = SYMBOLIC[case](jax, product(jax, theirs))(np.float32(2), np.float32(3))
    assert_same(a, b)
    kinds = [[name == "SymbolicZero" for name in note] if isinstance(note, list) else note for note in ours]
    other = [[name == "SymbolicZero" for name in note] if isinstance(note, list) else note for note in theirs]
    # JAX instantiates cotangents in jit and scan; xjax's are at least as often symbolic.
    assert kinds[0] == other[0] and all(x >= y for x, y in zip(kinds[-1], other[-1], strict=True))


def test_a_rule_that_calls_grad_itself():
    """The backward pass of an implicit function: inside other derivatives, under jit and vmap."""
    def inner(a, x):
        return lax.sub(lax.mul(x, lax.mul(x, x)), a)

    @custom_vjp
    def root(a):
        return lax.exp(lax.div(lax.log(a), 3.0))

    def bwd(res, ct):
        a, x = res
        return (lax.neg(lax.div(lax.mul(ct, xjax.grad(inner, 0)(a, x)), xjax.grad(inner, 1)(a, x))),)

    root.defvjp(lambda a: (lambda x: (x, (a, x)))(root(a)), bwd)
    first = lambda a: 1 / (3 * a ** (2 / 3))
    second = lambda a: -2 / (9 * a ** (5 / 3))
    a = np.array([0.5, 1.0, 8.0], np.float32)
    np.testing.assert_allclose(xjax.vmap(xjax.grad(root))(a), first(a), rtol=1e-5)
    np.testing.assert_allclose(xjax.jit(xjax.vmap(xjax.grad(xjax.grad(root))))(a), second(a), rtol=1e-4)
    np.testing.assert_allclose(xjax.vmap(xjax.grad(xjax.checkpoint(lambda a: root(root(a)))))(a),
                               first(a) * first(a ** (1 / 3)), rtol=1e-5)


def test_nondiff_argnames_and_optimize_remat():
    f = functools.partial(custom_vjp, nondiff_argnames=("n", "g"))(lambda x, g, n=2: g(x))
    f.defvjp(lambda x, g, n: (g(x), None), lambda g, n, res, ct: (lax.mul(ct, float(n)),), optimize_remat=True)
    assert float(xjax.grad(lambda x: f(x, lax.sin))(1.0)) == 2.0
    assert float(xjax.grad(lambda x: f(x, n=7, g=lax.sin))(1.0)) == 7.0


@pytest.mark.parametrize("optimize_remat", [False, True])
def test_the_forward_pass_of_checkpoint_runs_the_function_itself(optimize_remat):
    f = custom_vjp(lambda x: lax.sin(x))
    f.defvjp(lambda x: (lax.sin(x), lax.cos(x)), lambda c, ct: (lax.mul(ct, c),), optimize_remat=optimize_remat)
    assert f.optimize_remat == optimize_remat
    forward, backward = map(str, xjax.make_jaxpr(xjax.grad(xjax.checkpoint(lambda x: lax.exp(f(x)))))(1.0).eqns)
    assert "cos" not in forward and "cos" in backward


def test_optimize_remat_with_symbolic_zeros_is_refused():
    with pytest.raises(NotImplementedError, match="cannot be combined(?s:.)*fix:"):
        custom_vjp(lax.sin).defvjp(lax.sin, lax.sin, symbolic_zeros=True, optimize_remat=True)


def test_none_stands_for_a_subtree_of_zeros():
    f = custom_vjp(lambda args: lax.mul(args["a"][0], args["b"]))
    f.defvjp(lambda args: (f(args), args), lambda res, ct: ({"a": None, "b": lax.mul(ct, 3.0)},))
    g = xjax.grad(lambda args: f(args))({"a": (1.0, 2.0), "b": 3.0})
    assert [float(x) for x in xjax.tree_util.tree_leaves(g)] == [0.0, 0.0, 3.0]


def with_rule(fwd, bwd):
    f = custom_vjp(lambda x: lax.mul(x, 2.0))
    f.defvjp(fwd, bwd)
    return xjax.grad(lambda x: lax.reduce_sum(f(x), (0,)))


def keep(x):
    return lax.mul(x, 2.0), None


def nondiff(argnums, names=()):
    f = custom_vjp(lambda x, y: lax.mul(x, y), nondiff_argnums=argnums, nondiff_argnames=names)
    f.defvjp(lambda x, y: (f(x, y), None), lambda y, r, ct: (ct,))
    return f


def closing_over(y, x):
    f = custom_vjp(lambda x: lax.mul(x, y))
    f.defvjp(lambda x: (f(x), None), lambda r, ct: (lax.mul(ct, y),))
    return f(x)


def keywords_only():
    f = custom_vjp(lambda x, *, y: x)
    f.defvjp(lambda x, y: (x, None), lambda r, ct: (ct, None))
    return f(1.0, y=2.0)


def in_jit(fwd):
    f = custom_vjp(lambda x: lax.mul(x, 2.0))
    f.defvjp(fwd, lambda r, ct: (ct,))
    return xjax.grad(xjax.jit(lambda x: lax.reduce_sum(f(x), (0,))))(X)


CLOSURE = ["custom_vjp `<lambda>`", "is not an argument", "closure_convert"]
ERRORS = {
    "nondiff is traced": (lambda: xjax.jit(nondiff((1,)))(1.0, 2.0), UnexpectedTracerError,
                          ["traced value was passed in a position of nondiff_argnums", "f32[]"]),
    "nondiff is differentiated": (lambda: xjax.grad(nondiff((1,)), 1)(1.0, 2.0), UnexpectedTracerError,
                                  ["in a position of nondiff_argnums"]),
    "nondiff_argnums": (lambda: nondiff((2,))(1.0, 2.0), ValueError, ["argument 2 is chosen", "2 positional"]),
    "nondiff_argnames": (lambda: nondiff((), ("z",))(1.0, 2.0), ValueError, ["'z'", "parameters  x, y"]),
    "closure": (lambda: xjax.grad(lambda y: closing_over(y, 3.0))(2.0), UnexpectedTracerError, CLOSURE),
    "closure over an argument": (lambda: xjax.grad(lambda y: closing_over(y, y))(2.0), UnexpectedTracerError, CLOSURE),
    "closure in jit": (lambda: xjax.grad(xjax.jit(lambda y: closing_over(y, y)))(2.0), UnexpectedTracerError, CLOSURE),
    "closure in vmap": (lambda: xjax.grad(lambda y: xjax.vmap(closing_over)(y, y).sum())(X), UnexpectedTracerError,
                        CLOSURE),
    "keyword-only": (keywords_only, TypeError, ["keyword-only arguments", "keywords  y"]),
    "value of another structure": (lambda: in_jit(lambda x: ((x, x), None)), TypeError,
                                   ["the structure of the value from `<lambda>`", "expected a leaf, got a tuple of 2"]),
    "value of another type": (lambda: in_jit(lambda x: (lax.reduce_sum(x, (0,)), None)), TypeError,
                              ["value", "f32[], expected f32[3]", "call it in the rule"]),
    "dtype": (lambda: with_rule(keep, lambda r, ct: (lax.convert_element_type(ct, np.float16),))(X), TypeError,
              ["of argument 0", "f16[3], expected f32[3]"]),
    "symbolic zero of another type": (
        lambda: with_rule(keep, lambda r, ct: (custom_derivatives.zero_from_primal(1.0, True),))(X), TypeError,
        ["of argument 0", "f32[], expected f32[3]"]),
    "no primal": (lambda: custom_derivatives.custom_vjp_primal_tree_values(1.0), TypeError,
                  ["type float is not a CustomVJPPrimal", "symbolic_zeros=True"]),
    "no rule": (lambda: custom_vjp(lambda x: x)(1.0), AttributeError, ["no derivative rule", "defvjp"]),
    "fwd": (lambda: with_rule(lambda x: x, lambda r, ct: (ct,))(X), TypeError, ["`fwd` must return a pair"]),
    "bwd is not a tuple": (lambda: with_rule(keep, lambda r, ct: ct)(X), TypeError, ["a tuple of 1 cotangents"]),
    "bwd has two": (lambda: with_rule(keep, lambda r, ct: (ct, ct))(X), TypeError, ["a tuple of 1", "tuple of 2"]),
    "structure": (lambda: with_rule(keep, lambda r, ct: ({"a": ct},))(X), TypeError,
                  ["cotangent for argument 0"]),
    "shape": (lambda: with_rule(keep, lambda r, ct: (lax.reduce_sum(ct, (0,)),))(X), TypeError,
              ["of argument 0", "f32[], expected f32[3]"]),
    "forward mode": (lambda: xjax.jvp(make(xjax), ({"x": X, "y": X},), ({"x": X, "y": X},)), TypeError,
                     ["custom_vjp", "forward-mode", "custom_jvp rule"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])


def test_bwd_runs_where_no_cotangent_reaches_results_that_are_used():
    """As in JAX: a rule can return new statistics as cotangents of its arguments. Flax's 8-bit products do."""
    @xjax.custom_vjp
    def scaled(x, s):
        return x * s

    scaled.defvjp(lambda x, s: (x * s, s), lambda s, ct: (ct * s, s + 41))

    @xjax.custom_vjp
    def passed(x, y):
        return x + y

    passed.defvjp(lambda x, y: (x + y, None), lambda _, ct: (ct, None))

    def used(x, s):
        return passed(x, scaled(x, s))

    def unused(x, s):
        return x + xjax.lax.stop_gradient(scaled(x, s))

    for f, want in ((used, 42), (unused, 0)):
        for g in (xjax.grad(f, (0, 1)), xjax.jit(xjax.grad(f, (0, 1))), xjax.grad(xjax.jit(f), (0, 1))):
            assert g(3.0, 1.0) == (1, want)
        assert xjax.vmap(xjax.grad(f, 1))(np.ones(2, np.float32), np.ones(2, np.float32)).tolist() == [want, want]
