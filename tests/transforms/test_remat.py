"""checkpoint: equal values and derivatives, its saved residuals, policies, errors."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import xjax
from tests.lax.oracle import DERIVATIVES, check, stacked, vmapped
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import checkpoint_policies, lax
from xjax.core.jaxpr import check_jaxpr
from xjax.transforms import remat
from xjax.transforms.checkpoint_policies import checkpoint_name
from xjax.transforms.remat import checkpoint

jax = real_jax()
ad_checkpoint = real_jax("ad_checkpoint").ad_checkpoint

W = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
X = np.array([0.3, -1.2, 0.8], np.float32)


def dense(L, w, x):
    """Two products with names, which policies use."""
    name = checkpoint_name if L is lax else ad_checkpoint.checkpoint_name
    dims = (((1,), (0,)), ((), ()))
    h = name(L.tanh(L.dot_general(w, x, dims)), "hidden")
    return L.sin(L.dot_general(w, L.sin(h), dims))


def of(lib):
    return checkpoint if lib is xjax else jax.checkpoint


POLICIES = ["everything_saveable", "nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable"]


@pytest.mark.parametrize("transform", DERIVATIVES)
def test_derivatives_as_jax(transform):
    check(jax, dense, W, X, transform=lambda lib, f: DERIVATIVES[transform](lib, of(lib)(f)))


@pytest.mark.parametrize("policy", POLICIES)
def test_derivatives_with_policies_as_jax(policy):
    def checkpointed(lib, f):
        policies = checkpoint_policies if lib is xjax else jax.checkpoint_policies
        g = of(lib)(f, policy=getattr(policies, policy))
        return lambda *xs: [DERIVATIVES[transform](lib, g)(*xs) for transform in ("grad", "grad of grad")]
    check(jax, dense, W, X, transform=checkpointed)


@pytest.mark.parametrize("kind", ["vmap", "vmap of grad", "grad of vmap"])
def test_vmap_as_jax(kind):
    check(jax, dense, *stacked([W, X], (None, 0)),
          transform=lambda lib, f: vmapped(kind, (None, 0))(lib, of(lib)(f)))


def test_inside_a_scan_as_jax():
    def f(L, w, x):
        lib = xjax if L is lax else jax
        body = of(lib)(lambda c, _: (dense(L, w, c), None), prevent_cse=False)
        return L.scan(body, x, None, length=3)[0]
    check(jax, f, W, X, transform=DERIVATIVES["grad"])


def test_eager_gradient():
    want = xjax.grad(lambda x: lax.reduce_sum(dense(lax, W, x), (0,)))(X)
    result = xjax.grad(lambda x: lax.reduce_sum(checkpoint(lambda x: dense(lax, W, x))(x), (0,)))(X)
    np.testing.assert_allclose(np.asarray(result), np.asarray(want), rtol=1e-5)


# -- what is stored -----------------------------------------------------------------------------------------------

def passes(policy):
    """Equations of the forward and of the backward pass."""
    f = checkpoint(lambda w, x: dense(lax, w, x), policy=policy)
    closed = xjax.make_jaxpr(xjax.grad(lambda w, x: lax.reduce_sum(f(w, x), (0,)), (0, 1)))(W, X)
    check_jaxpr(closed.jaxpr)
    return [eqn for eqn in closed.eqns if eqn.primitive is remat.remat_p]


def count(eqn, name):
    return sum(e.primitive.name == name for e in eqn.params["jaxpr"].eqns)


@pytest.mark.parametrize("policy,stored,tanhs,dots", [
    (None, 0, 1, 2), (checkpoint_policies.nothing_saveable, 0, 1, 2),
    (checkpoint_policies.everything_saveable, 4, 0, 0),
    (checkpoint_policies.dots_saveable, 2, 1, 0), (checkpoint_policies.dots_with_no_batch_dims_saveable, 2, 1, 0),
    (checkpoint_policies.save_only_these_names("other"), 0, 1, 2)],
    ids=["none", "nothing", "everything", "dots", "dots without batch", "no name"])
def test_policy_chooses_what_is_stored(policy, stored, tanhs, dots):
    forward, back = passes(policy)
    assert (forward.params["differentiated"], back.params["differentiated"]) == (False, True)
    assert count(back, "tanh") == tanhs
    # The transpose of two products has four; any others are recomputed.
    assert count(back, "dot_general") == 4 + dots
    if policy is not checkpoint_policies.everything_saveable:
        assert len(forward.outvars) == 1 + stored
    else:
        assert len(forward.outvars) > stored


def test_names():
    forward, back = passes(checkpoint_policies.save_only_these_names("hidden"))
    assert len(forward.outvars) == 2 and count(back, "tanh") <= 1
    both = checkpoint_policies.save_from_both_policies(checkpoint_policies.save_only_these_names("hidden"),
                                                       checkpoint_policies.dots_saveable)
    assert len(passes(both)[0].outvars) == 4
    assert len(passes(checkpoint_policies.save_any_names_but_these("hidden"))[0].outvars) == 1
    x = xjax.device_put(X)
    np.testing.assert_array_equal(np.asarray(checkpoint_name({"a": x}, "n")["a"]), X)


def test_the_compiled_program_keeps_both_computations():
    def text(prevent_cse):
        f = checkpoint(lambda x: lax.sin(lax.sin(x)), prevent_cse=prevent_cse)
        return xjax.jit(xjax.value_and_grad(f)).lower(np.float32(1)).compile().as_text()
    assert "conditional(" in text(True) and "conditional(" not in text(False)


def test_blocks_one_after_the_other_need_the_memory_of_one():
    """Also outside of loops, where XLA's CPU backend merges computations across a barrier (JAX saves no memory)."""
    def temporary_bytes(block):
        def loss(ws, x):
            for i in range(6):
                x = block(ws[i], x)
            return lax.reduce_sum(x, (0, 1))
        args = np.zeros((6, 32, 32), np.float32), np.zeros((1000, 32), np.float32)
        return xjax.jit(xjax.grad(loss)).lower(*args).compile().memory_analysis().temp_size_in_bytes

    def block(w, x):
        for _ in range(3):
            x = lax.mul(lax.sin(lax.dot(x, w)), lax.cos(x))
        return x

    assert temporary_bytes(checkpoint(block)) < 0.5 * temporary_bytes(block)


