"""The number of recomputed operations under checkpoint equals JAX's, counted in the program of a gradient.

The count covers the forward pass and the equations with differentiated=True, in all nested programs.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import xjax
import xjax.ad_checkpoint
from tests.compare import assert_same
from tests.oracle import real_jax
from tests.sampling import one_in
from xjax import lax
from xjax.core.jaxpr import check_jaxpr

jax = real_jax()
real_jax("ad_checkpoint")

W = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
X = np.array([0.3, -1.2, 0.8], np.float32)
COUNTED = "sin cos tanh exp dot_general".split()  # noqa: SIM905


# -- functions (lib, checkpoint, w, x) -> array; `h` names values ---------------------------------------------------

def h(lib, x):
    return lib.ad_checkpoint.checkpoint_name(x, "h")


def layer(lib, w, x):
    return lib.numpy.sin(w @ h(lib, lib.numpy.sin(x)))


def nested(lib, remat, w, x):
    tanh = lib.numpy.tanh
    inner = remat(lambda w, x: layer(lib, w, x))
    return remat(lambda w, x: tanh(inner(w, tanh(inner(w, x)))))(w, x)


def scan_of_remat(lib, remat, w, x):
    return lib.lax.scan(remat(lambda c, _: (layer(lib, w, c), None)), x, None, length=3)[0]


def remat_of_scan(lib, remat, w, x):
    return remat(lambda w, x: lib.lax.scan(lambda c, _: (layer(lib, w, c), None), x, None, length=3)[0])(w, x)


def remat_of_jit(lib, remat, w, x):
    return remat(lib.jit(lambda w, x: layer(lib, w, x)))(w, x)


def jit_in_remat(lib, remat, w, x):
    f = lib.jit(lambda w, x: layer(lib, w, x))
    return remat(lambda w, x: f(w, f(w, x)))(w, x)


def cond_in_remat(lib, remat, w, x):
    np_ = lib.numpy

    def f(w, x):
        y = w @ h(lib, np_.sin(x))
        return lib.lax.cond(x[0] > 0, lambda y: np_.sin(np_.sin(y)), lambda y: np_.cos(y), y)
    return remat(f)(w, x)


def remat_of_cond(lib, remat, w, x):
    """Names and products in branches, one of them inside a loop."""
    np_ = lib.numpy

    def looped(w, x):
        return lib.lax.scan(lambda c, _: (layer(lib, w, c), None), x, None, length=2)[0]

    def f(w, x):
        return np_.sin(lib.lax.cond(x[0] > 0, lambda w, x: layer(lib, w, np_.tanh(x)), looped, w, np_.sin(x)))
    return remat(f)(w, x)


def chain(lib, remat, w, x):
    sin = lib.numpy.sin
    return remat(lambda x: sin(sin(h(lib, sin(x)))))(x)


def linear_end(lib, remat, w, x):
    return remat(lambda w, x: w @ h(lib, lib.numpy.sin(x)))(w, x)


def two_layers(lib, remat, w, x):
    f = remat(lambda w, x: lib.numpy.tanh(w @ h(lib, lib.numpy.sin(w @ x))))
    return f(w, f(w, x))


def unused_output(lib, remat, w, x):
    np_ = lib.numpy
    return remat(lambda w, x: (np_.sin(h(lib, np_.sin(x))), np_.tanh(w @ x)))(w, x)[0]


def custom_jvp(lib, remat, w, x):
    np_ = lib.numpy
    f = lib.custom_jvp(lambda x: np_.sin(x))
    f.defjvp(lambda xs, dxs: (f(*xs), np_.cos(xs[0]) * dxs[0]))
    return remat(lambda w, x: f(w @ h(lib, f(x))))(w, x)


def custom_vjp(lib, remat, w, x):
    np_ = lib.numpy
    f = lib.custom_vjp(lambda x: np_.tanh(x))

    def forward(x):
        y = h(lib, np_.tanh(x))
        return y, y
    f.defvjp(forward, lambda y, ct: (ct * (1 - y * y),))
    return remat(lambda w, x: f(w @ f(x)))(w, x)


def softmax(lib, remat, w, x):
    return remat(lambda w, x: lib.nn.softmax(w @ h(lib, lib.numpy.sin(x))))(w, x)


FUNCTIONS = (nested, scan_of_remat, remat_of_scan, remat_of_jit, jit_in_remat, cond_in_remat, remat_of_cond, chain,
             linear_end, two_layers, unused_output, custom_jvp, custom_vjp, softmax)
POLICIES = {
    "no policy": lambda policies: None,
    "everything": lambda policies: policies.everything_saveable,
    "nothing": lambda policies: policies.nothing_saveable,
    "dots": lambda policies: policies.dots_saveable,
    "names": lambda policies: policies.save_only_these_names("h"),
    "dots and names": lambda policies: policies.save_from_both_policies(
        policies.dots_with_no_batch_dims_saveable, policies.save_only_these_names("h")),
}


def count(jaxpr, counts, again=False):
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in COUNTED:
            counts[name, "again" if again else "first"] += 1
        inner = again or (name == "remat2" and eqn.params["differentiated"])
        for value in eqn.params.values():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                program = getattr(item, "jaxpr", item)             # some of JAX's are not closed
                if hasattr(program, "eqns"):
                    count(program, counts, inner)


def operations(lib, f, policy, prevent_cse):
    def remat(g):
        return lib.checkpoint(g, policy=POLICIES[policy](lib.checkpoint_policies), prevent_cse=prevent_cse)

    closed = lib.make_jaxpr(lib.grad(lambda w, x: f(lib, remat, w, x).sum(), (0, 1)))(W, X)
    if lib is xjax:
        check_jaxpr(closed.jaxpr)
    counts = Counter()
    count(closed.jaxpr, counts)
    return counts


@pytest.mark.parametrize("row", one_in(5, [(f, policy, cse) for f in FUNCTIONS for policy in POLICIES
                                           for cse in (True, False)], lambda row: f"{row[0].__name__}, {row[1:]}"))
def test_operations_are_counted_as_in_jax(row):
    assert operations(xjax, *row) == operations(jax, *row)


@pytest.mark.parametrize("policy", ["nothing", "names"])
def test_an_operation_is_computed_again_only_for_a_residual(policy):
    """No residual needs the last sin, and the second one needs the first only if no name saves it."""
    counts = operations(xjax, chain, policy, True)
    assert counts["sin", "again"] == {"nothing": 2, "names": 1}[policy]
    assert operations(xjax, linear_end, "nothing", True)["sin", "again"] == 1


def second(f):
    """The gradient of a sum over the first derivatives."""
    first = xjax.grad(f, (0, 1))
    return xjax.grad(lambda w, x: sum((g ** 2).sum() for g in first(w, x)), (0, 1))


DERIVATIVES = {
    "grad": lambda f: xjax.jit(xjax.grad(f, (0, 1))),
    "vmap of grad": lambda f: lambda w, x: xjax.jit(xjax.vmap(xjax.grad(f, (0, 1)), (None, 0)))(w, np.stack([x, -x])),
    "grad of grad": lambda f: xjax.jit(second(f)),
}


@pytest.mark.parametrize("row", one_in(7, [(f, kind) for f in FUNCTIONS for kind in DERIVATIVES],
                                       lambda row: f"{row[0].__name__}, {row[1]}"))
def test_derivatives_do_not_depend_on_the_policy(row):
    f, kind = row

    def derivative(remat):
        return DERIVATIVES[kind](lambda w, x: f(xjax, remat, w, x).sum())(W, X)
    want = derivative(lambda g: g)
    for policy in POLICIES:
        chosen = POLICIES[policy](xjax.checkpoint_policies)
        # float32: second derivatives of three layers sum some hundred rounded terms, in another order.
        assert_same(derivative(lambda g, p=chosen: xjax.checkpoint(g, policy=p)), want, tol=1.25)


def test_of_a_scan_only_what_is_read_is_left():
    """Unread carries and rows are removed with their inputs, also a carry that feeds only itself; effects stay."""
    def f(x):
        def body(carry, row):
            a, b, c = carry
            return (lax.sin(a), lax.add(lax.cos(b), lax.tanh(c)), c), (lax.exp(a), lax.exp(row))
        (a, b, c), (ys, zs) = lax.scan(body, (x, x, x), lax.mul(x, np.arange(3, dtype=np.float32)))
        return lax.add(a, x), lax.add(b, zs[0])

    def used(index):
        g = xjax.checkpoint(f, policy=xjax.checkpoint_policies.nothing_saveable)
        counts = Counter()
        count(xjax.make_jaxpr(xjax.grad(lambda x: g(x)[index]))(np.float32(1)).jaxpr, counts)
        return {name for (name, when), n in counts.items() if when == "again" and n}

    assert used(0) == {"sin", "cos"} and "tanh" in used(1) and "exp" in used(1)
