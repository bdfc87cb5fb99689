"""The gamma function and related functions: beta, binomial coefficients, incomplete integrals, polygamma, zeta."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import number_of, typeof
from xjax.lax.double_word import Pair, pair, select_pair, sum_of, sum_of_all, sum_of_pairs
from xjax.lax.gamma.quotients import BetaFactors, beta_of_positive, gamma_from_1, gamma_quotient, raised, sine_of_turns
from xjax.ops.checks import static_int
from xjax.ops.special import ZETA_ONE_TERM
from xjax.runtime.jit import library_jit
from xjax.runtime.one_launch import one_launch
from xjax.scipy.arguments import floats, of_reals, reals, weak_as
from xjax.scipy.complex_gamma import gamma_of_complex, loggamma_of_complex
from xjax.transforms.autodiff import jvp
from xjax.transforms.custom_jvp import custom_jvp
from xjax.transforms.rule_functions import SymbolicZero
from xjax.typing import Array, ArrayLike

# -- gamma --------------------------------------------------------------------------------------------------------

@one_launch
def gammasgn(x: ArrayLike) -> Array:
    """Sign of the gamma function, element-wise: 1 or -1; nan at -1, -2 ...; the sign of x at 0 and -0."""
    x, = reals("gammasgn", x)
    below = lax.floor(x)
    odd = (x < 0) & (jnp.remainder(below, 2) != 0) | (x == 0) & jnp.signbit(x)
    return jnp.where((x < 0) & (x == below) | (x != x), np.nan, jnp.where(odd, -1, 1).astype(x.dtype))


@one_launch
def gamma(x: ArrayLike) -> Array:
    """Gamma function, element-wise: ``(x - 1)!`` at whole numbers > 0, nan at -1, -2 ...  x: real or complex numbers.

    >>> round(float(gamma(5.0)), 3)
    24.0
    """
    x, = floats("gamma", x)
    if dtypes.is_complex(x.dtype):
        return gamma_of_complex(x)
    return of_reals("gamma", _gamma, x)


@custom_jvp
def _gamma(x: Array) -> Array:
    """gamma(x) of real numbers; for x < 0 by reflection: ``gamma(x) gamma(1 - x) = pi / sin(pi x)``."""
    above = gamma_from_1(raised(pair(x)))
    below_1 = jnp.where(x < 0, math.pi / (sine_of_turns(pair(x)) * above), above / x)
    return jnp.where((x < 0) & (x == lax.floor(x)), np.nan, jnp.where(x < 1, below_1, jnp.where(x < np.inf, above, x)))


_gamma.defjvps(lambda dx, y, x: dx * (y * lax.digamma(x)))


@one_launch
def loggamma(x: ArrayLike) -> Array:
    """Logarithm of the gamma function, element-wise.

    For real numbers it is inf at 0 and nan for x < 0, unlike `gammaln`. For complex numbers it is continuous except
    across the negative real axis.
    """
    x, = floats("loggamma", x)
    if dtypes.is_complex(x.dtype):
        return loggamma_of_complex(x)
    return jnp.where(x >= 0, lax.lgamma(x), np.nan)


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """``n!`` as floats, element-wise; for fractions the gamma function of n + 1; 0 for n < 0.

    Raises: NotImplementedError if `exact`, which would need integers of unlimited size.
    """
    if exact:
        raise bad("scipy.special.factorial", "exact factorials do not fit the integers of arrays",
                  fix="use math.factorial(n) on a Python int.", exc=NotImplementedError)
    return _factorial(n)


@one_launch
def _factorial(n: ArrayLike) -> Array:
    return weak_as(of_reals("factorial", _factorial_of_reals, n), n)


@custom_jvp
def _factorial_of_reals(n: Array) -> Array:
    inside = jnp.where((n >= 0) & (n < np.inf), n, 0)
    return jnp.where(n == np.inf, n, jnp.where(n < 0, 0, gamma_from_1(sum_of(inside, lax.full_like(n, 1))) + (n - n)))


_factorial_of_reals.defjvps(lambda dn, y, n: dn * (y * lax.digamma(jnp.where(n < 0, 0, n) + 1)))


def multigammaln(a: ArrayLike, d: int) -> Array:
    """Logarithm of the multivariate gamma function of dimension d, element-wise, for a > (d - 1) / 2. d: static int."""
    return _multigammaln(a, static_int(d, "d", "scipy.special.multigammaln"))


@one_launch
def _multigammaln(a: ArrayLike, d: int) -> Array:
    a, = reals("multigammaln", a)
    shifted = a[..., None] - np.arange(d, dtype=a.dtype).reshape((1,) * a.ndim + (d,)) / number_of(a.dtype, 2)
    return jnp.sum(lax.lgamma(shifted), -1) + number_of(a.dtype, 0.25 * d * (d - 1) * math.log(math.pi))


def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Pochhammer symbol ``gamma(z + m) / gamma(z)`` of real numbers, element-wise; 1 where m is 0.

    Where z is 0, -1 ... it is the limit: the product ``z (z + 1) ... (z + m - 1)`` for whole m, else 0.
    """
    return _poch(*jnp.broadcast_arrays(*reals("poch", z, m)))


