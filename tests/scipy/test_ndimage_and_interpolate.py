"""`scipy.ndimage`, `scipy.interpolate` and `scipy.cluster.vq` against real JAX in double precision; misuse."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.ops.harness import check_as_jax
from tests.ops.row import OpRow, r
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.scipy import interpolate, ndimage
from xjax.scipy.cluster.vq import vq

jax = real_jax()
vq_of_jax = real_jax("scipy.cluster.vq").scipy.cluster.vq

OURS = SimpleNamespace(map_coordinates=ndimage.map_coordinates, Grid=interpolate.RegularGridInterpolator, vq=vq)
THEIRS = SimpleNamespace(map_coordinates=jax.scipy.ndimage.map_coordinates,
                         Grid=jax.scipy.interpolate.RegularGridInterpolator, vq=vq_of_jax.vq)

MODES = ["constant", "nearest", "wrap", "mirror", "reflect"]
AXES = [np.array([0.0, 1, 3]), np.array([-1.0, 0, 2, 5])]
IMAGE, PLACES = r(4, 3), np.random.default_rng(0).uniform(-9, 12, (2, 15))
GRID, POINTS = r(3, 4, 2), np.random.default_rng(1).uniform(-2, 6, (9, 2))


def mapped(L, x, places, modes=MODES):
    return [L.map_coordinates(x, [places[0], places[1]], order, mode, 2.0) for mode in modes for order in (0, 1)]


def gridded(L, values, points):
    return [L.Grid(AXES, values, method, fill_value=fill)(points)
            for method, fill in (("linear", None), ("linear", np.nan), ("nearest", 3.0))]


TABLE = [
    OpRow("map_coordinates", lambda L, x, p: mapped(L, x, p, ["constant"])[1], (IMAGE, PLACES)),
    OpRow("map_coordinates slow", mapped, (IMAGE, PLACES)),
    OpRow("map_coordinates of one row slow", mapped, (IMAGE[:1], PLACES)),
    OpRow("map_coordinates of integers", lambda L, x, p: [*mapped(L, x, p, ["mirror"]),
                                                          *mapped(L, x, p.astype(int), ["wrap"])],
          (np.arange(12).reshape(4, 3) ** 2, PLACES), order=0),
    OpRow("grid slow", gridded, (GRID, POINTS)),
    OpRow("vq", lambda L, x, y: [L.vq(x, y), L.vq(x[:, 0], y[:, 0])], (r(5, 3), r(4, 3))),
]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name, marks=[pytest.mark.slow] * ("slow" in row.name))
                                 for row in TABLE])
def test_as_jax(row: OpRow) -> None:
    check_as_jax(row, OURS, THEIRS)


def test_map_coordinates_as_in_scipy():
    """Inside the array, and outside for the modes that SciPy has under other names."""
    oracle = pytest.importorskip("scipy.ndimage")
    with xjax.enable_x64(True):
        ours = xjax.jit(lambda x, p: mapped(OURS, x, p))(IMAGE, PLACES)
    names = {"constant": "grid-constant", "wrap": "grid-wrap"}
    theirs = [oracle.map_coordinates(IMAGE, PLACES, order=order, mode=names.get(mode, mode), cval=2.0)
              for mode in MODES for order in (0, 1)]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_grids_as_in_scipy_and_as_trees():
    oracle = pytest.importorskip("scipy.interpolate").RegularGridInterpolator
    points = tuple(POINTS.T)

    def everything(f):
        doubled = xjax.tree.map(lambda x: 2 * x, f)
        return [f(points), f(POINTS.reshape(3, 3, 2)), f(POINTS[0]), f(POINTS, method="nearest"),
                doubled(tuple(2 * p for p in points)) / 2,
                xjax.vmap(lambda v: OURS.Grid(AXES, v)(points))(jnp.stack([f.values, 2 * f.values]))]
    with xjax.enable_x64(True):
        ours = xjax.jit(everything)(OURS.Grid(AXES, GRID))
    f = oracle(AXES, GRID, bounds_error=False)
    assert_same(ours, [f(points), f(POINTS.reshape(3, 3, 2)), f(POINTS[:1]), f(POINTS, method="nearest"), f(points),
                       np.stack([f(points), 2 * f(points)])])


@pytest.mark.parametrize("call, kind, text", [
    (lambda: ndimage.map_coordinates(IMAGE, PLACES, 3), NotImplementedError, "fix: pass 0 or 1"),
    (lambda: ndimage.map_coordinates(IMAGE, PLACES, 1, "grid-wrap"), NotImplementedError, "unknown mode"),
    (lambda: ndimage.map_coordinates(IMAGE, PLACES[:1], 1), ValueError, "1 coordinates for 2 axes"),
    (lambda: OURS.Grid(AXES, GRID, "cubic"), ValueError, "unknown method"),
    (lambda: OURS.Grid(AXES, GRID, bounds_error=True), NotImplementedError, "fix: use fill_value"),
    (lambda: OURS.Grid(AXES, GRID[:2]), ValueError, "do not fit the values"),
    (lambda: OURS.Grid([AXES[0][::-1]], GRID), ValueError, "coordinates must increase"),
    (lambda: OURS.Grid(AXES, GRID, fill_value=1j), ValueError, "`fill_value` cannot be converted"),
    (lambda: OURS.Grid(AXES, GRID)(POINTS[:, :1]), ValueError, "points need 2 coordinates"),
    (lambda: OURS.Grid(AXES, GRID)(POINTS, "cubic"), ValueError, "unknown method"),
    (lambda: vq(r(3, 2), r(2)), ValueError, "do not fit"),
    (lambda: vq(r(3, 2), r(4, 3)), ValueError, "fix: pass obs[m, n]"),
])
def test_misuse(call, kind, text):
    assert_refused(call, kind, text)
