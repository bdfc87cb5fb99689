"""The share of `Any` among the annotations of a package does not grow."""

from __future__ import annotations

import pytest

from tests import typing_report
from tests.typing_report import Count

# Percentages in each package, rounded up: `Any` alone among its annotations, and parameters and results without an
# annotation. Work on types lowers them.
LIMITS = {"xjax": (2.0, 12.0), "xnn": (4.2, 24.1), "recipes": (1.5, 0.0)}

EVERY_KIND = '''
class A:
    def f(self, x: Any, *args: int, y: typing.Any = 1, **kwargs: "Any") -> list[Any]:
        """As in an example: nothing of it counts.

        def example(x, y): ...
        """
    @staticmethod
    def g(x, y: Any | None = "):") -> None: return (x,
                                                    y)
async def h(f: Callable[..., Any],       # a comment with a colon:
            x: "int") -> Any:
    def inside(cls, own: int): ...
    return lambda x: x
'''


def over(package: str, count: Count) -> list[str]:
    """The shares above the limits of a package, as text."""
    most, missing = LIMITS[package]
    shares = {"Any": (100 * count.share, most),
              "missing": (100 * count.missing / max(1, count.written + count.missing), missing)}
    return [f"{package}: {name} {share:.2f} %, at most {limit} %" for name, (share, limit) in shares.items()
            if share > limit]


def test_no_share_has_grown():
    offences = [offence for package, of in typing_report.by_package().items() for offence in over(package, of)]
    assert not offences, "\n".join([*offences, "python -m tests.typing_report prints the files"])


def test_each_kind_of_annotation_is_counted():
    assert typing_report.count(EVERY_KIND) == Count(written=11, bare=4, inside=3, missing=2)


@pytest.mark.parametrize(("text", "column"), [("def f(x: Any) -> Any: ...\n" * 400, "Any"),
                                              ("def f(x): ...\n" * 400, "missing")])
def test_a_planted_offence_is_seen(monkeypatch, tmp_path, text, column):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "offence.py").write_text(text)
    monkeypatch.setattr(typing_report, "ROOT", tmp_path)
    assert any(f"recipes: {column} " in line for line in over("recipes", typing_report.by_package()["recipes"]))
