"""Expressions over arrays in many places, evaluated by xjax and by real JAX: values, `committed`, shardings and errors.

The names of the arrays, of four numbers each:

u, u1: uncommitted, on device 0 and (made under `default_device`) on device 1.
c0, c1: put on device 0 and on device 1.
s: split over the first axis of a mesh of four devices, whose axes are x and y.
s2, s3: split over a mesh of devices 0 and 1, of devices 2 and 3.
sr: as s, over a mesh whose devices are in reverse order.
one: over a mesh of device 0 alone, as a whole.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import xjax
from tests.oracle import real_jax


def names_of(jax: Any) -> dict[str, Any]:
    """The names that the expressions may use."""
    jnp, P, Named = jax.numpy, jax.sharding.PartitionSpec, jax.sharding.NamedSharding
    d = jax.devices()[:4]

    def mesh(devices, shape, axes):
        return jax.sharding.Mesh(np.array(devices).reshape(shape), axes)

    def on(*parts, mesh):
        return Named(mesh, P(*parts))

    def under(device, make):
        with jax.default_device(device):
            return make()

    x = np.arange(4, dtype=np.float32) + 1
    M, M2, M3 = mesh(d, (2, 2), ("x", "y")), mesh(d[:2], (2,), ("x",)), mesh(d[2:], (2,), ("x",))
    Mr, L = mesh(d[::-1], (2, 2), ("x", "y")), mesh(d, (4,), ("x",))
    put = jax.device_put
    arrays = {"u": jnp.asarray(x), "u1": under(d[1], lambda: jnp.asarray(x)), "c0": put(x, d[0]), "c1": put(x, d[1]),
              "s": put(x, on("x", mesh=M)), "s2": put(x, on("x", mesh=M2)), "s3": put(x, on("x", mesh=M3)),
              "sr": put(x, on("x", mesh=Mr)), "one": put(x, on(mesh=mesh(d[:1], (1,), ("x",))))}
    return {"jax": jax, "jnp": jnp, "lax": jax.lax, "np": np, "P": P, "Named": Named, "d": d, "on": on, "under": under,
            "x": x, "put": put, "M": M, "M2": M2, "M3": M3, "Mr": Mr, "L": L, **arrays}


NAMES = lru_cache(maxsize=2)(names_of)


def outcome(jax: Any, row: str) -> Any:
    """For each result its value, whether it is committed, its devices and spec; or the class of the error."""
    try:
        out = eval(row, dict(NAMES(jax)))
    except Exception as error:
        if type(error).__name__ == "DeviceAssignmentMismatchError":  # derivatives in JAX 0.12 raise its internal error
            return ValueError
        return next(kind for kind in (ValueError, BufferError, TypeError, type(error)) if isinstance(error, kind))
    return [(np.asarray(leaf).tolist(), leaf.committed, [q.id for q in _devices(leaf.sharding)], _spec(leaf.sharding))
            for leaf in jax.tree.leaves(out)]


def _devices(sharding: Any) -> tuple:
    return sharding.devices if hasattr(sharding, "devices") else sharding._device_assignment


def _spec(sharding: Any) -> tuple:
    """The spec with pmap's name for its axis, and without trailing whole dimensions."""
    of_pmap = "<axis>", "_internal_pmap_axis_name"
    parts = ["pmap" if p in of_pmap else p for p in getattr(sharding, "spec", ())]
    while parts and parts[-1] is None:
        del parts[-1]
    return tuple(parts)


def assert_as_in_jax(row: str) -> None:
    """Assert that both libraries have the same outcome."""
    # JAX first: imported after xjax has read a sharded array, its shards lack a type (jaxlib looks for JAX once).
    theirs, ours = outcome(real_jax(), row), outcome(xjax, row)
    assert ours == theirs, f"{row}: {ours}; JAX has {theirs}"
