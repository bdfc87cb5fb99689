"""Four devices: the current mesh, abstract meshes, axes of vmap over a mesh, ordered callbacks, pmap ahead of time."""

from functools import partial

import numpy as np


def _mesh(jax, sizes=(2, 2), names=("x", "y")):
    return jax.make_mesh(sizes, names, axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))


def _place(x):
    """Value, mesh, spec without trailing Nones, and ids of the devices in the order of the mesh."""
    spec = list(x.sharding.spec)
    while spec and spec[-1] is None:
        spec.pop()
    return x, dict(x.sharding.mesh.shape), str(tuple(spec)), x.sharding.mesh.device_ids.tolist()


def _ids(x):
    return x, sorted(d.id for d in x.devices())


def specs_of_the_current_mesh(jax):
    jnp, P = jax.numpy, jax.P
    x = jnp.arange(8.)
    with jax.set_mesh(_mesh(jax)):
        a = jax.device_put(x, P("x"))
        b = jax.jit(lambda x: x * 2, in_shardings=P("x"), out_shardings=P("y"))(x)
        c = jax.jit(lambda x: jax.lax.with_sharding_constraint(x + 1, P(("x", "y"))))(x)
        d = jax.device_put({"w": x.reshape(4, 2), "b": np.ones(2)}, {"w": P("y", "x"), "b": P()})
    return _place(a), _place(b), _place(c), _place(d["w"]), _place(d["b"])


def new_arrays_are_on_the_current_mesh(jax):
    jnp = jax.numpy
    x = jnp.arange(4.)
    with jax.set_mesh(_mesh(jax)):
        made = [jnp.ones(3), jnp.arange(4), jnp.asarray(np.ones(2)), jax.random.normal(jax.random.key(0), (3,)), x + 1,
                jax.jit(jnp.sin)(x), jax.jit(lambda: jnp.zeros(2))(), jax.grad(lambda x: (x * x).sum())(x), x[1],
                jax.lax.scan(lambda c, _: (c + 1, c.sum()), x, length=3)[1], jax.jit(jnp.add)(1.5, np.ones(2)),
                jnp.linalg.inv(2 * jnp.eye(2)), jax.vmap(lambda a: a * 2)(x), jnp.add(1, 2)]
        kept = [jax.device_put(np.ones(2)), jax.device_put(x, jax.devices()[2]), jnp.asarray(x),
                jnp.ones(2, device=jax.devices()[1])]
        made[2:3] = [made[2] * 2]
    return [_place(y) for y in made], [_ids(y) for y in kept], _ids(x + 1), [y.committed for y in made[:2]]


def repeated_calls_under_a_mesh(jax):
    f = jax.jit(lambda a, b, c: (a * b + c, a.sum()))
    outs = []
    for _ in range(3):
        with jax.set_mesh(_mesh(jax)):
            outs.append(f(np.arange(4, dtype=np.float32), 2.5, 3))
        outs.append(f(np.arange(4, dtype=np.float32), 2.5, 3))
    return [[_ids(y) for y in out] for out in outs]


def meshes_one_after_another(jax):
    P = jax.P
    f = jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, P("x")))
    x, seen = np.arange(8, dtype=np.float32), []
    for sizes, names in (((2, 2), ("x", "y")), ((4,), ("x",)), ((1, 4), ("y", "x")), ((2, 2), ("x", "y"))):
        with jax.set_mesh(_mesh(jax, sizes, names)):
            seen.append(_place(f(x)))
    return seen


def what_the_current_mesh_is(jax):
    s, mesh = jax.sharding, _mesh(jax)
    before = s.get_mesh(), s.get_abstract_mesh()
    inside = []
    with jax.set_mesh(mesh):
        jax.jit(lambda x: inside.append(s.get_abstract_mesh()) or x)(1.)
        jax.vmap(lambda x: inside.append(s.get_abstract_mesh()) or x)(np.ones(2))
        current = s.get_mesh(), s.get_abstract_mesh()
        with jax.set_mesh(_mesh(jax, (4,), ("z",))):
            inner = s.get_mesh()
        again = s.get_mesh()
    return ([m.empty for m in before], [str(m) for m in (*current, inner, again, *inside)], s.get_mesh().empty,
            current[0] == mesh, current[1] == mesh.abstract_mesh)


