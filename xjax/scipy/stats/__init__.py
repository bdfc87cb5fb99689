"""Distributions and statistics: the public namespace `xjax.scipy.stats`.

Each distribution is a module with functions of arrays, element by element but for the last three: `norm.logpdf(x, loc,
scale)`. Arguments are promoted to floats of one dtype, and broadcast. The values are those of JAX, with these rules:

- A probability or density of a distribution that does not exist, because of a parameter outside of its domain, is nan,
  as in SciPy. So is a quantile of a probability outside of [0, 1].
- Far tails keep their digits as far as floats reach; where a logarithm is asked for, farther, but for those of the
  incomplete integrals: gamma, chi2 and beta.
- Outside of the support densities are 0, their logarithms -inf, and derivatives 0.
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
