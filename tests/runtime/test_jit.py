"""jit: when functions are traced, static and donated arguments, closures, the stages, and misuse."""

import copy
import functools
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax.core.context import context
from xjax.runtime.dispatch import eval_trace

X = np.arange(3, dtype=np.float32)


class Counted:
    """A function that counts how often it is traced."""

    def __init__(self, f):
        self.f, self.count = f, 0
        self.__name__ = getattr(f, "__name__", "counted")

    def __call__(self, *args, **kwargs):
        self.count += 1
        return self.f(*args, **kwargs)


def test_traces_once_for_each_type():
    f = Counted(lambda x: x * 2)
    g = xjax.jit(f)
    for x in (X, X + 1, jnp.asarray(X), 1.0, 2.0, 3, np.int32(3), {"a": X}["a"]):
        np.testing.assert_array_equal(g(x), np.asarray(x) * 2)
    assert f.count == 4                      # f32[3], weak f32, weak i32, strong i32


def test_two_jits_of_one_function_share_its_traces():
    f = Counted(lambda x: x + 1)
    xjax.jit(f)(X), xjax.jit(f)(X)
    assert f.count == 1


def test_trees_keywords_and_defaults():
    @xjax.jit
    def f(tree, *, scale, shift=1):
        return {"out": tree["x"] * scale + shift, "none": None}
    out = f({"x": X}, scale=2.0)
    np.testing.assert_array_equal(out["out"], 2 * X + 1)
    assert out["none"] is None and f.__name__ == "f" and f.__wrapped__({"x": 1}, scale=1)["out"] == 2


def test_decorator_with_arguments_and_methods():
    class Model:
        @functools.partial(xjax.jit, static_argnums=0)
        def __call__(self, x):
            return x * 3

        @xjax.jit(static_argnames="n")
        def power(self_free, n):             # a function without a parameter self
            return self_free ** n
    np.testing.assert_array_equal(Model()(X), 3 * X)
    np.testing.assert_array_equal(Model.power(X, n=2), X ** 2)


@pytest.mark.parametrize("option", ["static_argnames", "donate_argnames"])
def test_names_of_no_parameter(option):
    with pytest.raises(ValueError, match=f"(?s){option} names 'falg'.*x, flag.*fix: did you mean 'flag'"):
        xjax.jit(lambda x, flag: x, **{option: "falg"})
    with pytest.raises(ValueError, match="(?s)none that can be named.*fix: name parameters"):
        xjax.jit(lambda x, /: x, **{option: ("x",)})
    assert xjax.jit(lambda x, **names: names["n"] * x, static_argnames="n")(2, n=3) == 6
    assert xjax.jit(lambda x, /, *, n: n * x, static_argnames="n")(2, n=3) == 6


@pytest.mark.parametrize("options", [{"static_argnums": 1}, {"static_argnums": -1}, {"static_argnames": "n"},
                                     {"static_argnames": ("n",)}])
def test_static_arguments_are_values(options):
    f = Counted(lambda x, n: x * n if n > 1 else x)
    f.__signature__ = __import__("inspect").signature(lambda x, n: None)
    g = xjax.jit(f, **options)
    for n in (1, 2, 2, 1.0):                # 1 and 1.0 are equal, but not of one type
        np.testing.assert_array_equal(g(X, n), X * n)
    np.testing.assert_array_equal(g(X, n=2), X * 2)
    assert f.count in (3, 4)                 # a call by keyword may have a key of its own


def test_captured_arrays_are_arguments_of_the_program():
    big = jnp.asarray(np.arange(1000, dtype=np.float32))
    f = xjax.jit(lambda x: x + big.sum() + np.ones(3, np.float32))
    np.testing.assert_array_equal(f(X), X + 499500 + 1)
    assert "dense<\"0x" not in f.lower(X).as_text()


def test_captured_tracers():
    def f(w):
        return xjax.jit(lambda x: x * w)(2.0).sum()
    np.testing.assert_array_equal(xjax.grad(f)(X), np.full(3, 2))
    np.testing.assert_array_equal(xjax.vmap(lambda w: xjax.jit(lambda: w * 2)())(X), 2 * X)