def the_mesh_of_a_region(jax):
    P, s, seen = jax.P, jax.sharding, []
    look = lambda x: seen.append(s.get_abstract_mesh()) or x
    with jax.set_mesh(_mesh(jax)):
        jax.shard_map(look, in_specs=P("x"), out_specs=P("x"))(np.ones(4))
    jax.shard_map(look, mesh=_mesh(jax), in_specs=P("x"), out_specs=P("x"))(np.ones(4))
    jax.pmap(look, axis_name="q")(np.ones(4))
    return [str(m) for m in seen], [m.manual_axes for m in seen], seen[0].are_all_axes_manual


def set_mesh_for_good(jax):
    mesh = _mesh(jax)
    jax.set_mesh(mesh)
    try:
        there = _place(jax.jit(lambda x: x + 1, in_shardings=jax.P("y"))(np.arange(4.)))
    finally:
        jax.set_mesh(None)
    return there, jax.sharding.get_mesh().empty, _ids(jax.numpy.ones(2))


def shard_map_over_the_current_mesh(jax):
    jnp, P = jax.numpy, jax.P
    product = lambda x, w: jax.lax.psum(x @ w, "y")
    make = partial(jax.shard_map, product, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))
    total = make()
    x, w = jnp.arange(16.).reshape(4, 4), jnp.ones(4)
    with jax.set_mesh(_mesh(jax)):
        eager, jitted = total(x, w), jax.jit(total)(x, w)
        g = jax.grad(lambda w: (total(x, w)**2).sum())(w)
    with jax.set_mesh(_mesh(jax, (4, 1))):
        other = make()(x, w)
    return _place(eager), _place(jitted), g, _place(other)


def attributes_of_meshes(jax):
    mesh = _mesh(jax)
    names = ("shape", "shape_tuple", "axis_names", "axis_sizes", "axis_types", "size", "empty", "are_all_axes_auto",
             "are_all_axes_manual", "are_all_axes_explicit", "auto_axes", "manual_axes", "explicit_axes")
    facts = [[str(getattr(m, name)) if name != "shape" else dict(m.shape) for name in names]
             for m in (mesh, mesh.abstract_mesh)]
    return (facts, str(mesh), mesh.device_ids.tolist(), mesh.is_scalar, mesh.is_multi_process, len(mesh.local_devices),
            mesh.local_mesh == mesh, str(mesh.update(axis_names=("a", "b"))),
            mesh.update(devices=mesh.devices.T).device_ids.tolist(), mesh(lambda x: x + 1)(1), repr(mesh.axis_types[0]))


def abstract_meshes(jax):
    A, auto, manual = jax.sharding.AbstractMesh, jax.sharding.AxisType.Auto, jax.sharding.AxisType.Manual
    a = A((2, 4), ("x", "y"), (auto, auto))
    mixed = a.update_axis_types({"y": manual})
    device = jax.sharding.AbstractDevice("some", 2, "tpu")
    return ([str(m) for m in (a, mixed, A((), ()), a.update(axis_sizes=(4, 4)), a.update(axis_names=("p", "q")),
                              a.update(abstract_device=device), A((3,), ("z",), (manual,), abstract_device=device))],
            a == A((2, 4), ("x", "y"), (auto, auto)), hash(a) == hash(A((2, 4), ("x", "y"), (auto, auto))),
            a == A((4, 2), ("x", "y"), (auto, auto)), a == mixed, a == a.update(abstract_device=device), a.size,
            a.abstract_mesh is a, mixed.auto_axes, mixed.manual_axes, A((), ()).empty, len({a, mixed, a}),
            repr(device), device == jax.sharding.AbstractDevice("some", 2, "tpu"))


def shardings_over_abstract_meshes(jax):
    mesh, P, NS = _mesh(jax), jax.P, jax.NamedSharding
    a, b = NS(mesh.abstract_mesh, P("x")), NS(mesh.abstract_mesh, P("x", None))
    return (a == NS(mesh.abstract_mesh, P("x")), a == b, a == NS(mesh, P("x")), a.is_equivalent_to(b, 2),
            a.is_equivalent_to(NS(mesh.abstract_mesh, P("y")), 2), a.num_devices, a.shard_shape((8, 3)),
            a.is_fully_replicated, NS(mesh.abstract_mesh, P()).is_fully_replicated,
            a.update(spec=P("y")) == NS(mesh.abstract_mesh, P("y")), a.update(mesh=mesh) == NS(mesh, P("x")))


