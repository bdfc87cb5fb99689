"""Parsing of einsum's subscripts, text or integer labels, into one tuple of labels for each operand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from xjax.core.errors import bad
from xjax.numpy.promote import array_likes, shape_of

Labels = tuple

# Labels of the axes of an ellipsis, counted from its last axis: characters for private use, no labels of users.
_ELLIPSIS_START = 0xE000


def parse_einsum(caller: str, subscripts: Any, operands: Sequence[Any]) -> tuple[list[Labels], Labels, list[Any]]:
    """(labels of each operand, labels of the result, operands).

    Raises: ValueError if the subscripts do not fit the operands or each other.
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_integers((subscripts, *operands))
    operands = array_likes(caller, operands)
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    given = {"subscripts": subscripts, **{f"operand {i}": str(shape_of(x)) for i, x in enumerate(operands)}}
    if len(parts) != len(operands):
        raise bad(caller, f"{len(parts)} terms for {len(operands)} operands", given=given,
                  fix="write one term for each operand, separated by commas.", exc=ValueError)
    terms = [_expand(caller, part, len(shape_of(x)), given) for part, x in zip(parts, operands, strict=True)]
    _check_sizes(caller, terms, operands, given)
    return terms, _result(caller, terms, right if arrow else None, given), operands


def _from_integers(items: Sequence[Any]) -> tuple[str, list[Any]]:
    """einsum(x, [0, 1], y, [1, 2], [0, 2]) as text."""
    def text(labels: Any) -> str:
        return "".join("..." if c is Ellipsis else chr(c + (97 if c < 26 else 39 if c < 52 else 140)) for c in labels)

    n = len(items) // 2
    left = ",".join(text(items[2 * i + 1]) for i in range(n))
    return left + (f"->{text(items[-1])}" if len(items) % 2 else ""), list(items[:2 * n:2])


def _expand(caller: str, part: str, ndim: int, given: dict) -> Labels:
    """Labels of a term with the ellipsis written out."""
    before, dots, after = part.partition("...")
    named = len(before) + len(after)
    if "." in before + after or named > ndim or (not dots and named != ndim):
        raise bad(caller, f"term {part!r} does not fit an operand with {ndim} axes", given=given,
                  fix="write one label for each axis; '...' stands for the rest.", exc=ValueError)
    hidden = [chr(_ELLIPSIS_START + i) for i in range(ndim - named)][::-1]
    return (*before, *hidden, *after)


def _check_sizes(caller: str, terms: Sequence[Labels], operands: Sequence[Any], given: dict) -> None:
    sizes: dict[str, int] = {}
    for term, x in zip(terms, operands, strict=True):
        own: dict[str, int] = {}
        for label, n in zip(term, shape_of(x), strict=True):
            if own.setdefault(label, n) != n:
                raise bad(caller, f"label {label!r} has sizes {own[label]} and {n} in one operand", given=given,
                          fix="axes with one label must have one size.", exc=ValueError)
            if n != 1 and sizes.setdefault(label, n) != n:
                raise bad(caller, f"label {label!r} has sizes {sizes[label]} and {n}", given=given,
                          fix="axes with one label must have one size.", exc=ValueError)


def _result(caller: str, terms: Sequence[Labels], right: str | None, given: dict) -> Labels:
    counts = Counter(c for term in terms for c in term)
    hidden = sorted((c for c in counts if ord(c) >= _ELLIPSIS_START), reverse=True)
    if right is None:
        return (*hidden, *sorted(c for c, n in counts.items() if n == 1 and c not in hidden))
    before, dots, after = right.partition("...")
    result = (*before, *(hidden if dots else ()), *after)
    if len(set(result)) != len(result) or any(c not in counts for c in result):
        raise bad(caller, f"the result {right!r} repeats a label, or names one that no operand has", given=given,
                  fix="name each label of the result once, from those of the operands.", exc=ValueError)
    return result
