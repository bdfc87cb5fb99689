"""`Distribution`, the decorator of all functions of `xjax.scipy.stats`, and formulas that several of them use."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.context import at_root
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy.promote import array_like, promote_inexact, promote_shapes
from xjax.runtime.one_launch import one_launch
from xjax.scipy.special import xlog1py, xlogy
from xjax.transforms.custom_jvp import custom_jvp
from xjax.transforms.rule_functions import SymbolicZero
from xjax.typing import Array, ArrayLike

_NUMBERS = frozenset({bool, int, float, complex})


# -- domains of parameters: a bool for a Python number, an array of bools for an array ------------------------------

def POSITIVE(x: ArrayLike) -> ArrayLike:
    return x > 0


def NONNEGATIVE(x: ArrayLike) -> ArrayLike:
    return x >= 0


def FRACTION(x: ArrayLike) -> ArrayLike:
    return (x >= 0) & (x <= 1)


def INNER_FRACTION(x: ArrayLike) -> ArrayLike:
    return (x > 0) & (x < 1)


class Distribution:
    """Decorator for the functions of one distribution.

    A decorated function gets its arguments as real floats of one dtype, each of the common rank or of rank 0. The
    result is nan where a parameter is nan or outside of its domain. Outside of transforms a call is one launch.

    Args: name: that of the module, for errors; domains: for each parameter with a domain, the test for it.
    """

    def __init__(self, name: str, **domains: Callable[[Any], Any]) -> None:
        self.name, self.domains = name, domains

    def __call__(self, fun: Callable) -> Callable:
        caller = f"scipy.stats.{self.name}.{fun.__name__}"
        signature = inspect.signature(fun)
        defaults = [p.default for p in signature.parameters.values()]
        least, most = defaults.count(inspect.Parameter.empty), len(defaults)
        domains = [(i, self.domains[n]) for i, n in enumerate(signature.parameters) if n in self.domains]

        def on_floats(*args: ArrayLike) -> Array:
            values = floats(caller, *args, *defaults[len(args):])
            inside = [belongs(values[i]) for i, belongs in domains]
            inside = [x for x in inside if not (isinstance(x, (bool, np.bool_)) and x)]      # True: no check to compile
            out = fun(*values)
            return jnp.where(functools.reduce(lambda x, y: x & y, inside), out, np.nan) if inside else out

        on_floats.__name__ = fun.__name__
        launched = one_launch(on_floats, arrays=most)

        @functools.wraps(fun)
        def function(*args: ArrayLike, **kwargs: ArrayLike) -> Array:
            if kwargs or not least <= len(args) <= most:
                args = _bound(caller, signature, args, kwargs)
            if not at_root():
                return on_floats(*args)
            return launched(*[_operand(caller, x) for x in args])

        return function

    def exp(self, name: str, logarithm: Callable) -> Callable:
        """The exponential of `logarithm`, a function of this distribution. Its slopes at infinite x are 0."""
        def at_finite(x: ArrayLike, *args: ArrayLike) -> Array:
            return logarithm(_without_slope_at_infinity(x), *args)

        return self._composed(name, lax.exp, functools.wraps(logarithm)(at_finite))

    def log(self, name: str, fun: Callable) -> Callable:
        """The logarithm of a function of this distribution."""
        return self._composed(name, lax.log, fun)

    def _composed(self, name: str, outer: Callable, inner: Callable) -> Callable:
        @functools.wraps(inner)
        def composed(*args: ArrayLike) -> Array:
            return outer(inner(*args))

        composed.__name__ = composed.__qualname__ = name
        composed.__doc__ = f"{_MEANING[name]}: ``{outer.__name__}({inner.__name__}(...))``."
        return self(composed)


_MEANING = {"pdf": "Density at x", "pmf": "Probability of k", "cdf": "Probability of values <= x",
            "logcdf": "Logarithm of the probability of values <= x", "sf": "Probability of values > x",
            "logsf": "Logarithm of the probability of values > x"}


def _bound(caller: str, signature: inspect.Signature, args: Sequence[ArrayLike],
           kwargs: dict[str, ArrayLike]) -> tuple[ArrayLike, ...]:
    """All arguments by position, including default values."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise bad(caller, str(error), fix=f"its parameters are ({', '.join(signature.parameters)}).") from None
    bound.apply_defaults()
    return bound.args