def programs_over_abstract_meshes(jax):
    jnp, P, mesh = jax.numpy, jax.P, _mesh(jax)
    x = jax.device_put(jnp.arange(8.), jax.NamedSharding(mesh, P("y")))
    there = jax.NamedSharding(mesh.abstract_mesh, P("x"))
    constrained = jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, there))
    mapped = jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=mesh.abstract_mesh, in_specs=P("x"), out_specs=P())
    results = [constrained(x), jax.lax.with_sharding_constraint(x, there), mapped(x),
               jax.jit(lambda x: -x, out_shardings=there)(x), jax.jit(mapped)(x),
               jax.jit(jax.grad(lambda x: (mapped(x)**2).sum()))(x)]
    with jax.set_mesh(mesh):
        results += [constrained(np.ones(8)), mapped(np.ones(8)), jax.jit(lambda x: x, out_shardings=there)(np.ones(8))]
    turned = jax.sharding.Mesh(mesh.devices.T, ("x", "y"))
    x = jax.device_put(np.arange(8.), jax.NamedSharding(turned, P("y")))
    return [_place(y) for y in (*results, constrained(x), mapped(x))]


def axes_of_use_abstract_mesh(jax):
    P, mesh = jax.P, _mesh(jax)
    x = jax.device_put(np.arange(8.), jax.NamedSharding(mesh, P()))
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        a = jax.jit(lambda x: jax.lax.with_sharding_constraint(x, P("y")))(x)
        b = jax.jit(jax.shard_map(lambda x: x * 2, in_specs=P("x"), out_specs=P("x")))(x)
        known = str(jax.sharding.get_abstract_mesh()), jax.sharding.get_mesh().empty

    @jax.jit
    def f(x):
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            return jax.lax.with_sharding_constraint(x + 1, P("x"))
    with jax.set_mesh(mesh), jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        none = jax.sharding.get_abstract_mesh().empty
    return _place(a), _place(b), known, _place(f(x)), none


def structs_with_shardings(jax):
    jnp, P, mesh = jax.numpy, jax.P, _mesh(jax)
    on = partial(jax.NamedSharding, mesh)
    S = partial(jax.ShapeDtypeStruct, (8,), jnp.float32)
    f = jax.jit(lambda x: x * 2)
    compiled = f.lower(S(sharding=on(P("x")))).compile()
    with jax.set_mesh(mesh):
        current = f.lower(S(sharding=P("y"))).compile()
        abstract = f.lower(S(sharding=jax.NamedSharding(mesh.abstract_mesh, P("x")))).compile()
        lowered = f.lower(S())
    late = lowered.compile()
    placed = jax.jit(lambda x: (x, x.sum()), out_shardings=(on(P("x")), None))
    infos = [placed.eval_shape(S()), jax.eval_shape(placed, S()), placed.lower(S()).out_info]
    return ([str(s.sharding and s.sharding.spec[0]) for info in infos for s in info],
            jax.eval_shape(f, S(sharding=on(P("x")))).shape,
            [_place(c(jax.device_put(np.arange(8, dtype=np.float32), c.input_shardings[0][0])))
             for c in (compiled, current, abstract, late)],
            S(sharding=on(P("x"))) == S(sharding=on(P("x"))), S(sharding=on(P("x"))) == S(sharding=on(P("y"))))


def vmap_over_a_mesh_axis(jax):
    jnp, P = jax.numpy, jax.P
    on = partial(jax.NamedSharding, _mesh(jax))
    f = lambda x: jax.lax.with_sharding_constraint(x * 2, on(P("x")))
    x = jnp.arange(32.).reshape(4, 8)
    step = lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, length=2)[0]
    whole = lambda x: jax.lax.with_sharding_constraint(x, on(P()))
    return [_place(y) for y in (
        jax.vmap(f, spmd_axis_name="y")(x), jax.jit(jax.vmap(f, spmd_axis_name="y"))(x),
        jax.jit(jax.vmap(f, out_axes=1, spmd_axis_name="y"))(x), jax.jit(jax.vmap(step, spmd_axis_name="y"))(x),
        jax.jit(jax.vmap(whole, spmd_axis_name=("x", "y")))(x), jax.jit(jax.vmap(jax.jit(f), spmd_axis_name="y"))(x),
        jax.jit(jax.vmap(jax.vmap(whole, spmd_axis_name="x"), spmd_axis_name="y"))(x.reshape(4, 2, 4)),
        jax.jit(jax.vmap(lambda x: jax.lax.cond(x.sum() > 9, f, jnp.negative, x), spmd_axis_name="y"))(x))]


