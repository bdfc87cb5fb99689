"""Losses: PyTorch's values and gradients, weights, extreme and half-precision inputs, errors."""

import functools
import itertools
from functools import partial

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close, assert_same
from tests.refusals import assert_refused
from tests.xnn.peers import losses as peer
from xjax import nn, random
from xnn import losses, metrics

TORCH = np.load(peer.FILE)
ARRAYS = {name: jnp.asarray(TORCH[name]) for name in peer.inputs()}

AS_PYTORCH = {
    "cross_entropy": lambda a: losses.cross_entropy(a["logits"], a["classes"]),
    "cross_entropy_smooth": lambda a: losses.cross_entropy(a["logits"], a["classes"], label_smoothing=0.1),
    "cross_entropy_ignored": lambda a: losses.cross_entropy(a["logits"], a["ignoring"], label_smoothing=0.1,
                                                            ignored_label=-100),
    "cross_entropy_soft": lambda a: losses.cross_entropy(a["logits"], a["distributions"]),
    "binary": lambda a: losses.binary_cross_entropy(a["logits"], a["shares"]),
    "binary_weighted": lambda a: losses.binary_cross_entropy(a["logits"], a["bits"], positive_weight=3.0),
    "hinge": lambda a: losses.hinge(a["logits"], 2 * a["bits"] - 1),
    "kl_divergence": lambda a: losses.kl_divergence(nn.log_softmax(a["logits"]), a["distributions"]),
    "mse": lambda a: losses.mse(a["logits"], a["numbers"]),
    "mae": lambda a: losses.mae(a["logits"], a["numbers"]),
    "huber": lambda a: losses.huber(a["logits"], a["numbers"], delta=2.0),
    "triplet": lambda a: losses.triplet(a["logits"], a["numbers"], a["others"]),
    "cosine_distance": lambda a: losses.cosine_distance(a["logits"], a["numbers"]),
    "info_nce": lambda a: losses.info_nce(a["logits"], a["numbers"]),
    "ctc": lambda a: losses.ctc(a["sequences"], a["words"], lengths=jnp.array(peer.CTC_LENGTHS),
                                label_lengths=jnp.array(peer.CTC_LABEL_LENGTHS)),
}


@functools.cache
def as_pytorch():
    """All values and gradients: one program compiles in half the time of one for each."""
    def of_one(name, arrays):
        at = "sequences" if name == "ctc" else "logits"
        return xjax.value_and_grad(lambda x: AS_PYTORCH[name](arrays | {at: x}))(arrays[at])
    return xjax.jit(lambda arrays: {name: of_one(name, arrays) for name in AS_PYTORCH})(ARRAYS)


@pytest.mark.parametrize("name", AS_PYTORCH)
def test_values_and_gradients_of_pytorch(name):
    value, gradient = as_pytorch()[name]
    np.testing.assert_allclose(value, TORCH[f"{name}/value"], rtol=2e-6)
    np.testing.assert_allclose(gradient, TORCH[f"{name}/gradient"], rtol=1e-5, atol=1e-6)   # differences near 0 cancel


# -- against NumPy, if PyTorch has no such loss - ----------------------------------------------------------------------


def _log_sigmoid(x):
    return -np.logaddexp(0, -x)


def test_focal():
    x, y = (np.float64(ARRAYS[name]) for name in ("logits", "bits"))
    p = np.where(y == 1, 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x)))
    want = -np.where(y == 1, 0.25, 0.75) * (1 - p) ** 2 * np.log(p)
    each, plain, binary = xjax.jit(lambda x, y: (
        losses.focal(x, y, reduction=None), losses.focal(x, y, gamma=0.0, alpha=None),
        losses.binary_cross_entropy(x, y)))(ARRAYS["logits"], ARRAYS["bits"])
    np.testing.assert_allclose(each, want, rtol=1e-5)
    np.testing.assert_allclose(plain, binary, rtol=1e-6)


