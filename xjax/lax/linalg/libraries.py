"""The libraries that decompose matrices, one for each kind of device, with one interface."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xjax.core.errors import warn
from xjax.core.hlo import Builder, Value
from xjax.core.once import once
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray
from xjax.lax.linalg import cusolver, lapack
from xjax.runtime.callbacks import emit_call


class Library(Protocol):
    """The routines of a library, under the names of LAPACK. Each function writes a call into a program.

    `x` are non-empty matrices [..., m, n] of one of the four dtypes of LAPACK. A ShapedArray is the type of a result
    that does not follow from the operands. ``info`` is a status for each matrix, int32[...]: 0 means success.
    """

    def potrf(self, b: Builder, x: Value) -> Sequence[Value]:
        """(factor, info): the lower Cholesky factor; the elements above the diagonal are undefined."""
        ...
    def trsm(self, b: Builder, a: Value, rhs: Value, *, left_side: bool, lower: bool, transpose: str,
             unit_diagonal: bool) -> Value:
        """The solution of a triangular system; `transpose` is "N", "T" or "C"."""
        ...
    def getrf(self, b: Builder, x: Value, pivots: ShapedArray) -> Sequence[Value]:
        """(factors, pivots counted from 1, info), info > 0 where the matrix is singular."""
        ...
    def geqrf(self, b: Builder, x: Value, taus: ShapedArray) -> Sequence[Value]:
        """(packed, taus)."""
        ...
    def geqp3(self, b: Builder, x: Value, order: Value, taus: ShapedArray, use_magma: bool | None) -> Sequence[Value]:
        """(packed, order of the columns counted from 1, taus)."""
        ...
    def orgqr(self, b: Builder, a: Value, taus: Value) -> Value: ...
    def ormqr(self, b: Builder, a: Value, taus: Value, c: Value, *, left: bool, transpose: bool) -> Value: ...
    def syevd(self, b: Builder, x: Value, values: ShapedArray, *, lower: bool,
              algorithm: str | None) -> Sequence[Value]:
        """(vectors, values, info); `algorithm` is a value of EighImplementation."""
        ...
    def geev(self, b: Builder, x: Value, values: ShapedArray, *, left: bool, right: bool,
             implementation: str | None) -> Sequence[Value]:
        """(values, left vectors, right vectors, info), complex; vectors that are not requested are undefined."""
        ...
    def svd(self, b: Builder, x: Value, s: ShapedArray, u: ShapedArray, vh: ShapedArray, *, full_matrices: bool,
            compute_uv: bool, algorithm: str | None) -> Sequence[Value]:
        """(s, u, vh, info); `algorithm` is a value of SvdAlgorithm; without `compute_uv` u and vh are undefined."""
        ...
    def sytrd(self, b: Builder, x: Value, outs: Sequence[ShapedArray], *, lower: bool) -> Sequence[Value]:
        """(packed, diagonal, off-diagonal, taus, info)."""
        ...
    def gtsv(self, b: Builder, diagonals: Sequence[Value], rhs: Value) -> Value:
        """The solution of a tridiagonal system; NaN or infinite where it is singular."""
        ...
    def gtsv_perturbed(self, b: Builder, diagonals: Sequence[Value], rhs: Value) -> Value:
        """The same with pivots near 0 replaced."""
        ...


_LIBRARIES: dict[str, Library] = {"cpu": lapack, "gpu": cusolver}


def by_library(rule: Callable) -> dict[str, Callable]:
    """`lower_on` of an operation that every library has: ``rule(library, b, outs, *operands, **params)``."""
    return {platform: functools.partial(rule, library) for platform, library in _LIBRARIES.items()}


def on_host(primitive: Callable[[], Primitive]) -> Callable:
    """The `lower` rule of an operation that only LAPACK has: operands are copied to the host, and results back.

    Args: primitive: returns the operation, which is created after its lowering.
    """
    def rule(b: Builder, outs: Sequence[ShapedArray], *xs: Value, **params: Any) -> Sequence[Value]:
        p = primitive()
        if not any(x.aval.size for x in xs):
            return p.lower_on["cpu"](b, outs, *xs, **params)        # without a call: the matrices are empty
        _warn_of_host(p.name)
        return emit_call(b, f"lax.linalg.{p.name}", lambda *arrays: p.bind(*arrays, **params), xs, list(outs),
                         has_effect=False)
    return rule


@once
def _warn_of_host(name: str) -> None:
    warn(f"lax.linalg.{name}: runs on the host, since cuSOLVER has no such routine. Each call copies its matrices from "
         "the GPU and back.")
