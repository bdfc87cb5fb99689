"""linear_call and closure_convert, as in JAX; linear_call under vmap, which JAX lacks; errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.lax.oracle import check
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import lax
from xjax.custom_derivatives import closure_convert, linear_call
from xjax.transforms.linear_call import linear_call_p

jax = real_jax()
oracle = real_jax("custom_derivatives").custom_derivatives

X = np.array([0.3, -1.2, 0.8], np.float32)
R = np.array([1.5, 0.7, -0.4], np.float32)


def scaled(L, r, x):
    """x r and its sum, with three times the true transpose, so results show that it is used."""
    call = linear_call if L is lax else oracle.linear_call

    def forward(r, x):
        y = L.mul(r["r"], x["x"])
        return {"y": y, "sum": L.reduce_sum(y, (0,))}

    def back(r, ct):
        return {"x": L.mul(np.float32(3), L.mul(r["r"], L.add(ct["y"], ct["sum"])))}

    return call(forward, back, {"r": r}, {"x": x})


TRANSFORMS = {
    "value": lambda lib, f: f,
    "jvp": lambda lib, f: lambda r, x: lib.jvp(lambda x: f(r, x), (x,), (r,)),
    "vjp": lambda lib, f: lambda r, x: lib.vjp(lambda x: f(r, x), x)[1]({"y": r, "sum": x[0]}),
    "vjp of jit": lambda lib, f: lambda r, x: lib.vjp(lib.jit(lambda x: f(r, x)), x)[1]({"y": r, "sum": x[0]}),
    "jvp of vjp": lambda lib, f: lambda r, x: lib.jvp(lambda c: lib.vjp(lambda x: f(r, x), x)[1](
        {"y": c, "sum": c[0]}), (x,), (r,)),
    "transpose": lambda lib, f: lambda r, x: lib.linear_transpose(lambda x: f(r, x), x)({"y": x, "sum": r[0]}),
    "transpose twice": lambda lib, f: lambda r, x: lib.linear_transpose(
        lambda c: lib.linear_transpose(lambda x: f(r, x), x)({"y": c, "sum": c[1]})[0], r)(x),
    "grad in a scan": lambda lib, f: lambda r, x: lib.grad(lambda x: lib.lax.scan(
        lambda c, _: (f(r, c)["y"], f(r, c)["sum"]), x, None, length=2)[1][1])(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_as_jax(transform):
    check(jax, scaled, R, X, transform=TRANSFORMS[transform])


def test_vmap_of_the_call_and_of_its_transpose():
    rows = np.stack([R, 2 * R])

    def back(r):
        return xjax.vjp(lambda x: scaled(lax, r, x)["y"], X)[1](r)[0]

    np.testing.assert_allclose(xjax.vmap(back)(rows), 3 * rows * rows, rtol=1e-6)
    # A linear argument shared by all elements gets the sum of their cotangents.
    g = xjax.grad(lambda x: xjax.vmap(lambda r: scaled(lax, r, x)["sum"])(rows).sum())(X)
    np.testing.assert_allclose(g, 3 * rows.sum(0), rtol=1e-6)


def test_derivatives_by_residuals_are_those_of_the_function():
    """JAX refuses these derivatives. The transpose has them too, so a gradient is differentiable."""
    def divided(r, x):
        return linear_call(lambda r, x: x / r, lambda r, ct: ct / r, r, x)

    first, plain = (xjax.grad(lambda r, x, of=of: jnp.sin(of(r, x)).sum(), (0, 1))
                    for of in (divided, lambda r, x: x / r))
    for mapped in (lambda g: g, xjax.jit, xjax.jacobian, lambda g: lambda r, x: xjax.jvp(g, (r, x), (x, r))):
        assert_same(*(mapped(g)(R, X) for g in (first, plain)), tol=1 / 8)


def test_the_program_has_the_name_and_parameters_of_jax():
    (ours,), (theirs,) = (lib.make_jaxpr(lambda r, x: scaled(lib.lax, r, x))(R, X).eqns for lib in (xjax, jax))
    assert ours.primitive is linear_call_p and ours.primitive.name == theirs.primitive.name
    assert ours.params.keys() == theirs.params.keys()


def bad_transpose(back):
    return xjax.linear_transpose(lambda x: linear_call(lambda r, x: (x["x"], x["x"]), back, (), {"x": x}), X)((X, X))


def captured(y):
    return linear_call(lambda r, x: x * y, lambda r, ct: ct * y, (), X).sum()


ERRORS = {
    "structure": (lambda: bad_transpose(lambda r, ct: ct[0]), TypeError,
                  ["`fun_transpose` must return a tree with the structure of the linear arguments"]),
    "type": (lambda: bad_transpose(lambda r, ct: {"x": ct[0].sum()}), TypeError,
             ["cotangent['x']", "f32[], expected f32[3]"]),
    "closure": (lambda: xjax.grad(captured)(2.0), TypeError, ["is not an argument"]),
    "transpose by a residual": (lambda: xjax.linear_transpose(lambda r: scaled(lax, r, X), R)(
        {"y": X, "sum": X[0]}), NotImplementedError, ["residual arguments", "`linear_args`"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])


# -- closure_convert ----------------------------------------------------------------------------------------------

def minimum(lib):
    """The minimum of a function that closes over traced values; its derivative comes from a custom rule."""
    convert = closure_convert if lib is xjax else jax.closure_convert

    def newton(f, x, *values):
        for _ in range(8):
            slope, curve = lib.grad(f)(x, *values), lib.grad(lib.grad(f))(x, *values)
            x = lib.lax.sub(x, lib.lax.div(slope, curve))
        return x

    def solve(f, x):
        converted, values = convert(f, x)
        run = lib.custom_vjp(lambda x, *values: newton(converted, x, *values))

        def fwd(x, *values):
            y = run(x, *values)
            return y, (y, values)

        def bwd(res, ct):
            y, values = res
            curve = lib.grad(lib.grad(converted))(y, *values)
            mixed = lib.grad(lambda *values: lib.grad(converted)(y, *values), tuple(range(len(values))))(*values)
            scale = lib.lax.neg(lib.lax.div(ct, curve))
            return (lib.lax.mul(ct, np.float32(0)), *(lib.lax.mul(scale, m) for m in mixed))

        run.defvjp(fwd, bwd)
        return run(x, *values)

    def f(a, b):
        L = lib.lax
        return solve(lambda x: L.sub(L.mul(a, L.mul(x, L.mul(x, x))), L.mul(b, x)), np.float32(2))
    return f


CONVERTED = {
    "value": (lambda lib, f: f, np.float32(1.5)),
    "grad": (lambda lib, f: lib.grad(f, (0, 1)), np.float32(1.5)),
    "vmap of grad": (lambda lib, f: lib.vmap(lib.grad(f, (0, 1)), (0, None)), np.array([1.5, 3], np.float32)),
}


@pytest.mark.parametrize("case", CONVERTED)
def test_closure_convert_in_a_custom_rule(case):
    transform, a = CONVERTED[case]
    ours, theirs = (lib.jit(transform(lib, minimum(lib)))(a, np.float32(2)) for lib in (xjax, jax))
    assert_same(ours, theirs)


def test_closure_convert_takes_only_what_may_be_differentiated():
    known = xjax.numpy.ones(3)

    def outer(y, n):
        converted, values = closure_convert(lambda x: x * y * known * n, X)
        assert [v.shape for v in values] == [(), ()][:len(values)]
        counts.append(len(values))
        return converted(X, *values).sum()

    counts: list[int] = []
    outer(2.0, 3)
    xjax.grad(outer)(2.0, 3)
    xjax.jit(outer)(2.0, 3)
    assert counts == [0, 1, 1]              # under jit: not the integer
    converted, values = closure_convert(lambda x: x, X)
    with pytest.raises(TypeError, match="takes 1 arguments and then 0 captured"):
        converted(X, X)
    with pytest.raises(TypeError, match="structure of the examples"):
        converted({"a": X})
