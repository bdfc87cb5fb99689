"""`scipy.spatial.transform` against SciPy and JAX in double precision; derivatives at the rotation by 0; misuse."""

from __future__ import annotations

import itertools
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
from xjax.scipy.spatial.transform import Rotation, Slerp

jax = real_jax()
transform_of_jax = real_jax("scipy.spatial.transform").scipy.spatial.transform
oracle = pytest.importorskip("scipy.spatial.transform")

OURS = SimpleNamespace(Rotation=Rotation, Slerp=Slerp)
SCIPY = SimpleNamespace(Rotation=oracle.Rotation, Slerp=SimpleNamespace(init=oracle.Slerp))
EDGES = np.array([[0, 0, 0, 2], [0, 0, 1, 0], [0, -1, 0, 0], [-1, 0, 0, 0], [0, 0.7, 0, 0.7]])
QUATS, VECTORS = r(4, 4), r(4, 3)
SEQUENCES = [s for n in (1, 2, 3) for axes in ("xyz", "XYZ") for s in map("".join, itertools.product(axes, repeat=n))
             if all(a != b for a, b in zip(s, s[1:], strict=False))]


def forms(L, q):
    rotation = L.Rotation.from_quat(q)
    return [rotation.as_matrix(), rotation.as_mrp(), rotation.as_rotvec(True), rotation.magnitude(),
            rotation.as_quat(True, scalar_first=True), rotation.as_euler("zyx"), rotation.as_euler("XYX", degrees=True)]


def back(L, x):
    vector = x[..., :3]
    matrix = L.Rotation.from_quat(x).as_matrix()
    return [r.as_quat(True) for r in (
        L.Rotation.from_rotvec(vector), L.Rotation.from_rotvec(vector, True), L.Rotation.from_mrp(vector),
        L.Rotation.from_matrix(matrix), L.Rotation.from_euler("xyz", vector),
        L.Rotation.from_euler("ZY", x[..., :2], True))]


def used(L, q, v):
    several, one = L.Rotation.from_quat(q), L.Rotation.from_quat(q[1])
    slerp = L.Slerp.init(np.array([0, 1, 2.5, 4.0]), several)
    weights = np.arange(2.0 * len(several))
    rotations = [one * several, several[1:3], L.Rotation.concatenate([several, several]).mean(weights),
                 slerp(np.array([0.1, 0.3, 1, 1.7, 4])), slerp(2.0)]
    return [one.inv().apply(v), several.apply(v[0], inverse=True), *[r.as_quat(True) for r in rotations]]


def edges(L, q):
    """Rotations by 0 and by pi, where formulas change; a vector of a rotation by pi may have either sign."""
    rotation = L.Rotation.from_quat(q)
    again = L.Rotation.from_matrix(rotation.as_matrix())
    return [rotation.as_matrix(), rotation.as_mrp(), rotation.as_quat(), rotation.magnitude(), again.as_quat(True),
            abs(rotation.as_rotvec())]


@pytest.mark.slow
@pytest.mark.parametrize("row", [
    OpRow("forms", forms, (QUATS,)), OpRow("back", back, (QUATS,)), OpRow("use", used, (QUATS, VECTORS)),
], ids=["forms", "back", "use"])
def test_as_jax(row: OpRow) -> None:
    check_as_jax(row, OURS, transform_of_jax)


def test_as_in_scipy():
    def everything(L):
        return [forms(L, QUATS), back(L, QUATS), used(L, QUATS, VECTORS), edges(L, EDGES)]
    with xjax.enable_x64(True):
        ours = xjax.jit(lambda: everything(OURS))()
    assert_same(ours, everything(SCIPY))


@pytest.mark.parametrize("sequences", [["y", "XZ", "zxz", "XYZ"],
                                       pytest.param(SEQUENCES, marks=pytest.mark.slow, id="all")])