def _is_pole(x: Array) -> Array:
    """Whether x is 0, -1, -2 ..."""
    return (x <= 0) & (x == lax.floor(x))


def _sign_of_power(m: ArrayLike) -> Array:
    """``(-1)**m`` for whole m."""
    return 1 - 2 * jnp.remainder(m, 2)


def _poch_cases(z: ArrayLike, m: ArrayLike) -> tuple[Any, Any]:
    """Whether gamma(z) has a pole, and whether gamma(z + m) has one as well."""
    pole = _is_pole(z) & (z > -np.inf)
    return pole, pole & (m == lax.floor(m)) & (z + m <= 0)


@custom_jvp
@library_jit
def _poch(z: Array, m: Array) -> Array:
    return of_reals("poch", _poch_of_floats, z, m)


def _poch_of_floats(z: Array, m: Array) -> Array:
    """The Pochhammer symbol, below 0 by ``gamma(x) = pi / (sin(pi x) gamma(1 - x))``. For both arguments this leaves
    a quotient of gamma functions, for one of them a product."""
    pole, both = _poch_cases(z, m)
    end = sum_of(z, m)
    top, bottom = raised(end), raised(pair(z))
    swapped, mixed = z <= 0, (z <= 0) != (end.high <= 0)
    high, low = select_pair(swapped, bottom, top), select_pair(swapped, top, bottom)
    value = gamma_quotient(high, low, mixed)
    value = jnp.where(mixed & (end.high <= 0), 1 / value, value)
    above, below = _reflection(pair(z)), _reflection(end)
    value = value * jnp.where(both, _sign_of_power(m), above) / jnp.where(both, 1, below)
    value = jnp.where(both, value, jnp.where(pole, 0, jnp.where(_is_pole(end.high), np.inf, value)))
    return jnp.where((z != z) | (m != m), np.nan, jnp.where(m == 0, 1, value))


def _reflection(x: Pair) -> Array:
    """The factor of ``1 / gamma(x)`` next to the gamma function of ``raised(x)``, or next to its inverse."""
    return jnp.where(x.high <= 0, sine_of_turns(x) / math.pi, jnp.where(x.high < 1, x.high, 1))


