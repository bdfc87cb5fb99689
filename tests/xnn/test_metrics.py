"""Metrics: scikit-learn's values, averages over batches and devices, ties and empty classes, what is refused."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.refusals import assert_refused
from tests.xnn.peers import metrics as peer
from xjax import lax, random
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


@pytest.mark.parametrize("name", AS_SKLEARN)
def test_values_of_scikit_learn(name):
    np.testing.assert_allclose(xjax.jit(AS_SKLEARN[name])(), SKLEARN[name], rtol=1e-5)


def test_calibration_error_is_the_mean_over_bins():
    logits, labels = random.normal(random.key(0), (50, 3)), random.randint(random.key(1), (50,), 0, 3)
    p = np.float64(xjax.nn.softmax(logits))
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
    np.testing.assert_allclose(metrics.perplexity(logits, labels), 8, rtol=1e-6)
    np.testing.assert_allclose(metrics.bits_per_token(logits, labels), 3, rtol=1e-6)
    mask = jnp.array([[True, True, False], [False, False, False]])
    sure = logits.at[0, 0, 0].set(100.0)
    np.testing.assert_allclose(metrics.bits_per_token(sure, labels, weights=mask), 1.5, rtol=1e-6)
    ignoring = jnp.where(mask, labels, -1)
    np.testing.assert_allclose(metrics.bits_per_token(sure, ignoring, ignored_label=-1), 1.5, rtol=1e-6)


def test_ties_and_labels_outside():
    logits = jnp.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    labels = jnp.array([0, 1, -1, 3])
    np.testing.assert_array_equal(metrics.accuracy(logits, labels, reduction=None), [1, 0, 0, 0])
    np.testing.assert_array_equal(metrics.top_k_accuracy(logits, labels, 2, reduction=None), [1, 1, 0, 0])
    matrix = metrics.confusion_matrix(jnp.array([0, 1, 2, 5]), labels, 3)
    np.testing.assert_array_equal(matrix, [[1, 0, 0], [0, 1, 0], [0, 0, 0]])


def test_a_matrix_with_weights_and_of_several_batches():
    predictions, labels, weights = A["predictions"], A["labels"], A["weights"] > 0.5
    got = metrics.confusion_matrix(predictions, labels, 5, weights=weights)
    kept = metrics.confusion_matrix(predictions[np.asarray(weights)], labels[np.asarray(weights)], 5)
    np.testing.assert_array_equal(got, kept)
    parts = [metrics.confusion_matrix(predictions[i:i + 15], labels[i:i + 15], 5) for i in (0, 15, 30)]
    np.testing.assert_array_equal(sum(parts), CONFUSION)


def test_examples_of_weight_0_do_not_count():
    half = (jnp.arange(40) < 20).astype("float32")
    for metric, x, y in ((metrics.roc_auc, "scores", "bits"), (metrics.average_precision, "scores", "bits"),
                         (metrics.r2, "guesses", "targets"), (metrics.accuracy, "logits", "labels"),
                         (metrics.calibration_error, "shares", "labels")):
        x = xjax.nn.softmax(A["logits"]) if x == "shares" else A[x]
        padded = x.at[20:].set(np.nan)
        got, want = xjax.jit(lambda x, y, padded, f=metric: (f(padded, y, weights=half), f(x[:20], y[:20])))(
            x, A[y], padded)
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_no_positive_example_gives_nan():
    scores, none = jnp.array([0.5, 0.2]), jnp.zeros(2, int)
    assert np.isnan(metrics.roc_auc(scores, none)) and np.isnan(metrics.average_precision(scores, none))


def test_one_class_against_the_rest():
    one_hot = xjax.nn.one_hot(A["labels"], 5)
    each = xjax.jit(xjax.vmap(metrics.roc_auc, (1, 1)))(A["logits"], one_hot)
    want = xjax.jit(metrics.roc_auc)(A["logits"][:, 2], one_hot[:, 2])
    np.testing.assert_allclose(each[2], want, rtol=1e-6)


# -- Average -----------------------------------------------------------------------------------------------------------


def test_an_average_over_unequal_batches_is_that_of_all():
    each = losses.cross_entropy(A["logits"], A["labels"], reduction=None)
    total = Average.empty()
    for i, j in ((0, 3), (3, 30), (30, 40)):
        total = total + Average.of(each[i:j], A["weights"][i:j])
    np.testing.assert_allclose(total.value, losses.cross_entropy(A["logits"], A["labels"], weights=A["weights"]),
                               rtol=1e-6)
    assert np.isnan(Average.empty().value)


def test_an_average_in_a_scan_and_over_devices():
    values, mask = A["logits"].reshape(4, 10, 5), (A["scores"] > 2).reshape(4, 10)
    spread = xjax.pmap(lambda v, m: lax.psum(Average.of(v, m), "batch"), axis_name="batch")(values, mask)
    want = losses.mse(values, jnp.zeros_like(values), weights=mask, reduction="sum"), 5 * jnp.sum(mask)
    np.testing.assert_allclose(spread.weight[0], want[1])
    np.testing.assert_allclose(spread.value[0], np.mean(values[np.asarray(mask)]), rtol=1e-5, atol=1e-6)
    looped, _ = lax.scan(lambda total, batch: (total + Average.of(*batch), None), Average.empty(), (values, mask))
    np.testing.assert_allclose(looped.value, spread.value[0], rtol=1e-5, atol=1e-6)


def test_an_average_of_bools_and_of_half_precision():
    assert Average.of(jnp.array([True, False])).value == 0.5
    assert Average.of(jnp.ones(1000, "bfloat16")) == Average(1000.0, 1000.0)


WRONG = {
    "labels": (lambda: metrics.accuracy(A["logits"], A["labels"][:3]), TypeError,
               ["accuracy: the labels do not fit", "i32[3]"]),
    "k": (lambda: metrics.top_k_accuracy(A["logits"], A["labels"], 6), ValueError, ["top_k_accuracy", "6", "[1, 5]"]),
    "matrix": (lambda: metrics.f1(A["labels"]), TypeError, ["f1: this is no confusion matrix", "confusion_matrix("]),
    "average": (lambda: metrics.recall(CONFUSION, average="mean"), ValueError, ["recall: no such average", '"macro"']),
    "logits as predictions": (lambda: metrics.confusion_matrix(A["logits"], A["labels"], 5), TypeError,
                              ["confusion_matrix", "f32[40,5]", "argmax"]),
    "scores": (lambda: metrics.roc_auc(A["logits"], A["logits"]), TypeError,
               ["roc_auc: the scores are no vector", "vmap"]),
    "bins": (lambda: metrics.calibration_error(A["logits"], A["labels"], bins=0), ValueError, ["at least 1 bin"]),
    "weights": (lambda: Average.of(A["labels"], A["weights"][:3]), TypeError, ["Average: the weights", "f32[3]"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    assert_refused(*WRONG[name])
