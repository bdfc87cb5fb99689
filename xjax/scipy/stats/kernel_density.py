"""Gaussian kernel density estimates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

import xjax.numpy as jnp
from xjax import lax, random
from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.tree_nodes import register_pytree_node_class
from xjax.core.types import typeof
from xjax.nn.logsumexp import logsumexp
from xjax.numpy.promote import array_like, promote_inexact, shape_of
from xjax.runtime.one_launch import one_launch
from xjax.scipy.normal_distribution import ndtr
from xjax.scipy.stats.multivariate_normal import log_peak, whitened
from xjax.typing import Array, ArrayLike, PRNGKey

_CALLER = "scipy.stats.gaussian_kde"
Bandwidth: TypeAlias = "str | ArrayLike | Callable[[gaussian_kde], ArrayLike] | None"


@register_pytree_node_class
class gaussian_kde:
    """A density estimated from points: the mean of normal densities around each point.

    The estimate is immutable, and a pytree of these attributes: dataset[d, n], weights[n], neff (the effective number
    of points), covariance[d, d] (that of each kernel, proportional to that of the data), and its inverse, inv_cov.

    Args:
      dataset: [d, n] or [n], real; more than one element.
      bw_method: the ratio of the width of kernels to that of the data: a number, a function of the estimate, or
        'scott' (the default): ``neff**(-1 / (d + 4))``; 'silverman': ``(neff (d + 2) / 4)**(-1 / (d + 4))``.
      weights: [n], with any sum; None: all equal.
    Raises: ValueError for an empty dataset, weights of another shape or an unknown method; NotImplementedError for
      complex numbers.

    >>> kde = gaussian_kde(np.array([-1.0, 0.0, 1.0]))
    >>> round(float(kde.integrate_box_1d(-np.inf, 0.0)), 4)
    0.5
    """

    __slots__ = ("covariance", "dataset", "inv_cov", "neff", "weights")
    _CHILDREN = ("neff", "dataset", "weights", "covariance", "inv_cov")

    def __init__(self, dataset: ArrayLike, bw_method: Bandwidth = None, weights: ArrayLike | None = None) -> None:
        dataset, weights = _checked_sample(dataset, weights)
        self._set(dataset=dataset, weights=weights, neff=1 / jnp.sum(jnp.square(weights)))
        factor = self._factor("scott" if bw_method is None else bw_method)
        spread = jnp.atleast_2d(jnp.cov(dataset, bias=False, aweights=weights))
        self._set(covariance=spread * factor ** 2, inv_cov=jnp.linalg.inv(spread) / factor ** 2)

    def _factor(self, bw_method: Bandwidth) -> Any:
        if callable(bw_method):
            return bw_method(self)
        if isinstance(bw_method, str):
            share = {"scott": 1, "silverman": (self.d + 2) / 4}.get(bw_method)
            if share is not None:
                return jnp.power(share * self.neff, -1 / (self.d + 4))
        elif not shape_of(array_like(_CALLER, bw_method)):
            return bw_method
        raise bad(_CALLER, "unknown bandwidth method", given={"bw_method": bw_method},
                  fix="pass 'scott', 'silverman', a number or a function of the estimate.", exc=ValueError)

    def _set(self, **attributes: Array) -> None:
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise bad(_CALLER, f"an estimate is immutable; `{name}` cannot be set", fix="create another estimate.",
                  exc=AttributeError)

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays, for `xjax.tree`."""
        return tuple(getattr(self, name) for name in self._CHILDREN), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Sequence[Any]) -> gaussian_kde:
        """The estimate with these arrays, which are not checked."""
        kde = cls.__new__(cls)
        kde._set(**dict(zip(cls._CHILDREN, children, strict=True)))
        return kde

    @property
    def d(self) -> int:
        """Dimension of the points."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """Number of points."""
        return self.dataset.shape[1]

    def evaluate(self, points: ArrayLike) -> Array:
        """Density at points: float[m] for points[d, m], also [m] if d is 1, or [d] for one point.

        Raises: ValueError for points of another dimension; NotImplementedError for complex ones.
        """
        return _density(self._points("evaluate", points), self.dataset, self.weights, self.covariance)

    __call__ = evaluate

    def pdf(self, x: ArrayLike) -> Array:
        """Density at x: `evaluate`."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """Logarithm of the density at x, in the forms of `evaluate`; finite where the density underflows."""
        return _log_density(self._points("logpdf", x), self.dataset, self.weights, self.covariance)

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """Integral of the estimate times a normal density of mean[d] and cov[d, d].

        Raises: ValueError for other shapes.
        """
        mean, cov = jnp.atleast_1d(jnp.squeeze(jnp.asarray(mean))), jnp.atleast_2d(cov)
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise bad(f"{_CALLER}.integrate_gaussian", f"the arguments must have dimension {self.d}",
                      given={"mean": typeof(mean), "cov": typeof(cov)}, exc=ValueError,
                      fix=f"pass a mean of shape [{self.d}] and a cov of shape [{self.d}, {self.d}].")
        return _density(mean[:, None], self.dataset, self.weights, self.covariance + cov)[0]

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """Integral of an estimate of dimension 1 between two numbers, `low` and `high`.

        Raises: ValueError for another dimension, or unless the limits are numbers.
        """
        caller = f"{_CALLER}.integrate_box_1d"
        if self.d != 1:
            raise bad(caller, f"the estimate has dimension {self.d}, not 1", exc=ValueError,
                      fix="sum the estimate over a grid of points.")
        if shape_of(array_like(caller, low)) or shape_of(array_like(caller, high)):
            raise bad(caller, "the limits must be numbers", given={"low": typeof(low), "high": typeof(high)},
                      fix="map over the limits with vmap.", exc=ValueError)
        return _box(low, high, self.dataset, self.weights, self.covariance)

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """Integral of the product of two estimates.

        Raises: ValueError if their dimensions differ.
        """
        if other.d != self.d:
            raise bad(f"{_CALLER}.integrate_kde", "the estimates differ in dimension", exc=ValueError,
                      given={"first": f"dimension {self.d}", "second": f"dimension {other.d}"},
                      fix="estimate both from points of the same dimension.")
        at_points = _density(other.dataset, self.dataset, self.weights, self.covariance + other.covariance)
        return jnp.sum(at_points * other.weights)

    def resample(self, key: PRNGKey, shape: Sequence[int] = ()) -> Array:
        """Random points of the estimated density: [d, *shape]."""
        shape = tuple(shape)
        pick_key, noise_key = random.split(key)
        picked = random.choice(pick_key, self.n, shape=shape, p=self.weights)
        noise = random.multivariate_normal(noise_key, jnp.zeros(self.d, self.covariance.dtype), self.covariance,
                                           shape=shape, dtype=self.dataset.dtype)
        return self.dataset[:, picked] + jnp.moveaxis(noise, -1, 0)

    def integrate_box(self, low_bounds: ArrayLike, high_bounds: ArrayLike, maxpts: int | None = None) -> NoReturn:
        """Not supported: raises NotImplementedError."""
        raise bad(f"{_CALLER}.integrate_box", "integrals over boxes are supported for dimension 1 only",
                  fix="use integrate_box_1d.", exc=NotImplementedError)

    def set_bandwidth(self, bw_method: Bandwidth = None) -> None:
        """Not supported: raises NotImplementedError."""
        raise bad(f"{_CALLER}.set_bandwidth", "an estimate is immutable", exc=NotImplementedError,
                  fix="create another one: gaussian_kde(kde.dataset, bw_method, kde.weights).")

    def _points(self, name: str, points: ArrayLike) -> Array:
        points = _real(f"{_CALLER}.{name}", points)
        if points.shape[0] == self.d:
            return points
        if points.shape == (1, self.d):
            return points.T
        raise bad(f"{_CALLER}.{name}", "the points must have the dimension of the estimate", exc=ValueError,
                  given={"points": typeof(points), "dataset": typeof(self.dataset)},
                  fix=f"pass points of shape [{self.d}, m].")


def _real(caller: str, x: ArrayLike) -> Array:
    """`x` with two axes. Raises: NotImplementedError for complex numbers."""
    rows: Array = jnp.atleast_2d(jnp.asarray(array_like(caller, x)))
    if dtypes.is_complex(rows.dtype):
        raise bad(caller, "complex numbers are not supported", given={"argument": typeof(rows)},
                  fix="pass real and imaginary parts as two dimensions.", exc=NotImplementedError)
    return rows


def _checked_sample(dataset: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
    """The dataset with two axes, and weights that sum to 1, in one float dtype."""
    dataset = _real(_CALLER, dataset)
    if dataset.size < 2:
        raise bad(_CALLER, "the dataset must have several elements", given={"dataset": typeof(dataset)},
                  fix="pass an array of shape [d, n] or [n].", exc=ValueError)
    n = dataset.shape[1]
    if weights is None:
        dataset, = promote_inexact(_CALLER, dataset)
        return dataset, jnp.full(n, 1 / n, dataset.dtype)
    dataset, weights = promote_inexact(_CALLER, dataset, weights)
    weights = jnp.atleast_1d(weights)
    if weights.shape != (n,):
        raise bad(_CALLER, "there must be one weight for each point",
                  given={"dataset": typeof(dataset), "weights": typeof(weights)},
                  fix=f"pass weights of shape [{n}].", exc=ValueError)
    return jnp.asarray(dataset), weights / jnp.sum(weights)


def _log_kernels(points: Array, dataset: Array, covariance: Array) -> Array:
    """Logarithms of the normal densities at points[d, m] around those of dataset[d, n]: float[m, n]."""
    points, dataset, covariance = promote_inexact(_CALLER, points, dataset, covariance)
    factor = lax.linalg.cholesky(covariance)
    at, around = whitened(factor, points.T), whitened(factor, dataset.T)
    return log_peak(factor) - 0.5 * jnp.sum(jnp.square(at[:, None] - around[None]), -1)


@one_launch(arrays=4)
def _density(points: Array, dataset: Array, weights: Array, covariance: Array) -> Array:
    return jnp.sum(weights[None] * jnp.exp(_log_kernels(points, dataset, covariance)), -1)


@one_launch(arrays=4)
def _log_density(points: Array, dataset: Array, weights: Array, covariance: Array) -> Array:
    return logsumexp(jnp.log(weights)[None] + _log_kernels(points, dataset, covariance), -1)


@one_launch(arrays=5)
def _box(low: ArrayLike, high: ArrayLike, dataset: Array, weights: Array, covariance: Array) -> Array:
    sigma = jnp.sqrt(covariance[0])
    below, above = ((limit - dataset[0]) / sigma for limit in (low, high))
    return jnp.sum(weights * (ndtr(above) - ndtr(below)))
