"""`export` and `Exported`: fields, calls under transformations, derivatives, platforms, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from xjax import export, lax

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
W = np.linspace(0, 1, 8, dtype=np.float32).reshape(4, 2)


def model(p, x):
    return {"y": jnp.tanh(x @ p["w"])}


def loaded(f, *args, vjp_order=0, **options):
    return export.deserialize(export.export(xjax.jit(f), **options)(*args).serialize(vjp_order))


@pytest.fixture(scope="module")
def exported():
    return loaded(model, {"w": W}, X, vjp_order=2)


def test_fields_are_those_of_jax():
    jax = real_jax()
    ours = export.export(xjax.jit(model))({"w": W}, X)
    theirs = jax.export.export(jax.jit(lambda p, x: {"y": jax.numpy.tanh(x @ p["w"])}))({"w": W}, X)
    for name in ("in_avals", "out_avals", "nr_devices", "platforms", "ordered_effects", "unordered_effects",
                 "disabled_safety_checks", "module_kept_var_idx", "uses_global_constants", "in_tree", "out_tree",
                 "calling_convention_version", "in_shardings_hlo", "out_shardings_hlo"):
        assert repr(getattr(ours, name)) == repr(getattr(theirs, name)), name
    assert ours.fun_name == "model" and repr(ours) == "Exported(fun_name=model, ...)"
    assert ours.in_shardings_jax() == (None, None) and ours.out_shardings_jax() == (None,)
    assert "func.func public @main(%arg0: tensor<4x2xf32>" in ours.mlir_module()
    assert "stablehlo.tanh" in str(ours.mlir_module(serialized=False))
    for name in ("minimum", "maximum"):
        version = f"{name}_supported_calling_convention_version"
        assert getattr(export, version) == getattr(jax.export, version)
    assert export.default_export_platform() == "cpu"


def test_calls(exported):
    expected = model({"w": W}, X)["y"]
    call = exported.call
    np.testing.assert_array_equal(call({"w": W}, X)["y"], expected)
    np.testing.assert_allclose(xjax.jit(call)({"w": W}, X)["y"], expected, rtol=1e-6)
    np.testing.assert_allclose(xjax.jit(lambda x: call({"w": W}, x + 1)["y"] * 2)(X - 1), expected * 2, rtol=1e-6)
    _, ys = lax.scan(lambda c, x: (c, call({"w": W}, x)["y"]), 0, np.stack([X, X]))
    np.testing.assert_allclose(ys[1], expected, rtol=1e-6)
    both = lax.map(lambda x: call({"w": W}, x)["y"], np.stack([X, X]))
    np.testing.assert_allclose(both[0], expected, rtol=1e-6)


def test_derivatives(exported):
    def loss(call, w):
        return (call({"w": w}, X)["y"] ** 2).sum()

    for transform in (xjax.grad, lambda f: xjax.jit(xjax.grad(f))):
        ours, direct = (transform(lambda w, call=call: loss(call, w))(W) for call in (exported.call, model))
        np.testing.assert_allclose(ours, direct, rtol=1e-6)

    def of_gradient(call):
        return xjax.grad(lambda w: (xjax.grad(lambda w: loss(call, w))(w) ** 2).sum())(W)

    np.testing.assert_allclose(of_gradient(exported.call), of_gradient(model), rtol=1e-5)
    assert exported.has_vjp() and exported.vjp().vjp().has_vjp() is False
    cotangents = exported.vjp().call(W, X, np.ones((3, 2), np.float32))
    assert [c.shape for c in cotangents] == [(4, 2), (3, 4)]


def test_integers_and_keys():
    def f(key, x, i):
        return x[i] + xjax.random.normal(key, (2, 4)), i * 2, xjax.random.split(key)

    args = (xjax.random.key(7), X, np.array([2, 0], np.int32))
    exported = loaded(f, *args)
    for ours, direct in zip(exported.call(*args), f(*args), strict=True):
        assert ours.dtype == direct.dtype
        if ours.dtype == args[0].dtype:
            ours, direct = xjax.random.key_data(ours), xjax.random.key_data(direct)
        np.testing.assert_array_equal(ours, direct)
    exported = loaded(lambda x, i: (x[i] ** 2, i), X, args[2], vjp_order=1)
    gradient = xjax.grad(lambda x: exported.call(x, args[2])[0].sum())(X)
    np.testing.assert_allclose(gradient, xjax.grad(lambda x: (x[args[2]] ** 2).sum())(X))


def test_captured_arrays_and_scopes_are_saved():
    big = jnp.arange(100.0)

    def f(x):
        with xjax.named_scope("encoder"):
            return (x + big) @ big

    np.testing.assert_allclose(loaded(f, np.ones(100, np.float32)).call(np.ones(100, np.float32)), f(1.0))


def test_an_exported_function_inside_another():
    inner = loaded(lambda x: jnp.sin(x) * 2, xjax.ShapeDtypeStruct(export.symbolic_shape("b, 4"), np.float32))
    outer = loaded(lambda x: inner.call(x) + 1, X)
    np.testing.assert_allclose(outer.call(X), np.sin(X) * 2 + 1, rtol=1e-6)
    spec = xjax.ShapeDtypeStruct(export.symbolic_shape("c, 4"), np.float32)
    outer = loaded(lambda x: inner.call(x) + inner.call(x).shape[0], spec)
    assert outer.out_avals[0].str_short() == "f32[c,4]"
    np.testing.assert_allclose(outer.call(X), np.sin(X) * 2 + 3, rtol=1e-6)


@pytest.mark.parametrize("symbolic", [False, True])
def test_several_platforms(symbolic):
    spec = xjax.ShapeDtypeStruct(export.symbolic_shape("b, 4") if symbolic else (3, 4), np.float32)
    exported = loaded(lambda x: jnp.max(x @ x.T, 0), spec, platforms=["cpu", "cuda"])
    assert exported.platforms == ("cpu", "cuda") and exported.uses_global_constants
    assert "_platform_index" in exported.mlir_module()
    np.testing.assert_allclose(exported.call(X), (X @ X.T).max(0), rtol=1e-6)


def test_another_platform():
    cuda = loaded(lambda x: x * 2, X, platforms=["cuda"])
    with pytest.raises(ValueError, match="exported for other platforms"):
        cuda.call(X)
    allowed = loaded(lambda x: x * 2, X, platforms=["cuda"], disabled_checks=[export.DisabledSafetyCheck.platform()])
    np.testing.assert_array_equal(allowed.call(X), X * 2)


def raises(exc, *words):
    return pytest.raises(exc, match="(?s)" + ".*".join(words))


@pytest.mark.parametrize(("args", "words"), [
    (({"w": W},), ["structure"]), (({"w": W}, X[:2]), ["another type", r"f32\[2,4\]"]),
    (({"w": W}, X.astype(np.float16)), ["another type", "f16"])])
def test_wrong_arguments(exported, args, words):
    with pytest.raises(ValueError, match=words[0]) as caught:
        exported.call(*args)
    assert all(word.replace("\\", "") in str(caught.value) for word in words) and "fix:" in str(caught.value)


def test_refusals(exported):
    with raises(NotImplementedError, "vmap"):
        xjax.vmap(exported.call, (None, 0))({"w": W}, np.stack([X, X]))
    with raises((NotImplementedError, TypeError), "reverse"):
        xjax.jvp(lambda x: exported.call({"w": W}, x), (X,), (X,))
    without = loaded(model, {"w": W}, X)
    with raises(ValueError, "without a derivative", r"vjp_order=1"):
        xjax.grad(lambda w: without.call({"w": w}, X)["y"].sum())(W)
    assert not without.has_vjp()
    with raises(ValueError, "jit"):
        export.export(model)
    with raises(ValueError, "platforms", "cpu"):
        export.export(xjax.jit(model), platforms=["tpu"])
    with raises(NotImplementedError, "Python functions"):
        export.export(xjax.jit(lambda x: xjax.pure_callback(lambda x: x, x, x)))(X)
    with raises(NotImplementedError, "effects"):
        export.export(xjax.jit(lambda x: xjax.debug.print("{}", x, ordered=True)))(X)


def test_disabled_checks_are_values():
    check = export.DisabledSafetyCheck
    assert check.custom_call("f").is_custom_call() == "f" and check.platform().is_custom_call() is None
    assert check.custom_call("f") == check.custom_call("f") != check.custom_call("g")
    assert str(check.platform()) == "platform" and len({check.platform(), check.platform()}) == 1
