"""Programs for JAX's stax and optimizers run on xnn with only their imports changed: the losses agree."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import xjax
from tests.oracle import real_jax

# The fast set has one program that trains; the slow set has the others, because JAX compiles them for long.
FAST = {"mlp"}
PROGRAMS = [pytest.param(path, id=path.stem, marks=[] if path.stem in FAST else [pytest.mark.slow])
            for path in sorted((Path(__file__).parent / "stax_programs").glob("*.py"))]


def _with_our_imports(text: str) -> str:
    """The program with `xjax` for `jax` and `xnn` for `jax.example_libraries` in its import lines, else unchanged."""
    text = re.sub(r"^from jax\.example_libraries", "from xnn", text, flags=re.MULTILINE)
    text = re.sub(r"^import jax$", "import xjax as jax", text, flags=re.MULTILINE)
    return re.sub(r"^(from|import) jax\b", r"\1 xjax", text, flags=re.MULTILINE)


def _losses(text: str, path: Path) -> list[float]:
    namespace: dict = {"__name__": "program"}
    exec(compile(text, str(path), "exec"), namespace)
    with xjax.numpy_dtype_promotion("standard"):
        return namespace["main"]()


@pytest.mark.parametrize("path", PROGRAMS)
def test_losses_are_those_of_jax(path):
    real_jax()
    text = path.read_text()
    ours = _with_our_imports(text)
    assert not re.search(r"^(from|import) jax\b", ours, flags=re.MULTILINE)
    ours, theirs = _losses(ours, path), _losses(text, path)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert ours[-1] < 0.98 * ours[0], "it does not learn"