def test_log_cosh():
    x, y = (np.float64(ARRAYS[name]) for name in ("logits", "numbers"))
    np.testing.assert_allclose(losses.log_cosh(ARRAYS["logits"], ARRAYS["numbers"]), np.mean(np.log(np.cosh(x - y))),
                               rtol=1e-6)


def test_nt_xent_is_the_sum_over_pairs():
    x, y = (np.float64(ARRAYS[name]) for name in ("logits", "numbers"))
    views = np.concatenate([x, y])
    views /= np.linalg.norm(views, axis=1, keepdims=True)
    total = 0
    for i in range(12):
        others = [np.exp(views[i] @ views[j] / 0.5) for j in range(12) if j != i]
        total -= np.log(np.exp(views[i] @ views[(i + 6) % 12] / 0.5) / sum(others)) / 12
    np.testing.assert_allclose(xjax.jit(losses.nt_xent)(ARRAYS["logits"], ARRAYS["numbers"]), total, rtol=1e-5)


def test_info_nce_symmetric_is_the_mean_of_both_ways():
    symmetric, both = xjax.jit(lambda x, y: (
        losses.info_nce(x, y, symmetric=True), (losses.info_nce(x, y) + losses.info_nce(y, x)) / 2))(
        ARRAYS["logits"], ARRAYS["numbers"])
    np.testing.assert_allclose(symmetric, both, rtol=1e-6)


@pytest.mark.parametrize("loss", [losses.info_nce, partial(losses.info_nce, symmetric=True), losses.nt_xent])
def test_examples_of_weight_0_are_no_negatives(loss):
    x, y = ARRAYS["logits"], ARRAYS["numbers"]
    weights = jnp.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 0.0, 0.0])
    padded = [np.concatenate([a, np.full((2, a.shape[1]), np.nan, np.float32)]) for a in (x, y)]
    run = xjax.value_and_grad(lambda x, y, weights: loss(x, y, weights=weights), (0, 1))
    (value, gradients), right = xjax.jit(lambda padded, real: (run(*padded), run(*real)))(
        (*padded, weights), (x, y, np.asarray(weights)[:6]))
    np.testing.assert_allclose(value, right[0], rtol=1e-6)
    assert_close([np.asarray(gradient)[:6] for gradient in gradients], right[1], tol=0.06, scale=0)
    assert not any(np.any(np.asarray(gradient)[6:]) for gradient in gradients)


def test_ctc_is_the_sum_over_all_outputs():
    logits, labels = random.normal(random.key(0), (1, 5, 3)), (1, 1, 2)
    x = np.float64(logits)[0]
    log_p, total = x - np.log(np.sum(np.exp(x), -1, keepdims=True)), 0
    for path in itertools.product(range(3), repeat=5):
        if tuple(k for k, _ in itertools.groupby(path) if k != 0) == labels:
            total += np.exp(sum(log_p[t, k] for t, k in enumerate(path)))
    got = xjax.jit(lambda logits: losses.ctc(logits, jnp.array([labels])))(logits)
    np.testing.assert_allclose(got, -np.log(total), rtol=1e-5)


def test_ctc_of_labels_that_do_not_fit():
    logits = random.normal(random.key(0), (2, 2, 3))
    # 1 1 needs a blank between
    loss = lambda logits, **options: losses.ctc(logits, jnp.array([[1, 1], [1, 2]]), **options)
    each, (value, gradient), empty, blanks = xjax.jit(lambda x: (
        loss(x, reduction=None), xjax.value_and_grad(lambda x: loss(x, weights=jnp.array([False, True])))(x),
        losses.ctc(x, jnp.zeros((2, 0), int), reduction=None), -jnp.sum(nn.log_softmax(x)[:, :, 0], 1)))(logits)
    each = np.asarray(each)
    assert each[0] == np.inf and value == each[1] < 10 and np.all(np.isfinite(gradient))
    np.testing.assert_allclose(empty, blanks, rtol=1e-6)


