"""`from_jax`: functions written in JAX under every transform of xjax, against JAX itself."""

import dataclasses

import numpy as np
import pytest

import xjax
from tests.compare import assert_close, assert_same
from tests.sampling import one_in
from xjax import interop
from xjax.runtime.programs.executable import Executable

jax = pytest.importorskip("jax")
jnp = jax.numpy

X = np.linspace(-2.0, 2.0, 6, dtype=np.float32).reshape(2, 3)


def assert_bridged(ours, theirs, tol=1 / 8):
    """Assert that the values are close, and that none of our arrays is an array of JAX."""
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(ours))
    assert_close(ours, theirs, tol=tol)


def looped(x):
    return jax.lax.while_loop(lambda c: c.sum() < 50.0, lambda c: c * 1.5 + 1.0, x)


def convolved(x):
    """A convolution, a pool, a product of windows; then the gradient of a pool."""
    y = jax.lax.conv(x[None, None], jnp.ones((2, 1, 2, 2)), (1, 1), "SAME")
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 2, 1), (1, 1, 1, 1), "VALID")
    y = jax.lax.reduce_window(y, 1.0, jax.lax.mul, (1, 1, 1, 2), (1, 1, 1, 1), "VALID")
    pool = jax.grad(lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (1, 1), "VALID").sum())
    return jax.lax.reduce(y, jnp.float32(0), lambda a, b: a + b, (0, 1)), pool(x)


def _linear_algebra(a, b):
    factor = jnp.linalg.cholesky(a)
    return (jnp.linalg.solve(a, b), jnp.linalg.inv(a), jax.scipy.linalg.cho_solve((factor, True), b), factor,
            jnp.linalg.eigvalsh(a), jnp.linalg.svd(b, compute_uv=False), jnp.abs(jnp.linalg.qr(b)[1]))


