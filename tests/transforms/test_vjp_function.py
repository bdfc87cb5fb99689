"""The function that `vjp` returns: the arguments that it saves, and the results that may have a tangent."""

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
    """As in JAX 0.12. An argument that the backward pass does not read is never saved."""
    back = vjp(saveable_args=({"a": False, "b": True}, True))
    assert repr(back.args_res) == "[{'a': NotSaveable(), 'b': NotNeeded()}, Array(5., dtype=float32)]"
    assert_refused(lambda: back((A, B)), ValueError, ["vjp of `f`", "must be assigned", "args_res[0]['a']"])
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
    assert_refused(lambda: vjp(**{name: flags}), ValueError, ["vjp of `f`", f"`{name}` does not match", "pass a bool"])


def test_attributes_of_the_backward_pass():
    def f(x, y):
        return xjax.lax.sin(x) * y
    back = xjax.vjp(f, xjax.numpy.float32(2), xjax.numpy.float32(3))[1]
    assert len(back.jaxpr.invars) == 2 and [str(e.primitive) for e in back.jaxpr.eqns][-1] == "add_any"
    assert repr(back).startswith("VJP(vjp of `f`, in_tree=PyTreeDef((*, *)), out_tree=PyTreeDef(*), args_res=[")
    assert_same(back.with_logs(1.0), (back(1.0), {}))
    assert not back.want_logs and xjax.tree.map(lambda x: x, back.with_logs).want_logs
    doubled = back.replace(args_res=xjax.tree.map(lambda y: 2 * y, back.args_res))
    assert_same(doubled(1.0)[0], 2 * back(1.0)[0])
    assert_refused(lambda: back.replace(other=1), TypeError, ["vjp of `f`: replace", "args_res"])
    assert_refused(lambda: back.with_refs(None, None), NotImplementedError, ["vjp of `f`: with_refs", "mutable arrays"])
    f_lin = xjax.linearize(f, xjax.numpy.float32(2), xjax.numpy.float32(3))[1]
    assert str(f_lin.func.args[0]) == str(f_lin.func.jaxpr) == str(back.jaxpr)


def test_programs_take_constants():
    closed = xjax.make_jaxpr(lambda x: x * np.arange(3.0, dtype=np.float32))(np.ones(3, np.float32))
    assert closed.num_consts == 1 and closed.constvars + closed.invars == closed.all_invars == closed.jaxpr.all_invars
    assert closed.literals is closed.consts and closed.outvars is closed.jaxpr.outvars
    all_known = closed.with_consts([np.full(3, 2, np.float32), np.full(3, 5, np.float32)])
    assert all_known.invars == [] and all_known()[0].tolist() == [10, 10, 10]
    dropped = closed.map_jaxpr(lambda jaxpr: jaxpr.replace(outvars=[]))
    assert dropped.consts == closed.consts and dropped(np.ones(3, np.float32)) == []
    assert_refused(lambda: closed.jaxpr.with_consts([1, 2, 3]), ValueError, "more values than inputs")