def test_gaussian_kl_is_the_mean_of_the_difference_of_log_densities():
    mean, log_variance = np.array([[0.5, -1.0]], np.float32), np.array([[0.3, -2.0]], np.float32)
    z = mean + np.exp(log_variance / 2) * np.random.default_rng(0).normal(size=(200_000, 2))
    log_density = lambda z, mean, log_variance: -(log_variance + (z - mean) ** 2 / np.exp(log_variance)) / 2
    sampled = np.mean(np.sum(log_density(z, mean, log_variance) + z**2 / 2, -1))
    # The standard error of 200 000 samples of a number of size 1 is 0.003.
    np.testing.assert_allclose(losses.gaussian_kl(mean, log_variance), sampled, atol=0.01)


@pytest.mark.parametrize("likelihood", ["bernoulli", "normal"])
def test_negative_elbo_is_its_two_terms(likelihood):
    @xjax.jit
    def computed(outputs, x, mean, log_variance):
        first = {"bernoulli": losses.binary_cross_entropy(outputs, x, reduction=None),
                 "normal": losses.mse(outputs, x, reduction=None) / 2 + np.log(2 * np.pi) / 2}[likelihood]
        want = jnp.sum(first, -1) + 0.5 * losses.gaussian_kl(mean, log_variance, reduction=None)
        return losses.negative_elbo(outputs, x, mean, log_variance, likelihood=likelihood, beta=0.5,
                                    reduction=None), want

    got, want = computed(*(ARRAYS[name] for name in ("logits", "shares", "numbers", "others")))
    np.testing.assert_allclose(got, want, rtol=1e-5)


# -- weights and reductions --------------------------------------------------------------------------------------------

X, Y = (jnp.asarray(np.random.default_rng(i).normal(size=(4, 3)), jnp.float32) for i in range(2))
LABELS = jnp.array([0, 2, 1, 1])
ALL = {
    "binary_cross_entropy": lambda x, **options: losses.binary_cross_entropy(x, nn.sigmoid(Y), **options),
    "cosine_distance": lambda x, **options: losses.cosine_distance(x, Y.astype(x.dtype), **options),
    "cross_entropy": lambda x, **options: losses.cross_entropy(x, LABELS, **options),
    "ctc": lambda x, **options: losses.ctc(jnp.stack([x, 2 * x], 1), LABELS[:, None], **options),
    "focal": lambda x, **options: losses.focal(x, nn.sigmoid(Y), **options),
    "gaussian_kl": lambda x, **options: losses.gaussian_kl(x, Y, **options),
    "hinge": lambda x, **options: losses.hinge(x, jnp.sign(Y), **options),
    "huber": lambda x, **options: losses.huber(x, Y, **options),
    "info_nce": lambda x, **options: losses.info_nce(x, Y, **options),
    "kl_divergence": lambda x, **options: losses.kl_divergence(nn.log_softmax(x), nn.softmax(Y), **options),
    "log_cosh": lambda x, **options: losses.log_cosh(x, Y, **options),
    "mae": lambda x, **options: losses.mae(x, Y, **options),
    "mse": lambda x, **options: losses.mse(x, Y, **options),
    "negative_elbo": lambda x, **options: losses.negative_elbo(x, nn.sigmoid(Y), x, Y, **options),
    "nt_xent": lambda x, **options: losses.nt_xent(x, Y, **options),
    "triplet": lambda x, **options: losses.triplet(x, Y, -Y, **options),
}


def test_all_losses_are_in_the_table():
    assert set(ALL) == set(losses.__all__)


def weights_of(name):
    is_of_pairs = name in ("info_nce", "nt_xent")       # then the others' losses change without an example
    return np.array([1.0, 0.25 if is_of_pairs else 0.0, 2.0, 0.5], np.float32)


@functools.cache
def weighted_and_reduced():
    def of_one(name, x):
        weights = weights_of(name)
        loss = lambda x=x, **options: ALL[name](x, **options)
        return (loss(reduction=None), loss(), loss(reduction="sum"), loss(weights=weights, reduction=None),
                loss(weights=weights), loss(weights=weights > 0, reduction="sum"), loss(weights=jnp.zeros(4)),
                xjax.grad(lambda x: loss(x, weights=jnp.zeros(4)))(x))
    return xjax.jit(lambda x: {name: of_one(name, x) for name in ALL})(X)


