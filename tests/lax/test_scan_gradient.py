"""Residuals and sums in the gradient of a scan: cheap residuals are recomputed, products are summed after the loop."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.lax.oracle import DERIVATIVES, check, stacked, vmap_transforms, vmapped
from tests.lax.test_scan_memory import residual_shapes
from tests.oracle import real_jax
from tests.sampling import one_in
from xjax import lax

jax = real_jax()

NPR = np.random.default_rng(0)
W = NPR.normal(size=(3, 3)).astype(np.float32)
C = NPR.normal(size=(2, 3)).astype(np.float32)
XS = NPR.normal(size=(4, 2, 3)).astype(np.float32)


def lib_of(L):
    return xjax if L is lax else jax


def right(L, w, c, xs, **options):
    return L.scan(lambda c, x: (L.tanh(L.add(L.dot(c, w), x)), c), c, xs, **options)


def backwards(L, w, c, xs):
    return right(L, w, c, xs, reverse=True)


def two_steps_in_a_turn(L, w, c, xs):
    return right(L, w, c, xs, unroll=3)


def without_a_loop(L, w, c, xs):
    return right(L, w, c, xs, unroll=True)


def left_and_transposed(L, w, c, xs):
    return L.scan(lambda c, x: (L.sin(L.add(L.transpose(L.dot(w, L.transpose(c, (1, 0))), (1, 0)), x)), None), c, xs)


def rows_alone(L, w, c, xs):
    """The product does not depend on the carry."""
    return L.scan(lambda c, x: (L.add(c, L.sin(L.dot(x, w))), None), c, xs)


def reshaped(L, w, c, xs):
    flat = L.reshape(w, (9,))
    return L.scan(lambda c, x: (L.tanh(L.add(L.dot(c, L.reshape(flat, (3, 3))), x)), None), c, xs)


def a_matrix_for_each_row(L, w, c, xs):
    both = L.broadcast_in_dim(w, (2, 3, 3), (1, 2))
    return L.scan(lambda c, x: (L.tanh(L.add(lib_of(L).numpy.einsum("bi,bio->bo", c, both), x)), None), c, xs)


def half_precision(L, w, c, xs):
    def body(c, x):
        return L.add(L.convert_element_type(L.dot(L.convert_element_type(c, jnp.bfloat16),
                                                  L.convert_element_type(w, jnp.bfloat16)), np.float32), x), None
    return L.scan(body, L.mul(c, np.float32(0)), xs)


def twice(L, w, c, xs):
    """Two products and another use of w in one step: the sum stays in the loop."""
    return L.scan(lambda c, x: (L.tanh(L.add(L.dot(L.sin(L.dot(c, w)), w), x)), L.mul(w, w)), c, xs)


def many_rows(L, w, c, xs):
    """Operands are larger than the matrix, so they are not stored."""
    many = L.broadcast_in_dim(c, (9, 2, 3), (1, 2))
    return L.scan(lambda c, x: (L.sin(lib_of(L).numpy.einsum("gbi,io->gbo", c, w) + x), None), many, xs)


def in_a_call(L, w, c, xs):
    return L.scan(lib_of(L).jit(lambda c, x: (L.tanh(L.add(L.dot(c, w), x)), None)), c, xs)


def nested(L, w, c, xs):
    return L.scan(lambda c, x: (right(L, w, c, xs)[0], L.mul(c, x)), c, xs)


def no_steps(L, w, c, xs):
    return right(L, w, c, xs[:0])


# Function -> number of sums with the size of the matrix that its gradient carries through loops.
FUNCTIONS = {right: 0, backwards: 0, two_steps_in_a_turn: 0, without_a_loop: 0, left_and_transposed: 0, rows_alone: 0,
             reshaped: 0, a_matrix_for_each_row: 0, half_precision: 0, twice: 1, many_rows: 1, in_a_call: 0, nested: 1,
             no_steps: 0}


@pytest.mark.parametrize("case", one_in(7, [(f, name) for f in FUNCTIONS for name in DERIVATIVES],
                                        lambda case: f"{case[0].__name__}-{case[1]}"))
def test_derivatives_as_jax(case):
    f, transform = case
    tol = 1e4 if f is half_precision else 1.0               # bfloat16 has 16 fewer bits than float32
    check(jax, f, W, C, XS, transform=DERIVATIVES[transform], tol=tol)


@pytest.mark.parametrize("kind", one_in(2, ["vmap of grad", "grad of vmap"]))
@pytest.mark.parametrize("axes", [a for _, a in vmap_transforms(3)], ids=[n for n, _ in vmap_transforms(3)])
def test_vmap_as_jax(kind, axes):
    check(jax, right, *stacked([W, C, XS], axes), transform=vmapped(kind, axes))


@pytest.mark.parametrize("f", FUNCTIONS)
def test_sums_in_the_loop(f):
    def loss(w):
        return sum(jnp.sum(y) for y in xjax.tree_util.tree_leaves(f(lax, w, C, XS)))

    def sums(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "scan":
                n, m = eqn.params["num_consts"], eqn.params["num_carry"]
                yield from (v for v in eqn.invars[n:n + m] if v.aval.shape[-2:] == W.shape)
                yield from sums(eqn.params["jaxpr"].jaxpr)
    assert len(list(sums(xjax.make_jaxpr(xjax.grad(loss))(W).jaxpr))) == FUNCTIONS[f]


# ---- residuals ---------------------------------------------------------------------------------------------------

def gated(lib, w, c, x):
    return lib.nn.sigmoid(c + w) * lib.numpy.tanh(c - w)


def chosen(lib, w, c, x):
    return lib.numpy.where(lib.numpy.exp(c) > 1, lib.numpy.exp(c) * w, c)


def polynomial(lib, w, c, x):
    return lib.numpy.sin(w * c) * ((((c * c + c) * c + c) * c + c) * c + c)


# Step -> number of arrays of shape [2, 3] that it stores for the gradient.
RESIDUALS = {
    "tanh": (lambda lib, w, c, x: lib.numpy.tanh(c + w), 1),            # 1 - y * y is computed from y
    "logistic": (lambda lib, w, c, x: lib.nn.sigmoid(c + w), 1),        # and so is y * (1 - y)
    "gated": (gated, 2),
    "sine": (lambda lib, w, c, x: lib.numpy.sin(c + w), 1),
    "chosen": (chosen, 3),                                              # the condition and two values
    "polynomial": (polynomial, None),
}


@pytest.mark.parametrize("name", RESIDUALS)
def test_residuals_of_a_step(name):
    step, count = RESIDUALS[name]

    def loss(lib):
        return lambda w, c, xs: lib.numpy.sum(lib.lax.scan(lambda c, x: (step(lib, w, c, x), None), c, xs)[0])

    args = (np.float32(0.5), C, XS)
    stored = [shape for shape in residual_shapes(loss(xjax), *args) if shape == XS.shape]
    assert count is None or len(stored) == count
    check(jax, lambda L, *xs: loss(lib_of(L))(*xs), *args, transform=lambda lib, f: lambda *xs: (
        DERIVATIVES["grad"](lib, f)(*xs), DERIVATIVES["grad of grad"](lib, f)(*xs)))
