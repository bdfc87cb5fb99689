"""Regression with a kernel matrix, in NumPy and float64: the ridge, and distributions of its predictions.

The prediction is the mean of a Gaussian process with the covariance ``s (K + r I)``: K the kernel, r the ridge, s a
scale that the mean does not depend on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

SMALLEST = 10 * float(np.finfo(np.float64).eps)               # an eigenvalue relative to the largest: below is rounding


class Solution(NamedTuple):
    """A kernel regression with one ridge.

    Attributes:
      ridge: the number that is added to the diagonal.
      dual: [n, k]; the prediction for a point is ``mean + kernel(point, training points) @ dual``.
      left_out: [n, k], the prediction for each training point from all others.
      left_out_variance: [n], its variance, for a scale of 1, with that of the noise.
      scale: the scale with the highest marginal likelihood.
      log_evidence: logarithm of the marginal likelihood with this scale, for each target.
      condition: of the matrix with the ridge.
    """

    ridge: float
    dual: np.ndarray
    left_out: np.ndarray
    left_out_variance: np.ndarray
    scale: float
    log_evidence: float
    condition: float


class Ridge:
    """Kernel regression for any ridge, by one decomposition of the kernel.

    Args: kernel: [n, n], symmetric; y: targets [n, k].  Attributes: mean: of the targets [k]; values: the eigenvalues.
    """

    def __init__(self, kernel: np.ndarray, y: np.ndarray) -> None:
        kernel = np.asarray(kernel, np.float64)
        self.unit = float(np.mean(np.diagonal(kernel)))
        self.mean = y.mean(0)
        self.y = np.asarray(y - self.mean, np.float64)
        self.values, self._vectors = np.linalg.eigh((kernel + kernel.T) / 2)
        self._rotated = self._vectors.T @ self.y

    def is_solvable(self, diag_reg: float) -> bool:
        """Whether the matrix with this ridge is positive definite beyond rounding."""
        low, high = self.values[[0, -1]] + diag_reg * self.unit
        return bool(low > SMALLEST * high)

    def solution(self, diag_reg: float) -> Solution:
        """Args: diag_reg: the ridge in units of the mean of the diagonal."""
        values = self.values + diag_reg * self.unit
        inverse = self._vectors / values                                # [n, n]; times the vectors' transpose
        dual = inverse @ self._rotated
        precision = np.einsum("ij,ij->i", inverse, self._vectors)       # the diagonal of the inverse
        n, k = self.y.shape
        scale = float(np.sum(self.y * dual)) / (n * k)
        evidence = -0.5 * (n * (math.log(2 * math.pi * scale) + 1) + float(np.sum(np.log(values)))) if scale > 0 else (
            -math.inf)
        return Solution(diag_reg * self.unit, dual, self.mean + self.y - dual / precision[:, None], 1 / precision,
                        scale, evidence / n, float(values[-1] / values[0]))

    def factor(self, diag_reg: float) -> np.ndarray:
        """[n, n]: for a point with the kernel k, ``sum((k @ factor)**2)`` is the variance that is explained."""
        return self._vectors / np.sqrt(self.values + diag_reg * self.unit)


def sharpness(values: np.ndarray, labels: np.ndarray) -> float:
    """The factor b with which ``softmax(b * values)`` has the least cross-entropy.

    The loss is convex in b, whose logarithm is searched by bisection of the derivative. Labels are not taken as
    certain: by Laplace's rule, 1 of n + 2 is another class, so that b is finite if all are right (Platt, 1999).

    Args: values: [n, classes]; labels: ids [n].
    """
    n, classes = values.shape
    share = np.full((n, classes), 1 / ((n + 2) * (classes - 1)))
    share[np.arange(n), labels] = 1 - 1 / (n + 2)

    def probabilities(b: float) -> np.ndarray:
        powers = np.exp(b * (values - values.max(1, keepdims=True)))
        return powers / powers.sum(1, keepdims=True)

    low, high = -12.0, 12.0
    for _ in range(60):
        middle = (low + high) / 2
        if np.sum((probabilities(math.exp(middle)) - share) * values) > 0:
            high = middle
        else:
            low = middle
    return math.exp(middle)


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> float:
    """The mean of -log p of classes."""
    above = logits - logits.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(above).sum(1)) - above[np.arange(len(labels)), labels]))


def scale_of(truth: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    """The factor of variances with which normal distributions are most likely."""
    return max(float(np.mean((truth - mean)**2 / variance)), 1e-12)


def negative_log_likelihood(truth: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    """The mean of -log p of normal distributions."""
    return float(np.mean(0.5 * (np.log(2 * math.pi * variance) + (truth - mean)**2 / variance)))


# Half the width of the interval with a probability of a normal distribution, in deviations.
WIDTHS = {0.5: 0.6744897501960817, 0.9: 1.6448536269514722}


def coverage(truth: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> dict[float, float]:
    """Probability of an interval -> the share of the values in it."""
    gaps = np.abs(truth - mean) / deviation
    return {level: float(np.mean(gaps <= width)) for level, width in WIDTHS.items()}