@pytest.mark.parametrize("name", ALL)
def test_weights_and_reductions(name):
    weights = weights_of(name)
    each, mean, total, weighted, weighted_mean, kept, nothing, gradient = map(np.asarray, weighted_and_reduced()[name])
    along = np.broadcast_to(weights.reshape(4, *[1] * (each.ndim - 1)), each.shape)
    near = lambda got, want: np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    near(mean, each.mean())
    near(total, each.sum())
    near(weighted, each * along)
    near(weighted_mean, np.sum(each * along) / np.sum(along))
    near(kept, each[along > 0].sum())
    assert nothing == 0 and np.all(gradient == 0)


@functools.cache
def at_extremes():
    run = xjax.jit(lambda x: {name: xjax.value_and_grad(loss)(x) for name, loss in ALL.items()})
    return {size: run(np.asarray(X) * np.float32(size)) for size in (1e4, 1e-30, 0.0)}


@pytest.mark.parametrize("name", ALL)
def test_extreme_inputs_have_finite_gradients(name):
    for size, at_extreme in at_extremes().items():
        value, gradient = at_extreme[name]
        assert np.isfinite(value) and np.all(np.isfinite(gradient)), size


# Without log_softmax, which rounds its result.
IN_HALF = ALL | {"kl_divergence": lambda x: losses.kl_divergence(x, nn.softmax(Y))}


@functools.cache
def in_half_and_in_single_precision(dtype):
    run = xjax.jit(lambda x: {name: (loss(x), loss(x.astype("float32"))) for name, loss in IN_HALF.items()})
    return run(np.asarray(X).astype(jnp.dtype(dtype)))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_half_precision_is_computed_in_single_precision(name, dtype):
    got, want = map(np.asarray, in_half_and_in_single_precision(dtype)[name])
    assert got.dtype == jnp.dtype(dtype) and got == want.astype(got.dtype)
    assert xjax.eval_shape(xjax.grad(ALL[name]), X.astype(dtype)).dtype == jnp.dtype(dtype)


def test_labels_outside_give_nan():
    labels, weights = jnp.array([0, -1, 3, 2]), jnp.array([True, False, False, True])
    each, kept, sequence = map(np.asarray, xjax.jit(lambda x: (
        losses.cross_entropy(x, labels, reduction=None), losses.cross_entropy(x, labels, weights=weights),
        losses.ctc(x[None], jnp.array([[7]]))))(X))
    np.testing.assert_array_equal(np.isnan(each), [False, True, True, False])
    np.testing.assert_allclose(kept, (each[0] + each[3]) / 2, rtol=1e-6)
    assert np.isnan(sequence)


@pytest.mark.parametrize("dtype, classes, top", [("uint8", 256, 255), ("uint8", 300, 200), ("int8", 200, 127),
                                                 ("uint16", 65_536, 65_535)])
def test_labels_of_few_bits(dtype, classes, top):
    """The number of classes may be too large for the dtype of the labels: 256 is 0 in uint8."""
    labels, logits = np.array([3, 100, top]), np.zeros((3, classes), np.float32)
    logits[range(3), labels] = 1 + np.arange(3)
    run = xjax.jit(lambda labels: (
        losses.cross_entropy(logits, labels, ignored_label=-100), losses.ctc(logits[:, None], labels[:, None]),
        losses.cross_entropy(logits, labels, ignored_label=-156), metrics.accuracy(logits, labels),
        metrics.top_k_accuracy(logits, labels, 2), metrics.confusion_matrix(labels, labels[::-1], min(classes, 300)),
        xnn.Embedding(classes, 2).apply({"table": logits.T[:, :2]}, labels)))
    assert_same(run(labels.astype(dtype)), run(labels.astype("int32")), tol=0)


def test_lengths_of_few_bits():
    x, params = jnp.ones((1, 300, 2)), xnn.GRU(2).init(random.key(0), (1, 300, 2))[1]
    run = xjax.jit(lambda n: (xnn.GRU(2).apply(params, x, lengths=n),
                              losses.ctc(x, jnp.array([[1]], n.dtype), lengths=n)))
    assert_same(run(np.array([200], "uint8")), run(np.array([200], "int32")), tol=0)


