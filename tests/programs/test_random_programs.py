"""Random programs give the same in xjax and in real JAX; `random_programs` runs thousands, this file a few dozen."""

from __future__ import annotations

import pytest

from tests.oracle import real_jax
from tests.programs.generator.coverage import Coverage
from tests.programs.generator.draw import program
from tests.programs.generator.run import check

_CHUNK = 10


@pytest.mark.parametrize("first", [
    0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(_CHUNK, 600, _CHUNK))])
def test_programs_agree_with_jax(first):
    jax = real_jax()
    for seed in range(first, first + _CHUNK):
        outcome = check(jax, program(seed))
        assert "text" not in outcome, f"seed {seed}: {outcome['kind']}\n{outcome['text']}"


def test_a_seed_is_a_program():
    """The description is a function of the seed alone, and its text is valid Python."""
    for seed in range(300):
        text = program(seed).text()
        assert text == program(seed).text()
        compile(text, "<program>", "exec")


def test_everything_is_drawn():
    """Every operation, transform, pair and construct inside a transform occurs at least 20 times in 5,000 programs."""
    coverage = Coverage()
    for seed in range(1500):
        coverage.add(program(seed), "drawn")
    assert coverage.rare(6) == []
