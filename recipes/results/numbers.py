"""Numbers as text for people: on terminals, in reports and on plots. Files have full precision instead."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import numpy as np

# Metrics that are shares of a whole, shown in percent.
SHARES = ("accuracy", "balanced_accuracy", "f1", "precision", "recall", "calibration_error", "coverage_50",
          "coverage_90")
NOT_METRICS = ("train/lr", "train/gradient_norm")            # in the log of a run
_SPELLED = {"f1": "F1", "rmse": "RMSE", "mae": "MAE", "r2": "R²", "roc_auc": "ROC AUC",
            "negative_elbo": "negative ELBO", "kl": "KL", "negative_log_likelihood": "NLL",
            "coverage_50": "50 % coverage", "coverage_90": "90 % coverage"}


def number(value: float) -> str:
    """4 significant digits, with separated thousands; in scientific form below 0.0001 and from 10 million.

    >>> number(1234.56), number(0.071849), number(12), number(0.00000123), number(-2.5e9)
    ('1,235', '0.07185', '12', '1.23e-06', '-2.5e+09')
    """
    if isinstance(value, int):
        return f"{value:,}"
    size = abs(float(f"{value:.4g}"))                         # rounded first: 9.99996 has the decimals of 10
    if size == 0 or not math.isfinite(size):
        return f"{value:g}"
    if not 1e-4 <= size < 1e7:
        return f"{value:.4g}"
    return f"{value:,.{max(0, 3 - math.floor(math.log10(size)))}f}"


def quantity(value: float) -> str:
    """As `number`, but whole numbers have no decimals.

    >>> quantity(18.0), quantity(4.588)
    ('18', '4.588')
    """
    return number(int(value)) if math.isfinite(value) and value == int(value) else number(value)


def share(value: float) -> str:
    """A share of a whole, in percent.

    >>> share(0.96875)
    '96.88 %'
    """
    return f"{100 * value:.2f} %" if math.isfinite(value) else f"{value:g}"


def duration(seconds: float) -> str:
    """3 significant digits in ms or s; from a minute on, whole seconds; from an hour on, whole minutes.

    >>> duration(0.000785), duration(0.0416), duration(9.876), duration(192.4), duration(7501)
    ('0.785 ms', '41.6 ms', '9.88 s', '3 min 12 s', '2 h 05 min')
    """
    if seconds < 0.9995:
        return f"{1e3 * seconds:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60:02} min"


def metric(name: str, value: float) -> str:
    """The value of a metric: shares in percent, other metrics as numbers.

    Args: name: "accuracy" or "val/accuracy".
    """
    return share(value) if is_share(name) else number(float(value))


def words(name: str) -> str:
    """The name of a metric for people.

    >>> words("val/squared_error"), words("val/rmse"), words("r2")
    ('val squared error', 'val RMSE', 'R²')
    """
    split, slash, metric_name = name.rpartition("/")
    return split + slash.replace("/", " ") + _SPELLED.get(metric_name, metric_name.replace("_", " "))


def main_metric(names: Iterable[str]) -> str:
    """The metric that says most where the score of the task is not known: a share, else one that is not the loss.

    >>> main_metric(["loss", "rmse"]), main_metric(["loss", "roc_auc", "accuracy"]), main_metric([])
    ('rmse', 'accuracy', 'loss')
    """
    names = list(names)
    return next(filter(is_share, names), next((name for name in names if name != "loss"), "loss"))


def in_float32(value: float) -> float:
    """A result of float32 with the digits that determine it, not the 17 of a float64.

    >>> float(np.float32(0.9612)), in_float32(float(np.float32(0.9612)))
    (0.9611999988555908, 0.9612)
    """
    return float(str(np.float32(value))) if abs(value) < 3e38 else value


def decimal(value: float) -> str:
    """All digits of a number for a file, without an exponent if its decimals can be read.

    >>> decimal(0.9612), decimal(0.0000599999), decimal(1e-30), decimal(1e21)
    ('0.9612', '0.0000599999', '1e-30', '1e+21')
    """
    text = repr(value)
    return np.format_float_positional(value, trim="0") if "e" in text and 1e-12 < abs(value) < 1 else text


def spread(name: str, values: Sequence[float]) -> str:
    """Mean and standard deviation of a metric, both with the decimals of the deviation's 2 significant digits.

    >>> spread("loss", [0.105, 0.1285]), spread("accuracy", [0.91, 0.93]), spread("loss", [0.5])
    ('0.117 ± 0.017', '92.0 ± 1.4 %', '0.5000')
    """
    mean = statistics.fmean(values)
    if len(values) == 1 or not math.isfinite(mean):
        return metric(name, mean)
    deviation = statistics.stdev(values)
    if deviation == 0:
        return f"{metric(name, mean)} ± 0"
    factor, unit = (100, " %") if is_share(name) else (1, "")
    decimals = 1 - math.floor(math.log10(factor * deviation))
    if decimals > 6:
        return f"{metric(name, mean)} ± {number(deviation)}"
    return f"{factor * mean:,.{max(0, decimals)}f} ± {factor * deviation:,.{max(0, decimals)}f}{unit}"


def is_share(name: str) -> bool:
    """Whether a metric is a share of a whole; its name may begin with its split, as in "val/accuracy"."""
    return name.rpartition("/")[2] in SHARES
