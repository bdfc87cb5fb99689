"""Normalisation layers and losses of xnn in each dtype: values and derivatives against exact ones."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import cosh, exp, expm1, fsum, log, log1p, mpf, sqrt

import xnn
import xnn.graph
from tests.accuracy.exact_vectors import distinct, dot, halves, largest, logsumexp, mean, moderate, norm, terms, var
from tests.accuracy.points import DTYPES
from tests.accuracy.row import Bound
from tests.accuracy.tally import assert_few_own_bounds
from tests.accuracy.vector_row import VectorRow, errors, over_bound
from tests.sampling import one_in
from xjax import numpy as jnp
from xjax import random, tree_util
from xnn import losses

KEY = random.PRNGKey(0)
GRAPH = xnn.graph.Graph.from_edges(np.array([0, 1]), np.array([1, 0]), n_nodes=4)


# -- exact functions ------------------------------------------------------------------------------------------------

def standardized(epsilon):
    return lambda *x: [(v - mean(*x)) / sqrt(var(*x) + mpf(epsilon)) for v in x]


def grouped(*x):
    """Eight entries, [2 positions, 4 features] in two groups of features."""
    standard = {}
    for of in ((0, 1, 4, 5), (2, 3, 6, 7)):
        standard |= dict(zip(of, standardized(1e-5)(*[x[i] for i in of]), strict=True))
    return [standard[i] for i in range(8)]


def softplus(x):
    return log1p(exp(x)) if x < 0 else x + log1p(exp(-x))


def of_pairs(loss):
    """The mean loss over pairs of a prediction, from the first half, and its target, from the second."""
    return lambda *x: mean(*[loss(a, b) for a, b in zip(*halves(x), strict=True)])


def huber(a, b):
    size = abs(a - b)
    return size ** 2 / 2 if size <= 1 else size - mpf(1) / 2


def of_logits(loss, labels):
    return lambda *x: mean(*[loss(v, y) for v, y in zip(x, labels, strict=True)])


def binary_cross_entropy(x, y):
    return y * softplus(-x) + (1 - y) * softplus(x)


def focal(x, y):
    return y * softplus(-x) * exp(-2 * softplus(x)) / 4 + (1 - y) * softplus(x) * exp(-2 * softplus(-x)) * 3 / 4


def unit(x):
    return [v / norm(2)(*x) for v in x]


def similarity(x, y):
    return dot(*unit(x), *unit(y))


def info_nce(*x):
    queries, keys = ((half[:2], half[2:]) for half in halves(x))
    return mean(*[logsumexp([10 * similarity(q, k) for k in keys]) - 10 * similarity(q, keys[i])
                  for i, q in enumerate(queries)])


def nt_xent(*x):
    views = [x[i:i + 2] for i in range(0, 8, 2)]
    return mean(*[logsumexp([2 * similarity(view, other) for k, other in enumerate(views) if k != i])
                  - 2 * similarity(view, views[(i + 2) % 4]) for i, view in enumerate(views)])


def triplet(*x):
    anchor, near, far = x[:2], x[2:4], x[4:]
    return max(0, norm(2)(*[a - b for a, b in zip(anchor, near, strict=True)])
               - norm(2)(*[a - b for a, b in zip(anchor, far, strict=True)]) + 1)


def ctc(*x):
    """Two positions, the classes blank and 1, the label 1: all outputs except two blanks."""
    first, second = ([v - logsumexp(half) for v in half] for half in halves(x))
    return -logsumexp([first[0] + second[1], first[1] + second[0], first[1] + second[1]])


def gaussian_kl(*x):
    return fsum(expm1(v) + m * m - v for m, v in zip(*halves(x), strict=True)) / 2


# -- functions of xnn -------------------------------------------------------------------------------------------------

def layer_of(layer, shape, *inputs, train=False):
    """`layer` with its initial parameters and state, applied to a vector reshaped to `shape`."""
    def apply(x):
        as_x = lambda tree: tree_util.tree_map(lambda v: v.astype(x.dtype), tree)
        _, params = layer.init(KEY, shape)
        if layer.state is None:
            return layer.apply(as_x(params), x.reshape(shape), *inputs).ravel()
        state = layer.state.init_state(shape)
        return layer.state.apply_with_state(as_x(params), as_x(state), x.reshape(shape), train=train)[0].ravel()
    return apply


def of_halves(loss, *shape):
    def apply(x):
        a, b = halves(x)
        return loss(a.reshape(shape or a.shape), b.reshape(shape or b.shape))
    return apply


def weight_normed(v):
    """The weights v / |v|: weight-normed columns applied to the identity."""
    layer = xnn.weight_norm(xnn.Dense(1))
    _, params = layer.init(KEY, (4, 4))
    params = tree_util.tree_map(lambda leaf: leaf.astype(v.dtype), params)
    params = {**params, "w": {"g": jnp.ones_like(params["w"]["g"]), "v": v.reshape(4, 1)}}
    return layer.apply(params, jnp.eye(4, dtype=v.dtype)).ravel()


def within(bits):
    """Options of a row: entries are 0, or of a size between 2 ** -bits and 2 ** bits."""
    return {"domain": moderate(bits), "bits": bits}


def no_zero(*x):
    return all(x) and moderate(6)(*x)


# The slope of a normalised vector is a sum of terms of the size of entry / length, and may be far smaller than these.

def by_deviation(*x):
    return 1 / float(np.sqrt(np.var(x) + 1e-5))


def by_length(*x):
    return 1 / float(np.linalg.norm(x))


def by_shortest(parts):
    """A scale: the shortest length of `parts` equal parts of the entries determines the size of the terms."""
    return lambda *x: max(by_length(*part) for part in np.split(np.array(x), parts))


# -- the rows ---------------------------------------------------------------------------------------------------------

FOUR, EIGHT = {"sizes": (4,)}, {"sizes": (8,)}
STANDARDIZED = {"scale": lambda *x: 2.0, "sums": by_deviation, **within(6)}
SMALL_COSH = "the square of a rounded sinh"
LABELS = (0.0, 1.0, 1.0, 0.0)

NORMS = [
    VectorRow("LayerNorm", layer_of(xnn.LayerNorm(), (1, 4)), standardized(1e-5), **STANDARDIZED, **FOUR),
    VectorRow("GroupNorm", layer_of(xnn.GroupNorm(2), (1, 2, 4)), grouped,
              **{**STANDARDIZED, "sums": lambda *x: max(by_deviation(*x[0:2], *x[4:6]), by_deviation(*x[2:4], *x[6:]))},
              bounds={"slope float32": Bound(6.4, "deviations from a mean that is several times as large")}, **EIGHT),
    VectorRow("InstanceNorm", layer_of(xnn.InstanceNorm(), (1, 4, 1)), standardized(1e-5), **STANDARDIZED, **FOUR),
    VectorRow("BatchNorm", layer_of(xnn.BatchNorm(), (4, 1)), lambda *x: [v / sqrt(1 + mpf(1e-5)) for v in x], **FOUR),
    VectorRow("BatchNorm train", layer_of(xnn.BatchNorm(), (4, 1), train=True), standardized(1e-5),
              **STANDARDIZED, **FOUR),
    VectorRow("RMSNorm", layer_of(xnn.RMSNorm(), (1, 4)),
              lambda *x: [v / sqrt(norm(2)(*x) ** 2 / 4 + mpf(1e-6)) for v in x],
              sums=lambda *x: 2 / float(np.sqrt(np.sum(np.square(x)) + 4e-6)), **within(6), **FOUR),
    VectorRow("weight_norm", weight_normed, lambda *x: unit(x), sums=by_length,
              domain=lambda *x: sum(map(bool, x)) > 1 and moderate(6)(*x), bits=6, **FOUR),
    VectorRow("graph.GraphNorm", layer_of(xnn.graph.GraphNorm(), (4, 1), GRAPH), standardized(1e-5),
              **STANDARDIZED, **FOUR),
    VectorRow("graph.PairNorm", layer_of(xnn.graph.PairNorm(), (4, 1), GRAPH), standardized(1e-5),
              **STANDARDIZED, **FOUR),
    VectorRow("graph.GraphSizeNorm", layer_of(xnn.graph.GraphSizeNorm(), (4, 1), GRAPH), lambda *x: [v / 2 for v in x],
              **FOUR),
    VectorRow("graph.MessageNorm", lambda x: layer_of(xnn.graph.MessageNorm(), (1, 4), jnp.ones((1, 4), x.dtype))(x),
              lambda *x: [2 * v for v in unit(x)], sums=lambda *x: 2 * by_length(*x),
              domain=lambda *x: sum(map(bool, x)) > 1 and moderate(6)(*x), bits=6, **FOUR),
]

LOSSES = [
    VectorRow("mse", of_halves(losses.mse), of_pairs(lambda a, b: (a - b) ** 2), **within(6), **FOUR),
    VectorRow("mae", of_halves(losses.mae), of_pairs(lambda a, b: abs(a - b)), subtracts=True,
              smooth=lambda *x: all(a != b for a, b in zip(*halves(x), strict=True)), **FOUR),
    VectorRow("huber", of_halves(losses.huber), of_pairs(huber), **within(6), **FOUR),
    VectorRow("log_cosh", of_halves(losses.log_cosh), of_pairs(lambda a, b: log(cosh(a - b))), **within(6),
              bounds={"value float32": Bound(5.5, SMALL_COSH), "value float64": Bound(5, SMALL_COSH),
                      "slope float64": Bound(7, "XLA's tanh")},
              **FOUR),
    VectorRow("cross_entropy", lambda x: losses.cross_entropy(x, 0), lambda *x: logsumexp(x) - x[0],
              scale=lambda *x: max(1.0, 2 * largest(*x)), sums=1.0, **within(14)),
    VectorRow("cross_entropy smooth", lambda x: losses.cross_entropy(x, 0, label_smoothing=0.5),
              lambda *x: logsumexp(x) - (x[0] + mean(*x)) / 2, scale=lambda *x: max(1.0, 2 * largest(*x)), sums=1.0,
              **within(14), **FOUR),
    VectorRow("binary_cross_entropy", lambda x: losses.binary_cross_entropy(x, jnp.array(LABELS)),
              of_logits(binary_cross_entropy, LABELS), **within(6), **FOUR),
    VectorRow("focal", lambda x: losses.focal(x, jnp.array(LABELS)), of_logits(focal, LABELS), **within(4), **FOUR,
              bounds={f"slope {dtype}": Bound(ulps, "a power by an exponential, whose argument is rounded")
                      for dtype, ulps in (("float32", 13), ("float64", 14))}),
    VectorRow("hinge", lambda x: losses.hinge(x, jnp.array([1, 1, -1, -1])),
              lambda *x: mean(*[max(0, 1 - sign * v) for sign, v in zip((1, 1, -1, -1), x, strict=True)]),
              **within(60), **FOUR),
    VectorRow("kl_divergence", lambda x: losses.kl_divergence(x, jnp.array([0.5, 0.25, 0.25, 0.0])),
              lambda *x: fsum(p * (log(p) - v) for p, v in zip((0.5, 0.25, 0.25), x[:3], strict=True)),
              scale=lambda *x: max(2.0, terms(*x)), **FOUR),
    VectorRow("cosine_distance", of_halves(losses.cosine_distance), lambda *x: 1 - similarity(*halves(x)),
              scale=lambda *x: 1.0, sums=by_shortest(2), domain=no_zero, bits=6, **FOUR),
    VectorRow("triplet", lambda x: losses.triplet(x[:2], x[2:4], x[4:]), triplet,
              scale=lambda *x: max(1.0, 2 * largest(*x)), sums=True, sizes=(6,),
              domain=lambda *x: distinct(*x) and moderate(6)(*x), bits=6),
    VectorRow("info_nce", of_halves(losses.info_nce, 2, 2), info_nce, scale=lambda *x: 20.0,
              sums=lambda *x: 10 * by_shortest(4)(*x), domain=no_zero, bits=6, **EIGHT),
    VectorRow("nt_xent", of_halves(losses.nt_xent, 2, 2), nt_xent, scale=lambda *x: 4.0,
              sums=lambda *x: 2 * by_shortest(4)(*x), domain=no_zero, bits=6, **EIGHT),
    VectorRow("ctc", lambda x: losses.ctc(x.reshape(1, 2, 2), jnp.array([[1]])), ctc,
              scale=lambda *x: max(1.0, 4 * largest(*x)), sums=1.0, **within(6), **FOUR),
    VectorRow("gaussian_kl", of_halves(losses.gaussian_kl), gaussian_kl,
              scale=lambda *x: terms(*x), sums=1.0, **within(3), **FOUR),
    VectorRow("negative_elbo", lambda x: losses.negative_elbo(x[None, :2], jnp.array([[0.0, 1.0]]), x[None, 2:],
                                                              jnp.zeros((1, 2))),
              lambda *x: softplus(x[0]) + softplus(-x[1]) + (x[2] ** 2 + x[3] ** 2) / 2, **within(6), **FOUR),
]

ROWS = NORMS + LOSSES
LEFT_OUT = {
    "spectral_norm": "divides by an iteration: tests/xnn/test_regularisation.py",
}


def test_every_norm_and_loss_has_a_row():
    covered = {row.covers.split()[0] for row in ROWS} | LEFT_OUT.keys()
    norms = {name for name in xnn.__all__ if name.endswith(("Norm", "_norm"))}
    norms |= {f"graph.{name}" for name in xnn.graph.__all__ if name.endswith(("Norm", "_norm"))}
    assert not (norms | {*losses.__all__}) - covered, "add a row, or a reason in LEFT_OUT"


def test_few_results_have_bounds_of_their_own():
    assert_few_own_bounds(ROWS)


# The fast set has a few vectors of one dtype for every ninth pair of a row and a dtype.
@pytest.mark.parametrize("case", one_in(9, [(row, dtype) for row in ROWS for dtype in DTYPES],
                                        lambda case: f"{case[0]}-{case[1]}"))
def test_values_and_slopes_in_few_vectors(case):
    assert not over_bound(*case, errors(*case, 4))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_values_and_slopes(row, dtype):
    assert not over_bound(row, dtype, errors(row, dtype, 16))
