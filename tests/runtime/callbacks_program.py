"""Programs that print from everywhere; the arguments are xjax or jax, and the name of a set of cases:

    python -m tests.runtime.callbacks_program xjax common
"""

from __future__ import annotations

import importlib
import os
import sys

import numpy as np

# Cases whose prints have no order, or that run on several devices at the same time.
ANY_ORDER = {"jit vmap", "pmap", "vmap cond", "shard_map", "grad of shard_map", "pmap of grad", "pmap of vmap"}


def common(jax):
    """{name: function that prints}"""
    jnp, lax = jax.numpy, jax.lax
    say = jax.debug.print
    io_callback = importlib.import_module(f"{jax.__name__}.experimental").io_callback

    def f(x):
        say("x {} {y:.2f}", x, y=x * 2)
        return jnp.sin(x) * x

    def loop(x):
        return lax.scan(lambda c, _: (f(c), None), x, length=3)[0]

    def count(x):
        return lax.while_loop(lambda x: x < 5, lambda x: (say("w {}", x), x + 1)[1], x)

    def choose(x):
        return lax.cond(x > 0, lambda: say("pos {}", x), lambda: say("neg {}", x))

    def ordered(x):
        say("{}", x, ordered=True)
        jax.debug.callback(ordered=True)(lambda v, ordered: print("kept", v, ordered), x, ordered=1)
        x = lax.fori_loop(0, 3, lambda i, c: (say("{} {}", i, c, ordered=True), c + 1)[1], x)
        return io_callback(lambda v: (print("io", v), np.float32(v))[1], jax.ShapeDtypeStruct((), "float32"), x,
                           ordered=True)

    def text_of(f, *args):
        return lambda: print(jax.make_jaxpr(f)(*args))

    def in_jit(f, *args):
        return lambda: jax.jit(f)(*args)

    def shardings():
        module = importlib.import_module(f"{jax.__name__}.sharding")
        mesh = module.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
        for spec, shape in [(("a",), (8,)), (("b", "a"), (8, 8)), ((None, ("a", "b")), (16, 32)), ((), (3, 2))]:
            sharding = module.NamedSharding(mesh, module.PartitionSpec(*spec))
            jax.debug.visualize_sharding(shape, sharding)
            x = jax.device_put(np.zeros(shape, np.float32), sharding)
            jax.debug.visualize_array_sharding(x, use_color=False, scale=0.5, min_width=4)

    def without_jit():
        with jax.disable_jit():
            jax.jit(loop)(1.0)

    ones = np.ones(2, np.float32)
    tree = {"a": ones, "b": (1, 2.0, None, "text")}
    policies = jax.checkpoint_policies
    return {
        "eager": lambda: f(1.5),
        "jit": in_jit(f, 1.5),
        "grad": lambda: jax.grad(f)(1.5),
        "grad of jit": lambda: jax.grad(jax.jit(f))(1.5),
        "jit of grad": in_jit(jax.grad(f), 1.5),
        "jvp": lambda: jax.jvp(f, (1.5,), (1.0,)),
        "vmap": lambda: jax.vmap(f)(np.arange(3.0, dtype=np.float32)),
        "jit vmap": in_jit(jax.vmap(f), np.arange(3.0, dtype=np.float32)),
        "vmap of nothing mapped": lambda: jax.vmap(lambda x: say("{}", 1.0))(ones),
        "checkpoint": in_jit(jax.grad(jax.checkpoint(f)), 1.5),
        "checkpoint, saved": in_jit(jax.grad(jax.checkpoint(f, policy=policies.everything_saveable)), 1.5),
        "checkpoint, dots": lambda: jax.grad(jax.checkpoint(f, policy=policies.dots_saveable))(1.5),
        "scan": in_jit(loop, 1.5),
        "grad of scan": lambda: jax.grad(loop)(1.5),
        "jit of grad of scan": in_jit(jax.grad(loop), 1.5),
        "while": lambda: count(1),
        "jvp of while": lambda: jax.jvp(count, (2.0,), (1.0,)),
        "linearize while": lambda: jax.linearize(count, 2.0),
        "vmap of while": lambda: jax.vmap(count)(np.float32([3, 4])),
        "cond": in_jit(choose, 1.0),
        "cond, other": in_jit(choose, -1.0),
        "vmap cond": lambda: jax.vmap(choose)(np.float32([1, -1])),
        "grad of cond": lambda: jax.grad(lambda x: lax.cond(x > 0, f, lambda x: x, x))(1.0),
        "pmap": lambda: jax.pmap(f)(np.arange(2.0, dtype=np.float32)),
        "ordered": in_jit(ordered, 1.0),
        "ordered, eager": lambda: ordered(1.0),
        "disable_jit": without_jit,
        "no places": lambda: say("abc"),
        "repr and text": lambda: say("{!r} {} {:>4}", jnp.arange(2), "text", "ab"),
        "attributes": lambda: say("{0.shape} {x[a]} {0[1]}", jnp.arange(2), x=tree),
        "tree": lambda: say("{x}", x=tree),
        "tree in jit": in_jit(lambda v: say("{x}", x={**tree, "a": v}), ones),
        "numbers": lambda: say("{} {} {} {} {:03d}", 1, 2.5, True, 1j, 7),
        "numbers in jit": in_jit(lambda: say("{} {} {} {} {}", 1, 2.5, True, 1j, np.float32(0.1))),
        "bfloat16": in_jit(lambda: say("{}", jnp.ones(2, jnp.bfloat16))),
        "shardings": shardings,
        "text of programs": text_of(lambda x: (jax.pure_callback(np.sin, x, x, vmap_method="expand_dims"),
                                               io_callback(np.sin, x, x, ordered=True)), ones),
    }


