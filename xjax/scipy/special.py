"""Special functions: the public namespace `xjax.scipy.special`.

All take integers as well, which become floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.nn.logsumexp import logsumexp
from xjax.numpy.promote import promote_inexact, promote_shapes
from xjax.runtime.jit import jit
from xjax.transforms.custom_jvp import custom_jvp

__all__ = ["digamma", "entr", "erf", "erfc", "erfinv", "expit", "gammaln", "logit", "logsumexp", "xlog1py", "xlogy"]


# -- one operation ------------------------------------------------------------------------------------------------

def _function(name: str, operation: Callable, doc: str) -> Callable:
    def special(x: Any) -> Any:
        x, = promote_inexact(f"scipy.special.{name}", x)
        return operation(x)

    special.__name__ = special.__qualname__ = name
    special.__doc__ = doc
    return special


erf = _function("erf", lax.erf, "Error function, element-wise.")
erfc = _function("erfc", lax.erfc, "``1 - erf(x)``, element-wise, exact for large x.")
erfinv = _function("erfinv", lax.erf_inv, "Inverse of the error function, element-wise; nan outside [-1, 1].")
expit = _function("expit", lax.logistic, "``1 / (1 + exp(-x))``, element-wise.")
gammaln = _function("gammaln", lax.lgamma, "Logarithm of the absolute value of the gamma function, element-wise.")
digamma = _function("digamma", lax.digamma, "Derivative of `gammaln`, element-wise.")


# -- with a derivative of their own ---------------------------------------------------------------------------------

@custom_jvp
@jit
def logit(x: Any) -> Any:
    """``log(x / (1 - x))``, element-wise: the inverse of `expit`."""
    x, = promote_inexact("scipy.special.logit", x)
    return jnp.log(x / (1 - x))


logit.defjvps(lambda dx, y, x: dx / (x * (1 - x)))


@custom_jvp
@jit
def xlogy(x: Any, y: Any) -> Any:
    """``x * log(y)``, element-wise; 0 where x is 0 (nan if y is nan)."""
    return _product_or_zero("scipy.special.xlogy", x, y, jnp.log)


@custom_jvp
@jit
def xlog1py(x: Any, y: Any) -> Any:
    """``x * log(1 + y)``, element-wise, exact for small y; 0 where x is 0 (nan if y is nan)."""
    return _product_or_zero("scipy.special.xlog1py", x, y, jnp.log1p)


def _product_or_zero(where: str, x: Any, y: Any, logarithm: Callable) -> Any:
    x, y = promote_shapes(where, *promote_inexact(where, x, y))
    return jnp.where((x != 0) | (y != y), x * logarithm(y), 0)


@xlogy.defjvp
def _xlogy_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x, y), (dx, dy) = primals, tangents
    out = xlogy(x, y)
    return out, (dx * jnp.log(y) + dy * x / y).astype(out.dtype)


@xlog1py.defjvp
def _xlog1py_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x, y), (dx, dy) = primals, tangents
    out = xlog1py(x, y)
    return out, (dx * jnp.log1p(y) + dy * x / (1 + y)).astype(out.dtype)


@custom_jvp
def _xlogx(x: Any) -> Any:
    return xlogy(x, x)


# As a function of one argument its derivative needs no 0 / 0.
_xlogx.defjvps(lambda dx, y, x: dx * (jnp.log(x) + 1))


@jit
def entr(x: Any) -> Any:
    """``-x * log(x)``, element-wise: 0 at 0, -inf below.

    Raises: ValueError for complex numbers.
    """
    x, = promote_inexact("scipy.special.entr", x)
    if dtypes.is_complex(typeof(x).dtype):
        raise bad("scipy.special.entr", "complex numbers are not accepted", given={"x": typeof(x)},
                  fix="use the real parts: x.real.", exc=ValueError)
    return jnp.where(x < 0, -np.inf, -_xlogx(x))
