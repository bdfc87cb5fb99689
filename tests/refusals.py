"""The check that tables of misuse share: a call, the class of its error, and texts that the message holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest


def assert_refused(call: Callable[[], object], kind: type[Exception], texts: Iterable[str]) -> None:
    with pytest.raises(kind) as error:
        call()
    for text in texts:
        assert text in str(error.value)
