"""Predictions of infinitely wide networks: Gaussian processes, and networks trained by gradient flow.

A network of infinite width that gradient descent trains with small steps stays a linear function of its parameters, so
its outputs follow a differential equation with the neural tangent kernel (Jacot et al., 2018; Lee et al., 2019). The
loss is the mean over all outputs, ``sum((f - y)**2) / (2 y.size)`` for the squared error; time is the number of steps
times the learning rate. The names and the arguments are those of neural-tangents.

Kernels are [n1, n2], or [n1, n2, *positions, *positions] for outputs with positions. Targets are [n, *positions,
features]; the kernel is the same for all features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax
from xjax.errors import bad, check_choice
from xjax.experimental.ode import odeint
from xjax.typing import Array, ArrayLike, PyTree
from xnn.covariance.evaluation import KINDS, Kernels, as_requested
from xnn.kernels.solve import IllConditioned, Solver, regularized, solver_of
from xnn.layer import Layer

__all__ = ["Gaussian", "IllConditioned", "gp_inference", "gradient_descent", "gradient_descent_mse",
           "gradient_descent_mse_ensemble", "max_learning_rate"]


class Gaussian(NamedTuple):
    """A normal distribution of outputs.

    Attributes:
      mean: [n, *output]
      covariance: of the inputs, for each feature: [n, n]; with positions [n, n, *positions, *positions].
    """

    mean: Array
    covariance: Array


Get: TypeAlias = str | Sequence[str] | None
# Kernels, or an array that stands for each of them.
KernelsLike: TypeAlias = Kernels | ArrayLike
Predict: TypeAlias = Callable[..., PyTree]


# -- posteriors --------------------------------------------------------------------------------------------------------


def gp_inference(k_train_train: KernelsLike, y_train: ArrayLike, diag_reg: float = 0.0, *,
                 diag_reg_absolute_scale: bool = False, solver: Solver = "cholesky",
                 rank: int | None = None) -> Predict:
    """``(get, k_test_train, k_test_test=None) -> mean, or Gaussian with k_test_test``.

    get="nngp": the posterior of a network whose weights have their prior and all outputs are observed. get="ntk": the
    distribution of networks trained by gradient flow for infinite time, from random weights. get="ntkgp": the posterior
    of a Gaussian process whose covariance is the NTK (He et al., 2020).

    Args:
      k_train_train: the kernels of the training inputs: `Kernels` of ``model.kernel(x_train)``; an array serves each
        `get`.
      y_train: targets [n, *output].
      diag_reg: regularization: a multiple of the mean of the diagonal, which is added to the diagonal.
      diag_reg_absolute_scale: whether it is added as it is, as the variance of the noise of targets.
      solver, rank: see `xnn.kernels.solve`.
    Raises: ValueError for a matrix that is not positive definite.
    """
    y, shape = _columns("gp_inference", k_train_train, y_train)
    solvers: dict[str, Callable[[Array], Array]] = {}

    def solve(kind: str, b: Array) -> Array:
        if kind not in solvers:
            matrix = regularized("gp_inference", _matrix(_one(k_train_train, kind)), diag_reg, diag_reg_absolute_scale)
            solvers[kind] = solver_of("gp_inference", matrix, solver, rank)
        return solvers[kind](b)

    def of_kind(kind: str, k_test_train: KernelsLike | None, k_test_test: KernelsLike | None) -> Array | Gaussian:
        check_choice("gp_inference", "get", kind, (*KINDS, "ntkgp"))
        which = "nngp" if kind == "nngp" else "ntk"
        across = _matrix(_one(k_train_train if k_test_train is None else k_test_train, which))
        mean = shape.outputs(across @ solve(which, y))
        if k_test_test is None:
            return mean
        weights = solve(which, across.T).T                                  # [test, train]
        if kind == "ntk":
            prior = _matrix(_one(k_test_test, "nngp"))
            cross = weights @ _matrix(_one(k_train_train if k_test_train is None else k_test_train, "nngp")).T
            covariance = prior + weights @ _matrix(_one(k_train_train, "nngp")) @ weights.T - cross - cross.T
        else:
            covariance = _matrix(_one(k_test_test, which)) - weights @ across.T
        return Gaussian(mean, shape.covariance(covariance))

    def predict(get: Get = None, k_test_train: KernelsLike | None = None,
                k_test_test: KernelsLike | None = None) -> PyTree:
        return _for_each(get, lambda kind: of_kind(kind, k_test_train, k_test_test))

    return predict


def _for_each(get: Get, of_kind: Callable[[str], Array | Gaussian]) -> PyTree:
    kinds = [get] if isinstance(get, str) else KINDS if get is None else get
    return as_requested(get, [of_kind(kind) for kind in kinds])


def _one(kernels: KernelsLike, kind: str) -> Array:
    return jnp.asarray(getattr(kernels, kind) if hasattr(kernels, kind) else kernels)


# -- training with the mean squared error ------------------------------------------------------------------------------


def gradient_descent_mse(k_train_train: ArrayLike, y_train: ArrayLike, learning_rate: float = 1.0,
                         diag_reg: float = 0.0, *, diag_reg_absolute_scale: bool = False) -> Predict:
    """``(t, fx_train_0=0, fx_test_0=None, k_test_train=None) -> outputs at time t``, in closed form.

    Returns a function. It gives the outputs for the training inputs, and with `k_test_train` the pair of them and those
    for the test inputs. t is a number of steps, an array of them (the result then has its axes first), or None for the
    end of training.

    Args:
      k_train_train: the NTK of the training inputs, of a finite or an infinite network.
      y_train: targets [n, *output].
      learning_rate: that of gradient descent on ``sum((f - y)**2) / (2 y.size)``.
      diag_reg, diag_reg_absolute_scale: as in `gp_inference`.
    """
    y, shape = _columns("gradient_descent_mse", k_train_train, y_train)
    matrix = regularized("gradient_descent_mse", _matrix(jnp.asarray(k_train_train)), diag_reg, diag_reg_absolute_scale)
    spectrum = _Spectrum("gradient_descent_mse", matrix, learning_rate / y.size)

    def predict(t: ArrayLike | None = None, fx_train_0: ArrayLike = 0.0, fx_test_0: ArrayLike | None = None,
                k_test_train: ArrayLike | None = None) -> PyTree:
        start = shape.columns(fx_train_0, y.shape[0])
        at, times = spectrum.at(t)
        train = shape.outputs(y[None] + at.decay(start - y), times)
        if k_test_train is None:
            return train
        across = _matrix(jnp.asarray(k_test_train))
        begin = shape.columns(0.0 if fx_test_0 is None else fx_test_0, across.shape[0])
        return train, shape.outputs(begin[None] + across @ at.progress(y - start), times)

    return predict


class _Spectrum:
    """A kernel matrix with functions of it, ``exp(-rate t K)`` and ``K^-1 (1 - exp(-rate t K))``."""

    def __init__(self, caller: str, matrix: Array, rate: float) -> None:
        self.caller, self.matrix, self.rate = caller, matrix, rate
        self._eigen: Any = None
        self._solve: Callable[[Array], Array] | None = None

    def at(self, t: ArrayLike | None) -> tuple[_AtTimes | _AtEnd, tuple[int, ...]]:
        """The functions at time t, and the axes of t."""
        if t is None:
            self._solve = self._solve or solver_of(self.caller, self.matrix)
            return _AtEnd(self._solve), ()
        if self._eigen is None:
            self._eigen = xjax.jit(jnp.linalg.eigh)(self.matrix)
        values, vectors = self._eigen
        times = jnp.asarray(t, self.matrix.dtype)
        return _AtTimes(values, vectors, jnp.ravel(times) * self.rate), times.shape


class _AtEnd(NamedTuple):
    """At infinite time, as `_AtTimes` for one time: everything has decayed."""

    solve: Callable[[Array], Array]

    def decay(self, b: Array) -> Array:
        return jnp.zeros_like(b)[None]

    def progress(self, b: Array, power: int = 1) -> Array:
        return self.solve(b)[None]


class _AtTimes(NamedTuple):
    """At finite times [times]: arrays with a first axis for them."""

    values: Array
    vectors: Array
    times: Array

    def _by_eigenvalue(self, factors: Array, b: Array) -> Array:
        """Args: factors: [times, n]."""
        return self.vectors @ (factors[:, :, None] * (self.vectors.T @ b)[None])

    def decay(self, b: Array) -> Array:
        return self._by_eigenvalue(jnp.exp(-self._exponents()), b)

    def progress(self, b: Array, power: int = 1) -> Array:
        """``K^-1 (1 - exp(-power rate t K)) b``."""
        exponents = power * self._exponents()
        values = self.values[None]
        small = values <= jnp.finfo(values.dtype).eps * jnp.max(values)
        factors = jnp.where(small, power * self.times[:, None], -jnp.expm1(-exponents) / jnp.where(small, 1, values))
        return self._by_eigenvalue(factors, b)

    def _exponents(self) -> Array:
        return jnp.maximum(self.values, 0)[None] * self.times[:, None]


def gradient_descent_mse_ensemble(kernel: Layer | Callable[..., PyTree], x_train: ArrayLike, y_train: ArrayLike,
                                  learning_rate: float = 1.0, diag_reg: float = 0.0, *,
                                  diag_reg_absolute_scale: bool = False, **options: object) -> Predict:
    """``(t, x_test, get, compute_cov=False) -> mean or Gaussian``: an ensemble of infinitely many trained networks.

    Returns a function. get="ntk" is the distribution, over random initial weights, of networks trained by gradient flow
    up to t; "nngp" that of networks of which the last layer is trained only. t is as in `gradient_descent_mse`; x_test
    None predicts the training inputs.

    Args:
      kernel: ``(x1, x2, get=..., **options) -> kernels``: the method `kernel` of a model, or a model.
      options: arguments of `kernel`, such as `parameterization`.
      Others: as in `gradient_descent_mse`.
    """
    of = getattr(kernel, "kernel", kernel)
    x_train = jnp.asarray(x_train)
    train = of(x_train, None, get=KINDS, **options)
    y, shape = _columns("gradient_descent_mse_ensemble", train, y_train)
    spectra: dict[str, _Spectrum] = {}

    def of_kind(kind: str, t: ArrayLike | None, x_test: ArrayLike | None, compute_cov: bool) -> Array | Gaussian:
        check_choice("gradient_descent_mse_ensemble", "get", kind, KINDS)
        if kind not in spectra:
            matrix = regularized("gradient_descent_mse_ensemble", _matrix(_one(train, kind)), diag_reg,
                                 diag_reg_absolute_scale)
            spectra[kind] = _Spectrum("gradient_descent_mse_ensemble", matrix, learning_rate / y.size)
        at, times = spectra[kind].at(t)
        across = train if x_test is None else of(x_test, x_train, get=KINDS, **options)
        k_across = _matrix(_one(across, kind))
        mean = shape.outputs(k_across @ at.progress(y), times)
        if not compute_cov:
            return mean
        prior = _matrix(train.nngp if x_test is None else of(x_test, None, get="nngp", **options))
        if kind == "nngp":
            covariance = prior[None] - k_across @ at.progress(k_across.T, 2)
        else:
            weights = jnp.swapaxes(at.progress(k_across.T), -1, -2)
            cross = weights @ _matrix(across.nngp).T
            covariance = (prior[None] + weights @ _matrix(train.nngp) @ jnp.swapaxes(weights, -1, -2) - cross
                          - jnp.swapaxes(cross, -1, -2))
        return Gaussian(mean, shape.covariance(covariance, times))

    def predict(t: ArrayLike | None = None, x_test: ArrayLike | None = None, get: Get = None,
                compute_cov: bool = False) -> PyTree:
        return _for_each(get, lambda kind: of_kind(kind, t, x_test, compute_cov))

    return predict


# -- training with any loss --------------------------------------------------------------------------------------------


def gradient_descent(loss: Callable[[Array, Array], Array], k_train_train: ArrayLike, y_train: ArrayLike,
                     learning_rate: float = 1.0, momentum: float | None = None, *, rtol: float = 1e-6,
                     atol: float = 1e-6) -> Predict:
    """``(t, fx_train_0=0, fx_test_0=None, k_test_train=None) -> outputs at time t``, for any loss.

    Returns a function, as `gradient_descent_mse` does, which solves the differential equation
    ``df/dt = -learning_rate K dloss/df``. With momentum m it is the limit for small steps of the heavy-ball method:
    ``d2f/ds2 + (1 - m) / sqrt(learning_rate) df/ds = -K dloss/df`` at the time ``s = sqrt(learning_rate) t``.

    Args:
      loss: ``(outputs, y_train) -> number``, with a mean over inputs and outputs.
      k_train_train, y_train, learning_rate: as in `gradient_descent_mse`.
      momentum: between 0 and 1; None: no momentum.
      rtol, atol: error of the solver.
    """
    y_train = jnp.asarray(y_train)
    y, shape = _columns("gradient_descent", k_train_train, y_train)
    matrix = _matrix(jnp.asarray(k_train_train))
    if momentum is not None and not 0 <= momentum < 1:
        raise bad("gradient_descent", "momentum must be at least 0 and below 1", {"momentum": momentum},
                  "momentum=0.9, or None.", ValueError)
    slope = xjax.grad(lambda columns: loss(shape.outputs(columns), y_train))
    speed = learning_rate if momentum is None else math.sqrt(learning_rate)

    def predict(t: ArrayLike, fx_train_0: ArrayLike = 0.0, fx_test_0: ArrayLike | None = None,
                k_test_train: ArrayLike | None = None) -> PyTree:
        across = jnp.zeros((0, y.shape[0]), y.dtype) if k_test_train is None else _matrix(jnp.asarray(k_test_train))
        begin = shape.columns(0.0 if fx_test_0 is None else fx_test_0, across.shape[0])
        start = (shape.columns(fx_train_0, y.shape[0]), begin)

        def force(outputs: PyTree) -> PyTree:
            by_output = slope(outputs[0])
            return -(matrix @ by_output), -(across @ by_output)

        def flow(state: PyTree, _: Array) -> PyTree:
            return force(state)

        def heavy_ball(state: PyTree, _: Array) -> PyTree:
            friction = (1 - (momentum or 0.0)) / math.sqrt(learning_rate)
            pulls = force(state[0])
            return state[1], tuple(pull - friction * v for pull, v in zip(pulls, state[1], strict=True))

        times = jnp.asarray(t, y.dtype)
        flat = jnp.ravel(times) * speed
        order = jnp.argsort(flat)
        ordered = jnp.concatenate([jnp.zeros((1,), y.dtype), flat[order]])
        if momentum is None:
            train, test = odeint(flow, start, ordered, rtol=rtol, atol=atol)
        else:
            still = tuple(jnp.zeros_like(one) for one in start)
            (train, test), _ = odeint(heavy_ball, (start, still), ordered, rtol=rtol, atol=atol)
        back = jnp.argsort(order) + 1
        results = [shape.outputs(one[back], times.shape) for one in (train, test)]
        return results[0] if k_test_train is None else tuple(results)

    return predict


def max_learning_rate(ntk_train_train: ArrayLike, y_train_size: int | None = None, momentum: float = 0.0) -> float:
    """The largest learning rate with which gradient descent on the mean squared error converges.

    It is ``2 (1 + momentum) y_train_size / lambda``, for the largest eigenvalue lambda of the kernel.

    Args:
      y_train_size: the number of targets; None: the size of the kernel, for one output of each input.
      momentum: of the heavy-ball method.

    >>> max_learning_rate(jnp.eye(4) * 2.0)
    4.0
    """
    matrix = _matrix(jnp.asarray(ntk_train_train))
    n = matrix.shape[0]
    if n == 0:
        return math.inf

    def power(v: Array, _: None) -> tuple[Array, None]:
        v = matrix @ v
        return v / jnp.linalg.norm(v), None

    if n <= 2000:
        largest = jnp.linalg.eigvalsh(matrix)[-1]
    else:
        v = lax.scan(power, jnp.asarray(np.random.default_rng(0).normal(size=n), matrix.dtype), None, length=200)[0]
        largest = v @ matrix @ v
    return float(2 * (1 + momentum) * (n if y_train_size is None else y_train_size) / largest)


# -- matrices and columns ----------------------------------------------------------------------------------------------


def _matrix(kernel: Array) -> Array:
    """A kernel [n1, n2, *positions, *positions] as a matrix of inputs and positions."""
    if kernel.ndim == 2:
        return kernel
    n = (kernel.ndim - 2) // 2
    order = (0, *range(2, 2 + n), 1, *range(2 + n, kernel.ndim))
    rows = math.prod(kernel.shape[axis] for axis in order[:1 + n])
    return jnp.reshape(jnp.transpose(kernel, order), (rows, -1))


class _Shape(NamedTuple):
    """The shape of outputs: positions, which the kernel has, and features, for which it is the same."""

    positions: tuple[int, ...]
    features: tuple[int, ...]

    def columns(self, outputs: ArrayLike, rows: int) -> Array:
        """Outputs [n, *positions, *features], or a number, as [n * positions, features]."""
        width = math.prod(self.features)
        outputs = jnp.asarray(outputs)
        if outputs.ndim == 0:
            return jnp.broadcast_to(outputs.astype(jnp.zeros(()).dtype), (rows, width))
        return jnp.reshape(outputs, (rows, width))

    def outputs(self, columns: Array, times: tuple[int, ...] = ()) -> Array:
        """[..., n * positions, features] -> [*times, n, *positions, *features]."""
        n = columns.shape[-2] // max(math.prod(self.positions), 1)
        return jnp.reshape(columns, (*times, n, *self.positions, *self.features))

    def covariance(self, matrix: Array, times: tuple[int, ...] = ()) -> Array:
        """A matrix as [*times, n, n, *positions, *positions]."""
        if not self.positions:
            return jnp.reshape(matrix, (*times, *matrix.shape[-2:]))
        n = matrix.shape[-1] // math.prod(self.positions)
        split = jnp.reshape(matrix, (*times, n, *self.positions, n, *self.positions))
        return jnp.moveaxis(split, len(times) + 1 + len(self.positions), len(times) + 1)


def _columns(caller: str, kernel: KernelsLike, y: ArrayLike) -> tuple[Array, _Shape]:
    """The targets as columns, and the shape of outputs. Raises: ValueError if the kernel is not that of the targets."""
    y = jnp.asarray(y)
    y = y if jnp.issubdtype(y.dtype, np.floating) else y.astype(jnp.zeros(()).dtype)
    first = jnp.asarray(kernel[0] if isinstance(kernel, tuple) else kernel)
    n = (first.ndim - 2) // 2
    shape = _Shape(y.shape[1:1 + n], y.shape[1 + n:])
    if y.ndim < 1 + n or first.shape[2:2 + n] != shape.positions or first.shape[:1] != y.shape[:1]:
        raise bad(caller, "the kernel is not that of the targets",
                  {"kernel": str(first.shape), "y_train": str(y.shape)},
                  "pass targets [n, *positions, features] for a kernel [n, n, *positions, *positions].", ValueError)
    return shape.columns(y, y.shape[0] * math.prod(shape.positions)), shape