def test_policy_sees_into_jitted_functions():
    f = checkpoint(xjax.jit(lambda w, x: dense(lax, w, x)), policy=checkpoint_policies.dots_saveable)
    closed = xjax.make_jaxpr(xjax.grad(lambda w, x: lax.reduce_sum(f(w, x), (0,))))(W, X)
    forward, _ = [eqn for eqn in closed.eqns if eqn.primitive is remat.remat_p]
    assert len(forward.outvars) == 3


def with_jvp(lib):
    np_ = lib.numpy
    f = lib.custom_jvp(lambda w, x: np_.tanh(w @ x))
    f.defjvp(lambda xs, dxs: (f(*xs), (1 - f(*xs) ** 2) * (dxs[0] @ xs[1] + xs[0] @ dxs[1])))
    return f


def with_vjp(lib):
    np_ = lib.numpy
    f = lib.custom_vjp(lambda w, x: np_.tanh(w @ x))

    def forward(w, x):
        y = np_.tanh(w @ x)
        return y, (w, x, y)

    def backward(kept, ct):
        w, x, y = kept
        return np_.outer(ct * (1 - y ** 2), x), w.T @ (ct * (1 - y ** 2))

    f.defvjp(forward, backward)
    return f


def built_in(lib):
    return lambda w, x: lib.nn.softplus(lib.nn.relu(w @ x))


@pytest.mark.parametrize("rule", [with_jvp, with_vjp, built_in])
@pytest.mark.parametrize("policy", ["everything_saveable", "nothing_saveable", "dots_saveable"])
def test_policies_see_through_custom_rules_as_in_jax(policy, rule):
    """Products, tanh and sin in the program of the gradient: no more than in JAX."""
    def operations(lib):
        f, np_ = rule(lib), lib.numpy
        chosen = getattr(lib.checkpoint_policies, policy)
        g = lib.checkpoint(lambda w, x: np_.sin(f(w, np_.sin(f(w, x)))), policy=chosen)
        text = str(lib.make_jaxpr(lib.grad(lambda w: g(w, X).sum()))(W))
        return [text.count(operation) for operation in ("dot_general[", "tanh", "sin ")]
    # JAX keeps a product of the rule for an unused cotangent.
    assert all(a <= b for a, b in zip(operations(xjax), operations(jax), strict=True))


# -- arguments ----------------------------------------------------------------------------------------------------

