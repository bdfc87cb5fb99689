"""Every public name of JAX is here, or stands in the table of names left out on purpose, with its reason."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import xjax
from tests.oracle import real_jax
from tests.reference import named, public_names
from xjax.core.left_out import LEFT_OUT, as_markdown

real_jax()
REFERENCE = public_names()


@pytest.mark.parametrize("module", REFERENCE)
def test_every_name_is_here_or_in_the_table(module):
    ours = importlib.import_module(named("xjax", module))
    left_out = {name for names in LEFT_OUT.get(named("xjax", module), {}).values() for name in names}
    missing = {name for name in REFERENCE[module] if not hasattr(ours, name)}
    assert missing == left_out, (f"neither here nor in the table: {sorted(missing - left_out)}; "
                                 f"in the table but here, or not in JAX: {sorted(left_out - missing)}")


def test_the_table_is_short():
    assert set(LEFT_OUT) <= {named("xjax", module) for module in REFERENCE}
    count = sum(len(names) for groups in LEFT_OUT.values() for names in groups.values())
    assert count < 0.03 * sum(map(len, REFERENCE.values()))


def test_a_name_that_is_left_out_says_why():
    for module, groups in LEFT_OUT.items():
        found = importlib.import_module(module)
        for why, names in groups.items():
            with pytest.raises(AttributeError) as caught:
                getattr(found, names[0])
            assert why in str(caught.value).replace("\n          ", " ") and "fix:" in str(caught.value)


def test_a_misspelt_name_is_corrected():
    for module, name, right in (("numpy", "lingspace", "linspace"), ("lax", "scann", "scan"), ("nn", "rellu", "relu"),
                                ("random", "normall", "normal"), ("scipy", "lingalg", "linalg")):
        with pytest.raises(AttributeError, match=f"did you mean '{right}'"):
            getattr(getattr(xjax, module), name)


def test_documentation_is_the_table():
    page = Path(__file__).parents[1] / "docs" / "left_out.md"
    assert page.read_text() == as_markdown(), (
        "write it anew: python -c \"from xjax.core.left_out import *; "
        "open('docs/left_out.md', 'w').write(as_markdown())\"")
