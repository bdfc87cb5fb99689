"""Fitting polynomials to points: `polyfit`."""

from __future__ import annotations

from typing import Any

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy.contract import dot, outer
from xjax.numpy.linalg.systems import inv, lstsq
from xjax.numpy.manipulate import expand_dims, matrix_transpose
from xjax.numpy.matrices import vander
from xjax.numpy.promote import cast, library_rules, promote_inexact
from xjax.numpy.reductions import sum as total
from xjax.numpy.selection import HostOrArray, operand
from xjax.numpy.ufuncs import divide, multiply, sqrt, square
from xjax.ops.checks import static_int
from xjax.typing import ArrayLike


def polyfit(x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False,
            w: ArrayLike | None = None, cov: bool | str = False) -> Any:
    """Coefficients, the highest power first, of the polynomial of degree `deg` fitted to points by least squares.

    Args:
      x: real[n]; y: number[n] or number[n, k]: k polynomials.
      rcond: singular values below ``rcond * largest`` count as 0; None: n * eps.
      full: also return residuals, rank, singular values and rcond, as `linalg.lstsq` does.
      w: real[n], weights of the residuals ``y - p(x)`` before they are squared.
      cov: also return the covariance matrix of the coefficients, scaled by the residuals, unless "unscaled".
    Returns: number[deg + 1] or number[deg + 1, k]; with `full` or `cov` a tuple that begins with it.
    Raises: TypeError for shapes that do not match; ValueError for a negative degree, or `cov` with too few points.

    >>> x = np.arange(4.0)
    >>> [round(float(c), 3) for c in polyfit(x, 2 * x + 1, 1)]
    [2.0, 1.0]
    """
    caller = "numpy.polyfit"
    terms = static_int(deg, "deg", caller) + 1
    x, y = (operand(caller, a) for a in promote_inexact(caller, x, y))
    _check(caller, x, y, terms)
    rcond = x.shape[0] * float(dtypes.finfo(x.dtype).eps) if rcond is None else rcond
    powers = vander(x, terms)
    if w is not None:
        w = _weights(caller, w, y)
        powers, y = multiply(powers, expand_dims(w, 1)), multiply(y, w if y.ndim == 1 else expand_dims(w, 1))
    scale = sqrt(total(square(powers), axis=0))             # columns of equal norm improve the condition of the system
    powers = divide(powers, expand_dims(scale, 0))
    coefficients, residuals, rank, s = lstsq(powers, y, rcond)
    coefficients = divide(coefficients, scale if y.ndim == 1 else expand_dims(scale, 1))
    if full:
        return coefficients, residuals, rank, s, operand(caller, rcond)
    if not cov:
        return coefficients
    covariance = divide(inv(dot(matrix_transpose(powers), powers)), outer(scale, scale))
    if isinstance(cov, str) and cov == "unscaled":
        return coefficients, covariance
    if x.shape[0] <= terms:
        raise bad(caller, f"{x.shape[0]} points are too few to scale the covariance matrix",
                  given={"coefficients": terms}, fix="pass more points, or cov='unscaled'.", exc=ValueError)
    factor = divide(residuals, x.shape[0] - terms)
    return coefficients, library_rules(multiply)(covariance if y.ndim == 1 else expand_dims(covariance, 2), factor)


def _check(caller: str, x: HostOrArray, y: HostOrArray, terms: int) -> None:
    if terms < 1:
        raise bad(caller, "the degree is negative", given={"deg": terms - 1}, fix="pass deg >= 0.", exc=ValueError)
    if x.ndim != 1 or not x.size or y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise bad(caller, "the shapes of `x` and `y` do not match", given={"x": typeof(x), "y": typeof(y)},
                  fix="pass x[n], not empty, and y[n] or y[n, k].")


def _weights(caller: str, w: ArrayLike, y: ArrayLike) -> ArrayLike:
    w = operand(caller, promote_inexact(caller, w)[0])
    if w.shape != y.shape[:1]:
        raise bad(caller, "`w` must be a vector with a weight for each point", given={"w": typeof(w), "y": typeof(y)},
                  fix="pass w[n].")
    return cast(caller, w, y.dtype) if dtypes.is_float(y.dtype) else w


__all__ = ["polyfit"]