def test_static_arguments_trees_and_keywords():
    def f(params, train, scale=1.0):
        assert isinstance(train, bool)
        return lax.mul(lax.sin(params["x"]), scale if train else 0.0)

    g = checkpoint(f, static_argnums=1)
    assert float(xjax.grad(lambda p: g(p, True, scale=2.0))({"x": 0.0})["x"]) == 2.0
    assert float(g({"x": 1.0}, False)) == 0.0
    by_name = checkpoint(f, static_argnames="train")
    assert float(by_name({"x": 1.0}, False)) == float(by_name({"x": 1.0}, train=False)) == 0.0


def test_as_a_decorator_traces_once():
    traced = []

    @checkpoint
    def f(x):
        traced.append(1)
        return lax.sin(x)

    for k in range(3):
        f(np.float32(k))
    assert len(traced) == 1 and f.__name__ == "f"


def test_rule_that_calls_a_checkpointed_function_on_tangents():
    scale = checkpoint(lambda x, dx: (lax.sin(x), lax.mul(lax.cos(x), dx)))

    @xjax.custom_jvp
    def f(x):
        return lax.sin(x)

    @f.defjvp
    def f_jvp(primals, tangents):
        return scale(primals[0], tangents[0])

    assert float(xjax.grad(f)(0.0)) == 1.0


# Residuals that JAX keeps, in bytes: functions of the numpy and lax of a library, and of its checkpoint_name.
KEPT = {
    "two layers": (lambda np_, lib, name, w, x: np_.sum(np_.sin(w @ np_.tanh(name(w @ x, "hidden")))), (W, X)),
    "chain": (lambda np_, lib, name, x: np_.sin(np_.exp(np_.cos(name(x * 2, "hidden")))), (X,)),
    "jitted": (lambda np_, lib, name, w, x: lib.jit(lambda y: np_.tanh(w @ np_.sin(y)))(
        lib.jit(lambda y: np_.tanh(w @ y))(x)), (W, X)),
    "batched product": (lambda np_, lib, name, b, x: np_.einsum(
        "bij,bj->bi", b, np_.sin(np_.einsum("bij,j->bi", b, name(np_.sin(x), "hidden")))), (np.stack([W, W]), X)),
    "softmax": (lambda np_, lib, name, w, x: lib.nn.softmax(w @ x), (W, X)),
    "unused argument": (lambda np_, lib, name, w, x: np_.sin(x), (W, X)),
}


def policies(lib):
    result = {name: getattr(lib.checkpoint_policies, name) for name in POLICIES}
    return {"no policy": None, **result,
            "one name": lib.checkpoint_policies.save_only_these_names("hidden"),
            "other names": lib.checkpoint_policies.save_any_names_but_these("hidden"),
            "both": lib.checkpoint_policies.save_from_both_policies(
                result["dots_saveable"], lib.checkpoint_policies.save_only_these_names("hidden"))}


@pytest.mark.parametrize("case", KEPT)
def test_residuals_take_no_more_bytes_than_in_jax(case):
    f, args = KEPT[case]
    saved_by_jax = real_jax("_src.ad_checkpoint")._src.ad_checkpoint.saved_residuals
    ours = {name: residual_bytes(xjax.ad_checkpoint.saved_residuals(
        checkpoint(lambda *xs: f(xjax.numpy, xjax, checkpoint_name, *xs), policy=p), *args))
        for name, p in policies(xjax).items()}
    theirs = {name: residual_bytes(saved_by_jax(
        jax.checkpoint(lambda *xs: f(jax.numpy, jax, ad_checkpoint.checkpoint_name, *xs), policy=p), *args))
        for name, p in policies(jax).items()}
    assert all(ours[name] <= theirs[name] for name in ours), (ours, theirs)
    assert ours["nothing_saveable"] == theirs["nothing_saveable"] <= ours["dots_saveable"]
    assert ours["dots_saveable"] <= ours["both"] <= ours["everything_saveable"] or case == "chain"


def residual_bytes(residuals):
    return sum(int(np.prod(aval.shape)) * aval.dtype.itemsize for aval, _ in residuals)


def test_print_saved_residuals(capsys):
    def f(params, x, scale=2.0):
        h = checkpoint_name(xjax.numpy.tanh(params["w"] @ x), "hidden")
        return xjax.jit(lambda h, scale: scale * xjax.numpy.sin(h))(h, scale)

    def printed(g):
        xjax.ad_checkpoint.print_saved_residuals(g, {"w": W}, X, scale=3.0)
        return [line.replace(Path(__file__).name, "here").rstrip("0123456789")
                for line in capsys.readouterr().out.splitlines()]

    policy = checkpoint_policies.save_only_these_names("hidden")
    arguments = ["f32[3,3] from the argument params['w']", "f32[3] from the argument x"]
    assert printed(checkpoint(f, policy=policy)) == [
        *arguments, "f32[] from the argument scale", "f32[3] named 'hidden' from here:"]
    result = printed(f)
    assert set(arguments) <= set(result) and "f32[3] output of jitted function '<lambda>' from here:" in result