FUNCTIONS = {
    "convolution and windows": convolved,
    "elementwise": lambda x: jnp.tanh(x) * jnp.exp(-(x**2)) + jnp.where(x > 0, x, jnp.abs(x) ** 0.5),
    "reductions": lambda x: (x.sum(0), x.max(1), x.mean(), jnp.linalg.norm(x), jnp.var(x)),
    "matmul": lambda x: x @ x.T + jnp.einsum("ij,kj->ki", x, x),
    "linear algebra": lambda x: _linear_algebra(x @ x.T + jnp.eye(2), x),
    "indexing": lambda x: (x[1], x[:, ::2], x.at[0, 1].set(5.0), x.at[:, 0].add(1.0), jnp.take(x, np.array([1, 0]), 0)),
    "shapes": lambda x: jnp.concatenate([x.T, jnp.pad(x.T, ((1, 0), (0, 0)))], 0)[::-1].reshape(-1),
    "reshaped in column order": lambda x: jax.lax.reshape(x, (3, 2), (1, 0)) + jnp.reshape(x, (3, 2), order="F"),
    "sorting": lambda x: (jnp.sort(x, axis=1), jnp.argsort(-x), jnp.cumsum(x, 1), jax.lax.top_k(x, 2)),
    "groups and platforms": lambda x: (
        jax.lax.ragged_dot(x, jnp.ones((2, 3, 2)), jnp.array([1, 1])), jax.lax.approx_max_k(x, 2)[0],
        jax.lax.composite(lambda x, *, n: x * n, "my.times")(x, n=3.0),
        jax.lax.scaled_dot(x, x.T, preferred_element_type=np.float32),
        jax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)),
    "special": lambda x: (jax.scipy.special.erf(x), jax.nn.gelu(x), jax.nn.log_softmax(x), jnp.logaddexp(x, 1.0)),
    "integers": lambda x: jnp.round(x).astype(jnp.int32) % 3 << 2,
    "cond": lambda x: jax.lax.cond(x[0, 0] < 0, jnp.sin, lambda y: y * 2, x),
    "switch": lambda x: jax.lax.switch(2, [jnp.sin, jnp.cos, jnp.exp], x),
    "scan": lambda x: jax.lax.scan(lambda c, row: (c * row, c + row), jnp.ones(3), x),
    "while": lambda x: looped(jnp.abs(x)),
    "fori": lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x),
    "associative scan": lambda x: jax.lax.associative_scan(jnp.add, x, axis=1),
    "remat": lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x),
    "constants": lambda x: x + np.arange(3, dtype=np.float32),
    "vmap": lambda x: jax.vmap(lambda row: row / row.sum())(x),
    "grad": lambda x: jax.grad(lambda y: jnp.sum(jnp.sin(y) * y))(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_equal_jax(name):
    f = FUNCTIONS[name]
    ours = interop.from_jax(f)
    theirs = jax.jit(f)(X)
    assert_bridged(ours(X), theirs)
    assert_bridged(xjax.jit(ours)(X), theirs)


@pytest.mark.parametrize("name", one_in(2, [
    "elementwise", "matmul", "special", "cond", "scan", "fori", "remat", "grad"]))
def test_derivatives_and_batches_equal_jax(name):
    f, ours = FUNCTIONS[name], interop.from_jax(FUNCTIONS[name])
    total = interop.from_jax(lambda tree: sum(jnp.sum(jnp.cos(y)) for y in jax.tree.leaves(tree)))
    stacked = np.stack([X, X[::-1], X * 0.5])

    def everything(lib, f, total):
        slope = lib.grad(lambda x: total(f(x)))
        return lambda x, xs: (lib.jvp(f, (x,), (np.ones_like(X),)), slope(x), lib.vmap(f)(xs), lib.vmap(slope)(xs))
    theirs = jax.jit(everything(jax, f, total))(X, stacked)
    assert_bridged(xjax.jit(everything(xjax, ours, total))(X, stacked), theirs, 1.25)
    assert_bridged(xjax.grad(lambda x: total(ours(x)))(X), theirs[1], 1.25)


# -- custom rules -------------------------------------------------------------------------------------------------

@jax.custom_jvp
def clipped(x):
    return jnp.clip(x, -1.0, 1.0)


@clipped.defjvp
def _clipped_jvp(primals, tangents):
    return clipped(*primals), 7.0 * tangents[0]


@jax.custom_vjp
def scaled(x, n):
    return x * n, n


scaled.defvjp(lambda x, n: (scaled(x, n), (x, n)), lambda res, cts: (11.0 * res[1] * cts[0], None))


def test_custom_rules_are_kept():
    f = interop.from_jax(clipped)
    assert float(xjax.grad(f)(3.0)) == 7.0
    assert_bridged(xjax.vmap(xjax.grad(f))(X[0]), np.full(3, 7.0))
    assert float(xjax.jvp(f, (3.0,), (2.0,))[1]) == 14.0
    assert float(xjax.grad(interop.from_jax(jax.nn.relu))(0.0)) == 0.0
    second = jax.grad(jax.grad(lambda x: clipped(x) ** 2))
    assert float(xjax.grad(xjax.grad(lambda x: f(x) ** 2))(0.5)) == float(second(0.5))


def test_custom_vjp_with_an_integer_argument():
    g = xjax.grad(lambda x: interop.from_jax(scaled)(x, np.int32(3))[0])
    assert float(g(2.0)) == 33.0
    assert float(xjax.jit(g)(2.0)) == 33.0
    assert_bridged(xjax.vmap(g)(X[0]), np.full(3, 33.0))


# -- random numbers -----------------------------------------------------------------------------------------------

DRAWS = {
    "legacy key": lambda seed: jax.random.normal(jax.random.split(jax.random.PRNGKey(seed), 3)[1], (4, 2)),
    "typed key": lambda seed: jax.random.uniform(jax.random.fold_in(jax.random.key(seed), 3), (5,)),
    "many keys": lambda seed: jax.vmap(jax.random.bits)(jax.random.split(jax.random.key(seed), (4,))),
    "key shapes": lambda seed: jax.random.bits(jax.random.split(jax.random.key(seed), (2, 3))[1][::-1][0], (2,)),
    "permutation": lambda seed: jax.random.permutation(jax.random.key(seed), 7),
    "keys in a scan": lambda seed: jax.lax.scan(lambda k, _: (jax.random.split(k)[0], jax.random.bits(k)),
                                                jax.random.key(seed), None, length=3)[1],
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("partitionable", [True, False])
def test_bits_equal_jax(name, partitionable):
    with xjax.threefry_partitionable(partitionable), jax.threefry_partitionable(partitionable):
        ours, theirs = interop.from_jax(DRAWS[name])(np.int32(5)), jax.jit(DRAWS[name])(np.int32(5))
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


# -- arguments and results ----------------------------------------------------------------------------------------

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class OnlyInJax:
    w: object
    name: str = dataclasses.field(metadata={"static": True})


def test_containers_that_only_jax_knows():
    f = interop.from_jax(lambda box: OnlyInJax({"twice": box.w * 2}, box.name + "!"))
    out = f(OnlyInJax(xjax.device_put(X), "a"))
    assert out.name == "a!" and isinstance(out.w["twice"], xjax.Array)
    g = xjax.grad(lambda box: xjax.lax.reduce_sum(f(box).w["twice"], (0, 1)))(OnlyInJax(X, "b"))
    assert g.name == "b"
    assert_bridged(g.w, np.full_like(X, 2))


def test_weak_types_and_x64():
    f = interop.from_jax(lambda x, y: x * y)
    assert f(X.astype(np.float16), 2.0).dtype == np.float16
    assert f(2.0, 3.0).weak_type and f(2, 3).dtype == np.int32
    with xjax.enable_x64():
        assert f(X.astype(np.float64), 2.0).dtype == np.float64
        assert f(2.0, 3.0).dtype == np.float64


def test_static_arguments_and_results():
    f = interop.from_jax(lambda x, axis, mode="sum", flag=True: (getattr(jnp, mode)(x, axis=axis), mode, x.ndim, flag))
    out, mode, ndim, flag = f(X, 1, "max")
    assert_bridged(out, X.max(1))
    assert (mode, ndim, flag) == ("max", 2, True)
    assert_bridged(f(X, -2)[0], X.sum(0))


def test_unhashable_static_argument():
    with pytest.raises(TypeError, match="(?s)neither an array nor hashable.*fix:"):
        interop.from_jax(lambda x, s: x)(X, {1, 2})


def test_traced_once_per_types():
    calls = []

    def f(x, scale):
        calls.append(1)
        return x * scale

    for scale in (1.0, 2.0, 3.0):
        interop.from_jax(f)(X, scale)               # the cache belongs to f, not to the bridged function
    assert len(calls) == 1
    interop.from_jax(f)(X[0], 1.0)
    assert len(calls) == 2


def test_a_jax_array_is_converted():
    out = interop.from_jax(jnp.sin)(jnp.ones(3))
    assert isinstance(out, xjax.Array)


def test_inside_jax_it_is_the_function_itself():
    f = interop.from_jax(jnp.sin)
    assert isinstance(jax.jit(lambda x: f(x))(1.0), jax.Array)
    assert_bridged(interop.from_jax(lambda x: f(x) + 1)(X), np.sin(X) + 1)


def test_functions_in_results_keep_traced_values():
    make = interop.from_jax(lambda slope: (lambda x: slope * x**2))
    assert float(make(3.0)(2.0)) == 12.0
    assert float(xjax.grad(lambda s: make(s)(2.0))(5.0)) == 4.0
    assert_bridged(xjax.vmap(lambda s: make(s)(2.0))(X[0]), 4 * X[0])
    held = make(np.float32(3.0))
    assert float(xjax.jit(lambda f, x: f(x))(held, 2.0)) == 12.0


# -- what cannot be -----------------------------------------------------------------------------------------------

def test_unknown_operation_is_named_with_its_line():
    unheard_of = pytest.importorskip("jax.extend.core").Primitive("unheard_of")
    unheard_of.def_abstract_eval(lambda x: x)
    f = interop.from_jax(lambda x: unheard_of.bind(x))
    with pytest.raises(NotImplementedError, match="(?s)`unheard_of` has no counterpart.*test_from_jax.py:.*fix:"):
        f(X[:, :2])


def test_unknown_parameters_are_named_with_both_versions():
    tanh = pytest.importorskip("jax.extend.core").Primitive("tanh")
    tanh.def_abstract_eval(lambda x, **params: x)
    words = (r"(?s)`tanh`.*does not have: speed=3.*operation.*parameters.*"
             rf"JAX {jax.__version__}; .*tested with JAX 0\.10\.2 and 0\.12.*fix:")
    with pytest.raises(NotImplementedError, match=words):
        interop.from_jax(lambda x: tanh.bind(x, speed=3))(X)


def test_unknown_classes_of_parameters_are_named():
    class Direction:
        __module__ = "jax.directions"

    cumsum = pytest.importorskip("jax.extend.core").Primitive("cumsum")
    cumsum.def_abstract_eval(lambda x, **params: x)
    with pytest.raises(NotImplementedError, match="(?s)`cumsum`.*has class jax.directions.*versions.*fix:"):
        interop.from_jax(lambda x: cumsum.bind(x, axis=0, reverse=Direction()))(X)


def test_not_a_function():
    with pytest.raises(TypeError, match="needs a function"):
        interop.from_jax(3)


@pytest.mark.parametrize("f", [jnp.sin, jnp.sum, jnp.asarray, lambda x: jnp.add(x, 1.0), jax.jit(lambda x: x),
                               lambda x: jax.grad(jnp.sin)(x), jax.device_put],
                         ids=["sin", "sum", "asarray", "add", "jit", "grad", "device_put"])
def test_an_xjax_array_in_unbridged_jax_is_one_clear_error(f):
    with pytest.raises(ValueError, match="(?s)an xjax array was passed to a function of the real JAX.*fix: bridge"):
        f(xjax.device_put(np.float32(1.0)))
    with pytest.raises(ValueError, match="(?s)traced by xjax was passed to a function of the real JAX.*fix: bridge"):
        xjax.jit(f)(1.0)


def test_arrays_there_and_back():
    x = xjax.device_put(X)
    there = interop.to_jax_array(x)
    assert isinstance(there, jax.Array)
    back = interop.from_jax_array(there)
    assert isinstance(back, xjax.Array) and back.dtype == x.dtype
    assert interop.from_jax_array(jnp.asarray(2.0) * 1).weak_type == (jnp.asarray(2.0) * 1).weak_type
    assert_bridged(back, X)


# -- typed keys ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("generator", ["threefry2x32", "rbg"])
def test_keys_there_and_back(generator):
    ours, theirs = xjax.random.key(3, impl=generator), jax.random.key(3, impl=generator)
    assert_same(interop.from_jax_array(theirs), theirs)
    assert interop.to_jax_array(ours).dtype == theirs.dtype
    for f in (lambda key: jax.random.normal(key, (3,)), jax.random.key_data, lambda key: jax.random.split(key, 3),
              lambda key: jax.random.fold_in(jax.random.clone(key), 5),
              lambda key: jax.lax.cond(True, lambda k: jax.random.split(k)[0], lambda k: k, key)):
        assert_same(interop.from_jax(f)(ours), jax.jit(f)(theirs))
    assert_same(xjax.jit(interop.from_jax(lambda key: jax.random.gamma(key, X[0] + 3)))(ours),
                jax.jit(lambda key: jax.random.gamma(key, X[0] + 3))(theirs))
    made = jax.vmap(lambda s: jax.random.key(s, impl=generator))
    assert_same(interop.from_jax(made)(np.arange(3)), jax.jit(made)(np.arange(3)))


def test_a_key_of_an_unknown_generator_is_refused():
    engine = pytest.importorskip("jax.extend.random")
    own = engine.define_prng_impl(
        key_shape=(1,), seed=lambda s: s.reshape(1).astype(np.uint32), split=lambda k, n: jnp.tile(k, (*n, 1)),
        random_bits=lambda k, width, shape: jnp.zeros(shape, np.uint32), fold_in=lambda k, data: k, name="own",
        tag="own")
    with pytest.raises(NotImplementedError, match="(?s)key<own> has no counterpart.*fix:"):
        interop.from_jax(lambda x: jax.random.normal(jax.random.key(0, impl=own), (2,)) + x)(1.0)


# -- callbacks ----------------------------------------------------------------------------------------------------

def test_callbacks_get_arrays_of_jax(capfd):
    def twice(x):
        assert isinstance(x, jax.Array)
        return np.asarray(jnp.sin(x) * 2)

    def f(x):
        y = jax.pure_callback(twice, jax.ShapeDtypeStruct((3,), np.float32), x, vmap_method="sequential")
        jax.debug.print("y is {}", y)
        return y + 1

    ours = interop.from_jax(f)
    assert_bridged(ours(X[0]), f(X[0]))
    xjax.effects_barrier()
    jax.effects_barrier()
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 2 and lines[0] == lines[1] and lines[0].startswith("y is [")
    assert_bridged(xjax.jit(xjax.vmap(ours))(X), jax.vmap(f)(X))


def test_io_and_debug_callbacks_are_called_once():
    seen = []

    def f(x):
        jax.debug.callback(lambda v, name: seen.append((name, float(v))), x, name="debug")
        count = jax.experimental.io_callback(lambda v: seen.append(("io", float(v))) or np.int32(len(seen)),
                                             jax.ShapeDtypeStruct((), np.int32), x, ordered=True)
        return count + 1

    pytest.importorskip("jax.experimental")
    assert int(xjax.jit(interop.from_jax(f))(2.0)) >= 2
    xjax.effects_barrier()
    assert sorted(seen) == [("debug", 2.0), ("io", 2.0)]


# -- more rules ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("policy", [
    None, jax.checkpoint_policies.dots_saveable, jax.checkpoint_policies.everything_saveable,
    jax.checkpoint_policies.save_only_these_names("kept"),
    jax.checkpoint_policies.dots_with_no_batch_dims_saveable],
    ids=lambda policy: getattr(policy, "__qualname__", "none"))