@_poch.defjvp
def _poch_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Where only gamma(z) has a pole, the slope in z is that of ``1 / gamma(z)``, which is (-z)! or its negative."""
    (z, m), (dz, dm) = primals, tangents
    out, top = _poch(z, m), lax.digamma(z + m)
    pole, both = _poch_cases(z, m)
    by_z = jnp.where(m == 0, 0, out * _digamma_rise(jnp.where(both, 1 - z, z), jnp.where(both, -m, m)))
    alone = pole & ~both & (m != 0)
    end = jnp.where(alone, z + m, 1)
    at_pole = _sign_of_power(z) * _gamma(end) * _gamma(1 - jnp.where(alone, z, 0))
    by_z = jnp.where(alone, at_pole, by_z)
    return out, by_z * dz + jnp.where(out == 0, 0, out * top) * dm


# -- beta ---------------------------------------------------------------------------------------------------------

def _beta_ends(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """The arguments as a <= b, and whether the beta function has a pole there.

    For whole a <= 0, whole b > 0 and a + b <= 0 the poles of ``gamma(a) gamma(b) / gamma(a + b)`` cancel, and the limit
    is ``(-1)**b beta(1 - a - b, b)``.
    """
    a, b = lax.min(a, b), lax.max(a, b)
    pole = _is_pole(a) & (a > -np.inf)
    finite = pole & (b > 0) & (b == lax.floor(b)) & (a + b <= 0)
    return a, b, (pole | _is_pole(b)) & ~finite


def _digamma_rise(a: ArrayLike, b: ArrayLike) -> Array:
    """``digamma(a + b) - digamma(a)``, exact also where b is much smaller than a."""
    a, b = jnp.broadcast_arrays(a, b)
    regular = (a > 0) & (b > 0) & (a < np.inf) & (b < np.inf)
    rise = _positive_rise(jnp.where(regular, a, 1), jnp.where(regular, b, 1))
    return jnp.where(regular, rise, lax.digamma(a + b) - lax.digamma(a))


_RISE_STEPS = 10
# B(2 k) / (2 k) for k = 1, 2 ...
_DIGAMMA_TAIL = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _rise_terms(a: Array, b: Array) -> Array:
    """The sum of ``1 / (a + k) - 1 / (a + b + k)`` over k >= 0: the first terms, and the others by Stirling's formula.

    Each difference is written as b times a positive quotient, so that nothing cancels.
    """
    low, high = a + _RISE_STEPS, a + b + _RISE_STEPS
    u, v = 1 / low, 1 / high
    s, t = u * u, v * v
    # With the tail as a polynomial P, `power` is P(t) and `quotient` is (P(s) - P(t)) / (s - t).
    power, quotient = lax.full_like(a, 0), lax.full_like(a, 0)
    for c in (*_DIGAMMA_TAIL[::-1], 0.0):
        quotient, power = quotient * s + power, power * t + c
    drop = b * u * v                                                    # u - v
    total = jnp.log1p(b * u) + drop * (0.5 + (u + v) * quotient)
    for k in range(_RISE_STEPS - 1, -1, -1):                            # largest term last, for fewer rounding errors
        total = total + b / ((a + k) * (a + b + k))
    return total


@custom_jvp
def _positive_rise(a: Array, b: Array) -> Array:
    return _rise_terms(a, b)


def _positive_rise_slope(a: Array, b: Array) -> Array:
    return jvp(lambda a: _rise_terms(a, b), (a,), (lax.full_like(a, 1),))[1]


_positive_rise.defjvps(lambda da, y, a, b: da * _positive_rise_slope(a, b),
                       lambda db, y, a, b: db * lax.polygamma(lax.full_like(b, 1), a + b))


@one_launch(arrays=2)
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Logarithm of the absolute value of the beta function, element-wise; large arguments lose no digits.

    At integers <= 0 it is inf, or the logarithm of the limit if `beta` has one.
    """
    return weak_as(_log_beta(*jnp.broadcast_arrays(*reals("betaln", a, b))), a, b)


@custom_jvp
def _log_beta(a: ArrayLike, b: ArrayLike) -> Array:
    return of_reals("betaln", _log_beta_of_floats, a, b)


_log_beta.defjvps(lambda da, y, a, b: da * -_digamma_rise(a, b), lambda db, y, a, b: db * -_digamma_rise(b, a))


