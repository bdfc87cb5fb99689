"""The small modules of `xjax.scipy`: interpolation, integration, minima, sparse systems, clusters, rotations."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.cluster.vq
import scipy.interpolate
import scipy.ndimage
import scipy.spatial.transform

from tests.values.row import rows

# -- interpolation and integration --------------------------------------------------------------------------------

IMAGES = ("f8[3,4] f8[2,5]", "f4[4,3] f4[2,2,2]", "i4[3,3] f4[2,3]", "c8[3,2] f4[2,3]")
PAIRS = ("f8[4,3] f8[3]:increasing", "f4[3] f4[3]:increasing", "i4[4] i4[4]:increasing", "c8[2,3] f4[3]:increasing",
         "bf[2,2] bf[2]:increasing")
AXES = (np.array([0.0, 1, 3]), np.array([-1.0, 0, 2, 5]))
GRIDS = ("f8[3,4] f8[5,2]", "f4[3,4,2] f4[2]", "c8[3,4] f4[3,2]")


def at_places(*modes: str, orders: tuple[int, ...] = (0, 1)) -> Any:
    return lambda f, x, places: [f(x, [places[0], places[1]], order=order, mode=mode, cval=2) for mode in modes
                                 for order in orders]


def on_grid(f: Any, values: Any, places: Any) -> Any:
    axes = [a.astype(places.dtype) for a in AXES]
    return [f(axes, values, method, bounds_error=False, fill_value=fill)(places)
            for method, fill in (("linear", None), ("linear", -1), ("nearest", None), ("nearest", 3))]


GRIDDED = [
    *rows("scipy.ndimage", "map_coordinates", *IMAGES[:2], call=at_places("nearest", "mirror", "reflect", orders=(1,)),
          grad=IMAGES[:1]),
    # SciPy's "constant" has no interpolation at the border, its "wrap" overlaps by one pixel, and it rounds halves up.
    *rows("scipy.ndimage", "map_coordinates", *IMAGES, call=at_places("constant", "wrap", "nearest", "mirror",
                                                                      "reflect"), oracle=None, id="of-jax"),
    *rows("scipy.interpolate", "RegularGridInterpolator", *GRIDS, call=on_grid,
          oracle=scipy.interpolate.RegularGridInterpolator, grad=GRIDS[:1]),
    *rows("scipy.integrate", "trapezoid", *PAIRS, call=lambda f, y, x: (
        f(y), f(y, x), f(y, dx=0.5, axis=0), f(y, x[0], axis=-1) if x.ndim > 1 else f(y, dx=2)), grad=PAIRS[:1]),
]

# -- minima and systems of equations ------------------------------------------------------------------------------


def bowl(x: Any) -> Any:
    """A function whose minimum, at 1, is its only point with slope 0."""
    return ((x - 1) ** 2 * (np.arange(x.size) + 1)).sum() + ((x - 1) ** 4).sum() / 8


def minimum(method: str) -> Any:
    options = {"gtol": 1e-9} if method == "BFGS" else {"gtol": 1e-9, "ftol": 0.0}
    return lambda f, x0: f(bowl, x0, method=method, options=options).x


def the_minimum(_: Any, x0: Any, **options: Any) -> Any:
    return SimpleNamespace(x=np.ones_like(x0))


def solved(f: Any, a: Any, b: Any) -> Any:
    """Solved with a matrix, with a function, and with a preconditioner."""
    a = (a + a.swapaxes(0, 1)) / 2
    return [f(a, b, tol=1e-13)[0], f(lambda x: a @ x, b, x0=b, tol=1e-13)[0],
            f(a, b, tol=1e-13, M=lambda x: x / a.diagonal())[0]]


def dense(a: Any, b: Any, **_: Any) -> Any:
    return (np.linalg.solve(a(np.eye(b.size)) if callable(a) else a, b),)


SOLVED = [
    # A search ends when slopes are below 1e-9.
    *rows("scipy.optimize", "minimize", "f8[3]", "f8[1]", call=minimum("BFGS"), oracle=the_minimum, tol=1e5,
          differs="JAX's line search gives up far from the minimum: status 3 after 3 steps"),
    *rows("scipy.optimize", "minimize", "f8[3]", call=minimum("l-bfgs-experimental-do-not-rely-on-this"),
          oracle=the_minimum, tol=1e5, id="l-bfgs", differs="JAX's search ends up to 4e-3 from the minimum"),
    # The residual is 1e-13 of b; matrices are symmetric with eigenvalues near 1, 2, 3.
    *rows("scipy.sparse.linalg", "cg bicgstab gmres", "f8[3,3]:symmetric f8[3]", "f8[2,2]:symmetric f8[2]",
          call=solved, oracle=dense, tol=100, grad=("f8[3,3]:symmetric f8[3]",)),
    *rows("scipy.cluster.vq", "vq", "f8[4,2] f8[3,2]", "f4[3,3] f4[2,3]", "f4[3] f4[2]", "i4[3,2] i4[3,2]",
          oracle=scipy.cluster.vq.vq),
]

# -- rotations ----------------------------------------------------------------------------------------------------

QUATERNIONS = ("f8[4]", "f4[3,4]", "f8[2,4]")


def unit(q: Any) -> Any:
    """A quaternion away from 0 and from turns by pi, where a rotation has two representations."""
    return q + np.array([0, 0, 0, 9], q.dtype)


def forms(f: Any, q: Any) -> Any:
    r = f.from_quat(unit(q))
    return (r.as_quat(), r.as_matrix(), r.as_mrp(), r.as_rotvec(), r.as_rotvec(degrees=True), r.magnitude(),
            r.as_quat(canonical=True), f.from_euler("zyx", r.as_euler("zyx")).as_matrix())


def made(f: Any, x: Any) -> Any:
    """Rotations made from every representation."""
    v = x[..., :3]
    r = [f.from_rotvec(v), f.from_rotvec(v, degrees=True), f.from_mrp(v), f.from_euler("xyz", v),
         f.from_euler("ZXZ", v, degrees=True), f.from_matrix(f.from_quat(unit(x)).as_matrix())]
    return [y.as_matrix() for y in r]


def used(f: Any, q: Any, v: Any) -> Any:
    several = f.from_quat(unit(q))
    near = f.from_quat(unit(q + np.array([0, 0, 0, 20], q.dtype)))  # for distant rotations the mean is ill-conditioned
    one = several[1]
    return (one.apply(v), several.apply(v, inverse=True), one.inv().as_matrix(), (one * several).as_matrix(),
            f.concatenate([several, several]).as_matrix(), near.mean().as_matrix(), several[:1].as_matrix(),
            f.identity().as_quat())


def between(f: Any, q: Any, times: Any) -> Any:
    rotations = sys.modules[f.__module__].Rotation.from_quat(unit(q))
    slerp = getattr(f, "init", f)(np.array([0.0, 1, 3], q.dtype), rotations)
    return slerp(times).as_matrix()


ROTATIONS = [
    *rows("scipy.spatial.transform", "Rotation", *QUATERNIONS, call=forms,
          oracle=scipy.spatial.transform.Rotation),
    *rows("scipy.spatial.transform", "Rotation", *QUATERNIONS, call=made,
          oracle=scipy.spatial.transform.Rotation, id="made"),
    *rows("scipy.spatial.transform", "Rotation", "f8[3,4] f8[3]", "f4[2,4] f4[3]", call=used,
          oracle=scipy.spatial.transform.Rotation, id="used"),
    *rows("scipy.spatial.transform", "Slerp", "f8[3,4] f8[5]:0..3", "f4[3,4] f4[]:0..3", call=between,
          oracle=scipy.spatial.transform.Slerp),
]

ROWS = [*GRIDDED, *SOLVED, *ROTATIONS]