# Losses of predictions and targets, both of which have missing rows below.
MISSING = {
    "binary_cross_entropy": losses.binary_cross_entropy, "cosine_distance": losses.cosine_distance,
    "cross_entropy": losses.cross_entropy, "focal": losses.focal, "gaussian_kl": losses.gaussian_kl,
    "hinge": losses.hinge, "huber": losses.huber, "kl_divergence": losses.kl_divergence,
    "log_cosh": losses.log_cosh, "mae": losses.mae, "mse": losses.mse,
    "negative_elbo": lambda x, y, **options: losses.negative_elbo(x, y, x, y, **options),
    "negative_elbo_normal": lambda x, y, **options: losses.negative_elbo(x, y, x, y, likelihood="normal", **options),
    "triplet": lambda x, y, **options: losses.triplet(x, y, 2 * y, **options),
    "class numbers": lambda x, y, **options: losses.cross_entropy(x, LABELS, label_smoothing=0.1, **options),
    "ctc": lambda x, y, **options: losses.ctc(x[:, None], LABELS[:, None], **options),
}


@functools.cache
def with_missing_rows():
    """Values and gradients for three rows and a fourth one of NaN that does not count; and for the three rows alone."""
    def of_one(loss, x, y):
        run = xjax.value_and_grad(lambda x, y, **options: loss(x, y, reduction="sum", **options), (0, 1))
        return run(x, y, weights=jnp.array([1.0, 1.0, 1.0, 0.0])), run(x, y, weights=jnp.array([True] * 3 + [False]))

    run = xjax.jit(lambda x, y: {name: of_one(loss, x, y) for name, loss in MISSING.items()})
    x, y = np.array(X), np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]], np.float32)
    clean = run(x, y)
    x[3] = y[3] = np.nan
    return run(x, y), clean


@pytest.mark.parametrize("name", MISSING)
def test_missing_targets_of_weight_0_have_no_gradient(name):
    missing, clean = (with_missing_rows()[i][name] for i in range(2))
    for got, want in zip(missing, clean, strict=True):
        np.testing.assert_array_equal(got[0], want[0])
        for one, other in zip(got[1], want[1], strict=True):
            np.testing.assert_array_equal(np.asarray(one)[:3], np.asarray(other)[:3])
            assert not np.any(np.asarray(one)[3:])


@pytest.mark.parametrize("name, labels, wrong", [
    ("binary_cross_entropy", [0, 255, -1, 1], [1, 2]), ("focal", [0.5, 2, 1, 0], [1]),
    ("hinge", [1, -1, 0, 2], [2, 3])])
def test_other_targets_give_nan(name, labels, wrong):
    each = np.asarray(getattr(losses, name)(X[:, 0], jnp.array(labels, "float32"), reduction=None))
    assert np.nonzero(np.isnan(each))[0].tolist() == wrong


def test_ignored_labels_and_weights_together():
    labels = jnp.array([0, -100, 2, 1])
    got, each = map(np.asarray, xjax.jit(lambda x: (
        losses.cross_entropy(x, labels, ignored_label=-100, weights=jnp.array([1.0, 5.0, 3.0, 0.0])),
        losses.cross_entropy(x, jnp.array([0, 0, 2, 1]), reduction=None)))(X))
    np.testing.assert_allclose(got, (each[0] + 3 * each[2]) / 4, rtol=1e-6)


def test_impossible_classes_and_probabilities_of_zero():
    logits = jnp.array([[0.0, 1.0, -np.inf]])
    soft = jnp.array([[0.5, 0.5, 0.0]])
    of_both = lambda x: [xjax.value_and_grad(loss)(x) for loss in (
        lambda x: losses.cross_entropy(x, soft), lambda x: losses.kl_divergence(nn.log_softmax(x), soft))]
    hard, both = xjax.jit(lambda x: (losses.cross_entropy(x, jnp.array([1])), of_both(x)))(logits)
    np.testing.assert_allclose(hard, np.log1p(np.exp(-1)), rtol=1e-6)
    for value, gradient in both:
        assert np.isfinite(value) and np.all(np.isfinite(gradient))


