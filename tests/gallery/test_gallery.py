"""Each mistake of the gallery of errors prints as docs/guides/errors.md shows, and its mended program runs."""

from __future__ import annotations

import pytest

from tests.gallery.mistake import is_command, output
from tests.gallery.page import MISTAKES, PAGE, SECTIONS, section

# Mistakes that are not errors: the output of the wrong program shows that it is wrong.
SILENT = {"float64 without the option for it", "A side effect in a compiled function", "`jit` inside of a loop",
          "Training in evaluation mode"}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title.replace(" ", "-"))
def test_the_page_shows_what_the_programs_print(mistake):
    if is_command(mistake.wrong):
        pytest.importorskip("pydantic")
    assert section(mistake) in PAGE.read_text(), "write the page again: python -m tests.gallery.page"
    assert output(mistake, mistake.wrong).failed == (mistake.title not in SILENT)
    assert not output(mistake, mistake.mended).failed


def test_the_page_has_these_sections_in_this_order():
    titles = [line for line in PAGE.read_text().splitlines() if line.startswith(("## ", "### "))]
    assert titles == [line for title, rows in SECTIONS.items()
                      for line in (f"## {title}", *(f"### {mistake.title}" for mistake in rows))]
    assert len(MISTAKES) >= 40 and {mistake.title for mistake in MISTAKES} >= SILENT


def test_messages_have_a_fix():
    """All errors but Python's own."""
    for text in PAGE.read_text().split("### ")[1:]:
        assert "fix:" in text or text.startswith(tuple(SILENT)), text
