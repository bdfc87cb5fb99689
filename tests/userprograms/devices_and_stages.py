"""Four devices, compilation stages, trees and classes, callbacks."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import numpy as np


def _mesh(jax, sizes, names):
    """A mesh of automatic axes; since 0.12, JAX makes other axes by default."""
    return jax.make_mesh(sizes, names, axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))


def data_parallel_step_by_pmap(jax):
    jnp = jax.numpy

    @partial(jax.pmap, axis_name="batch", in_axes=(None, 0), out_axes=(None, 0))
    def step(w, x):
        loss, g = jax.value_and_grad(lambda w: jnp.mean((x @ w)**2))(w)
        g = jax.lax.pmean(g, axis_name="batch")
        return w - .1 * g, loss
    return step(jnp.ones(2), jnp.arange(16.).reshape(4, 2, 2) / 10)


def collectives_under_pmap(jax):
    jnp, lax = jax.numpy, jax.lax
    f = jax.pmap(lambda x: (lax.psum(x, "i"), lax.pmax(x, "i"), lax.all_gather(x, "i"), lax.axis_index("i"),
                            lax.psum(1, "i"),
                            lax.ppermute(x, "i", [(i, (i + 1) % 4) for i in range(4)]),
                            lax.pshuffle(x, "i", [3, 2, 1, 0]),
                            lax.all_gather(x, "i", tiled=True), lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]])),
                 axis_name="i")
    return f(jnp.arange(8.).reshape(4, 2))


def all_to_all_and_reduce_scatter(jax):
    jnp, lax = jax.numpy, jax.lax
    x = jnp.arange(16).reshape(4, 4)
    return (jax.pmap(lambda x: lax.all_to_all(x, "i", 0, 0), axis_name="i")(x),
            jax.pmap(lambda x: lax.psum_scatter(x, "i", tiled=True), axis_name="i")(x),
            jax.pmap(lambda x: lax.pmin(x, "i") + lax.axis_size("i"), "i")(x),
            jax.vmap(lambda x: lax.all_gather(x, "v"), axis_name="v")(x[:2]))


def shard_map_matrix_product(jax):
    jnp = jax.numpy
    mesh, P = _mesh(jax, (2, 2), ("x", "y")), jax.sharding.PartitionSpec

    @partial(jax.shard_map, mesh=mesh, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None))
    def matmul(a, b):
        return jax.lax.psum(a @ b, "y")
    a, b = jnp.arange(16.).reshape(4, 4), jnp.ones((4, 2))
    return matmul(a, b), jax.jit(matmul)(a, b), jax.grad(lambda a: matmul(a, b).sum())(a)


def ring_exchange_in_shard_map(jax):
    jnp, lax = jax.numpy, jax.lax
    mesh, P = _mesh(jax, (4,), ("i",)), jax.P

    def halo(x):
        left = lax.ppermute(x[-1:], "i", [(j, (j + 1) % 4) for j in range(4)])
        right = lax.ppermute(x[:1], "i", [(j, (j - 1) % 4) for j in range(4)])
        padded = jnp.concatenate([left, x, right])
        return (padded[:-2] + padded[2:]) / 2 - x
    return jax.jit(jax.shard_map(halo, mesh=mesh, in_specs=P("i"), out_specs=P("i")))(jnp.arange(12.)**2)


def placement_of_arrays(jax):
    jnp = jax.numpy
    mesh, P = _mesh(jax, (2, 2), ("a", "b")), jax.P
    x = jax.device_put(jnp.arange(16.).reshape(4, 4), jax.NamedSharding(mesh, P("a", "b")))
    y = jax.jit(lambda x: x @ x.T, out_shardings=jax.NamedSharding(mesh, P()))(x)
    z = jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, jax.NamedSharding(mesh, P(None, "b"))))(x)
    one = jax.device_put(1., jax.devices()[2])
    return (x.sum(), y, z.sharding.spec == P(None, "b"), [s.data.shape for s in x.addressable_shards],
            len(x.devices()), y.sharding.is_fully_replicated,
            one, sorted(d.id for d in one.devices()), jax.device_get({"a": x[0]}), jax.device_put([1, (2., None)]),
            x.is_fully_addressable)


def assembling_from_callbacks(jax):
    mesh = _mesh(jax, (4,), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.P("x"))
    host = np.arange(8, dtype=np.float32)
    a = jax.make_array_from_callback((8,), sharding, lambda index: host[index])
    pieces = [jax.device_put(host[2 * i:2 * i + 2], d) for i, d in enumerate(jax.devices())]
    b = jax.make_array_from_single_device_arrays((8,), sharding, pieces)
    return a, b, a + b, (a == b).all(), a.sharding == b.sharding, sharding.shard_shape((8,))


def ahead_of_time(jax):
    jnp = jax.numpy
    f = jax.jit(lambda x, *, n: (x * n, x.sum()), static_argnames="n")
    traced = f.trace(jax.ShapeDtypeStruct((3,), jnp.float32), n=2)
    lowered = traced.lower()
    compiled = lowered.compile()
    out = jax.eval_shape(partial(f, n=3), jnp.ones((2, 2)))
    return (compiled(jnp.arange(3.)), out[0].shape, out[1].dtype, "stablehlo" in lowered.as_text(),
            [str(a) for a in traced.jaxpr.out_avals], jax.tree.map(lambda i: i.shape, lowered.out_info),
            bool(compiled.cost_analysis()))


def shapes_without_computing(jax):
    jnp = jax.numpy
    init = lambda key: {"w": jax.random.normal(key, (4, 3)), "n": 0, "x": 1.}
    shapes = jax.eval_shape(init, jax.random.key(0))
    closed = jax.make_jaxpr(lambda x: jnp.sin(x) * 2., return_shape=True)(jnp.float32(1))
    return (jax.tree.map(lambda s: (s.shape, str(s.dtype)), shapes), shapes["x"].weak_type, len(closed[0].eqns),
            closed[1].dtype, jax.typeof(1.).shape, jax.typeof(jnp.ones(2)).ndim, jnp.result_type(shapes["w"]),
            shapes["w"].size)


def static_arguments_of_every_kind(jax):
    jnp = jax.numpy

    @dataclasses.dataclass(frozen=True)
    class Config:
        width: int = 2
        act: str = "relu"

    @partial(jax.jit, static_argnames=("cfg", "flag", "reduce"))
    def f(x, cfg, flag=False, *, reduce=jnp.sum, scale=1):
        y = getattr(jax.nn, cfg.act)(jnp.tile(x, cfg.width))
        return reduce(y) * scale if flag else y
    x = jnp.array([-1., 2.])
    return (f(x, Config()), f(x, Config(3), True), f(x, Config(act="tanh"), flag=True, reduce=jnp.max, scale=2),
            f(x=x, cfg=Config()))


def donation_keeps_values(jax):
    jnp = jax.numpy
    update = jax.jit(lambda state, g: jax.tree.map(lambda p: p - g, state), donate_argnums=0)
    state = {"a": jnp.ones(3), "b": jnp.zeros(())}
    old = state["a"]
    state = update(state, .5)
    state = update(state, .5)
    return state, old.is_deleted(), jax.jit(lambda x: x + 1, donate_argnames="x")(x=jnp.ones(2))


def methods_and_partials_under_jit(jax):
    jnp = jax.numpy

    class Model:
        def __init__(self, scale):
            self.scale = scale

        @partial(jax.jit, static_argnums=0)
        def __call__(self, x):
            return x * self.scale

        @classmethod
        def make(cls):
            return cls(3)
    model = Model.make()
    g = jax.jit(jax.tree_util.Partial(lambda a, b: a - b, 10))
    return (model(2.), jax.vmap(model)(jnp.arange(2)), g(3), jax.tree_util.Partial(jnp.add, 1)(2),
            jax.jit(lambda f, x: f(x))(jax.tree_util.Partial(jnp.multiply, 2.), 4))


class _Point(NamedTuple):
    x: Any
    y: Any


def tree_utilities(jax):
    tree, tu = jax.tree, jax.tree_util
    t = {"b": [1, (2., None)], "a": _Point(3, "s")}
    return (tree.leaves(t), str(tree.structure(t).num_nodes), tree.map(str, t),
            tree.leaves(t, is_leaf=lambda x: x is None or isinstance(x, _Point)), tree.flatten_with_path(t)[0][0][1],
            [tu.keystr(p) for p, _ in tree.leaves_with_path(t)],
            tree.map_with_path(lambda p, x: f"{tu.keystr(p, simple=True, separator='/')}={x}", t),
            tree.transpose(tree.structure([0, 0]), tree.structure((0, 0)), [(1, 2), (3, 4)]), tree.all([True, 1]),
            tree.reduce(lambda a, b: a + b, [1, [2, 3]]), tu.tree_map(lambda *x: sum(x), (1, 2), (3, 4), (5, 6)),
            tu.treedef_children(tree.structure((1, [2])))[1].num_leaves, tu.all_leaves([1, 2]))


def registered_node_through_transformations(jax):
    jnp = jax.numpy

    @jax.tree_util.register_pytree_with_keys_class
    class Linear:
        def __init__(self, w, b, name="linear"):
            self.w, self.b, self.name = w, b, name

        def tree_flatten_with_keys(self):
            return ((jax.tree_util.GetAttrKey("w"), self.w), (jax.tree_util.GetAttrKey("b"), self.b)), self.name

        @classmethod
        def tree_unflatten(cls, name, children):
            return cls(*children, name)

        def __call__(self, x):
            return x @ self.w + self.b
    layer = Linear(jnp.eye(2), jnp.zeros(2))
    g = jax.jit(jax.grad(lambda f, x: f(x).sum()))(layer, jnp.array([1., 2.]))
    stacked = jax.tree.map(lambda *x: jnp.stack(x), layer, layer)
    out = jax.vmap(lambda f, x: f(x), in_axes=(0, None))(stacked, jnp.ones(2))
    return (g.w, g.b, g.name, out, [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_leaves_with_path(layer)],
            jax.lax.scan(lambda f, _: (jax.tree.map(lambda p: p * 2, f), f.b), layer, length=2)[0].w)


def dataclass_of_a_training_state(jax):
    jnp = jax.numpy

    @partial(jax.tree_util.register_dataclass, data_fields=["params", "step"], meta_fields=["rate"])
    @dataclasses.dataclass
    class State:
        params: Any
        step: Any
        rate: float

    @jax.jit
    def train(s):
        g = jax.grad(lambda p: (p**2).sum())(s.params)
        return dataclasses.replace(s, params=s.params - s.rate * g, step=s.step + 1)
    s = jax.lax.fori_loop(0, 3, lambda i, s: train(s), State(jnp.ones(2), 0, .1))
    return s.params, s.step, s.rate, jax.tree.map(jnp.ndim, s).params


def callbacks_of_every_kind(jax):
    jnp, log = jax.numpy, []

    @jax.jit
    def f(x):
        jax.debug.callback(lambda v: log.append(float(v)), x.sum(), ordered=True)
        y = jax.pure_callback(lambda v: np.sort(v)[::-1].astype(v.dtype), jax.ShapeDtypeStruct(x.shape, x.dtype), x,
                              vmap_method="sequential")
        return jax.experimental.io_callback(lambda v: (log.append("io"), np.float32(v[0]))[1],
                                            jax.ShapeDtypeStruct((), x.dtype), y, ordered=True)
    out = f(jnp.array([1., 3., 2.]))
    batched = jax.vmap(lambda v: jax.pure_callback(np.cumsum, v, v, vmap_method="sequential"))(jnp.ones((2, 3)))
    jax.effects_barrier()
    return out, batched, sorted(map(str, log))          # each of the two kinds has its own order


def derivative_of_a_host_function(jax):
    jnp = jax.numpy

    @jax.custom_jvp
    def host_sin(x):
        return jax.pure_callback(lambda x: np.sin(x).astype(np.float32), jax.typeof(x), x, vmap_method="expand_dims")
    host_sin.defjvp(lambda p, t: (host_sin(*p), jnp.cos(p[0]) * t[0]))
    return jax.grad(host_sin)(jnp.float32(1.)), jax.jit(jax.vmap(jax.value_and_grad(host_sin)))(jnp.arange(3.))


def printing_from_compiled_code(jax):
    import contextlib
    import io
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        jax.jit(lambda x: jax.debug.print("x = {x} and {:.2f}", x[0], x=x))(jax.numpy.array([1.5, 2.]))
        jax.lax.fori_loop(0, 2, lambda i, c: (jax.debug.print("{i}", i=i, ordered=True), c)[1], 0)
        jax.effects_barrier()
    return out.getvalue()


def interoperation_with_numpy(jax):
    jnp = jax.numpy
    x = jnp.arange(4.)
    host = np.asarray(x)
    copied = np.array(x)
    copied[0] = 9
    return (np.sum(x), np.sin(x), host.flags.writeable, copied, np.concatenate([x, x]), host + x, np.float32(2) * x,
            x + np.arange(4), jnp.asarray(copied), np.mean(x), np.add(x, 1),
            type(np.ones(4) * x).__name__ == type(x).__name__,
            jnp.array(np.float64(1)), x + np.float64(1), x * np.int64(3), jnp.from_dlpack(x), np.from_dlpack(x),
            [float(v) for v in x], x.__array__().dtype, np.stack([x, x]).shape, jax.tree.leaves({"a": np.ones(2)}),
            jnp.array([x, x]).shape)


def configuration_in_context(jax):
    jnp = jax.numpy
    with jax.enable_x64(True):
        wide = jnp.arange(2), jnp.ones(2) / 3, jnp.array(1.5), jnp.float32(1) * 2.
    with jax.default_matmul_precision("highest"):
        product = jnp.ones((2, 2)) @ jnp.ones((2, 2))
    with jax.disable_jit():
        steps = jax.jit(lambda x: [x + i for i in range(int(x))])(jnp.int32(2))
    with jax.default_device(jax.devices()[1]):
        where = [d.id for d in jnp.ones(1).devices()]
    return wide, product, steps, where, jax.config.jax_enable_x64, jax.default_backend(), jax.device_count()


def custom_vmap_and_named_axes(jax):
    jnp = jax.numpy

    @jax.custom_batching.custom_vmap
    def f(x, y):
        return x * y

    @f.def_vmap
    def _(size, batched, x, y):
        return (x if batched[0] else jnp.asarray(x)[None]) + y, True
    nested = jax.vmap(jax.vmap(lambda x: jax.lax.psum(x, ("a", "b")) - jax.lax.axis_index("a"), axis_name="b"),
                      axis_name="a")
    return (f(2., 3.), jax.vmap(f)(jnp.arange(2.), jnp.ones(2)), jax.vmap(f, (None, 0))(5., jnp.ones(2)),
            nested(jnp.arange(6).reshape(2, 3)), jax.vmap(lambda x: x, spmd_axis_name="s")(jnp.ones(2)),
            jax.custom_batching.sequential_vmap(jnp.sin)(jnp.ones(2)))


def axes_of_vmap(jax):
    jnp = jax.numpy
    x, d = jnp.arange(6).reshape(2, 3), {"a": jnp.ones((3, 2)), "b": 4.}
    return (jax.vmap(lambda x: x.sum(), in_axes=-1)(x), jax.vmap(lambda x, y: (x, y), in_axes=(1, None),
                                                                 out_axes=(1, None))(x, 5),
            jax.vmap(lambda d: d["a"] * d["b"], in_axes=({"a": 1, "b": None},))(d),
            jax.vmap(lambda x, *, k: x + k)(x, k=jnp.array([10, 20])),
            jax.vmap(lambda x: {"m": x, "s": x.sum()}, out_axes={"m": -1, "s": 0})(x),
            jax.vmap(jnp.dot, in_axes=(0, 0))(x, x), jax.vmap(jax.vmap(jnp.add, (0, None)), (None, 0))(x[0], x[1]),
            jax.vmap(lambda i: x[i])(jnp.array([1, 0])))
