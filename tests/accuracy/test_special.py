"""Special functions over the whole range of each dtype: values, slopes and second derivatives against exact ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special as oracle

import xjax
from tests.accuracy.row import Bound, ScalarRow, first_order, over_bound, second_order
from tests.sampling import one_in
from xjax import numpy as jnp
from xjax.scipy import special

DTYPES = ("float32", "float64")


def normal(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def normal_quantile(p: Any) -> Any:
    """Newton's method from SciPy's value; each step doubles the number of correct digits."""
    x = mpmath.mpf(float(oracle.ndtri(float(p))))
    for _ in range(int(mpmath.mp.prec).bit_length()):
        x -= (normal(x) - p) * mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(x * x / 2)
    return x


def expn(n: int, x: Any) -> Any:
    return mpmath.e1(x) if n == 1 else (mpmath.exp(-x) - x * expn(n - 1, x)) / (n - 1)


def owens_t(h: Any, a: Any) -> Any:
    return mpmath.quad(lambda t: mpmath.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mpmath.pi)


def row(name: str, exact: Any, domain: Any = None, bounds: Any = None, fun: Any = None, **options: Any) -> ScalarRow:
    """The row of the function named by the first word of `name`."""
    fun = fun or getattr(special, name.split()[0])
    return ScalarRow(name, fun, exact, domain=domain, dtypes=DTYPES, bounds=bounds or {}, **options)


def between(low: float, high: float) -> Any:
    return lambda x: low <= x <= high


def within(cause: str, **units: float) -> dict[str, Bound]:
    return {kind.replace("_", " "): Bound(ulps, cause) for kind, ulps in units.items()}


def same_size(a: Any, b: Any) -> Any:
    return 1e-9 < a < 1e3 and 1e-9 < b < 1e3


def of_size(low: float, high: float) -> Any:
    return lambda *xs: all(low <= x <= high for x in xs)


def incomplete(a: Any, x: Any) -> bool:
    return 0.01 < a < 50 and 1e-3 < x < 50


ROWS = [
    row("entr", lambda x: -x * mpmath.log(x), lambda x: x > 0),
    row("logit", lambda x: mpmath.log(x / (1 - x)), lambda x: 0 < x < 1),
    row("xlogy", lambda x, y: x * mpmath.log(y), lambda x, y: y > 0, args=2),
    row("xlog1py", lambda x, y: x * mpmath.log1p(y), lambda x, y: y > -1, args=2),
    row("boxcox", lambda x, p: mpmath.expm1(p * mpmath.log(x)) / p, lambda x, p: 1e-3 < x < 1e3 and 1e-3 < abs(p) < 8,
        args=2),
    row("boxcox1p", lambda x, p: mpmath.expm1(p * mpmath.log1p(x)) / p,
        lambda x, p: abs(x) > 1e-9 and -0.9 < x < 1e3 and 1e-3 < abs(p) < 8, args=2),
    row("erfcx", lambda x: mpmath.exp(x * x) * mpmath.erfc(x), between(-5, 1e4)),
    row("ndtr", normal, between(-12, 12)),
    row("ndtri", normal_quantile, lambda p: 1e-30 < p < 1, roots={"value": (0.5,), "second 0 0": (0.5,)}),
    row("erfcinv", lambda y: -normal_quantile(y / 2) / mpmath.sqrt(2), lambda y: 1e-30 < y < 2,
        roots={"value": (1,), "second 0 0": (1,)}),
    row("log_ndtr", lambda x: mpmath.log(normal(x)), between(-1e3, 5)),
    row("dawsn", lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x), lambda x: abs(x) < 1e3,
        roots={"slope 0": (-0.92413887, 0.92413887), "second 0 0": (-1.50197526, 1.50197526)}),
    row("owens_t", owens_t, lambda h, a: 0.1 < h < 4 and 0.1 < a < 4, args=2),
    row("fresnel sine", mpmath.fresnels, lambda x: 1e-3 < abs(x) < 4, fun=lambda x: special.fresnel(x)[0]),
    row("fresnel cosine", mpmath.fresnelc, lambda x: 1e-3 < abs(x) < 4, fun=lambda x: special.fresnel(x)[1]),
    row("sici sine", mpmath.si, lambda x: 1e-3 < abs(x) < 50, fun=lambda x: special.sici(x)[0]),
    row("sici cosine", mpmath.ci, lambda x: 1e-3 < x < 50, fun=lambda x: special.sici(x)[1],
        roots={"value": (0.616505, 3.3841804)}),
    row("expi", mpmath.ei, lambda x: 1e-30 < abs(x) < 80, roots={"value": (0.37250741,), "second 0 0": (1,)}),
    row("exp1", mpmath.e1, between(1e-30, 80)),
    *(row(f"expn {n}", lambda x, n=n: expn(n, x), between(1e-6, 80), fun=lambda x, n=n: special.expn(n, x))
      for n in (2, 5)),
    row("spence", lambda x: mpmath.polylog(2, 1 - x), between(1e-30, 1e9)),
    row("i0", lambda x: mpmath.besseli(0, x), lambda x: 1e-9 < abs(x) < 80),
    row("i1", lambda x: mpmath.besseli(1, x), lambda x: 1e-9 < abs(x) < 80),
    row("i0e", lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), lambda x: 1e-9 < abs(x) < 1e4),
    row("i1e", lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), lambda x: 1e-9 < abs(x) < 1e4,
        roots={"slope 0": (-1.5451, 1.5451), "second 0 0": (-2.7814929, 2.7814929)}),
    row("bessel_jn", lambda x: mpmath.besselj(2, x), lambda x: 1e-3 < abs(x) < 8,
        fun=lambda x: special.bessel_jn(x, v=2)[2], roots={
            "value": (-5.1356223, 5.1356223), "slope 0": (-6.7061332, -3.0542369, 3.0542369, 6.7061332),
            "second 0 0": (-4.8879427, -1.5577918, 1.5577918, 4.8879427)}),
    row("rel_entr", lambda p, q: p * mpmath.log(p / q), lambda p, q: p > 0 and q > 0, args=2),
    row("kl_div", lambda p, q: p * mpmath.log(p / q) - p + q, lambda p, q: p > 0 and q > 0 and p != q, args=2),
    row("kl_div near 1", lambda p: p * mpmath.log(p / 1.25) - p + mpmath.mpf(1.25), lambda p: 0.3 < p < 5 and p != 1.25,
        fun=lambda p: special.kl_div(p, jnp.full_like(p, 1.25))),
    row("zeta", mpmath.zeta, lambda x, q: 1.01 < x < 50 and 1e-6 < q < 1e6, args=2, grads=(1,)),
    *(row(f"polygamma {n}", lambda x, n=n: mpmath.polygamma(n, x), between(1e-6, 1e6),
          fun=lambda x, n=n: special.polygamma(n, x)) for n in (1, 4)),
    row("gammaln", mpmath.loggamma, between(1e-30, 1e9), roots={"value": (1, 2), "slope 0": (1.4616321,)}),
    row("loggamma", mpmath.loggamma, between(1e-30, 1e9), roots={"value": (1, 2), "slope 0": (1.4616321,)}),
    row("multigammaln", lambda a: sum(mpmath.loggamma(a - mpmath.mpf(k) / 2) for k in range(3))
        + mpmath.log(mpmath.pi) * 3 / 2, between(1.01, 1e9), fun=lambda a: special.multigammaln(a, 3)),
    row("digamma", mpmath.digamma, between(1e-30, 1e9), roots={"value": (1.4616321,)}),
    row("gamma", mpmath.gamma, between(1e-6, 30), roots={"slope 0": (1.4616321,)}),
    row("factorial", lambda n: mpmath.gamma(n + 1), between(1e-6, 30), roots={"slope 0": (0.4616321,)}),
    row("poch", mpmath.rf, of_size(1e-3, 20), args=2),
    row("comb", lambda n: mpmath.binomial(n, 2.5), between(2.6, 30), fun=lambda n: special.comb(n, 2.5)),
    row("betaln", lambda a, b: mpmath.log(mpmath.beta(a, b)), same_size, args=2),
    row("beta", mpmath.beta, same_size, args=2),
    row("gammainc", lambda a, x: mpmath.gammainc(a, 0, x, regularized=True), incomplete, args=2, grads=(1,)),
    row("gammaincc", lambda a, x: mpmath.gammainc(a, x, regularized=True), incomplete, args=2, grads=(1,)),
    row("betainc", lambda x: mpmath.betainc(2.5, 0.75, 0, x, regularized=True), lambda x: 1e-6 < x < 1,
        fun=lambda x: special.betainc(2.5, 0.75, x)),
    row("hyp1f1", lambda x: mpmath.hyp1f1(0.5, 1.5, x), between(-20, 20), fun=lambda x: special.hyp1f1(0.5, 1.5, x)),
    row("hyp2f1", lambda x: mpmath.hyp2f1(0.5, 1.25, 1.5, x), between(-20, 0.95),
        fun=lambda x: special.hyp2f1(0.5, 1.25, 1.5, x)),
]
# Rows with larger errors: their cause, and the measured errors, rounded up.
CANCELS = "the product of the two slopes of the logarithm and its second derivative cancel"
OPEN = {
    "ndtri": within("x times the square of the slope", second_0_0_float64=6),
    "erfcinv": within("z times the square of the slope", second_0_0_float32=4.2),
    "sici cosine": within("a quotient of long polynomials", value_float64=6),
    "hyp2f1": within("a sum of many terms", value_float64=7, slope_0=8, second_0_0=30),
    "poch": within(CANCELS, second_0_0=47, second_0_1=81),
    "betaln": {"value": Bound(4, "near the roots, where beta is 1, logarithms cancel: in units of 1", 1.0)},
    "beta": within(CANCELS, second_0_1_float32=28, second_0_1_float64=300),
    "hyp1f1": within("a sum of many terms", slope_0_float32=6),
}
ROWS = [dataclasses.replace(row, bounds=OPEN.get(row.name, {})) for row in ROWS]
CASES = [(row, dtype) for row in ROWS for dtype in DTYPES]
OPEN_SHARE = 0.05       # largest share of quantities and dtypes with a bound of their own
NUMBERS = {1: 24, 2: 48}                # numbers of points, by the number of arguments


@pytest.mark.parametrize("case", one_in(16, CASES, lambda case: f"{case[0]}-{case[1]}"))
def test_value_and_slopes(case):
    assert not over_bound(*case, first_order(*case, NUMBERS[case[0].args]))


@pytest.mark.parametrize("case", one_in(len(CASES), CASES, lambda case: f"{case[0]}-{case[1]}"))
def test_second_derivatives(case):
    assert not over_bound(*case, second_order(*case, 12))


@pytest.mark.parametrize("name", ["erfcx", "dawsn"])
def test_slopes_far_out(name):
    """Where the terms of the formula cancel, and further out: -1 / (sqrt(pi) x**2), -1 / (2 x**2)."""
    for dtype, x in (("float32", 1e4), ("float32", 1e12), ("float64", 1e9), ("float64", 1e100)):
        with xjax.enable_x64(True):
            x = np.asarray(x, dtype)
            slope = float(xjax.grad(getattr(special, name))(x))
        factor = {"erfcx": np.sqrt(1 / np.pi), "dawsn": 0.5}[name]
        np.testing.assert_allclose(slope, -factor / float(x) / float(x), rtol=4 * np.finfo(dtype).eps)


def test_second_derivative_of_dawsn_between_formulas():
    """At the numbers where one formula ends and the next one begins."""
    for dtype in DTYPES:
        with xjax.enable_x64(True):
            x = np.asarray([1.15, 2.0, 2.8, 3.6, 4.6, 5.1, 6.0, 8.0], dtype)
            second = xjax.vmap(xjax.grad(xjax.grad(special.dawsn)))(x)
        with mpmath.workprec(300):
            y = [mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x) for x in map(mpmath.mpf, x.tolist())]
            want = [float((4 * x * x - 2) * y - 2 * x) for x, y in zip(map(mpmath.mpf, x.tolist()), y, strict=True)]
        np.testing.assert_allclose(second, want, rtol=8 * np.finfo(dtype).eps)


def kinds(row: ScalarRow) -> list[str]:
    """The quantities of a row: its value, slopes and second derivatives."""
    pairs = [(i, k) for i in row.smooth for k in row.smooth if i <= k]
    return ["value", *(f"slope {i}" for i in row.smooth), *(f"second {i} {k}" for i, k in pairs)]


def test_few_quantities_have_a_bound_of_their_own():
    """Each bound has a cause."""
    assert OPEN.keys() <= {row.name for row in ROWS}
    assert all(bound.cause for bounds in OPEN.values() for bound in bounds.values())
    quantities = [(row, kind, dtype) for row in ROWS for kind in kinds(row) for dtype in DTYPES]
    own = [f"{row} {kind} {dtype}" for row, kind, dtype in quantities if row.bound(kind, dtype).cause]
    assert len(own) <= OPEN_SHARE * len(quantities), f"{len(own)} of {len(quantities)}: {own}"


# -- every function has a row ---------------------------------------------------------------------------------------

NO_ROW = {
    **dict.fromkeys(("erf", "erfc", "erfinv", "expit"), "one operation of lax: test_elementwise.py"),
    **dict.fromkeys(("softmax", "log_softmax", "logsumexp"), "along an axis"),
    **dict.fromkeys(("wofz", "sph_harm_y"), "complex"),
    "bernoulli": "of a static integer", "gammasgn": "a step",
}


def test_every_function_has_a_row():
    with_row = {row.name.split()[0] for row in ROWS}
    assert not with_row & NO_ROW.keys()
    assert set(special.__all__) == with_row | NO_ROW.keys()
