"""The ends of the special functions; where SciPy's result is not the wanted one, the row gives the reason."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import scipy.special as oracle

from tests.scipy.ends.row import Apart, EndsRow
from xjax import numpy as jnp
from xjax.scipy import special

INF, NAN = np.inf, np.nan


def row(name: str, *axes: Any, **options: Any) -> EndsRow:
    options.setdefault("grads", tuple(range(len(axes))))
    options.setdefault("oracle", getattr(oracle, name, None))
    return EndsRow(name, options.pop("fun", getattr(special, name)), axes=axes, **options)


def exactly(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A function of arrays from one of mpmath numbers; nan at poles, and where it would take too long."""
    @functools.lru_cache(None)
    def one(*args: float) -> float:
        if any(x != x or abs(x) == INF for x in args):
            return NAN
        with mpmath.workprec(200 + 4 * max(abs(np.frexp(x)[1]) for x in args)):
            try:
                return float(mpmath.re(f(*map(mpmath.mpf, args))))
            except (ValueError, ZeroDivisionError, OverflowError, mpmath.libmp.NoConvergence):
                return NAN
    return lambda *args: np.array([one(*at) for at in zip(*(x.tolist() for x in args), strict=True)])


def whole(x: Any) -> Any:
    return x == np.floor(x)


def pole(x: Any) -> Any:
    """Whether a number is one of 0, -1, -2 ..."""
    return (x <= 0) & whole(x)


def below(x: Any) -> Any:
    """Whether a number is -inf, or one of -1, -2 ..., where a function has limits of both signs."""
    return (x < 0) & whole(x)


def any_nan(*xs: Any) -> Any:
    return functools.reduce(np.logical_or, [x != x for x in xs])


def none_special(*xs: Any) -> Any:
    """Whether all numbers are far enough from the ends of floats for mpmath."""
    return functools.reduce(np.logical_and, [(np.abs(x) < 1e9) & ((x == 0) | (np.abs(x) > 1e-30)) for x in xs])


def limit_at_pole(a: Any, b: Any) -> Any:
    return none_special(a, b) & pole(a) & whole(b) & (b > 0) & (a + b <= 0)


def limit(a: Any, b: Any) -> Any:
    """The limit of the beta function where a is 0, -1 ..."""
    return (-1) ** int(b) * mpmath.beta(1 - a - b, b)


NAN_STAYS = Apart("nan is never lost; SciPy looks at a pole first", any_nan, NAN)
BOTH_LARGE = Apart("the limit is 0; SciPy has nan", lambda a, b: (a >= 1e300) & (b >= 1e300), 0)
C_LIBRARY = Apart("no limit; inf as in C and JAX, SciPy has -inf", lambda x: x == -INF, INF)
LARGEST = Apart("two poles cancel to gamma(n) max**-n; SciPy has inf",
                lambda a, b: (np.minimum(a, b) < -1e38) & np.isin(np.maximum(a, b), (1, 2, 30, 1e4)) & (a + b > -INF),
                lambda a, b: oracle.gammaln(np.maximum(a, b)) - np.maximum(a, b) * np.log(-np.minimum(a, b)))
OPPOSITE = Apart("two poles cancel to beta(1, n) = 1 / n; SciPy has inf",
                 lambda a, b: (np.abs(a) > 1e38) & (a == -b) & np.isfinite(a), lambda a, b: -np.log(np.abs(a)))
UNDERFLOW = "SciPy takes the logarithm in place of a power near 0, or of a quotient that underflows"
DIGITS = "SciPy adds up logarithms that cancel, and loses digits"

ONE_ARGUMENT = [
    *(row(name, "real") for name in
      ["dawsn", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expit", "gamma", "gammasgn",
       "i0e", "i1e", "log_ndtr", "logit", "ndtr", "ndtri", "digamma", "factorial", "loggamma"]),
    *(row(name, "real", apart=(Apart("SciPy has nan; it grows without bound", np.isinf, limit),))
      for name, limit in (("i0", INF), ("i1", lambda x: x))),
    row("gammaln", "real", apart=(C_LIBRARY,)),
    row("expi", "real"), row("sici", "real"), row("wofz", "real"),
    row("spence", "real", apart=(Apart("SciPy has nan; it falls without bound", lambda x: x == INF, -INF),)),
    row("fresnel", "real", apart=(
        Apart("SciPy squares x, which overflows", lambda x: np.abs(x) > 1e150, lambda x: np.copysign(0.5, x)),)),
]