def test_policies_of_checkpoint(policy):
    from_name = pytest.importorskip("jax.ad_checkpoint").checkpoint_name

    def f(x):
        return jnp.sin(from_name(jnp.sin(x @ x.T), "kept")).sum()

    expected = jax.jit(jax.grad(f))(X)
    assert_bridged(xjax.grad(interop.from_jax(jax.checkpoint(f, policy=policy)))(X), expected, 1.25)


def test_rules_for_vmap_transposes_and_roots():
    mapped = pytest.importorskip("jax.custom_batching").custom_vmap(lambda x: x * 2)
    mapped.def_vmap(lambda size, batched, x: (x * 3, True))
    assert_bridged(xjax.vmap(interop.from_jax(mapped))(X[0]), X[0] * 3)
    assert_bridged(interop.from_jax(mapped)(X[0]), X[0] * 2)

    def scaled(x):
        linear_call = pytest.importorskip("jax.custom_derivatives").linear_call
        return linear_call(lambda r, x: x * r, lambda r, ct: ct * 7, 2.0, x)

    assert float(interop.from_jax(scaled)(3.0)) == 6.0
    assert float(xjax.grad(interop.from_jax(scaled))(3.0)) == 7.0

    def root(x):
        return jax.lax.custom_root(lambda y: y * y - x, 1.0, lambda f, _: jnp.sqrt(x), lambda g, y: y / g(1.0))

    assert_bridged(interop.from_jax(root)(2.0), np.sqrt(2.0))
    slope = jax.jit(jax.grad(root))
    assert_bridged(xjax.grad(interop.from_jax(root))(2.0), slope(2.0))
    squares = np.float32([1, 4])
    assert_bridged(xjax.jit(xjax.vmap(xjax.grad(interop.from_jax(root))))(squares), jax.vmap(slope)(squares))