def test_prevent_cse_may_be_one_for_each_argument():
    for given, want in (((True, False), True), ((False, False), False), (False, False)):
        f = checkpoint(lambda w, x: dense(lax, w, x), prevent_cse=given)
        (eqn,) = xjax.make_jaxpr(f)(W, X).eqns
        assert eqn.params["prevent_cse"] is want


def test_policies_may_answer_with_verdicts():
    def policy(prim, *avals, **params):
        return xjax.ad_checkpoint.Saveable if prim.name == "tanh" else xjax.ad_checkpoint.Recompute

    forward, back = passes(policy)
    assert (count(back, "tanh"), count(back, "dot_general")) == (0, 4 + 1)
    assert len(forward.outvars) == 2 and repr(policy(remat.remat_p)) == "Recompute"


# -- values in another memory -------------------------------------------------------------------------------------

def offloading(lib, dst="pinned_host"):
    return lib.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["kept"], names_which_can_be_offloaded=["hidden"], offload_src="device",
        offload_dst=dst)


OFFLOAD = {"names": offloading,
           "dots": lambda lib: lib.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
           "both": lambda lib: save_both(lib)}


def save_both(lib):
    """A policy of a user with all three verdicts."""
    def policy(prim, *avals, **params):
        if prim.name == "dot_general":
            return lib.ad_checkpoint.Offloadable(src="device", dst="pinned_host")
        return lib.ad_checkpoint.Saveable if prim.name == "tanh" else lib.ad_checkpoint.Recompute
    return policy


@pytest.mark.parametrize("policy", OFFLOAD)
@pytest.mark.parametrize("transform", ["grad", "grad of grad"])
def test_derivatives_with_offloading_policies_as_jax(policy, transform):
    # JAX refuses second derivatives with these policies: memories are part of its types.
    check(jax, dense, W, X, transform=lambda lib, f: DERIVATIVES[transform](
        lib, of(lib)(f, policy=OFFLOAD[policy](lib) if lib is xjax or transform == "grad" else None)))


def test_offloaded_values_are_saved_and_marked():
    for policy, marks, saved in ((offloading(xjax), 1, 1), (OFFLOAD["dots"](xjax), 2, 2), (save_both(xjax), 1, 2)):
        forward, back = passes(policy)
        assert count(forward, "offload") == marks and len(forward.outvars) == 1 + saved
        assert count(back, "offload") == marks
    saved = xjax.ad_checkpoint.saved_residuals(checkpoint(lambda w, x: dense(lax, w, x), policy=offloading(xjax)), W, X)
    assert [text.split(" from ")[0] for _, text in saved][-1] == "named 'hidden'"


def test_offloading_inside_of_scan_and_vmap():
    def loss(lib, policy, xs):
        np_, name = lib.numpy, lib.ad_checkpoint.checkpoint_name
        step = lib.checkpoint(lambda y, _: (np_.sin(name(np_.sin(y), "hidden")), None), policy=policy)
        return lib.lax.scan(step, xs, None, length=3)[0].sum()

    for wrapped in (lambda lib, f: lib.grad(f), lambda lib, f: lib.vmap(lib.grad(f)),
                    lambda lib, f: lib.jit(lib.grad(lambda x: lib.vmap(f)(x).sum()))):
        xs = np.stack([X, 2 * X])
        want = wrapped(jax, lambda x: loss(jax, offloading(jax), x))(xs)
        np.testing.assert_allclose(wrapped(xjax, lambda x: loss(xjax, offloading(xjax), x))(xs), want, rtol=1e-5)


def moves(lib, f, *args, platform="cuda"):
    """The target memories of the moves in the text for a platform, in order, with the types of the moved values."""
    text = lib.jit(f).trace(*args).lower(lowering_platforms=(platform,)).as_text()
    return re.findall(r'annotate_device_placement.*_xla_buffer_placement = "(\w+)".* -> (.*)', text)