ENTROPY = Apart("SciPy has nan at infinite p, for p log(p / q) - p", lambda p, q: (p == INF) & (q > 0) & (q < INF), INF)
OF_GAMMA = [
    row("beta", "few", "few", grads=(), tol=4, apart=(
        Apart(DIGITS, lambda a, b: none_special(a, b) & ~pole(a) & ~pole(b), exactly(mpmath.beta)),
        *(Apart(DIGITS, lambda a, b, i=i: limit_at_pole(*(a, b)[::i]), exactly(lambda a, b, i=i: limit(*(a, b)[::i])))
          for i in (1, -1)),
        BOTH_LARGE, LARGEST._replace(right=0.0), OPPOSITE._replace(right=0.0),
        Apart("at two poles inf; SciPy's sign is that of (-1)**b, not of (-1)**a",
              lambda a, b: (b == -1) & pole(a) & (a > -INF), INF),
        Apart("no limit at -inf, which SciPy takes for a pole", lambda a, b: (a == -INF) | (b == -INF), NAN),
        NAN_STAYS)),
    row("betaln", "few", "few", grads=(), log=True, apart=(
        Apart(DIGITS, lambda a, b: none_special(a, b) & ~pole(a) & ~pole(b),
              exactly(lambda a, b: mpmath.log(abs(mpmath.beta(a, b))) if mpmath.beta(a, b) else -mpmath.inf)),
        *(Apart(DIGITS, lambda a, b, i=i: limit_at_pole(*(a, b)[::i]),
                exactly(lambda a, b, i=i: mpmath.log(abs(limit(*(a, b)[::i]))))) for i in (1, -1)),
        BOTH_LARGE._replace(right=-INF), LARGEST, OPPOSITE,
        Apart("no limit at -inf, which SciPy takes for a pole", lambda a, b: (a == -INF) | (b == -INF), NAN),
        NAN_STAYS)),
    row("comb", "few", "few", grads=(), apart=(
        Apart(DIGITS, lambda n, k: none_special(n, k) & (n > 0) & (k > 0) & (k <= n), exactly(mpmath.binomial)),
        Apart(DIGITS, lambda n, k: (n == 1e4) & (np.abs(k) < 1e-30) & (k >= 0), 1.0),
        Apart(DIGITS, lambda n, k: (n > 1e300) & (k > 0) & (k < 1e-9), None),
        Apart("of infinitely many; SciPy has nan for some k", lambda n, k: (n == INF) & (k > 0), INF))),
    row("poch", "few", "few", grads=(), tol=4, apart=(
        Apart("at a pole of gamma(z) alone; SciPy adds m to z, and has nan", lambda z, m: pole(z) & ~whole(m), 0),
        Apart(DIGITS, lambda z, m: none_special(z, m) & ~pole(z) & ~pole(z + m), exactly(mpmath.rf)),
        Apart("1 for all z, and for m below the normal numbers", lambda z, m: (np.abs(m) < 1e-37) & (z == z), None),
        Apart("SciPy has nan for large numbers", lambda z, m: (np.abs(z) > 1e3) | (np.abs(m) > 1e3), None),
        Apart("not mended: z + m is rounded to a whole number",
              lambda z, m: (z != 0) & (np.abs(z) < 1e-6) & (m < 0), None),
        NAN_STAYS)),
    row("polygamma", "order", "real", grads=(1,), integers=(0,), apart=(
        Apart("SciPy adds up terms that cancel", lambda n, x: (x < -1e-9) & (x > -1e9) & ~whole(x),
              exactly(mpmath.polygamma)),
        Apart("not mended: zeta underflows before it is multiplied by the factorial",
              lambda n, x: (n == 20) & (np.abs(x) > 80), None),
        Apart("of even order its limits at a pole have both signs; nan, as SciPy's digamma",
              lambda n, x: below(x) & (n % 2 == 0), NAN),
        Apart("of even order the zero has a sign, as in SciPy's digamma",
              lambda n, x: (x == 0) & (n % 2 == 0), lambda n, x: -np.copysign(INF, x)))),
    row("zeta", "few", "few", no_slope=(
        Apart("below q = 0 it is real for whole x alone", lambda x, q: q < 0, None),), apart=(
        Apart("SciPy has nan; the first term is 2**-x or less", lambda x, q: (x > 2000) & (q >= 2), 0),
        Apart("real for whole x alone", lambda x, q: (q < 0) & ~whole(x), NAN),
        Apart("its limits at a pole have both signs for odd x", lambda x, q: below(q) & (x % 2 == 1) & (x > 1), NAN),
        Apart("the zero has a sign", lambda x, q: (q == 0) & (x > 1) & (x % 2 == 1), lambda x, q: np.copysign(INF, q)),
        Apart("not mended: orders above 2000 and q < 0 are nan", lambda x, q: (x > 2000) & (q < 0), None),
        Apart("no infinite order is whole", lambda x, q: (x == INF) & (q < 0), NAN),
        NAN_STAYS)),
]
OPEN_SHARE = Apart("not mended: from a = 1e7 on the series and the fraction end before they converge",
                   lambda a, x: (a > 1e7) & (x > 0.5 * a) & np.isfinite(a), None)
SHARES = (Apart("SciPy has more than 1", lambda a, x: (a > 0) & (a < 1e-100) & (x > 0) & (x < INF), 1.0),
          Apart("SciPy has nan", lambda a, x: (a > 1e300) & (x < 0.5 * a) & (x >= 0), 0.0), OPEN_SHARE)