def test_collectives_over_axes_mapped_within():
    def f(x):
        return jax.vmap(lambda row: (jax.lax.psum(row, "i"), jax.lax.pmean(row, "i"), jax.lax.pmax(row, "i"),
                                     jax.lax.all_gather(row, "i"), row * jax.lax.axis_index("i")), axis_name="i")(x)

    assert_bridged(interop.from_jax(f)(X), jax.jit(f)(X))
    over_a_mesh = jax.shard_map(lambda y: jax.lax.psum(y, "i"), mesh=jax.make_mesh((1,), ("i",)), out_specs=jax.P())
    with pytest.raises(NotImplementedError, match="(?s)`shard_map` has no counterpart.*fix:"):
        interop.from_jax(over_a_mesh)(X)


def test_programs_with_captured_arrays():
    table = jnp.arange(3.0)

    def f(x):
        y, _ = jax.lax.scan(lambda c, row: (c + row * table, None), table, x)
        y = jax.lax.while_loop(lambda c: (c + table).sum() < 50.0, lambda c: c * 1.5 + table, jnp.abs(y))
        y = jax.lax.cond(y[0] > 0, lambda y: y + table, lambda y: y * table, y)
        return jax.jit(lambda y: jax.checkpoint(lambda z: jnp.sin(z * table))(y))(y)

    ours, theirs = interop.from_jax(f), jax.jit(jax.vmap(f))(np.stack([X, -X]))
    assert_bridged(ours(X), theirs[0], 1.25)
    assert_bridged(xjax.lax.scan(lambda c, _: (c + ours(X), ()), np.zeros(3, np.float32), None, 2)[0], 2 * theirs[0],
                   1.25)
    assert_bridged(xjax.jit(xjax.vmap(ours))(np.stack([X, -X])), theirs, 1.25)


