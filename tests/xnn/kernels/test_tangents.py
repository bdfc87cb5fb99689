"""The programs of docs/kernels_from_neural_tangents.md print what they print with neural-tangents.

tests/test_docs.py checks that they print what the page shows.
"""

import json
import re
from pathlib import Path

import pytest

from tests.xnn import peers

EXPECTED = json.loads((Path(peers.__path__[0]) / "tangents.json").read_text())
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "kernels_from_neural_tangents.md").read_text()
SECTIONS = {title: shown.splitlines() for title, shown in
            re.findall(r"^## (.+?)\n(?:(?!^## ).*\n)*?```text\n((?:.*\n)*?)```\n", PAGE, re.MULTILINE)}


def test_every_program_has_a_section():
    assert list(SECTIONS) == list(EXPECTED)


@pytest.mark.parametrize("title", EXPECTED)
def test_the_peer_prints_the_same(title):
    assert SECTIONS[title] == EXPECTED[title]
