"""Sizes of memory as text, such as "500MB".  It loads without jaxlib: configs of recipes are checked before it is."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def bytes_of(size: str | float) -> float:
    """A number of bytes, from a number or from text: "500MB" is 500 * 10**6, "2GiB" is 2 * 2**30.

    Raises: ValueError.

    >>> bytes_of("1.5 kB")
    1500.0
    """
    if isinstance(size, int | float):
        return float(size)
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*((?:[KMG]I?)?)B?\s*", size.upper())
    if match is None:
        raise ValueError("a size such as 500MB or 2GiB")
    return float(match[1]) * _UNITS[match[2]]