def test_euler_angles_as_in_scipy(sequences):
    angles = np.random.default_rng(2).uniform(-4, 4, (3, 3))
    locked = [[0.4, middle, -0.7] for middle in (0, np.pi / 2, -np.pi / 2, np.pi)]
    angles = np.concatenate([angles, locked])

    def matrices(L, seq):
        return L.Rotation.from_euler(seq, angles[:, :len(seq)]).as_matrix()

    def there_and_back(seq):
        angles = Rotation.from_matrix(matrices(OURS, seq)).as_euler(seq)
        return angles, Rotation.from_euler(seq, angles).as_matrix()

    with xjax.enable_x64(True):
        ours, again = xjax.jit(lambda: ([matrices(OURS, s) for s in sequences],
                                        [there_and_back(s) for s in sequences if len(s) == 3]))()
    assert_same(ours, [matrices(SCIPY, s) for s in sequences])
    for (angles_again, matrix), first in zip(again, [m for m, s in zip(ours, sequences, strict=True) if len(s) == 3],
                                             strict=True):
        assert np.abs(angles_again).max() <= np.pi
        # In gimbal lock the angles come from differences of 1e-7 or less.
        np.testing.assert_allclose(matrix, first, atol=3e-7)


def test_vectors_of_small_rotations_differentiate():
    """At 0, from vector to rotation and back has the identity as derivative; JAX gives NaN."""
    def there_and_back(v):
        return Rotation.from_rotvec(v).as_rotvec()
    with xjax.enable_x64(True):
        jacobians = xjax.jit(lambda v: [jacobian(there_and_back)(v) for jacobian in (xjax.jacfwd, xjax.jacrev)])
        for x in (0.0, 1e-4, 0.3):
            for result in jacobians(x * np.ones(3)):
                np.testing.assert_allclose(result, np.eye(3), atol=1e-10)


def test_trees_and_random_rotations():
    rotations = xjax.jit(lambda key: Rotation.random(key, 200))(xjax.random.PRNGKey(0))
    assert len(rotations) == 200 and not rotations.single and Rotation.random(xjax.random.PRNGKey(1)).single
    assert abs(float(jnp.mean(rotations.as_matrix()))) < 0.1            # 9 * 200 numbers of variance 1/3
    squares = xjax.jit(lambda r: r * r)(rotations)
    assert type(squares) is Rotation and xjax.tree.leaves(squares)[0].shape == (200, 4)
    turned = xjax.jit(xjax.vmap(lambda r, v: r.apply(v)))(rotations, np.ones((200, 3), np.float32))
    fresh, kept = xjax.jit(lambda r: (r.apply(jnp.ones(3)), Rotation.identity(2).apply(jnp.ones(3))))(rotations)
    np.testing.assert_allclose(turned, fresh, atol=1e-6)
    np.testing.assert_allclose(kept, np.ones((2, 3)))
    assert Rotation.from_euler("z", 90, degrees=True).quat.dtype == np.float32
    both = Rotation.concatenate([Rotation.identity(), rotations[:2]])
    assert both.quat.shape == (3, 4)
    moved, once = xjax.jit(lambda both: ((Slerp.init([0, 1], both[:2])(2.0) * both[1].inv()).as_matrix(),
                                         both[1].as_matrix()))(both)
    np.testing.assert_allclose(moved, once, atol=1e-5)


@pytest.mark.parametrize("call, kind, text", [
    (lambda: Rotation.from_euler("xyy", np.ones(3)), ValueError, "is not a sequence of axes"),
    (lambda: Rotation.from_euler("xY", np.ones(2)), ValueError, "fix: pass letters"),
    (lambda: Rotation.from_euler("xy", np.ones(3)), ValueError, "takes arrays of shape [..., 2]"),
    (lambda: Rotation.identity().as_euler("xy"), ValueError, "exactly three"),
    (lambda: Rotation.from_quat(np.ones(3)), ValueError, "[..., 4]"),
    (lambda: Rotation.from_matrix(np.ones((3, 2))), ValueError, "[..., 3, 3]"),
    (lambda: Rotation.identity().apply(np.ones(2)), ValueError, "[..., 3]"),
    (lambda: Rotation.identity()[0], TypeError, "this is one rotation"),
    (lambda: len(Rotation.identity()), TypeError, "fix: use it as it is"),
    (lambda: Rotation.identity(2).mean([1.0]), ValueError, "one weight for each"),
    (lambda: Slerp.init([0, 1], np.ones((2, 4))), TypeError, "must be a Rotation"),
    (lambda: Slerp.init([0], Rotation.identity()), ValueError, "two or more rotations"),
    (lambda: Slerp.init([0], Rotation.identity(2)), ValueError, "a time for each"),
    (lambda: Slerp.init([0, 1], Rotation.identity(2))(np.ones((2, 2))), ValueError, "fix: use ravel()"),
])
def test_misuse(call, kind, text):
    assert_refused(call, kind, text)