def _log_beta_of_floats(a: Array, b: Array) -> Array:
    parts, (low, high, pole) = _beta_parts(a, b), _beta_ends(a, b)
    exponent = sum_of_all(*parts.beta.terms)
    log_beta = exponent.high + (exponent.low + lax.log(parts.beta.factor))
    value = jnp.where(parts.inverted, -log_beta, log_beta) + lax.log(jnp.abs(parts.factor))
    value = jnp.where(high == np.inf, jnp.where(low > 0, -np.inf, jnp.where(low < 0, np.inf, np.nan)), value)
    return jnp.where((a != a) | (b != b) | (low == -np.inf), np.nan, jnp.where(pole, np.inf, value))


class _BetaParts(NamedTuple):
    """A beta function as ``factor * beta``, or ``factor / beta`` where `inverted` is true."""

    beta: BetaFactors
    factor: Any
    inverted: Any


def _beta_parts(a: Array, b: Array) -> _BetaParts:
    """beta(a, b) by a beta function of p, q > 0: negative numbers among a, b and c = a + b are reflected.

    For a <= b, beta(a, b) is

    - ``pi / (sin(pi a) (-a) beta(-a, c))`` where only a is negative,
    - ``beta(b, 1 - c) sin(pi c) / sin(pi a)`` where a and c are negative,
    - ``pi sin(pi c) / (sin(pi a) sin(pi b) (-a) beta(-a, 1 - b))`` where all are negative.

    For whole b > 0 the quotient of sines is replaced by its limit ``(-1)**b``.
    """
    a, b = lax.min(a, b), lax.max(a, b)
    c = sum_of(a, b)
    only_a, not_b, every = (a <= 0) & (c.high > 0), (a <= 0) & (c.high <= 0) & (b > 0), b <= 0
    inverted = only_a | every
    p = select_pair(inverted, pair(-a), select_pair(not_b, _one_less(c), pair(a)))
    q = select_pair(only_a, c, select_pair(every, _one_less(pair(b)), pair(b)))
    sine_a, sine_b, sine_c = (sine_of_turns(x) for x in (pair(a), pair(b), c))
    ratio = jnp.where(b == lax.floor(b), _sign_of_power(b), sine_c / sine_a)
    over = -math.pi / (sine_a * a)
    factor = jnp.where(only_a, over, jnp.where(not_b, ratio, jnp.where(every, over * sine_c / sine_b, 1)))
    return _BetaParts(beta_of_positive(p, q), factor, inverted)


def _one_less(x: Pair) -> Pair:
    """``1 - x``."""
    return sum_of_pairs(Pair(-x.high, -x.low), pair(lax.full_like(x.high, 1)))


@one_launch(arrays=2)
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """Beta function ``gamma(a) gamma(b) / gamma(a + b)`` of real numbers, element-wise.

    At integers <= 0 it is inf, or the limit if there is one, as in SciPy.
    """
    return _beta(*jnp.broadcast_arrays(*reals("beta", a, b)))


@custom_jvp
def _beta(a: Array, b: Array) -> Array:
    return of_reals("beta", _beta_of_floats, a, b)


def _beta_of_floats(a: Array, b: Array) -> Array:
    parts, (low, high, pole) = _beta_parts(a, b), _beta_ends(a, b)
    value = parts.beta.value()
    value = jnp.where(parts.inverted, parts.factor / value, parts.factor * value)
    at_end = jnp.where(low > 0, 0, jnp.where(low < 0, np.inf * gammasgn(low), np.nan))
    value = jnp.where(high == np.inf, at_end, value)
    return jnp.where((a != a) | (b != b) | (low == -np.inf), np.nan, jnp.where(pole, np.inf, value))



