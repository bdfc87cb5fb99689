"""`jit(in_shardings=, out_shardings=)`: placements as in real JAX, under transforms and over meshes; errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from tests.sampling import each_once
from xjax.runtime import xla
from xjax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from xjax.sharding import PartitionSpec as P

MESH = xjax.make_mesh((2, 2), ("x", "y"))
X = np.arange(32.0, dtype=np.float32).reshape(8, 4)
SPECS = [P(), P("x"), P("y"), P(None, "x"), P("x", "y"), P("y", "x"), P(("x", "y")), P(("y", "x"), None)]


def on(*parts, mesh=MESH):
    return NamedSharding(mesh, P(*parts))


def parts_of(x):
    return {s.device.id: np.asarray(s.data) for s in x.addressable_shards}


@pytest.mark.parametrize("ins, outs", each_once(SPECS, [*SPECS[3:], *SPECS[:3]]))        # the fast rows move the data
def test_each_device_holds_what_it_holds_in_jax(ins, outs):
    jax = real_jax()
    ours = xjax.jit(lambda x: x * 2, in_shardings=NamedSharding(MESH, ins), out_shardings=NamedSharding(MESH, outs))(X)
    theirs = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
    there = [jax.sharding.NamedSharding(theirs, jax.P(*spec)) for spec in (ins, outs)]
    expected = jax.jit(lambda x: x * 2, in_shardings=there[0], out_shardings=there[1])(X)
    assert ours.sharding == NamedSharding(MESH, outs)
    assert parts_of(ours).keys() == parts_of(expected).keys()
    for device, part in parts_of(ours).items():
        np.testing.assert_array_equal(part, parts_of(expected)[device])


def test_trees_prefixes_static_arguments_and_donation():
    def f(params, n, x):
        return {"a": params["w"] @ x.T * n, "b": (x.sum(), x + params["b"])}

    place = {"w": on("x"), "b": on(None)}
    g = xjax.jit(f, static_argnums=1, donate_argnums=2, in_shardings=(place, on("y")),
                 out_shardings={"a": on("x", "y"), "b": None})
    params = xjax.device_put({"w": X, "b": X[0]}, place)
    x = xjax.device_put(X, on("y"))
    out = g(params, 3, x)
    np.testing.assert_allclose(out["a"], X @ X.T * 3, rtol=1e-6)
    np.testing.assert_array_equal(out["b"][1], X + X[0])
    assert out["a"].sharding == on("x", "y") and x.is_deleted() and not params["w"].is_deleted()
    again = g(params, 3, X)
    assert again["a"].sharding is out["a"].sharding                 # one launch for both
    # A list of arguments is a tuple, one sharding is for all, and None leaves an argument in its placement.
    assert xjax.jit(jnp.add, in_shardings=[on("x"), None], out_shardings=on("x"))(X, 1.0).sharding == on("x")
    compiled = xjax.jit(jnp.add, in_shardings=on("x")).lower(X, X).compile()
    assert compiled.input_shardings == ((on("x"), on("x")), {})


def test_what_is_left_to_the_compiler():
    out = xjax.jit(lambda x: x + 1, in_shardings=on("y"), out_shardings=on(P.UNCONSTRAINED, "x"))(X)
    assert out.sharding.spec[1] == "x" and P.UNCONSTRAINED not in out.sharding.spec
    np.testing.assert_array_equal(out, X + 1)


def test_specs_lie_on_the_mesh_of_each_call():
    f = xjax.jit(lambda x: x + 1, in_shardings=P("x"), out_shardings=P(None, "x"))
    line = xjax.make_mesh((4,), ("x",))
    with MESH:
        assert f(X).sharding == on(None, "x")
    with xjax.set_mesh(line):
        assert f(X).sharding == on(None, "x", mesh=line)
        inner = xjax.jit(lambda x: xjax.lax.with_sharding_constraint(x, P("x")))
        assert inner(X).sharding == on("x", mesh=line)
    with MESH:
        assert inner(X).sharding == on("x")
    with pytest.raises(RuntimeError, match="(?s)in_shardings: a PartitionSpec needs a mesh.*fix:"):
        f(X)


@pytest.mark.parametrize("make", [
    lambda f: f,
    xjax.jit,
    lambda f: lambda x: xjax.vmap(f)(x[None])[0],
    lambda f: xjax.jit(xjax.vmap(f, 1, 1)),
    lambda f: lambda x: xjax.jvp(f, (x,), (x,))[1],
    lambda f: xjax.grad(lambda x: f(x).sum()),
    lambda f: xjax.jit(xjax.grad(lambda x: f(x).sum())),
    lambda f: lambda x: xjax.lax.scan(lambda c, _: (f(c), None), x, length=2)[0],
    lambda f: lambda x: xjax.checkpoint(f)(x),
], ids=["call", "jit", "vmap", "jit of vmap", "jvp", "grad", "jit of grad", "scan", "checkpoint"])
def test_values_under_transforms(make):
    square = lambda x: x * x
    placed = xjax.jit(square, in_shardings=on("x"), out_shardings=on("y"))
    np.testing.assert_array_equal(make(placed)(jnp.asarray(X)), make(xjax.jit(square))(jnp.asarray(X)))


def test_a_mesh_in_another_order():
    """Part k is on the k-th device of its own mesh."""
    line, back = Mesh(xjax.devices(), "x"), Mesh(xjax.devices()[::-1], "x")
    f = xjax.jit(lambda x: x + 1, out_shardings=on("x", mesh=back))
    with pytest.raises(ValueError, match="(?s)devices 0, 1, 2, 3.*devices 3, 2, 1, 0"):
        f(xjax.device_put(X, on("x", mesh=line)))
    out = f(X)
    held = parts_of(out)
    for k, device in enumerate(back.devices_flat):
        np.testing.assert_array_equal(held[device.id], X[2 * k:2 * k + 2] + 1)
    np.testing.assert_array_equal(out, X + 1)


def test_one_device():
    there = SingleDeviceSharding(xjax.devices()[2])
    f = xjax.jit(lambda x: x + 1, in_shardings=there, out_shardings=there)
    assert f(f(X)).sharding is there
    np.testing.assert_array_equal(f(f(X)), X + 2)
    keys = xjax.jit(lambda k: xjax.random.split(k, 4), out_shardings=on("x"))(xjax.random.key(0))
    assert keys.sharding == on("x") and xjax.random.bits(keys[1]) == xjax.random.bits(
        xjax.random.split(xjax.random.key(0), 4)[1])


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: xjax.jit(jnp.add, in_shardings=(on("x"), on("x")))(X, y=X), ValueError, "to positional arguments"),
    (lambda: xjax.jit(jnp.sin, in_shardings=on("x"))(X[:3]), ValueError, "cannot be split evenly over 2 devices"),
    (lambda: xjax.jit(jnp.sin, out_shardings=on("x"))(X[:3]), ValueError, "cannot be split evenly over 2 devices"),
    (lambda: xjax.jit(jnp.sin, in_shardings=on("x"))(1.0), ValueError, "1 entries for an array of rank 0"),
    (lambda: xjax.jit(jnp.sin, in_shardings="x")(X), TypeError, "in_shardings: this is not a sharding"),
    (lambda: xjax.jit(jnp.sin, out_shardings=("x",))(X), ValueError, "out_shardings: a prefix does not match"),
    (lambda: xjax.jit(jnp.sin, in_shardings=(on(), on()))(X), ValueError, "in_shardings: a prefix does not match"),
    (lambda: xjax.jit(jnp.sin, in_shardings=on(), device=xjax.devices()[0]), ValueError, "device or shardings"),
    (lambda: xjax.jit(jnp.sin, out_shardings=on())(xjax.device_put(X, on("x", mesh=Mesh(xjax.devices()[:2], "x")))),
     ValueError, "different devices cannot be combined"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_wrong_shardings(call, error, message):
    with pytest.raises(error, match=f"(?s){message}.*fix:"):
        call()


def test_the_argument_is_named():
    with pytest.raises(ValueError, match=r"(?s)jit `<lambda>`: in_shardings: axis 0 .*argument args\[1\]\['w'\]"):
        xjax.jit(lambda x, tree: x, in_shardings=on("x"))(X, {"w": X[:3]})


def test_compiler_options():
    f = xjax.jit(lambda x: jnp.sin(x) + jnp.cos(x), compiler_options={"xla_cpu_enable_fast_math": False})
    np.testing.assert_array_equal(f(X), xjax.jit(lambda x: jnp.sin(x) + jnp.cos(x))(X))
    lowered = xjax.jit(jnp.sin).lower(X)
    plain = lowered.compile({"xla_backend_optimization_level": 0})
    np.testing.assert_allclose(plain(X), np.sin(X), rtol=1e-6, atol=1e-7)
    assert f.lower(X).compile({"xla_backend_optimization_level": 1})(X).shape == X.shape
    with pytest.raises(ValueError, match="(?s)no such compile option: 'xla_nonsense'.*fix:"):
        xjax.jit(jnp.sin, compiler_options={"xla_nonsense": 1})(X)
    with pytest.raises(ValueError, match="(?s)not a valid int32.*fix:"):
        lowered.compile({"xla_backend_optimization_level": "much"})
    with pytest.raises(TypeError, match="(?s)names of XLA flags.*fix:"):
        xjax.jit(jnp.sin, compiler_options={"xla_nonsense": [1]})
    with pytest.raises(ValueError, match="(?s)is part of one.*outermost jit"):
        xjax.grad(lambda x: f(x).sum())(X)


def test_an_option_reaches_the_compiler():
    """HLO of level 0 keeps operations that fusion merges: the programs differ, so their cached executables must too."""
    f = lambda x: jnp.exp(x * 2 + 1).sum()
    texts = {xjax.jit(f).lower(X).compile(o).as_text().count("fusion(")
             for o in ({}, {"xla_disable_hlo_passes": "fusion,cpu-instruction-fusion"})}
    assert len(texts) == 2


@pytest.mark.parametrize(("f", "waits"), [
    (lambda x: x + 1, False), (lambda x: x.sum(), True), (lambda x: x[::-1], True), (lambda x: x @ x.T, True),
    (lambda x: x.sum(1), False)], ids=["add", "sum", "reverse", "matmul", "sum of rows"])
def test_only_programs_with_collectives_are_bounded(f, waits):
    """Devices that never wait for one another may have any number of launches queued."""
    loaded = xjax.jit(f, in_shardings=on(("x", "y"))).lower(X).compile().runtime_executable()
    assert xla.has_collectives(loaded) is waits


def test_thousands_of_queued_launches_without_collectives():
    step = xjax.jit(lambda x: x + 1, in_shardings=on("x"), out_shardings=on("x"), donate_argnums=0)
    x = xjax.device_put(np.zeros((8, 4), np.float32), on("x"))
    for _ in range(3000):
        x = step(x)
    np.testing.assert_array_equal(x, np.full((8, 4), 3000, np.float32))
