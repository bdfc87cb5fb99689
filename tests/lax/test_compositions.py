"""Control flow in control flow under compositions of transforms, against real JAX in 64 bits.

All computations are exact up to rounding and the order of sums, so results agree to 1e-9 or better.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.lax.compositions import FORWARD, SMOOTH, W, X
from tests.lax.oracle import LOOPS, float64, floats, gradient
from tests.oracle import real_jax
from xjax.runtime.shard_map import shard_map

jax = real_jax()


def pairs(lib, x):
    return lib.numpy.stack([x, -x])


def sharded(lib, f):
    """`f` on two devices, each with its own `w`."""
    mesh = importlib.import_module(f"{lib.__name__}.sharding").Mesh(np.array(lib.devices()[:2]), ("i",))
    spec = importlib.import_module(f"{lib.__name__}.sharding").PartitionSpec
    over = shard_map if lib is xjax else jax.shard_map
    f_local = over(lambda w, x: lib.tree_util.tree_map(lambda y: y[None], f(w[0], x)), mesh=mesh,
                   in_specs=(spec("i"), spec()), out_specs=spec("i"), check_vma=False)
    return lambda w, x: f_local(pairs(lib, w), x)


def pmapped(lib, f):
    return lambda w, x: lib.pmap(f, in_axes=(0, None))(pairs(lib, w), x)


# transform(lib, f)
TRANSFORMS = {
    "grad of remat of jit": lambda lib, f: gradient(lib, lib.checkpoint(lib.jit(f))),
    "vmap of jvp of grad": lambda lib, f: lambda w, x: lib.vmap(
        lambda w, x: lib.jvp(gradient(lib, f), (w, x), (x, w)), (0, None))(pairs(lib, w), x),
    "value": lambda lib, f: f,
    "linearize": lambda lib, f: lambda w, x: floats(lib, lib.linearize(f, w, x)[1])(x, w),
    "vmap over another axis": lambda lib, f: lambda w, x: lib.vmap(f, (None, 1), 0)(w, pairs(lib, x).T),
    "vmap of grad": lambda lib, f: lambda w, x: lib.vmap(gradient(lib, f))(pairs(lib, w), pairs(lib, x)),
    "grad of vmap": lambda lib, f: gradient(lib, lambda w, x: lib.vmap(f, (None, 0))(w, pairs(lib, x))),
    "vmap of vmap": lambda lib, f: lambda w, x: lib.vmap(lib.vmap(f, (0, None)), (None, 0))(pairs(lib, w),
                                                                                         pairs(lib, x)),
    "grad of grad": lambda lib, f: gradient(lib, gradient(lib, f)),
    "jacfwd": lambda lib, f: lib.jacfwd(floats(lib, f)),
    "jacrev": lambda lib, f: lib.jacrev(floats(lib, f)),
    "pmap of grad": lambda lib, f: pmapped(lib, gradient(lib, f)),
    "grad of pmap": lambda lib, f: gradient(lib, pmapped(lib, f)),
    "shard_map": sharded,
    "grad of shard_map": lambda lib, f: gradient(lib, sharded(lib, f)),
    "remat of jit of vmap": lambda lib, f: gradient(lib, lib.checkpoint(lib.jit(
        lambda w, x: lib.vmap(f, (0, None))(pairs(lib, w), x)))),
}
# These pairs run always; the whole product runs with `slow`.
TWICE = ("cond_in_scan", "scan_in_fori", "solve_in_root", "while_without_tangent_in_scan", "vmap_in_scan")
SOON = [("vmap of jvp of grad" if name in TWICE else "grad of remat of jit", name) for name in SMOOTH]
WITHOUT_JAX = {("grad of grad", "root_in_scan")}     # here JAX makes a while loop of the linearized solver


def check(f, transform, jitted: bool) -> None:
    def run(lib):
        g = transform(lib, lambda w, x: f(lib, w, x))
        return (lib.jit(g) if jitted else g)(W, X)
    with float64(jax):
        assert_same(run(xjax), run(jax), tol=LOOPS)


@pytest.mark.parametrize("transform, name", [
    pytest.param(t, name, marks=() if (t, name) in SOON else pytest.mark.slow)
    for t in TRANSFORMS for name in SMOOTH if (t, name) not in WITHOUT_JAX])
def test_smooth_as_jax(transform, name):
    check(SMOOTH[name], TRANSFORMS[transform], jitted="pmap" not in transform)


@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode_as_jax(name):
    check(FORWARD[name], lambda lib, f: lambda w, x: lib.vmap(
        lambda w, x: lib.jvp(lambda *a: lib.jvp(f, a, (x, w))[1], (w, x), (x, w)), (0, None))(pairs(lib, w), x), True)


@pytest.mark.slow
@pytest.mark.parametrize("transform", ["value", "linearize", "vmap over another axis", "vmap of vmap", "jacfwd",
                                       "shard_map"])
@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode_under_other_transforms_as_jax(name, transform):
    check(FORWARD[name], TRANSFORMS[transform], jitted=True)


@pytest.mark.parametrize("name", ["cond_in_scan", "while_without_tangent_in_scan"])
def test_eager_as_compiled(name):
    """Run one operation at a time, the same programs give the same derivatives."""
    with xjax.enable_x64(True):
        g = gradient(xjax, lambda w, x: SMOOTH[name](xjax, w, x))
        for eager, compiled in zip(g(W, X), xjax.jit(g)(W, X), strict=True):
            np.testing.assert_allclose(np.asarray(eager), np.asarray(compiled), rtol=1e-9)
