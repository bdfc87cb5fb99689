"""LAPACK on the CPU. The routines are SciPy's; they are registered when a program first needs one (0.3 s)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray
from xjax.lax.linalg import native
from xjax.lax.linalg.native import flag, info_type
from xjax.runtime.xla import register_lapack

_PREFIX = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


def _call(b: Builder, routine: str, operands: Sequence[Value], outs: Sequence[ShapedArray], *attributes: str,
          **options: Any) -> list[Value]:
    """Write a call of a routine, named without the letter of its dtype: "potrf"."""
    register_lapack()
    target = f"lapack_{_PREFIX[operands[0].aval.dtype.name]}{routine}_ffi"
    return native.call(b, target, operands, outs, *attributes, **options)


def _letter(name: str, value: str) -> str:
    """An option of LAPACK: ``uplo = 76 : ui8`` for "L"."""
    return f"{name} = {ord(value)} : ui8"


def _triangle(lower: bool) -> str:
    return _letter("uplo", "L" if lower else "U")


def _named(real: str, complex_: str, x: Value) -> str:
    """The name of a routine with different names for real and complex matrices: orgqr and ungqr."""
    return complex_ if dtypes.is_complex(x.aval.dtype) else real


def potrf(b: Builder, x: Value) -> Sequence[Value]:
    return _call(b, "potrf", [x], [x.aval, info_type(x.aval)], _triangle(True), in_place=[(0, 0)])


def trsm(b: Builder, a: Value, rhs: Value, *, left_side: bool, lower: bool, transpose: str,
         unit_diagonal: bool) -> Value:
    options = [_letter("side", "L" if left_side else "R"), _triangle(lower), _letter("trans_x", transpose),
               _letter("diag", "U" if unit_diagonal else "N")]
    return _call(b, "trsm", [a, rhs], [rhs.aval], *options, in_place=[(1, 0)])[0]


def getrf(b: Builder, x: Value, pivots: ShapedArray) -> Sequence[Value]:
    return _call(b, "getrf", [x], [x.aval, pivots, info_type(x.aval)], in_place=[(0, 0)])


def geqrf(b: Builder, x: Value, taus: ShapedArray) -> Sequence[Value]:
    return _call(b, "geqrf", [x], [x.aval, taus], in_place=[(0, 0)])


def geqp3(b: Builder, x: Value, order: Value, taus: ShapedArray, use_magma: bool | None) -> Sequence[Value]:
    return _call(b, "geqp3", [x, order], [x.aval, order.aval, taus], in_place=[(0, 0), (1, 1)])


def orgqr(b: Builder, a: Value, taus: Value) -> Value:
    return _call(b, _named("orgqr", "ungqr", a), [a, taus], [a.aval], in_place=[(0, 0)])[0]


def ormqr(b: Builder, a: Value, taus: Value, c: Value, *, left: bool, transpose: bool) -> Value:
    return _call(b, _named("ormqr", "unmqr", a), [a, taus, c], [c.aval], flag("left", left),
                 flag("transpose", transpose), in_place=[(2, 0)])[0]


def syevd(b: Builder, x: Value, values: ShapedArray, *, lower: bool, algorithm: str | None) -> Sequence[Value]:
    if algorithm not in (None, "qr"):
        raise bad("lax.linalg.eigh", f"the implementation {algorithm.upper()} is not available on this platform",
                  given={"platform": "cpu"}, fix="pass EighImplementation.QR, or nothing.", exc=NotImplementedError)
    return _call(b, _named("syevd", "heevd", x), [x], [x.aval, values, info_type(x.aval)], _letter("mode", "V"),
                 _triangle(lower), in_place=[(0, 0)])


def geev(b: Builder, x: Value, values: ShapedArray, *, left: bool, right: bool,
         implementation: str | None) -> Sequence[Value]:
    if implementation not in (None, "lapack"):
        raise bad("lax.linalg.eig", f"the implementation {implementation.upper()} is not available on this platform",
                  given={"platform": "cpu"}, fix="pass EigImplementation.LAPACK, or nothing.", exc=NotImplementedError)
    vectors = ShapedArray(x.aval.shape, values.dtype)
    parts = native.eigenvalue_types(x, values)
    options = [_letter(f"compute_{side}", "V" if wanted else "N") for side, wanted in (("left", left),
                                                                                      ("right", right))]
    *w, vl, vr, info = _call(b, "geev", [x], [*parts, vectors, vectors, info_type(x.aval)], *options)
    return native.as_complex(b, w), vl, vr, info


def svd(b: Builder, x: Value, s: ShapedArray, u: ShapedArray, vh: ShapedArray, *, full_matrices: bool,
        compute_uv: bool, algorithm: str | None) -> Sequence[Value]:
    if algorithm in ("Jacobi", "polar"):
        raise bad("lax.linalg.svd", f"the algorithm {algorithm.upper()} is not available on this platform",
                  given={"platform": "cpu"}, fix="pass SvdAlgorithm.QR, or nothing.", exc=NotImplementedError)
    mode = ("A" if full_matrices else "S") if compute_uv else "N"
    return _call(b, "gesvd" if algorithm == "QR" else "gesdd", [x], [x.aval, s, u, vh, info_type(x.aval)],
                 _letter("mode", mode), in_place=[(0, 0)])[1:]


def gees(b: Builder, x: Value, compute_vectors: bool) -> Sequence[Value]:
    """(Schur form, Schur vectors, info)."""
    values = [ShapedArray(x.aval.shape[:-1], x.aval.dtype)] * (1 if dtypes.is_complex(x.aval.dtype) else 2)
    count = info_type(x.aval)                           # of selected eigenvalues; none are selected
    t, z, *_, info = _call(b, "gees", [x], [x.aval, x.aval, *values, count, info_type(x.aval)],
                           _letter("mode", "V" if compute_vectors else "N"), _letter("sort", "N"), in_place=[(0, 0)])
    return t, z, info


def gehrd(b: Builder, x: Value, taus: ShapedArray) -> Sequence[Value]:
    return _call(b, "gehrd", [x], [x.aval, taus, info_type(x.aval)], "low = 1 : i32",
                 f"high = {x.aval.shape[-1]} : i32", in_place=[(0, 0)])


def sytrd(b: Builder, x: Value, outs: Sequence[ShapedArray], *, lower: bool) -> Sequence[Value]:
    return _call(b, _named("sytrd", "hetrd", x), [x], [*outs, info_type(x.aval)], _triangle(lower), in_place=[(0, 0)])


def gtsv(b: Builder, diagonals: Sequence[Value], rhs: Value) -> Value:
    operands = [*diagonals, rhs]
    *_, x, info = _call(b, "gtsv", operands, [*(v.aval for v in operands), info_type(rhs.aval)],
                        in_place=[(i, i) for i in range(4)], batch_rank=rhs.aval.ndim - 2)
    return native.nan_where_failed(b, info, x)[0]


def gtsv_perturbed(b: Builder, diagonals: Sequence[Value], rhs: Value) -> Value:
    register_lapack()
    return native.call(b, "tridiagonal_solve_perturbed_ffi", [*diagonals, rhs], [rhs.aval],
                       batch_rank=rhs.aval.ndim - 2)[0]
