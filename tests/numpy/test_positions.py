"""Grids by indexing, joined arrays, and positions in arrays, against JAX and NumPy."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp
from tests.compare import assert_same
from tests.numpy.rows import X3, B, I, V, X
from tests.oracle import real_jax
from tests.values.checks import check_calls
from tests.values.row import calls

jax = real_jax()
jnp = jax.numpy

GRIDS = [np.s_[0:3], np.s_[0:3, 0:2], np.s_[0:1:3j, 0:2], np.s_[:3, 1:2:.5], ()]
JOINS = [np.s_[1:3, 4, 5.], np.s_[V, 0, 2:4], ("0,2", V, V), ("1,2,0", V, V), ("c", slice(1, 3)), ("r", slice(1, 3)),
         ("-1", X, X[:, :1]), np.s_[0:1:3j], 1, np.s_[[1, 2], 3], ("0,3,-1", V), np.s_[1, 2, 3], ("1,2", V, V),
         ("0,2,0", slice(1, 4), X[:, :1]), ("a,b", 1), ("0",)]
ROWS = [row for names, arguments in (
    ("unravel_index", ((np.array([5, -1, 100, -100]), (2, 3)), (5, (2, 3)), (np.uint8([5, 2]), (2, 3)), (1, 6), (I, ()),
                       (I, (2, 3, 4)))),
    ("ravel_multi_index", [((1, 5), (2, 3), {"mode": mode}) for mode in ("raise", "wrap", "clip", "ignore", "x")]),
    ("ravel_multi_index", (((1, 2), (2, 3), {"order": "F"}), ((1, 2), (2, 3), {"dtype": "int16"}), ((1., 2), (2, 3)),
                           ((1, 2), (2, 3), {"order": "Q"}))),
    ("ix_", ((V, I[0]), (), X, (V[:0], V), [1, 2])),
    ("tril_indices_from", (X, X3)),
    ("triu_indices_from", ((X, 1),)),
    ("diag_indices_from", (X[:, :3], X, V)),
    ("fill_diagonal", ((X, 2),)),
    ("fill_diagonal", [(*args, {"inplace": False}) for args in (
        (V, 2), (X3, 2), (X, 2), (X, V[:2]), (X.T, 2.5), (I, V), (X3[:, :2, :2], 7))]),
) for row in calls("numpy", names, *arguments)]
ROWS += calls("numpy", "mgrid ogrid", *[(key,) for key in GRIDS], call=operator.getitem, tol=0)
ROWS += calls("numpy", "r_ c_", *JOINS, call=lambda joined, *parts: joined[parts])


@pytest.mark.parametrize("name", sorted({row.name.removeprefix("numpy.") for row in ROWS}))
def test_call(name):
    check_calls([row for row in ROWS if row.name == f"numpy.{name}"])


@pytest.mark.parametrize("name", ["mgrid", "ogrid"])
def test_grids_without_an_end_are_refused(name):
    for key in (2, slice(None), (slice(2), 1)):
        with pytest.raises(TypeError, match="takes slices with an end"):
            getattr(xnp, name)[key]


def test_joined_as_numpy():
    """Parts with two or more axes, which JAX places differently from NumPy."""
    for key in (("0,4,1", X, X), ("1,3,0", X, X), ("0,3,-1", X, X)):
        np.testing.assert_array_equal(xnp.r_[key], np.r_[key])


def test_slices_are_made_by_index():
    assert xnp.s_[1:2] == slice(1, 2) and xnp.index_exp[1:2] == (slice(1, 2),)


def test_masks_of_ix():
    rows, columns = xnp.ix_(xnp.asarray(B[:, 0]), xnp.asarray([0, 2]))
    np.testing.assert_array_equal(xnp.asarray(X)[rows, columns], X[np.ix_(B[:, 0], [0, 2])])


def test_wrapped_diagonal():
    for shape in ((7, 2), (5, 3), (2, 4)):
        want = np.zeros(shape, np.float32)
        np.fill_diagonal(want, 5, wrap=True)
        np.testing.assert_array_equal(xnp.fill_diagonal(np.zeros(shape, np.float32), 5, True, inplace=False), want)


def test_mask_indices():
    for size in (None, 4):
        ours = xnp.mask_indices(3, xnp.triu, 1, size=size)
        theirs = (jax.jit if size else lambda f: f)(lambda size=size: jnp.mask_indices(3, jnp.triu, 1, size=size))()
        assert_same(ours, theirs, what=f"size={size}")


def test_traced_positions():
    back = xjax.jit(lambda i: xnp.ravel_multi_index(xnp.unravel_index(i, (2, 3)), (2, 3), mode="clip"))
    assert [int(back(i)) for i in range(6)] == list(range(6))
    with pytest.raises(xjax.errors.ConcretizationTypeError, match="mode='clip'"):
        xjax.jit(lambda i: xnp.ravel_multi_index((i, 1), (2, 3)))(1)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_negative_positions_of_every_width_count_from_the_end(dtype):
    """As in JAX; -7 is out of range and becomes the first position."""
    positions = xnp.unravel_index(np.array([-2, -7, 3], dtype), (2, 3))
    assert [x.tolist() for x in positions] == [[1, 0, 1], [1, 0, 0]] and positions[0].dtype == dtype
