"""Metrics: scikit-learn's values, averages over batches and devices, ties and empty classes, errors."""

import functools

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.refusals import assert_refused
from tests.xnn.peers import metrics as peer
from xjax import lax
from xnn import losses, metrics
from xnn.metrics import Average

SKLEARN = np.load(peer.FILE)
A = {name: jnp.asarray(value) for name, value in SKLEARN.items() if value.shape[:1] == (40,)}
CONFUSION = jnp.asarray(SKLEARN["confusion_matrix"])

AS_SKLEARN = {
    "accuracy": lambda: metrics.accuracy(A["logits"], A["labels"]),
    "top_k_accuracy": lambda: metrics.top_k_accuracy(A["logits"], A["labels"], 2),
    "confusion_matrix": lambda: metrics.confusion_matrix(A["predictions"], A["labels"], 5),
    "roc_auc": lambda: metrics.roc_auc(A["scores"], A["bits"]),
    "roc_auc_weighted": lambda: metrics.roc_auc(A["scores"], A["bits"], weights=A["weights"]),
    "average_precision": lambda: metrics.average_precision(A["scores"], A["bits"]),
    "average_precision_weighted": lambda: metrics.average_precision(A["scores"], A["bits"], weights=A["weights"]),
    "r2": lambda: metrics.r2(A["guesses"], A["targets"]),
    "r2_weighted": lambda: metrics.r2(A["guesses"], A["targets"], weights=A["weights"]),
    **{f"{name}_{average}": lambda name=name, average=average: getattr(metrics, name)(CONFUSION, average=average)
       for name in ("precision", "recall", "f1") for average in peer.AVERAGES},
}


@functools.cache
def as_sklearn():
    """All cases as one program, which compiles sooner than one for each."""
    return xjax.jit(lambda: {name: metric() for name, metric in AS_SKLEARN.items()})()


@pytest.mark.parametrize("name", AS_SKLEARN)
def test_values_of_scikit_learn(name):
    np.testing.assert_allclose(as_sklearn()[name], SKLEARN[name], rtol=1e-5)


def test_calibration_error_is_the_mean_over_bins():
    npr = np.random.default_rng(0)
    logits, labels = npr.normal(size=(50, 3)).astype(np.float32), npr.integers(0, 3, 50).astype(np.int32)
    p = np.exp(np.float64(logits))
    p /= p.sum(1, keepdims=True)
    confidence, right, total = p.max(1), p.argmax(1) == labels, 0
    for i in range(10):
        inside = (confidence > i / 10) & (confidence <= (i + 1) / 10)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    got = xjax.jit(lambda logits: metrics.calibration_error(xjax.nn.softmax(logits), labels, bins=10))(logits)
    np.testing.assert_allclose(got, total, rtol=1e-5)


def test_perplexity_and_bits():
    logits = jnp.zeros((2, 3, 8))
    labels = jnp.zeros((2, 3), int)
    mask = jnp.array([[True, True, False], [False, False, False]])

    @xjax.jit
    def computed(logits, labels):
        sure, ignoring = logits.at[0, 0, 0].set(100.0), jnp.where(mask, labels, -1)
        return (metrics.perplexity(logits, labels), metrics.bits_per_token(logits, labels),
                metrics.bits_per_token(sure, labels, weights=mask),
                metrics.bits_per_token(sure, ignoring, ignored_label=-1))

    np.testing.assert_allclose(computed(logits, labels), [8, 3, 1.5, 1.5], rtol=1e-6)


def test_ties_and_labels_outside():
    logits = jnp.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    labels = jnp.array([0, 1, -1, 3])
    first, two, matrix = xjax.jit(lambda logits, labels: (
        metrics.accuracy(logits, labels, reduction=None), metrics.top_k_accuracy(logits, labels, 2, reduction=None),
        metrics.confusion_matrix(jnp.array([0, 1, 2, 5]), labels, 3)))(logits, labels)
    np.testing.assert_array_equal(first, [1, 0, 0, 0])
    np.testing.assert_array_equal(two, [1, 1, 0, 0])
    np.testing.assert_array_equal(matrix, [[1, 0, 0], [0, 1, 0], [0, 0, 0]])


def test_a_matrix_with_weights_and_of_several_batches():
    kept = np.asarray(A["weights"]) > 0.5

    @xjax.jit
    def computed(predictions, labels):
        matrix = lambda at: metrics.confusion_matrix(predictions[at], labels[at], 5)
        return (metrics.confusion_matrix(predictions, labels, 5, weights=kept), matrix(np.flatnonzero(kept)),
                sum(matrix(slice(i, i + 15)) for i in (0, 15, 30)))

    weighted, of_kept, of_parts = computed(A["predictions"], A["labels"])
    np.testing.assert_array_equal(weighted, of_kept)
    np.testing.assert_array_equal(of_parts, CONFUSION)


SHARES = np.exp(np.asarray(A["logits"]))
SHARES /= SHARES.sum(1, keepdims=True)


