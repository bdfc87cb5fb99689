"""Runs one program, a function of the module that it uses, in xjax and in real JAX, and compares the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xjax
from tests.oracle import real_jax
from tests.sampling import one_in

# Float64; the programs run at most some thousands of operations, each accurate to 1e-16, on well-conditioned numbers.
RTOL, ATOL = 1e-9, 1e-11


def check(program: Callable[[Any], Any]) -> None:
    """Assert that `program(module)` is the same tree of arrays, numbers and strings for `xjax` and `jax`."""
    jax = real_jax()
    with xjax.enable_x64():
        ours = program(xjax)
    jax.config.update("jax_disable_most_optimizations", True)       # compiles sooner
    try:
        with jax.enable_x64(True):
            theirs = program(jax)
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
    a, our_tree = xjax.tree.flatten_with_path(ours)
    b, their_tree = jax.tree.flatten_with_path(theirs)
    assert [xjax.tree_util.keystr(path) for path, _ in a] == [jax.tree_util.keystr(path) for path, _ in b]
    assert str(our_tree) == str(their_tree)
    for (path, x), (_, y) in zip(a, b, strict=True):
        name = f"{program.__name__}{xjax.tree_util.keystr(path)}"
        if isinstance(x, str):
            assert x == y, name
            continue
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape), name
        np.testing.assert_allclose(x, y, RTOL, ATOL, err_msg=name)


def each(*programs: Callable[[Any], Any]) -> Any:
    """Parametrizes a test by programs, under their names; two of three run only in the slow set."""
    return pytest.mark.parametrize("program", one_in(3, programs, lambda p: p.__name__))
