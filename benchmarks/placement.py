"""Cost of arrays sharded over four CPU devices: `device_put`, and calls that must not move them. Arrays have 4 KB
unless the name of the case says otherwise."""

import importlib
import os

import numpy as np
from pairs import best, load, main, shortest, wanted

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"        # read when the backend starts


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    sharding = importlib.import_module(f"{library}.sharding")
    mesh, other = (sharding.Mesh(np.array(jax.devices()), (name,)) for name in ("x", "other"))
    rows, whole = (sharding.NamedSharding(mesh, sharding.PartitionSpec(*spec)) for spec in (("x",), ()))
    elsewhere = sharding.NamedSharding(other, sharding.PartitionSpec("other"))
    ready = jax.block_until_ready

    add = jax.pmap(lambda x: x + 1, axis_name="a")
    double = jax.pmap(lambda x: x * 2, axis_name="b")
    give = jax.pmap(lambda x: x * 2, axis_name="b", donate_argnums=0)
    plus, two = jax.jit(lambda x: x + 1), jax.jit(lambda x, y: x + y)
    small, large = np.ones((4, 256), np.float32), np.ones((4, 1 << 20), np.float32)        # 4 MB a row
    many = [np.full((4, 256), i, np.float32) for i in range(100)]
    x, y, at_home = jax.device_put(small, rows), jax.device_put(small, elsewhere), jnp.asarray(small)
    large_x, large_y, large_of_pmap = jax.device_put(large, rows), jax.device_put(large, elsewhere), add(large)
    many_x = jax.device_put(many, rows)

    def donated():
        return give(add(large_x))

    calls = {
        "100 device_puts of NumPy arrays, sharded": (lambda: ready([jax.device_put(v, rows) for v in many]), 5),
        "100 device_puts, replicated": (lambda: ready([jax.device_put(v, whole) for v in many]), 5),
        "device_put of a list of 100, sharded": (lambda: ready(jax.device_put(many, rows)), 5),
        "device_put of an array of one device": (lambda: ready(jax.device_put(at_home, rows)), 100),
        "device_put from sharded to replicated": (lambda: ready(jax.device_put(x, whole)), 100),
        "100 device_puts to their own sharding": (lambda: [jax.device_put(v, rows) for v in many_x], 20),
        "100 device_puts to an equal sharding": (lambda: [jax.device_put(v, elsewhere) for v in many_x], 20),
        "pmap, NumPy array": (lambda: ready(double(small)), 200),
        "pmap, array of an equal sharding": (lambda: ready(double(x)), 200),
        "jit, arrays over one mesh": (lambda: ready(two(x, x)), 200),
        "jit, arrays over equal meshes": (lambda: ready(two(x, y)), 200),
        "eager, arrays over equal meshes": (lambda: ready(x + y), 200),
    }
    long_calls = {
        "pmap, 4 MB a row of NumPy": lambda: ready(double(large)),
        "pmap, 4 MB a row of another pmap": lambda: ready(double(large_of_pmap)),
        "pmap, 4 MB a row of an equal sharding": lambda: ready(double(large_y)),
        "pmap, 4 MB a row of another pmap, donated": lambda: ready(donated()),
        "jit, 4 MB a row of a pmap": lambda: ready(plus(large_of_pmap)),
        "jit, 4 MB a row over equal meshes": lambda: ready(two(large_x, large_y)),
    }
    times = {}
    for name, (f, count) in calls.items():
        if wanted(name):
            f()
            times[name] = best(f, count)
    return times | {name: shortest(f) for name, f in long_calls.items() if wanted(name)}


if __name__ == "__main__":
    main(work, limit={"100 device_puts of NumPy arrays, sharded": 1.2, "100 device_puts, replicated": 1.2,
                      "pmap, NumPy array": 1.1, "pmap, 4 MB a row of NumPy": 1.1,
                      "pmap, 4 MB a row of another pmap": 1.1, "pmap, 4 MB a row of an equal sharding": 1.1})
