"""The check of refused calls: the class of the error, and texts in its message."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest


def assert_refused(call: Callable[[], object], kind: type[Exception] | tuple[type[Exception], ...],
                   texts: str | Iterable[str], *, fix: bool = True) -> Exception:
    """Assert that the call raises an error of this class, whose message has the texts and a fix.

    Args: texts: one or several. fix: False for a message without "fix:", such as Python's own.
    Returns: the error.
    """
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    for text in [*([texts] if isinstance(texts, str) else texts), *["fix: "] * fix]:
        assert text in message, f"{text!r} is not in the message: {message}"
    return caught.value