def test_vmap_over_temperatures_and_examples():
    values, value, each, together = xjax.jit(lambda x, y: (
        xjax.vmap(lambda t: losses.info_nce(x, y, temperature=t))(jnp.array([0.1, 0.5])),
        losses.info_nce(x, y, temperature=0.5), xjax.vmap(losses.cross_entropy)(x, LABELS),
        losses.cross_entropy(x, LABELS, reduction=None)))(X, Y)
    np.testing.assert_allclose(np.asarray(values)[1], value, rtol=1e-6)
    np.testing.assert_allclose(each, together, rtol=1e-6)


# -- errors ------------------------------------------------------------------------------------------------------------

WRONG = {
    "label shape": (lambda: losses.cross_entropy(X, LABELS[:3]), TypeError,
                    ["cross_entropy: the labels do not match", "f32[4,3]", "i32[3]", "integers [4]"]),
    "label column": (lambda: losses.cross_entropy(X, LABELS[:, None]), TypeError, ["i32[4,1]", "integers [4]"]),
    "soft shape": (lambda: losses.cross_entropy(X, Y[:, :2]), TypeError, ["cross_entropy: the labels", "f32[4,2]"]),
    "smoothing": (lambda: losses.cross_entropy(X, LABELS, label_smoothing=2), ValueError, ["label_smoothing", "2"]),
    "soft ignored": (lambda: losses.cross_entropy(X, Y, ignored_label=0), TypeError, ["probabilities", "weights"]),
    "integer logits": (lambda: losses.cross_entropy(LABELS[:, None], LABELS), TypeError,
                       ["cross_entropy: the input must be floating-point", "i32[4,1]"]),
    "reduction": (lambda: losses.mse(X, Y, reduction="none"), ValueError, ["mse: unknown reduction", "'none'", "None"]),
    "weights": (lambda: losses.mse(X, Y, weights=jnp.ones(3)), TypeError,
                ["mse: the weights", "f32[3]", "f32[4,3]", "leading axes"]),
    "column and vector": (lambda: losses.mse(X[:, 0], Y[:, :1]), TypeError,
                          ["mse: the targets do not have the shape", "f32[4]", "f32[4,1]"]),
    "triplet": (lambda: losses.triplet(X, Y, Y[:2]), TypeError, ["triplet: the negatives", "f32[2,3]"]),
    "pairs": (lambda: losses.nt_xent(X[0], Y[0]), TypeError, ["nt_xent: the inputs must be matrices", "f32[3]"]),
    "temperature": (lambda: losses.info_nce(X, Y, temperature=0), ValueError, ["info_nce: the temperature", "0"]),
    "float labels": (lambda: losses.cross_entropy(X, LABELS.astype("float32")), TypeError, ["labels.astype('int32')"]),
    "ctc labels": (lambda: losses.ctc(X[None], LABELS), TypeError, ["ctc: the labels", "i32[4]", "integers [1,n]"]),
    "ctc lengths": (lambda: losses.ctc(X[None], LABELS[None], lengths=LABELS), TypeError, ["the lengths", "[1]"]),
    "ctc blank": (lambda: losses.ctc(X[None], LABELS[None], blank=3), ValueError, ["`blank` must be", "[0, 3)"]),
    "ctc rank": (lambda: losses.ctc(X, LABELS[None]), TypeError, ["ctc", "3 axes", "f32[4,3]"]),
    "likelihood": (lambda: losses.negative_elbo(X, Y, X, Y, likelihood="gauss"), ValueError,
                   ["negative_elbo: unknown likelihood", "'gauss'", "'normal'"]),
    "elbo batch": (lambda: losses.negative_elbo(X, Y, X[:2], Y[:2]), TypeError, ["negative_elbo: code and data"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    assert_refused(*WRONG[name])
