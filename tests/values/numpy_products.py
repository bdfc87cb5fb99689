"""Products of arrays: `dot` and similar functions, `einsum`, `kron`, `cross`, `trace`."""

from __future__ import annotations

import numpy as np

from tests.oracle import holds
from tests.values.row import library_of, rows

VECTORS = ("f4[3] f4[3]", "i4[2] f8[2]", "c8[3] c8[3]", "bf[4] bf[4]", "u1[3] i1[3]")
MATRICES = ("f4[2,3] f4[3,2]", "i4[2,2] i4[2,2]", "c8[1,2] f4[2,3]", "b1[2,2] b1[2,2]", "f2[0,2] f2[2,3]")
MIXED = ("f4[2,3] f4[3]", "f4[3] i4[3,2]", "c16[2,2,3] f4[3,1]")
STACKS = ("f4[2,3] f4[4,3,2]", "i4[3,1,2] i4[1,2,1]", "c8[2,2,2] c8[2,2]")
SCALED = ("f4[] f4[2]", "i4[2,2] f8[]", "b1[] b1[]")
DM, DV = ("f8[2,3] f8[3,2]",), ("f8[3] f8[3]",)


def in_the_plane(f, x, y):
    """The cross product of vectors of two elements; new versions of JAX and NumPy require a third element."""
    library = library_of(f)
    if library.__name__ == "xjax" or library.__name__ == "jax" and holds(until="0.12"):
        return f(x, y)
    append = getattr(library, "numpy", library).append
    in_space = [v if v.shape[-1] == 3 else append(v, v[..., :1] * 0, -1) for v in (x, y)]
    return f(*in_space)[..., 2] if x.shape[-1] == y.shape[-1] else f(*in_space)