def _vmapped_shard_map(jax, check_vma):
    jnp, P, lax, mesh = jax.numpy, jax.P, jax.lax, _mesh(jax)
    body = lambda w, v: lax.psum(jnp.sum(jnp.sin(v[:, None] * w)), "x")
    f = jax.shard_map(body, mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P(), check_vma=check_vma)
    w, v = jnp.arange(24.).reshape(8, 3) / 9, jnp.arange(32.).reshape(4, 8) / 5
    ws = jnp.stack([w, w + 1, 2 * w, -w])
    vmap = partial(jax.vmap, spmd_axis_name="y")
    g = jax.grad(f, argnums=(0, 1))
    return (_place(vmap(f, in_axes=(None, 0))(w, v)), _place(jax.jit(vmap(f))(ws, v)), vmap(g, in_axes=(None, 0))(w, v),
            jax.jit(vmap(g))(ws, v), jax.grad(lambda w: (vmap(f, in_axes=(None, 0))(w, v)**2).sum())(w))


def vmap_of_shard_map_over_a_mesh_axis(jax):
    return _vmapped_shard_map(jax, True)


def vmap_of_unchecked_shard_map_over_a_mesh_axis(jax):
    return _vmapped_shard_map(jax, False)


def ordered_callbacks_of_each_device(jax):
    io_callback, lax, log = jax.experimental.io_callback, jax.lax, []

    def f(x):
        device = lax.axis_index("i")
        tell = lambda what: io_callback(lambda d, w: log.append((int(d), int(w))), None, device, what, ordered=True)
        tell(-1)
        y = lax.fori_loop(0, 3, lambda k, c: (tell(k), lax.psum(c, "i"))[1], x)
        tell(10)
        return io_callback(lambda v: v + np.float32(1), y, y, ordered=True)
    y = jax.pmap(f, axis_name="i")(np.arange(4, dtype=np.float32))
    jax.effects_barrier()
    return y, [[what for d, what in log if d == k] for k in range(4)]


def callbacks_of_one_device(jax):
    io_callback = jax.experimental.io_callback
    one = np.ones(1, np.float32)
    return (jax.pmap(lambda x: io_callback(lambda v: v * 2, x, x, ordered=True))(one),
            jax.pmap(lambda x: io_callback(lambda v: v * 2, x, x))(one))


def pmap_ahead_of_time(jax):
    jnp = jax.numpy
    f = jax.pmap(lambda a, b: {"sum": jax.lax.psum(a, "i"), "row": a * b}, axis_name="i", in_axes=(0, None))
    lowered = f.lower(jax.ShapeDtypeStruct((4,), jnp.float32), 2.)
    compiled = lowered.compile()
    outs = [compiled(x, 2.) for x in (jnp.arange(4.), np.arange(4, dtype=np.float32))]
    static = jax.pmap(lambda x, n: x ** n, static_broadcasted_argnums=1).lower(jnp.arange(4.), 3).compile()
    kept = jnp.arange(3.)
    closure = jax.pmap(lambda x: x + kept).lower(np.ones((4, 3), np.float32)).compile()
    return (outs, jax.tree.map(lambda s: (s.shape, str(s.dtype)), lowered.out_info), "stablehlo" in lowered.as_text(),
            [(a.shape, a.weak_type) for a in jax.tree.leaves(lowered.in_avals)],
            str(compiled.input_shardings[0][0].spec[0]), str(compiled.output_shardings["row"].spec[0]),
            static(jnp.arange(4.)), closure(np.ones((4, 3), np.float32)))


def programs_of_named_axes(jax):
    lax, make = jax.lax, jax.make_jaxpr
    env = [("i", 4), ("j", 2)]
    closed = make(lambda x: (lax.psum(x, ("i", "j")), lax.all_gather(x, "j"), lax.axis_index("i") + lax.axis_size("j")),
                  axis_env=env)(1.)
    return ([eqn.primitive.name for eqn in closed.eqns], [v.aval.shape for v in closed.jaxpr.outvars],
            str(make(lambda x: lax.psum(1, "i") * x, axis_env=[("i", 4)])(1.)),
            [e.primitive.name for e in make(jax.grad(lambda x: lax.psum(x * x, "i")), axis_env=[("i", 4)])(1.).eqns])