def test_donation():
    f = xjax.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = jnp.asarray(X), jnp.asarray(X)
    np.testing.assert_array_equal(f(x, y), 2 * X)
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises(RuntimeError, match="the array has been deleted"):
        f(x, y)
    with pytest.raises(RuntimeError, match="the array has been deleted"):
        x + 1


def test_a_donated_argument_that_no_result_can_replace_is_named():
    with pytest.warns(UserWarning, match=r"jit `<lambda>`: no result can reuse the memory of donated") as seen:
        xjax.jit(lambda x, y: x["w"][:2] + y, donate_argnums=0)({"w": jnp.asarray(X)}, jnp.ones(2))
    assert "argument `x['w']`  f32[3]" in str(seen[0].message) and "fix: " in str(seen[0].message)
    with pytest.warns(UserWarning, match=r"argument 0\['w'\]  f32\[3\]"):
        xjax.jit(lambda x: x["w"][:2], donate_argnums=0).lower({"w": jnp.asarray(X)})


def test_device():
    last = xjax.devices()[-1]
    here = jnp.asarray(X)
    for f in (xjax.jit(lambda x: x + 1, device=last), xjax.jit(lambda: jnp.ones(3), device=last)):
        y = f(here) if f.__wrapped__.__code__.co_argcount else f()
        assert y.devices() == {last}
    assert xjax.jit(lambda x: x, backend="cpu")(here).devices() == {xjax.devices("cpu")[0]}
    with pytest.raises(ValueError, match="a device or a backend, not both"):
        xjax.jit(lambda x: x, device=last, backend="cpu")


def test_keep_unused_and_inline():
    f = xjax.jit(lambda x, y: x, keep_unused=True)
    np.testing.assert_array_equal(f(X, X[:1]), X)
    for inline in (False, True, xjax.Inline.AUTO, xjax.Inline.JAX_LATE, xjax.Inline.JAX_EARLY):
        inner = xjax.jit(lambda x: x * 2, inline=inline)
        program = str(xjax.make_jaxpr(lambda x, inner=inner: inner(x) + 1)(X))
        assert ("jit[" in program) == (inline is not xjax.Inline.JAX_EARLY)
    with pytest.raises(NotImplementedError, match="(?s)inliner.*fix:"):
        xjax.jit(lambda x: x, inline=xjax.Inline.XLA_EARLY)
    with pytest.raises(ValueError, match="(?s)must be a bool or an Inline.*fix:"):
        xjax.jit(lambda x: x, inline="auto")


def test_host_arrays_are_copied():
    x = X.copy()
    f = xjax.jit(lambda x: x * 1)
    y = f(x)
    x[:] = 7
    np.testing.assert_array_equal(y, X)


def test_stages():
    f = xjax.jit(lambda x, s: {"y": x * s})
    lowered = f.lower(xjax.ShapeDtypeStruct((3,), np.float32), 2.0)
    assert "stablehlo.multiply" in lowered.as_text()
    compiled = lowered.compile()
    np.testing.assert_array_equal(compiled(X, 2.0)["y"], 2 * X)
    assert "multiply" in compiled.as_text() and compiled.cost_analysis()["flops"] >= 3
    assert compiled.memory_analysis().argument_size_in_bytes >= 12
    traced = f.trace(X, 2.0)
    assert [str(e.primitive) for e in traced.jaxpr.eqns] == ["convert_element_type", "mul"]
    assert traced.out_info == f.eval_shape(X, 2.0)
    assert traced.lower().as_text() == f.lower(X, 2.0).as_text() and traced.in_avals[0][1].weak_type
    donating = xjax.jit(lambda x, y: x + y, donate_argnums=1).lower(X, X)
    assert donating.donate_argnums == (1,) and donating.args_info[0][1].donated
    assert compiled.out_tree == traced.out_tree and len(compiled.input_shardings[0]) == 2
    assert f.eval_shape(X, 1.0)["y"] == xjax.ShapeDtypeStruct((3,), np.float32)
    with pytest.raises(TypeError, match="another type than compiled for"):
        compiled(X[:2], 2.0)
    with pytest.raises(TypeError, match="another structure"):
        compiled(X)