@functools.partial(_beta.defjvp, symbolic_zeros=True)
def _beta_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Array, Array]:
    """A barrier separates the value: fused with the slopes, its program takes twice the time on CPUs."""
    (a, b), (da, db) = primals, tangents
    y = lax.optimization_barrier(_beta(a, b))
    change = lax.full_like(y, 0)
    if not isinstance(da, SymbolicZero):
        change = change - y * _digamma_rise(a, b) * da
    if not isinstance(db, SymbolicZero):
        change = change - y * _digamma_rise(b, a) * db
    return y, change


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """Number of ways to choose k of N things, as floats, element-wise; 0 unless 0 <= k <= N.

    Args: repetition: whether a thing can be chosen several times.
    """
    return _choices_again(N, k) if repetition else _choices(N, k)


@one_launch(arrays=2)
def _choices(n: ArrayLike, k: ArrayLike) -> Array:
    return weak_as(_binomial(*jnp.broadcast_arrays(*reals("comb", n, k))), n, k)


@custom_jvp
def _binomial(n: Array, k: Array) -> Array:
    return of_reals("comb", _binomial_of_floats, n, k)


def _binomial_of_floats(n: Array, k: Array) -> Array:
    """``1 / ((n + 1) beta(n - k + 1, k + 1))``. Where n + 1 rounds to n it is ``1 / (k beta(n - k + 1, k))``, since the
    first beta function may be outside of the range of the dtype."""
    inside = _has_choices(n, k) & (n < np.inf)
    at_end = jnp.where(_has_choices(n, k), jnp.where(k > 0, np.inf, 1), 0)
    n, k = jnp.where(inside, n, 0), jnp.where(inside, k, 0)
    one = pair(lax.full_like(n, 1))
    rest = sum_of_pairs(sum_of(n, -k), one)
    huge = n + 1 == n
    beta = beta_of_positive(rest, select_pair(huge, pair(k), sum_of(k, one.high)))
    beta = beta._replace(factor=beta.factor * jnp.where(huge, k, n + 1))
    return jnp.where(inside, jnp.where(k == 0, 1, 1 / beta.value()), at_end)


def _has_choices(n: Array, k: Array) -> Array:
    return (k <= n) & (n >= 0) & (k >= 0)


def _binomial_slope(log_slope: Callable[[Array, Array], Array], y: Array, n: Array, k: Array) -> Array:
    """The slope, from that of the logarithm; 0 where the value is constant."""
    inside = _has_choices(n, k) & (n < np.inf)
    return y * jnp.where(inside, log_slope(jnp.where(inside, n, 0), jnp.where(inside, k, 0)), 0)


_binomial.defjvps(
    lambda dn, y, n, k: dn * _binomial_slope(lambda n, k: _digamma_rise(n - k + 1, k), y, n, k),
    lambda dk, y, n, k: dk * _binomial_slope(lambda n, k: lax.digamma(n - k + 1) - lax.digamma(k + 1), y, n, k))


@one_launch(arrays=2)
def _choices_again(n: ArrayLike, k: ArrayLike) -> Array:
    n, k = reals("comb", n, k)
    return jnp.where((k == 0) & (n >= 0), 1, _choices(n + k - 1, k))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Regularised incomplete beta function of real numbers, element-wise. Only the derivative in x is available."""
    return lax.betainc(*reals("betainc", a, b, x))


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularised lower incomplete gamma function of real numbers, element-wise."""
    return lax.igamma(*reals("gammainc", a, x))


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """``1 - gammainc(a, x)``, element-wise, exact where it is small."""
    return lax.igammac(*reals("gammaincc", a, x))


# -- polygamma and zeta -------------------------------------------------------------------------------------------

