"""Distributions and statistics: the public namespace `xjax.scipy.stats`.

Each distribution is a module of functions, such as `norm.logpdf(x, loc, scale)`. They are element-wise, except those of
dirichlet, multinomial and multivariate_normal. Arguments are promoted to floats of one dtype, and broadcast. The values
are those of JAX, with these rules:

- If a parameter is outside of its domain, the result is nan, as in SciPy. So is a quantile of a probability outside of
  [0, 1].
- Probabilities of far tails keep their digits over the whole range of floats. Their logarithms keep them beyond that
  range too, except for gamma, chi2 and beta, which use incomplete integrals.
- Outside of the support densities are 0, their logarithms -inf, and their derivatives 0.
"""

from xjax.core.public import attributes_of
from xjax.scipy.stats import (
    bernoulli,
    beta,
    betabinom,
    binom,
    cauchy,
    chi2,
    dirichlet,
    expon,
    gamma,
    gennorm,
    geom,
    gumbel_l,
    gumbel_r,
    laplace,
    logistic,
    multinomial,
    multivariate_normal,
    nbinom,
    norm,
    pareto,
    poisson,
    t,
    truncnorm,
    uniform,
    vonmises,
    wrapcauchy,
)
from xjax.scipy.stats.kernel_density import gaussian_kde
from xjax.scipy.stats.summaries import mode, rankdata, sem

__all__ = [
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gaussian_kde",
    "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace", "logistic", "mode", "multinomial", "multivariate_normal",
    "nbinom", "norm", "pareto", "poisson", "rankdata", "sem", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy"]

__getattr__ = attributes_of(__name__)
