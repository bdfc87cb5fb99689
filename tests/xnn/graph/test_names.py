"""The names of `xnn.graph`: none equals the name of one of its files, whose import would replace it."""

from pathlib import Path

import xnn.graph


def test_no_name_is_that_of_a_file():
    files = {path.stem for path in Path(xnn.graph.__file__).parent.glob("*.py")}
    assert not files & set(xnn.graph.__all__)
    assert all(hasattr(xnn.graph, name) for name in xnn.graph.__all__)
    assert dir(xnn.graph) == sorted(xnn.graph.__all__)
