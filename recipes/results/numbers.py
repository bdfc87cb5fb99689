"""Numbers as text for people: on terminals, in reports and on plots. Files have full precision instead."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# Metrics that are shares of a whole, shown in percent.
SHARES = ("accuracy", "balanced_accuracy", "f1", "precision", "recall")


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
