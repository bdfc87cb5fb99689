"""Random streams equal JAX's recorded ones, so this is checked even if JAX is not installed.

After a deliberate change of the rows ``python -m tests.random.test_streams`` records JAX's numbers again.
"""

import contextlib
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import xjax
from tests.quick_compiling import as_shipped
from tests.random.rows import CASES, ROWS, label
from tests.sampling import one_in

GOLDEN = Path(__file__).with_name("golden.json")
CASE_NAMES = [label(*case) for case in CASES]
# The last digits of these, and decisions that depend on them, vary with XLA's contraction of products and sums.
AS_SHIPPED = {"truncated_normal", "truncated_normal rows", "wald", "lognormal complex", "poisson"}


def draw(library, case, *, compiled=False):
    name, x64, partitionable = case
    with as_shipped(name in AS_SHIPPED), contextlib.ExitStack() as stack:
        stack.enter_context(library.enable_x64(x64))
        stack.enter_context(library.threefry_partitionable(partitionable))
        key = library.random.PRNGKey(42)
        f = lambda key: ROWS[name](library.random, key)
        return np.asarray((library.jit(f) if compiled else f)(key))


def summary(x):
    """The type, and a digest of integers or the last few floats, whose last bits depend on processor and compiler."""
    kind = f"{x.dtype.name}{list(x.shape)}"
    if np.issubdtype(x.dtype, np.integer) or x.dtype == bool:
        return [kind, hashlib.sha256(x.tobytes()).hexdigest()[:16]]
    parts = x.reshape(-1)[-6:].astype(np.complex128)
    return [kind, [float(f"{v:.9g}") for v in (*parts.real, *parts.imag)]]


@pytest.mark.parametrize("case", one_in(8, CASES), ids=CASE_NAMES)
def test_stream_equals_the_recorded_one(case):
    x = draw(xjax, case)
    (kind, numbers), (golden_kind, golden) = summary(x), json.loads(GOLDEN.read_text())[label(*case)]
    assert kind == golden_kind
    if isinstance(golden, str):
        assert numbers == golden
    else:
        narrow = x.dtype.itemsize < 4
        np.testing.assert_allclose(numbers, golden, rtol=2e-2 if narrow else 1e-5, atol=1e-6)


def test_every_case_is_recorded():
    assert sorted(json.loads(GOLDEN.read_text())) == sorted(CASE_NAMES)


UNDER_JIT = [case for case in CASES if case[0] in (
    "uniform(2, 3)", "normal", "truncated_normal", "randint limits", "permutation", "choice p", "categorical shape",
    "bits uint8(7,)", "split(2, 3)")]
PLAIN = [case for case in UNDER_JIT if case[1:] == (False, True)]                   # each name once


@pytest.mark.parametrize("case", [*PLAIN, *one_in(4, [case for case in UNDER_JIT if case not in PLAIN])],
                         ids=lambda c: label(*c))
def test_stream_under_jit_is_the_same(case):
    np.testing.assert_array_equal(draw(xjax, case, compiled=True), draw(xjax, case))


def record():
    import jax

    summaries = {label(*c): summary(draw(jax, c)) for c in CASES}
    GOLDEN.write_text(json.dumps(summaries, sort_keys=True).replace('], "', '],\n"') + "\n")


if __name__ == "__main__":
    record()
