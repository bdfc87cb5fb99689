"""The words of docstrings, comments, messages, pages and names, by the rules of `tests.wording`."""

import re

import pytest

from tests import wording


@pytest.mark.parametrize("folder", [*wording.CODE, "pages"])
def test_words(folder):
    """No word that the rules exclude, no sentence without a subject or too long, no name that says nothing."""
    offences = [offence for path in wording.files()
                if (path.parts[0] if path.suffix == ".py" else "pages") == folder
                for offence in wording.offences(str(path), (wording.ROOT / path).read_text())]
    assert not offences, "\n".join(map(str, offences))


PLANTED = {
    '"""The array lies on a device."""': "'lies'",
    '"""Where the axes\n\n    stand."""': "'stand'",
    "# the caller is\n# told again": "'told'",
    'raise TypeError(f"{x} is no array, but a number")': "'is no'",
    'f("the ones that differ are moved")': "'the ones that'",
    '"""The error for what is not an array."""': "'for what'",
    '"""What a file holds."""': "no subject",
    '"""First.\n\n    Args:\n      x: ' + "a word " * 18 + '\n    """': "a sentence of 36 words",
    "found = 1": "the name 'found'",
    "def go_on(x): ...": "the name 'go_on'",
    "self._found, y = 1, 2": "the name '_found'",
    "def check(where: str, x): ...": "`where`",
}


@pytest.mark.parametrize("source", PLANTED, ids=list(PLANTED.values()))
def test_a_planted_offence(source):
    offences = wording.offences("planted.py", source)
    assert [offence for offence in offences if offence.fault.startswith(PLANTED[source])], offences


@pytest.mark.parametrize("source", [
    '"""There is no mesh; x stands for an array, and y is no longer read."""',
    '"""Named `what`, or ``found``, or "told"."""',
    '"""Is that what it holds? What is a leaf?"""',
    'keys = ["lies told", "for what"]',
    "def sum(x, where: ArrayLike): ...",
])
def test_what_may_be_written(source):
    assert not wording.offences("planted.py", source)


def test_a_page_without_its_code():
    page = "The text.\n\n```python\nfound = 1   # told\n```\n\nAn array\nlies here.\n"
    (offence,) = wording.offences("page.md", page)
    assert offence.line == 7 and offence.fault.startswith("'lies'")


def test_the_glossary_has_each_term_once():
    page = (wording.ROOT / "docs" / "architecture.md").read_text()
    glossary = page.partition("## Glossary\n")[2].partition("\n## ")[0]
    terms = re.findall(r"^\| ([\w -]+) \|", glossary, re.MULTILINE)[1:]
    assert len(terms) == len(set(terms)) and set(wording.TERMS) <= set(terms), set(wording.TERMS) - set(terms)