def test_arrays_compare_in_total_order():
    edges = np.float32([-np.nan, -np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan])
    for x in (edges, edges.astype(np.float16)):
        f = jax.vmap(lambda v: jnp.searchsorted(np.sort(x), v))
        assert_bridged(interop.from_jax(f)(x), jax.jit(f)(x))


# -- optimizers under transforms ----------------------------------------------------------------------------------

def test_an_update_is_one_launch(monkeypatch):
    optim = pytest.importorskip("xnn.optim")
    tx = optim.adam(1e-3)
    params = {f"p{i}": xjax.device_put(np.full(4, i, np.float32)) for i in range(10)}
    state = tx.init(params)
    updates, state = tx.update(params, state, params)
    launches = []
    launch = Executable.__call__
    monkeypatch.setattr(Executable, "__call__", lambda self, args: launches.append(1) or launch(self, args))
    tx.update(params, state, params)
    assert len(launches) == 1


def inner_steps(optim, lr, params):
    """The loss after a few steps of adam on a parabola."""
    tx = optim.adam(lr)
    state = tx.init(params)
    for _ in range(3):
        updates, state = tx.update(params * 2.0, state, params)
        params = optim.apply_updates(params, updates)
    return (params * params).sum()


def test_derivative_and_batch_over_the_learning_rate():
    optim = pytest.importorskip("xnn.optim")
    optax = pytest.importorskip("optax")
    params = np.array([1.0, -2.0, 3.0], np.float32)

    def ours(lr):
        return inner_steps(optim, lr, xjax.device_put(params))

    def theirs(lr):
        return inner_steps(optax, lr, jnp.asarray(params))

    rates = np.array([0.1, 0.2, 0.3], np.float32)
    assert_bridged(xjax.jit(ours)(0.1), jax.jit(theirs)(0.1), 1.25)
    assert_bridged(xjax.grad(ours)(0.1), jax.jit(jax.grad(theirs))(0.1), 1.25)
    assert_bridged(xjax.jit(xjax.vmap(xjax.value_and_grad(ours)))(rates),
                   jax.jit(jax.vmap(jax.value_and_grad(theirs)))(rates), 1.25)