def test_examples_of_weight_0_do_not_count():
    half = (np.arange(40) < 20).astype(np.float32)
    for metric, x, y in ((metrics.roc_auc, "scores", "bits"), (metrics.average_precision, "scores", "bits"),
                         (metrics.r2, "guesses", "targets"), (metrics.accuracy, "logits", "labels"),
                         (metrics.calibration_error, "shares", "labels")):
        x = SHARES if x == "shares" else np.array(A[x])
        padded = np.concatenate([x[:20], np.full_like(x[20:], np.nan)])
        got, want = xjax.jit(lambda x, y, padded, f=metric: (f(padded, y, weights=half), f(x[:20], y[:20])))(
            x, A[y], padded)
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_no_positive_example_gives_nan():
    scores, none = jnp.array([0.5, 0.2]), jnp.zeros(2, int)
    assert np.isnan(xjax.jit(lambda x, y: (metrics.roc_auc(x, y), metrics.average_precision(x, y)))(scores, none)).all()


@pytest.mark.parametrize("metric", [metrics.roc_auc, metrics.average_precision])
def test_other_labels_and_scores_give_nan(metric):
    scores, labels, weights = (jnp.array(x, "float32") for x in ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], [1, 1, 1, 0]))
    run = xjax.jit(lambda scores, labels: (metric(scores, labels), metric(scores, labels, weights=weights)))
    clean = run(scores, labels)
    assert np.all(np.isfinite(clean))
    for wrong in ((scores, 2 * labels - 1), (scores, labels.at[0].set(0.5)), (scores.at[1].set(np.nan), labels)):
        assert np.all(np.isnan(run(*wrong)))
    for padding in (run(scores.at[3].set(np.nan), labels), run(scores, labels.at[3].set(np.nan))):
        assert padding[1] == clean[1]


def test_a_row_of_nan_is_never_right():
    logits = jnp.array([[np.nan] * 3, [0, np.nan, 1], [0, 1, 2], [2, 1, 0]], "float32")
    right, of_two = xjax.jit(lambda logits, labels: (metrics.accuracy(logits, labels, reduction=None),
                                                     metrics.top_k_accuracy(logits, labels, 3, reduction=None)))(
        logits, jnp.array([0, 1, 2, 1]))
    assert right.tolist() == [0, 0, 1, 0] and of_two.tolist() == [0, 0, 1, 1]


def test_one_class_against_the_rest():
    one_hot = np.eye(5, dtype=np.float32)[np.asarray(A["labels"])]
    each, want = xjax.jit(lambda x, y: (xjax.vmap(metrics.roc_auc, (1, 1))(x, y), metrics.roc_auc(x[:, 2], y[:, 2])))(
        A["logits"], one_hot)
    np.testing.assert_allclose(np.asarray(each)[2], want, rtol=1e-6)


# -- Average -----------------------------------------------------------------------------------------------------------


def test_an_average_over_unequal_batches_is_that_of_all():
    each, whole = xjax.jit(lambda x, y, weights: (
        losses.cross_entropy(x, y, reduction=None), losses.cross_entropy(x, y, weights=weights)))(
        A["logits"], A["labels"], A["weights"])
    each, weights, total = np.asarray(each), np.asarray(A["weights"]), Average.empty()
    for i, j in ((0, 3), (3, 30), (30, 40)):
        total = total + Average.of(each[i:j], weights[i:j])
    np.testing.assert_allclose(total.value, whole, rtol=1e-6)
    assert np.isnan(Average.empty().value)


def test_an_average_in_a_scan_and_over_devices():
    values, mask = np.asarray(A["logits"]).reshape(4, 10, 5), (np.asarray(A["scores"]) > 2).reshape(4, 10)
    spread = xjax.pmap(lambda v, m: lax.psum(Average.of(v, m), "batch"), axis_name="batch")(values, mask)
    weight, value = (np.asarray(leaf)[0] for leaf in (spread.weight, spread.value))
    np.testing.assert_allclose(weight, 5 * np.sum(mask))
    np.testing.assert_allclose(value, np.mean(values[mask]), rtol=1e-5, atol=1e-6)
    looped, _ = xjax.jit(lambda values, mask: lax.scan(
        lambda total, batch: (total + Average.of(*batch), None), Average.empty(), (values, mask)))(values, mask)
    np.testing.assert_allclose(looped.value, value, rtol=1e-5, atol=1e-6)


def test_an_average_of_bools_and_of_half_precision():
    assert Average.of(jnp.array([True, False])).value == 0.5
    assert Average.of(jnp.ones(1000, "bfloat16")) == Average(1000.0, 1000.0)


WRONG = {
    "labels": (lambda: metrics.accuracy(A["logits"], A["labels"][:3]), TypeError,
               ["accuracy: the labels do not match", "i32[3]"]),
    "k": (lambda: metrics.top_k_accuracy(A["logits"], A["labels"], 6), ValueError, ["top_k_accuracy", "6", "[1, 5]"]),
    "matrix": (lambda: metrics.f1(A["labels"]), TypeError, ["f1: a confusion matrix must be", "confusion_matrix("]),
    "average": (lambda: metrics.recall(CONFUSION, average="mean"), ValueError, ["recall: unknown average", "'macro'"]),
    "logits as predictions": (lambda: metrics.confusion_matrix(A["logits"], A["labels"], 5), TypeError,
                              ["confusion_matrix", "f32[40,5]", "argmax"]),
    "scores": (lambda: metrics.roc_auc(A["logits"], A["logits"]), TypeError,
               ["roc_auc: the scores must be a vector", "vmap"]),
    "bins": (lambda: metrics.calibration_error(A["logits"], A["labels"], bins=0), ValueError, ["at least 1 bin"]),
    "weights": (lambda: Average.of(A["labels"], A["weights"][:3]), TypeError, ["Average: the weights", "f32[3]"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    assert_refused(*WRONG[name])
