"""Metrics: functions of predictions, labels and weights, and `Average`, which accumulates over batches and devices.

Every loss can be used as a metric: ``Average.of(mse(predictions, targets, reduction=None), weights)``.
"""

from xnn.metrics.average import Average
from xnn.metrics.classification import (
    accuracy,
    bits_per_token,
    confusion_matrix,
    f1,
    perplexity,
    precision,
    recall,
    top_k_accuracy,
)
from xnn.metrics.probabilities import average_precision, calibration_error, r2, roc_auc
from xnn.public import public_names

__all__ = [
    "Average", "accuracy", "average_precision", "bits_per_token", "calibration_error", "confusion_matrix", "f1",
    "perplexity", "precision", "r2", "recall", "roc_auc", "top_k_accuracy"]

public_names(__name__)
