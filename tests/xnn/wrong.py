"""Rows of wrong calls: ``(call, class of the error, parts of its text)``, where `call` takes a key."""

import pytest


def assert_refused(row, key):
    """The call raises an error of this class, whose text has all parts and says how to mend it."""
    call, exc, fragments = row
    with pytest.raises(exc) as caught:
        call(key)
    for fragment in [*fragments, "fix:"]:
        assert fragment in str(caught.value)