def test_update_in_a_jitted_step():
    optim = pytest.importorskip("xnn.optim")
    optax = pytest.importorskip("optax")

    def make_step(module, lib):
        tx = module.chain(module.clip_by_global_norm(1.0), module.adam(0.1))

        def step(params, state, x):
            loss, grads = lib.value_and_grad(lambda p: ((p["w"] * x - 1.0) ** 2).sum())(params)
            updates, state = tx.update(grads, state, params)
            return module.apply_updates(params, updates), state, loss
        return tx.init, lib.jit(step)

    results = []
    for module, lib in ((optim, xjax), (optax, jax)):
        init, step = make_step(module, lib)
        params = {"w": lib.device_put(X)}
        state = init(params)
        for _ in range(3):
            params, state, loss = step(params, state, X + 1)
        results.append((params, state, loss))
    assert_bridged(*results, 1.25)


def test_optim_names():
    optim = pytest.importorskip("xnn.optim")
    with pytest.raises(AttributeError, match="did you mean 'adamw'"):
        optim.adamww
    assert "adam" in dir(optim) and "cosine_decay_schedule" in dir(optim)
    assert optim.EmptyState is pytest.importorskip("optax").EmptyState


# -- DLPack -------------------------------------------------------------------------------------------------------

def aligned(n):
    raw = np.zeros(n + 16, np.float32)
    start = (-raw.ctypes.data % 64) // 4
    return raw[start:start + n]


def test_dlpack_shares_host_memory():
    x = aligned(32)
    shared = interop.from_dlpack(x)
    assert np.shares_memory(np.asarray(shared), x)
    again = interop.from_dlpack(shared)
    assert np.shares_memory(np.asarray(again), x)


@pytest.mark.parametrize("x", [X.T, X[:, ::2], np.arange(3), np.zeros((0, 2), np.float32)], ids=str)
def test_dlpack_copies_what_it_cannot_share(x):
    out = interop.from_dlpack(x)
    np.testing.assert_array_equal(np.asarray(out), x)
    assert out.dtype == xjax.device_put(x).dtype


def test_dlpack_from_torch_and_errors():
    with pytest.raises(TypeError, match="(?s)does not support DLPack.*fix:"):
        interop.from_dlpack([1.0])
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(np.asarray(interop.from_dlpack(torch.arange(4.0))), np.arange(4.0))
    half = interop.from_dlpack(torch.ones(2, dtype=torch.bfloat16))          # NumPy does not have this dtype
    assert half.dtype == "bfloat16" and half.tolist() == [1, 1]