def _operand(caller: str, x: ArrayLike) -> ArrayLike:
    """`x` as an operand of one launch. Host arrays, and numbers that would each select a program, become arrays."""
    if hasattr(x, "aval") or (type(x) in _NUMBERS and not (type(x) is int and not 0 <= x < 128)):
        return x
    return jnp.asarray(array_like(caller, x))


def floats(caller: str, *xs: ArrayLike) -> Sequence[ArrayLike]:
    """The arguments as real floats of one dtype, each of the common rank or of rank 0.

    Raises: TypeError unless all are arrays or numbers; ValueError for complex numbers.
    """
    values = promote_shapes(caller, *promote_inexact(caller, *xs))
    if dtypes.is_complex(typeof(values[0]).dtype):
        raise bad(caller, "complex numbers are not accepted", given={"dtype": typeof(values[0]).dtype.name},
                  fix="use the real parts: x.real.", exc=ValueError)
    return values


def _without_slope_at_infinity(x: ArrayLike) -> ArrayLike:
    """`x`, constant where it is infinite: the chain rule would multiply the density 0 by an infinite slope."""
    if isinstance(x, (bool, int, float)):
        return x
    return jnp.where(lax.abs(x) == np.inf, lax.stop_gradient(x), x)


# -- formulas of several distributions -----------------------------------------------------------------------------

def standard(x: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> Array:
    """``(x - loc) / scale``; the arguments may be Python numbers, and the scale 0."""
    return lax.div(lax.sub(x, loc), scale)


def log1p_square(z: ArrayLike) -> Array:
    """``log(1 + z**2)``, also where the square would overflow."""
    size = lax.abs(z)
    far = size > 0.5 * math.sqrt(float(dtypes.finfo(size.dtype).max))               # 1 is lost to rounding there
    return jnp.where(far, 2, 1) * lax.log1p(jnp.where(far, size - 1, lax.square(jnp.where(far, 0, z))))


_LOG_POWERS = (xlogy, lambda b, p: xlog1py(b, -p))                  # of p and of 1 - p
_INNER_LOGS = (lambda p: lax.log(jnp.where(p > 0, p, 1)), lambda p: lax.log1p(-jnp.where(p < 1, p, 0)))


@custom_jvp
def of_powers(log_rest: ArrayLike, p: ArrayLike, *exponents: ArrayLike) -> Array:
    """``exp(log_rest) p**a``, or with two exponents ``exp(log_rest) p**a (1 - p)**b``; 0**0 is 1.

    Its slopes in p are right also at p = 0 and 1, where the slope of the logarithm is infinite and 0 times it is nan.
    """
    return lax.exp(sum((log(a, p) for log, a in zip(_LOG_POWERS[:len(exponents)], exponents, strict=True)), log_rest))


@functools.partial(of_powers.defjvp, symbolic_zeros=True)
def _of_powers_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (log_rest, p, *exponents), (d_log_rest, dp, *d_exponents) = primals, tangents
    value = of_powers(*primals)

    def lowered(i: int) -> Array:
        """The exponent of factor i, times the value with this exponent reduced by 1."""
        a = exponents[i]
        rest = [jnp.where(a == 0, 0, a - 1) if k == i else b for k, b in enumerate(exponents)]
        return jnp.where(a == 0, 0, a * of_powers(log_rest, p, *rest))

    slopes = [(d_log_rest, lambda: value),
              (dp, lambda: lowered(0) - lowered(1) if len(exponents) == 2 else lowered(0)),
              *((da, lambda log=log: value * log(p)) for da, log in zip(d_exponents, _INNER_LOGS, strict=False))]
    return value, sum(dx * slope() for dx, slope in slopes if not isinstance(dx, SymbolicZero))


def mirrored(distribution: Distribution, name: str, fun: Callable, doc: str) -> Callable:
    """The function ``fun(-x, -loc, scale)`` of `distribution`, under the name `name`."""
    def reflected(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
        return fun(-x, -loc, scale)

    reflected.__name__ = reflected.__qualname__ = name
    reflected.__doc__ = doc
    return distribution(reflected)