NO_MASS = Apart("not mended: the slope in a at a = 0 is that of exp1", lambda a, x: np.abs(a) < 1e-38, None)
SEVERAL = [
    row("boxcox", "few", "few", apart=(
        Apart(UNDERFLOW, lambda x, p: (x == np.where(p > 0, 0, INF)) & (np.abs(p) < 1e-150) & (p != 0),
              lambda x, p: -1 / p),), no_slope=(
        Apart("an infinite power", lambda x, p: np.isinf(p), None),
        Apart("negative, or 0 if what is below the normal numbers is", lambda x, p: (x < 0) & (x > -1e-37), None))),
    row("boxcox1p", "few", "few", apart=(
        Apart(UNDERFLOW, lambda x, p: (x == np.where(p > 0, -1, INF)) & (np.abs(p) < 1e-150) & (p != 0),
              lambda x, p: -1 / p),), no_slope=(Apart("an infinite power", lambda x, p: np.isinf(p), None),)),
    row("gammainc", "few", "few", apart=SHARES, no_slope=(NO_MASS, OPEN_SHARE)),
    row("gammaincc", "few", "few", no_slope=(NO_MASS, OPEN_SHARE),
        apart=(SHARES[1]._replace(right=1.0), OPEN_SHARE)),
    row("kl_div", "few", "few", apart=(
        ENTROPY, Apart(UNDERFLOW, lambda p, q: (q > 1e300) & (q < INF) & (p > 0) & (p < 1e-150), lambda p, q: q))),
    row("rel_entr", "few", "few"),
    row("owens_t", "few", "few", apart=(
        Apart("SciPy has 8 digits", lambda h, a: (np.abs(h) == 30) & (np.abs(a) < 1e-9) & (a != 0), exactly(
            lambda h, a: a * mpmath.exp(-h * h / 2) / (2 * mpmath.pi))),)),
    *(row(name, "few", "few", no_slope=(
        Apart("near 0 it is nan", lambda x, y, s=s: (y < s) & (np.abs(x) < 1e-37), None),))
      for name, s in (("xlogy", 0.0), ("xlog1py", -1.0))),
    row("expn", "order", "real", grads=(1,)),
    row("betainc", "shape", "shape", "share", grads=(2,), no_slope=(
        Apart("all mass in one point", lambda a, b, x: (a == 0) | (b == 0), None),)),
]
def of_pair(name: str) -> Callable[..., Any]:
    """A reduction of pairs as a function of two arguments."""
    return lambda x, y: jnp.reshape(getattr(special, name)(jnp.stack([x, y], -1), axis=-1), (len(x), -1))[:, 0]


def pair_oracle(name: str) -> Callable[..., Any]:
    return lambda x, y: np.reshape(getattr(oracle, name)(np.stack([x, y], -1), axis=-1), (len(x), -1))[:, 0]


SMALL = (0.0, -0.0, 1e-10, -1.0, 0.5, 2.0, 30.0, NAN)
PARAMETERS = (0.0, -1.0, 0.5, 1.0, 2.5, NAN)
OTHERS = [
    row("bessel_jn", [*SMALL, -2.0], oracle=lambda z: tuple(oracle.jv(k, z) for k in range(3)),
        fun=lambda z: tuple(special.bessel_jn(z, v=2, n_iter=80))),
    row("hyp1f1", PARAMETERS, PARAMETERS, [*SMALL, -0.5, -30.0], grads=(2,), tol=10, apart=(
        Apart("SciPy has a number where the series ends before its pole", lambda a, b, x: pole(b), None),)),
    row("hyp2f1", PARAMETERS, PARAMETERS, PARAMETERS, [0.0, -0.5, 0.5, -30.0, 1.0, 2.0, NAN], grads=(3,), tol=100,
        apart=(
        Apart("SciPy has a number where the series ends before its pole", lambda a, b, c, x: pole(c), None),
        NAN_STAYS)),
    row("multigammaln", "real", fun=lambda a: special.multigammaln(a, 1), oracle=oracle.gammaln,
        apart=(C_LIBRARY,)),
    row("logsumexp", "few", "few", fun=of_pair("logsumexp"), oracle=pair_oracle("logsumexp"), log=True),
    row("softmax", "few", "few", fun=of_pair("softmax"), oracle=pair_oracle("softmax"), grads=()),
    row("log_softmax", "few", "few", fun=of_pair("log_softmax"), oracle=pair_oracle("log_softmax"), log=True, grads=(),
        apart=(Apart("SciPy has numbers where its softmax is nan", lambda x, y: (x == INF) | (y == INF), NAN),)),
    row("sph_harm_y", [0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [*SMALL, -0.5], [*SMALL, -0.5], grads=(), integers=(0, 1),
        fun=lambda n, m, t, p: special.sph_harm_y(n, m, t, p, n_max=2), tol=4,
        oracle=lambda n, m, t, p: oracle.sph_harm_y(n.astype(int), m.astype(int), t, p),
        apart=(Apart("no such order", lambda n, m, t, p: np.abs(m) > n, None),)),
]
ROWS = [*ONE_ARGUMENT, *OF_GAMMA, *SEVERAL, *OTHERS]
WITHOUT_ENDS = {"bernoulli": "its argument is a static integer"}