@pytest.mark.parametrize("name", [*OFFLOAD, "in a step of scan", "around scan"])
def test_offloaded_values_are_moved_on_gpus_as_in_jax(name):
    def loss(lib):
        if "scan" in name:
            def step(w, _):
                return lib.numpy.sin(lib.ad_checkpoint.checkpoint_name(lib.numpy.sin(w), "hidden")), None

            def loop(step):
                return lambda w, x: lib.lax.scan(step, w, None, length=3)[0].sum()

            kept = functools.partial(lib.checkpoint, policy=offloading(lib))
            return loop(kept(step)) if "step" in name else kept(loop(step))
        f = lib.checkpoint(lambda w, x: dense(lib.lax, w, x), policy=OFFLOAD[name](lib))
        return lambda w, x: f(w, x).sum()

    ours, theirs = (moves(lib, lib.grad(loss(lib)), W, X) for lib in (xjax, jax))
    assert sorted(ours) == sorted(theirs) and {kind for kind, _ in ours} == {"pinned_host", "device"}
    assert not moves(xjax, xjax.grad(loss(xjax)), W, X, platform="cpu")


def test_offloading_to_the_memory_of_the_device_moves_nothing():
    f = checkpoint(lambda w, x: dense(lax, w, x), policy=offloading(xjax, "device"))
    assert not moves(xjax, xjax.grad(lambda w, x: f(w, x).sum()), W, X)


def test_policies_made_again_are_the_same():
    """A function that creates its policy at each call is traced once."""
    names = checkpoint_policies.save_only_these_names
    assert names("a", "b") == names("b", "a") != names("a") and hash(names("a")) == hash(names("a"))
    assert offloading(xjax) == offloading(xjax) != offloading(xjax, "unpinned_host")
    assert OFFLOAD["dots"](xjax) == OFFLOAD["dots"](xjax)
    both = checkpoint_policies.save_from_both_policies
    assert both(names("a"), names("b")) == both(names("a"), names("b"))


def test_policies_are_a_module():
    module = importlib.import_module("xjax.checkpoint_policies")
    assert module is xjax.checkpoint_policies is xjax.ad_checkpoint.checkpoint_policies
    assert set(module.__all__) == set(vars(jax.checkpoint_policies))
    assert xjax.ad_checkpoint.Offloadable("device", "pinned_host")._fields == ad_checkpoint.Offloadable._fields


# -- the log ------------------------------------------------------------------------------------------------------

def test_log_checkpoint_residuals(caplog):
    def f(w, x):
        return lax.sin(checkpoint_name(lax.tanh(w @ x), "hidden"))
    policy = checkpoint_policies.save_only_these_names("hidden")
    w, x = xjax.device_put(W), xjax.device_put(X)
    previous = xjax.config.jax_log_checkpoint_residuals
    xjax.config.update("jax_log_checkpoint_residuals", True)
    try:
        xjax.vjp(checkpoint(f, policy=policy), w, x)
        xjax.vjp(checkpoint(f), w, x)
    finally:
        xjax.config.update("jax_log_checkpoint_residuals", previous)
    xjax.vjp(checkpoint(f), w, x)
    first, second = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert first.startswith("remat-decorated function saving inputs with shapes:\n  f32[3,3]\n  f32[3]\n"
                            f"and saving these intermediates:\n  f32[3] named 'hidden' from {Path(__file__).name}:")
    assert second == "remat-decorated function saving inputs with shapes:\n  f32[3,3]\n  f32[3]"


ERRORS = {
    "no function": (lambda: checkpoint(3), TypeError, ["needs a function"]),
    "policy": (lambda: checkpoint(lax.sin, policy="dots"), TypeError, ["`policy` must be a function"]),
    "concrete": (lambda: checkpoint(lax.sin, concrete=True), NotImplementedError, ["static_argnums"]),
    "static list": (lambda: checkpoint(lambda x, n: x, static_argnums=1)(1.0, [2]), ValueError,
                    ["not hashable"]),
    "a name in both": (lambda: checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["a", "b"], names_which_can_be_offloaded=["b"], offload_src="device",
        offload_dst="pinned_host"), ValueError, ["names in both  b"]),
    "no verdict": (lambda: passes(lambda *_, **__: None), TypeError, ["returned   None", "Offloadable(src=, dst=)"]),
    "a class for a verdict": (lambda: passes(lambda *_, **__: xjax.ad_checkpoint.Offloadable), TypeError,
                              ["neither a bool nor a verdict"]),
    "unknown memory": (lambda: passes(checkpoint_policies.offload_dot_with_no_batch_dims("device", "disk")), ValueError,
                       ["unknown kind of memory", "dst  'disk'"]),
    "unknown policy": (lambda: checkpoint_policies.dot_saveable, AttributeError, ["did you mean 'dots_saveable'"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])