def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Derivative of order n of `digamma`, element-wise. Args: n: integers >= 0; x: real numbers.

    Raises: ValueError unless n is an integer.
    """
    if not dtypes.is_int(typeof(n).dtype):
        raise bad("scipy.special.polygamma", "the order must be an integer", given={"n": typeof(n)},
                  fix="pass an int, or convert it with n.astype('int32').", exc=ValueError)
    return lax.polygamma(*reals("polygamma", n, x))


def _zeta_sum(x: Array, q: Array) -> Array:
    """The zeta function: its first terms, and the others by Euler-Maclaurin summation (Johansson 2015, eq. 5)."""
    count = 12
    total = sum((q + k) ** -x for k in range(count))
    end = q + count
    factor, tail = x / end, 0.5
    for m in range(1, count):
        tail = tail + float(bernoulli_numbers(2 * count)[2 * m] / math.factorial(2 * m)) * factor
        factor = factor * ((x + (2 * m - 1)) / end) * ((x + 2 * m) / end)
    return total + end ** (1 - x) / (x - 1) + end ** -x * tail


@custom_jvp
def _zeta(x: Array, q: Array) -> Array:
    return lax.zeta(x, q)


@functools.partial(_zeta.defjvp, symbolic_zeros=True)
def _zeta_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x, q), (dx, dq) = primals, tangents
    change = lax.full_like(x, 0)
    if not isinstance(dx, SymbolicZero):
        first = q ** -x
        one_term = (first == 0) | (x > ZETA_ONE_TERM)
        slope = jvp(lambda x: _zeta_sum(x, q), (jnp.where(one_term, 2, x),), (lax.full_like(x, 1),))[1]
        change = change + dx * jnp.where(one_term, jnp.where(first == 0, 0, -first * jnp.log(q)), slope)
    if not isinstance(dq, SymbolicZero):
        change = change - dq * _rise_times_zeta(x, q)
    return _zeta(x, q), change


def _rise_times_zeta(x: Array, q: Array) -> Array:
    """``x zeta(x + 1, q)``. The rounding error of x + 1 is corrected: as in ``q**-x``, it has the factor log(q)."""
    order = x + 1
    above = _zeta(order, q)
    lost = x - (jnp.maximum(order, 1) - 1)                  # without the maximum, XLA would simplify this to 0
    finite = (q > 0) & (q < np.inf) & (x < np.inf)
    above = above * (1 - jnp.where(finite, lost * jnp.log(jnp.where(finite, q, 1)), 0))
    return jnp.where(above == 0, 0, x * above)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz zeta function: the sum of ``1 / (k + q) ** x`` over k = 0, 1, 2 ...; q None: 1, Riemann's function."""
    return _zeta(*jnp.broadcast_arrays(*reals("zeta", x, 1 if q is None else q)))


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B(0) ... B(n), float[n + 1], with B(1) = -1/2. Args: n: static int >= 0.

    >>> bernoulli(2)
    Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    n = static_int(n, "n", "scipy.special.bernoulli")
    if n < 0:
        raise bad("scipy.special.bernoulli", "`n` must not be negative", given={"n": str(n)}, fix="pass n >= 0.",
                  exc=ValueError)
    return jnp.asarray(bernoulli_numbers(n), dtypes.canonicalize_dtype(float))


@functools.lru_cache(64)
def bernoulli_numbers(n: int) -> np.ndarray:
    """B(0) ... B(n), by Euler's formula ``2 m! zeta(m) / (2 pi)**m`` for even m, with alternating signs."""
    numbers = np.zeros(max(n, 1) + 1)
    numbers[:2] = 1, -0.5
    m = np.arange(2, n + 1, 2, dtype=float)
    if m.size:
        # zeta(m): the first terms, an integral, and corrections at its end. For m = 2 and 4 they do not suffice.
        sums = 1 + np.sum(np.arange(2.0, 60)[:, None] ** -m, 0) + 60 ** -m * (60 / (m - 1) + 1 / 2 + m / 720)
        sums[:2] = (math.pi**2 / 6, math.pi**4 / 90)[:m.size]
        with np.errstate(over="ignore"):
            numbers[2::2] = 2 * sums * np.cumprod(-(m - 1) * m / (4 * math.pi**2)) * -1
    return numbers[:n + 1]
