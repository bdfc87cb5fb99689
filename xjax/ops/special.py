"""Special functions, element-wise, of real floats: erf and its relatives, the gamma family, Bessel functions."""

from __future__ import annotations

import math
from typing import Any

from xjax.core.errors import bad
from xjax.ops.checks import FLOAT
from xjax.ops.elementwise import add, mul, neg, square
from xjax.ops.makers import binary_function, chlo, nary, scalar_like, unary, unary_function
from xjax.ops.transcendental import exp

# -- error function -----------------------------------------------------------------------------------------------

_ERF_SLOPE = 2 / math.sqrt(math.pi)         # derivative of erf at 0

erf_p = unary("erf", FLOAT, chlo("erf"),
              lambda dx, y, x: mul(scalar_like(x, _ERF_SLOPE), mul(dx, exp(neg(square(x))))))
erf = unary_function(erf_p, "Error function, element-wise.")
erfc_p = unary("erfc", FLOAT, chlo("erfc"),
               lambda dx, y, x: mul(scalar_like(x, -_ERF_SLOPE), mul(dx, exp(neg(square(x))))))
erfc = unary_function(erfc_p, "``1 - erf(x)``, element-wise, exact for large x.")
erf_inv_p = unary("erf_inv", FLOAT, chlo("erf_inv"),
                  lambda dx, y, x: mul(scalar_like(x, 1 / _ERF_SLOPE), mul(dx, exp(square(y)))))
erf_inv = unary_function(erf_inv_p, "Inverse of erf, element-wise: infinite at -1 and 1, nan beyond.")


# -- gamma family -------------------------------------------------------------------------------------------------

lgamma_p = unary("lgamma", FLOAT, chlo("lgamma"), lambda dx, y, x: mul(dx, digamma(x)))
lgamma = unary_function(lgamma_p, "Logarithm of the absolute value of the gamma function, element-wise.")
digamma_p = unary("digamma", FLOAT, chlo("digamma"), lambda dx, y, x: mul(dx, polygamma(scalar_like(x, 1), x)))
digamma = unary_function(digamma_p, "Derivative of lgamma, element-wise: nan at 0, -1, -2 ...")


def _no_derivative(function: str, argument: str):
    def rule(*_: Any) -> Any:
        raise bad(f"lax.{function}", f"there is no derivative with respect to `{argument}`",
                  fix=f"pass `{argument}` as a constant, or through lax.stop_gradient.", exc=NotImplementedError)
    return rule


polygamma_p = nary("polygamma", FLOAT, chlo("polygamma"),
                   (_no_derivative("polygamma", "m"),
                    lambda dx, y, m, x: mul(dx, polygamma(add(m, scalar_like(m, 1)), x))))
polygamma = binary_function(polygamma_p, "Derivative of order m of digamma at x, element-wise; m: whole numbers >= 0.")
zeta_p = nary("zeta", FLOAT, chlo("zeta"),
              (_no_derivative("zeta", "x"),
               lambda dq, y, x, q: mul(dq, mul(neg(x), zeta(add(x, scalar_like(x, 1)), q)))))
zeta = binary_function(zeta_p, "Hurwitz zeta function: the sum of ``1 / (k + q) ** x`` over k = 0, 1, 2 ...; x > 1.")