def rare(jax):
    """{name: function that prints}"""
    jnp, lax = jax.numpy, jax.lax
    say = jax.debug.print
    two = np.arange(2, dtype=np.float32)

    def f(x):
        say("x {}", x)
        return jnp.sin(x) * x

    @jax.custom_jvp
    def forward(x):
        say("value {}", x)
        return jnp.sin(x)

    @forward.defjvp
    def _(primals, tangents):
        say("rule {}", primals[0])
        say("tangent {}", tangents[0])
        return forward(primals[0]), jnp.cos(primals[0]) * tangents[0]

    @jax.custom_vjp
    def backward(x):
        say("value {}", x)
        return jnp.sin(x)

    def bwd(x, ct):
        say("bwd {} {}", x, ct)
        return (jnp.cos(x) * ct,)

    backward.defvjp(lambda x: (say("fwd {}", x), (jnp.sin(x), x))[1], bwd)

    def step(g):
        return lambda x: lax.scan(lambda c, _: (g(c), None), x, length=2)[0]

    def count(x):
        return lax.while_loop(lambda x: (say("test {}", x), x < 2)[1], lambda x: x + 1, x)

    def newton(a):
        def solve(g, x):
            return lax.fori_loop(0, 3, lambda i, x: (say("newton {:.3f}", x), x - g(x) / (2 * x))[1], x)
        return lax.custom_root(lambda x: x * x - a, 1.0, solve, lambda g, y: y / g(1.0))

    def over_mesh(x):
        module = importlib.import_module(f"{jax.__name__}.sharding")
        mesh, spec = module.Mesh(np.array(jax.devices()[:2]), ("d",)), module.PartitionSpec
        return jax.shard_map(lambda x: lax.psum(f(x).sum(), "d"), mesh=mesh, in_specs=spec("d"), out_specs=spec())(x)

    def rows(x):
        return jnp.apply_along_axis(lambda row: (say("row {}", row), row.sum())[1], 1, x)

    remat, grad, jit, vmap = jax.checkpoint, jax.grad, jax.jit, jax.vmap
    return {
        "custom_jvp": lambda: grad(forward)(1.0), "custom_jvp, jvp": lambda: jax.jvp(forward, (1.0,), (2.0,)),
        "custom_jvp, jit": lambda: jit(grad(forward))(1.0),
        "custom_jvp, jit of jvp": lambda: jit(lambda x: jax.jvp(forward, (x,), (2.0,)))(1.0),
        "custom_vjp": lambda: backward(1.0), "custom_vjp, grad": lambda: grad(backward)(1.0),
        "custom_vjp, jit": lambda: jit(grad(backward))(1.0),
        "custom_vjp, scan": lambda: grad(step(backward))(1.0),
        "custom_vjp, checkpoint": lambda: grad(remat(lambda x: backward(x) * 2))(1.0),
        "jacfwd": lambda: jax.jacfwd(f)(two), "jacrev": lambda: jax.jacrev(f)(two),
        "hessian": lambda: jax.hessian(f)(1.0), "grad of grad": lambda: grad(grad(f))(1.0),
        "grad of grad of checkpoint": lambda: jit(grad(grad(remat(f))))(1.0),
        "vmap of grad": lambda: vmap(grad(f))(two), "grad of vmap": lambda: grad(lambda x: vmap(f)(x).sum())(two),
        "checkpoint of scan": lambda: jit(grad(remat(step(f))))(1.0),
        "scan of checkpoint": lambda: jit(grad(step(remat(f))))(1.0),
        "vmap of ordered scan": lambda: jit(vmap(step(lambda c: (say("{}", c, ordered=True), c + 1)[1])))(two),
        "vmap of cond": lambda: vmap(lambda x: lax.cond(True, lambda: f(x), lambda: x))(two),
        "map": lambda: lax.map(f, two), "map in batches": lambda: lax.map(f, np.arange(3.0), batch_size=2),
        "associative_scan": lambda: lax.associative_scan(lambda a, b: (say("{} {}", a, b), a + b)[1], np.arange(3)),
        "vectorize": lambda: jnp.vectorize(f)(two), "apply_along_axis": lambda: rows(np.ones((2, 2), np.float32)),
        "custom_root": lambda: grad(newton)(4.0), "compiled": lambda: jit(f).lower(1.0).compile()(2.0),
        "donated": lambda: jit(lambda x: f(x) + 1, donate_argnums=0)(jnp.ones(3)),
        "shard_map": lambda: over_mesh(two), "grad of shard_map": lambda: jit(grad(over_mesh))(two),
        "pmap of grad": lambda: jax.pmap(grad(f))(two), "pmap of vmap": lambda: jax.pmap(vmap(f))(two.reshape(2, 1)),
        "condition": lambda: count(0), "vmap of condition": lambda: vmap(count)(np.arange(2)),
        "switch": lambda: jit(lambda i: lax.switch(i, [lambda: say("a"), lambda: say("b"), lambda: say("c")]))(1),
        "one branch, ordered": lambda: jit(lambda i: lax.cond(i > 0, lambda: say("a", ordered=True), lambda: None))(1),
        "device": lambda: print(jit(lambda x: jax.pure_callback(lambda v: v, x, x))(
            jax.device_put(1.0, jax.devices()[1])).devices()),
    }


def main(library, chosen):
    jax = importlib.import_module(library)
    importlib.import_module(f"{library}.numpy")
    for name, run in {"common": common, "rare": rare}[chosen](jax).items():
        print(f"== {name}")
        run()
        jax.effects_barrier()
    print("\n== at exit")
    pending = jax.jit(lambda m: m @ m @ m)(np.eye(500, dtype=np.float32))
    jax.jit(lambda m: jax.debug.print("exit {}", m[0, 0] * 7))(pending)


if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main(*sys.argv[1:])