def test_dialects_of_a_lowered_program():
    lowered = xjax.jit(lambda x: x @ x).lower(xjax.ShapeDtypeStruct((3, 3), np.float32))
    assert lowered.as_text("stablehlo") == lowered.as_text(debug_info=True) == lowered.as_text()
    assert lowered.as_text("hlo").startswith("HloModule _lambda_") and "dot(" in lowered.as_text("hlo")
    assert "stablehlo.dot_general" in str(lowered.compiler_ir()) and "dot(" in lowered.compiler_ir("hlo").as_hlo_text()
    assert lowered.cost_analysis()["flops"] == 2 * 27
    with pytest.raises(ValueError, match="(?s)unknown dialect 'mhlo'.*'stablehlo'.*fix:"):
        lowered.as_text("mhlo")


def test_a_type_may_say_where_an_array_lies():
    row = xjax.ShapeDtypeStruct((4,), np.float32)
    there = row.update(sharding=xjax.sharding.SingleDeviceSharding(xjax.devices()[1]))
    assert there != row and there == there.update() and hash(there.update()) == hash(there) and "id=1" in repr(there)
    x = xjax.device_put(X, xjax.devices()[1])
    like = xjax.ShapeDtypeStruct.like(x)
    assert like.sharding is x.sharding and like.shape == x.shape and xjax.ShapeDtypeStruct.like(1.0).weak_type
    assert row.update(shape=[2, 2], dtype="int8") == xjax.ShapeDtypeStruct((2, 2), np.int8)
    compiled = xjax.jit(lambda x: x + 1).lower(there).compile()
    assert compiled(np.ones(4, np.float32)).devices() == {xjax.devices()[1]}
    assert "HloModule" in compiled.runtime_executable().get_hlo_text()


def test_programs_are_changed_by_making_others():
    closed = xjax.make_jaxpr(lambda x, y: (x + y, x * y))(X, X)
    first = closed.replace(jaxpr=closed.jaxpr.replace(outvars=closed.jaxpr.outvars[:1]))
    np.testing.assert_array_equal(first(X, X)[0], 2 * X)
    assert len(closed.jaxpr.outvars) == 2 and first.out_avals == closed.out_avals[:1] == first.jaxpr.out_avals
    add, mul = closed.eqns
    other = closed.replace(jaxpr=closed.jaxpr.replace(eqns=[add.replace(primitive=mul.primitive), mul]))
    np.testing.assert_array_equal(other(X, X)[0], X * X)
    assert closed.effects == closed.jaxpr.effects == frozenset() and closed.in_avals == closed.jaxpr.in_avals
    with pytest.raises(TypeError, match="(?s)Jaxpr.replace: there is no such field.*outs.*fix: fields are constvars"):
        closed.jaxpr.replace(outs=[])


def test_stages_of_sharded_arguments():
    mesh = xjax.sharding.Mesh(np.asarray(xjax.devices()[:2]), ("x",))
    x = xjax.device_put(np.arange(8.0, dtype=np.float32), xjax.sharding.NamedSharding(mesh, xjax.P("x")))
    lowered = xjax.jit(lambda x: x * 2).lower(x)
    compiled = lowered.compile()
    assert 'sdy.mesh @mesh = <["x"=2]>' in lowered.as_text()
    assert compiled.input_shardings[0][0] == x.sharding and len(compiled(x).sharding.devices) == 2
    assert "f32[4]" in compiled.as_text()                   # each device has half of it


def test_result_without_arguments_or_dependence():
    assert float(xjax.jit(lambda: 3.0)()) == 3
    a, b = xjax.jit(lambda x: (x, 1))(X)
    np.testing.assert_array_equal(a, X)
    assert b.weak_type and int(b) == 1


def test_disable_jit():
    seen = []
    f = xjax.jit(lambda x: seen.append(x) or x)
    with xjax.disable_jit():
        f(X), f(X)
    assert len(seen) == 2 and seen[0] is X
    f(jnp.asarray(X))
    with xjax.disable_jit():
        f(jnp.asarray(X))
    assert len(seen) == 4