ROWS = [
    *rows("numpy", "dot", *VECTORS[:3], *MATRICES[:2], *SCALED[:2], "f4[2,3] f4[2,3,2]", grad=(*DM, "f8[3] f8[]")),
    *rows("numpy", "dot", *MATRICES[2:], "bf[2,3] bf[3]", id="of other dtypes"),
    *rows("numpy", "matmul", *VECTORS[:2], *MATRICES[:3], *STACKS, grad=(*DM, "f8[2,1,3] f8[3,2]")),
    *rows("numpy", "matmul", *MATRICES[3:], *MIXED, "bf[2,3] bf[3,2]", id="of other dtypes"),
    # NumPy's inner product of bools is `any` of all terms, and so is its sum of products; xjax does the same.
    *rows("numpy", "inner", *VECTORS[:3], *SCALED[:2], "f4[2,3] f4[4,3]", "b1[2,3] b1[3]", "f2[2,0] f2[0]",
          grad=(*DV, "f8[2,3] f8[1,3]")),
    *rows("numpy", "outer", *VECTORS, "f4[2,2] b1[3]", "c8[] i4[2]", grad=DV),
    *rows("numpy", "vdot", *VECTORS, "f4[2,2] i4[4]", "c8[2,1] c8[1,2]", "c8[0] f4[0]", grad=(*DV, "c16[2] c16[2]")),
    *rows("numpy", "vecdot", *VECTORS[:4], "f4[2,3] f4[3]", "c8[2,1,2] c8[3,2]", "b1[2,2] i4[2]",
          grad=("f8[2,3] f8[3]", "c16[2] c16[2]")),
    *rows("numpy", "vecdot", "f4[2,3] f4[2,1]", "c16[2,2] c16[2,2]", id="along an axis",
          call=lambda f, x, y: (f(x, y, axis=0), f(x, y, axis=-2))),
    *rows("numpy", "matvec", "f4[2,3] f4[3]", "i4[2,2,3] f4[4,1,3]", "c8[2,2] c8[2]", "bf[2,3] bf[3]",
          grad=("f8[2,3] f8[3]",)),
    *rows("numpy", "vecmat", "f4[3] f4[3,2]", "i4[4,1,3] f4[2,3,2]", "c8[2] c8[2,2]", "bf[3] bf[3,2]",
          grad=("f8[3] f8[3,2]", "c16[2] c16[2,2]")),
    *rows("numpy", "tensordot", "f4[2,3,4] f4[3,4,2]", "i4[2,1,2] f8[1,2,2]", "c8[1,2,2] c8[2,2,3]",
          grad=("f8[2,1,2] f8[1,2,2]",), call=lambda f, x, y: (
              f(x, y), f(x, y, 0),
              *([f(x, y, axes=([1], [0])), f(x, y, ((2, 1), (1, 0))), f(x, y, (-1, -2))]
                if x.shape[1:] == y.shape[:2] else []))),
    *rows("numpy", "tensordot", "f4[3] f4[3,2]", "b1[2,2] b1[2,2]", "bf[2,3] bf[3,2]", id="over one axis",
          call=lambda f, x, y: (f(x, y, 1), f(x, y, axes=(-1, 0)), f(x, y, ([], [])))),
    *rows("numpy", "kron", "f4[2,3] f4[3]", "i4[2] i4[3]", "c8[1,2] f4[2,2]", "b1[2] i4[]", "bf[2,1,2] bf[2,2]",
          grad=("f8[2,2] f8[1,2]", "f8[2] f8[]")),
    *rows("numpy", "cross", "f4[3] f4[3]", "i4[2,3] f4[3]", "c8[2,1,3] c8[2,3]", "bf[2,3] bf[2,3]",
          grad=("f8[2,3] f8[3]",)),
    *rows("numpy", "cross", "f4[3,3] f4[3,3]", "i4[3,3] f4[3,3]", id="along axes", grad=("f8[3,3] f8[3,3]",),
          call=lambda f, x, y: (f(x, y, axis=0), f(x, y, 0, -1, 0), f(x, y, axisa=1, axisb=0, axisc=-2))),
    *rows("numpy", "cross", "f4[2] f4[2]", "i4[3,2] i4[2]", "f4[2] f4[4,3]", id="in the plane",
          grad=("f8[2] f8[3,2]",), call=in_the_plane),
    *rows("numpy", "trace", "f4[3,4]", "i4[2,2,3]", "b1[2,2]", "c8[2,3,1]", "bf[3,2]", "u1[2,2]:wide",
          grad=("f8[3,2]",), call=lambda f, x: (
              f(x), f(x, 1), f(x, offset=-1), f(x, 0, 1, 0), f(x, axis1=-1, axis2=0), f(x, 7),
              f(x, dtype="complex128"))),

    # -- einsum -------------------------------------------------------------------------------------------------------
    *rows("numpy", "einsum", "f4[2,3]", "i4[2,2]", "c8[0,2]", "bf[3,1]", id="of one", grad=("f8[2,3]",),
          call=lambda f, x: (
              f("ij->ji", x), f("ij", x), f("ij->", x), f("ij->i", x), f("ij->j", x), f("...j->j...", x), f("ji", x),
              f("...->...", x))),
    *rows("numpy", "einsum", "f4[2,2,3]", "i4[3,3,1]", id="with diagonals", grad=("f8[2,2,3]",), call=lambda f, x: (
              f("iij", x), f("iij->ij", x), f("iij->ji", x), f("ii...->...", x), f("ii...->i...", x),
              f(x, [0, 0, 1], [1]))),
    *rows("numpy", "einsum", "f4[2,3] f4[3,4]", "i4[2,2] f8[2,2]", "c8[1,2] c8[2,0]", "b1[2,3] i4[3,2]",
          "bf[2,2] bf[2,2]", id="of two", grad=("f8[2,3] f8[3,2]",), call=lambda f, x, y: (
              f("ij,jk", x, y), f("ij,jk->ki", x, y), f("ij,jk->", x, y), f("ij,jk->j", x, y), f("ij,kl->lkji", x, y),
              f("ij,...->i...", x, y), f(" i j , j k -> i k ", x, y), f(x, [0, 1], y, [1, 2], [2, 0]),
              f(x, [0, 1], y, [1, 2]))),
    *rows("numpy", "einsum", "f4[2,3,4] f4[2,4,3]", "i4[2,1,2] i4[1,2,1]", id="of stacks",
          grad=("f8[2,1,3] f8[2,3,1]",), call=lambda f, x, y: (
              f("...ij,...jk->...ik", x, y), f("bij,bji->b", x, y) if x.shape[0] == y.shape[0] else [],
              f("...ij,...ji", x, y), f("...i,...j->...", x, y.swapaxes(-1, -2)))),
    *rows("numpy", "einsum", "f4[2,1] f4[3,2]", "i4[2,3] i4[1,2]", "c8[1,1] f4[3,2]", "f4[2,0] f4[1,2]",
          id="over an axis of size 1", grad=("f8[2,1] f8[3,2]",), call=lambda f, x, y: (
              f("ij,jk", x, y), f("ij,jk->ki", x, y), f("ij,jk->", x, y), f("ij,jk->j", x, y), f("...j,j...", x, y))),
    *rows("numpy", "einsum", "f4[2,3,4,5] f4[2,3,1,6]", "f4[1,3,4,1] f4[2,1,5,6]", "i4[2,1,4,5] i4[2,3,5,6]",
          "bf[2,3,4,1] bf[2,3,5,6]", id="in four dimensions", grad=("f8[1,3,2,1] f8[2,1,3,2]",), call=lambda f, x, y: (
              f("bhqk,bhkd->bhqd", x, y), f("bhqk,bhkd->bqhd", x, y), f("bhqk,bhkd->qd", x, y))),
    *rows("numpy", "einsum", "f4[2,1] f4[3,1] f4[4,2]", "i4[1] i4[3] i4[1]", id="of three over axes of size 1",
          grad=("f8[2,1] f8[3,1] f8[1,2]",), call=lambda f, x, y, z: (
              [f("ij,jk,kl->il", x, y, z), f("ij,jk,kl->j", x, y, z, optimize=False)] if x.ndim == 2 else
              [f("i,i,i->", x, y, z), f("i,i,i->i", x, y, z), f("i,i,j->j", x, y, z)])),
    *rows("numpy", "einsum", "f4[2,3] f4[3,4] f4[4,2]", "i4[2,2] i4[2,2] i4[2,1]", id="of three",
          grad=("f8[2,3] f8[3,2] f8[2,1]",), call=lambda f, x, y, z: (
              f("ij,jk,kl->il", x, y, z), f("ij,jk,kl", x, y, z, optimize="greedy"),
              f("ij,jk,kl->k", x, y, z, optimize=False), f("ij,jk,kl->", x, y, z, optimize=True),
              f("ij,kl,mn->", x, y, z, optimize="optimal"))),
    *rows("numpy", "einsum_path", "f4[2,3] f4[3,4] f4[4,2]", jit=False,
          call=lambda f, x, y, z: [np.asarray(step) for step in f("ij,jk,kl->il", x, y, z, optimize="greedy")[0]
                                   if not isinstance(step, str)]),
]
