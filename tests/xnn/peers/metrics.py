"""Writes `metrics.npz`, scikit-learn's metrics: ``python -m tests.xnn.peers.metrics``."""

import pathlib

import numpy as np

FILE = pathlib.Path(__file__).with_suffix(".npz")
AVERAGES = ("macro", "micro", "weighted", None)


def main() -> None:
    from sklearn import metrics

    npr = np.random.default_rng(0)
    n, classes = 40, 5
    labels = npr.integers(0, classes - 1, n)                 # no example of the last class
    logits = (npr.normal(size=(n, classes)) + 2 * np.eye(classes)[labels]).astype(np.float32)
    predictions = logits.argmax(-1)
    predictions[predictions == 1] = 2                        # class 1 is never predicted
    bits, scores = npr.integers(0, 2, n), npr.integers(0, 8, n).astype(np.float32)        # with ties
    weights = npr.random(n).astype(np.float32)
    targets = npr.normal(size=n).astype(np.float32)
    guesses = (targets + npr.normal(size=n) / 2).astype(np.float32)
    arrays = {"labels": labels, "logits": logits, "predictions": predictions, "bits": bits, "scores": scores,
              "weights": weights, "targets": targets, "guesses": guesses}
    results = {
        "accuracy": metrics.accuracy_score(labels, logits.argmax(-1)),
        "top_k_accuracy": metrics.top_k_accuracy_score(labels, logits, k=2, labels=range(classes)),
        "confusion_matrix": metrics.confusion_matrix(labels, predictions, labels=range(classes)),
        "roc_auc": metrics.roc_auc_score(bits, scores),
        "roc_auc_weighted": metrics.roc_auc_score(bits, scores, sample_weight=weights),
        "average_precision": metrics.average_precision_score(bits, scores),
        "average_precision_weighted": metrics.average_precision_score(bits, scores, sample_weight=weights),
        "r2": metrics.r2_score(targets, guesses),
        "r2_weighted": metrics.r2_score(targets, guesses, sample_weight=weights),
    }
    for average in AVERAGES:
        for name, position in (("precision", 0), ("recall", 1), ("f1", 2)):
            results[f"{name}_{average}"] = metrics.precision_recall_fscore_support(
                labels, predictions, average=average, labels=range(classes), zero_division=0)[position]
    np.savez_compressed(FILE, **arrays, **results)


if __name__ == "__main__":
    main()