def test_x64_is_part_of_the_key():
    f = xjax.jit(lambda x: x * 2)
    assert f(1.0).dtype == np.float32
    with xjax.enable_x64():
        assert f(1.0).dtype == np.float64
    assert f(1.0).dtype == np.float32


def test_errors_leave_the_state_as_it_was():
    @xjax.jit
    def f(x):
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        xjax.grad(lambda x: f(x))(1.0)
    assert context.trace is eval_trace
    assert float(xjax.jit(lambda x: x + 1)(1.0)) == 2


def test_caches_die_with_the_function():
    def f(x):
        return x + 1
    xjax.jit(f)(X)
    alive = weakref.ref(f)
    del f
    gc.collect()
    assert alive() is None


def test_threads():
    f, results = xjax.jit(lambda x: xjax.grad(lambda y: jnp.sin(y) * y)(x)), {}

    def run(k):
        results[k] = [float(f(float(k))) for _ in range(20)] + [float(xjax.jit(lambda x: x * k)(2.0))]
    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        np.testing.assert_allclose(results[k], [np.cos(k) * k + np.sin(k)] * 20 + [2 * k], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("call, error, message", [
    (lambda: xjax.jit(lambda x: x)("text"), TypeError, r"str is not an array"),
    (lambda: xjax.jit(lambda x: "text")(X), TypeError, r"the function returned a value of type str"),
    (lambda: xjax.jit(lambda x, n: x, static_argnums=1)(X, [1]), ValueError, r"static argument 1 is not hashable"),
    (lambda: xjax.jit(lambda x: x, static_argnums=3), ValueError, r"static_argnums names argument 3"),
    (lambda: xjax.jit(lambda x: x, static_argnums=0, donate_argnums=0), ValueError, r"both static and donated"),
    (lambda: xjax.jit(3), TypeError, r"jit: needs a function"),
    (lambda: xjax.jit(lambda x: x if x > 0 else -x)(1.0), TypeError,
     r"bool\(\) of a traced value bool\[\] \(made at test_jit.py:\d+, in jit `<lambda>`\)"),
    (lambda: xjax.jit(lambda flag: 1 if flag else 2)(True), TypeError, r"argument `flag`, in jit"),
    (lambda: xjax.jit(lambda x: int(x))(1), TypeError, r"int\(\) of a traced value"),
    (lambda: xjax.jit(lambda x: float(x))(1.0), TypeError, r"float\(\) of a traced value"),
    (lambda: xjax.jit(lambda x: np.asarray(x))(X), TypeError, r"a NumPy array from a traced value"),
    (lambda: xjax.jit(lambda n: list(range(n)))(3), TypeError, r"an index from a traced value"),
])
def test_misuse(call, error, message):
    with pytest.raises(error, match=message) as info:
        call()
    assert "fix: " in str(info.value)


def test_escaped_tracer():
    kept = []
    xjax.jit(lambda x: kept.append(x * 2))(X)
    for use in (lambda: kept[0] + 1, lambda: xjax.jit(lambda y: y + kept[0])(X), lambda: jnp.sum(kept[0])):
        with pytest.raises(xjax.errors.UnexpectedTracerError, match=r"made at test_jit.py:\d+, in jit") as info:
            use()
        assert "fix: return it from the function" in str(info.value)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes written in Python have no buffers before 3.12")
def test_arrays_have_buffers():
    x = jnp.arange(6, dtype=jnp.int32).reshape(2, 3)
    view = memoryview(x)
    assert view.readonly and view.shape == (2, 3) and view.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert bytes(jnp.array([1, 2], jnp.uint8)) == b"\x01\x02"
    with pytest.raises(BufferError):
        memoryview(jnp.ones(2, "bfloat16"))
    with pytest.raises(TypeError, match="(?s)random keys.*fix:"):
        memoryview(xjax.random.key(0))
    y = copy.copy(x)
    x.delete()
    with pytest.raises(BufferError, match="(?s)deleted.*fix:"):
        memoryview(x)
    assert y.tolist() == view.tolist()
    np.testing.assert_array_equal(np.asarray(jnp.ones(2, "bfloat16")).astype(int), [1, 1])
