"""What `vjp` returns: which arguments it keeps for the backward pass, and which results may have a tangent."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.refusals import assert_refused

A, B, C = map(np.float32, (2, 3, 5))


def f(x, y):
    return x["a"] * y + x["b"], 2 * x["b"]


def vjp(**options):
    return xjax.vjp(f, *xjax.device_put(({"a": A, "b": B}, C)), **options)[1]


def test_an_argument_that_is_not_kept_is_put_back():
    """As in JAX 0.12. One that the backward pass does not read is not kept in any case."""
    back = vjp(saveable_args=({"a": False, "b": True}, True))
    assert repr(back.args_res) == "[{'a': NotSaveable(), 'b': NotNeeded()}, Array(5., dtype=float32)]"
    assert_refused(lambda: back((A, B)), ValueError, ["vjp of `f`", "must be put back", "args_res[0]['a']"])
    back.args_res[0]["a"] = A
    assert_same(back((np.float32(1), np.float32(0))), ({"a": C, "b": A / 2}, A))


@pytest.mark.parametrize("flags, may_have_tangents, of_a, of_b", [
    (None, (True, True), 5, 3), (True, (True, True), 5, 3), ((True, False), (True, True), 5, 3),
    (({"a": True, "b": False}, False), (True, False), 5, 0), (({"a": False, "b": True}, False), (True, True), 0, 3)])
def test_arguments_without_tangents_get_zeros(flags, may_have_tangents, of_a, of_b):
    back = vjp(in_nzs=flags)
    assert back.out_nzs == may_have_tangents
    want = {"a": np.float32(of_a), "b": np.float32(of_b)}, np.float32(2 if flags in (None, True) else 0)
    assert_same(xjax.tree.map(np.asarray, back((np.float32(1), np.float32(1)))), xjax.tree.map(np.asarray, want))


@pytest.mark.parametrize("name", ["saveable_args", "in_nzs"])
@pytest.mark.parametrize("flags", [3, (True,), (True, True, True), ({"a": True}, True), (True, (False,))], ids=str)
def test_flags_that_do_not_fit_the_arguments(name, flags):
    assert_refused(lambda: vjp(**{name: flags}), ValueError, ["vjp of `f`", f"`{name}` does not fit", "pass a bool"])
