"""`shard_map` with its older arguments, for programs written before `jax.shard_map` existed."""

from __future__ import annotations

from collections.abc import Callable

from xjax.core.public import attributes_of
from xjax.runtime import shard_map as current
from xjax.runtime.placement.mesh import Mesh
from xjax.typing import PyTree

__all__ = ["shard_map"]

__getattr__ = attributes_of(__name__)


def shard_map(f: Callable, mesh: Mesh, in_specs: PyTree, out_specs: PyTree, check_rep: bool = True) -> Callable:
    """`xjax.shard_map` over all axes of `mesh`.

    >>> from xjax.sharding import Mesh, PartitionSpec as P
    >>> mesh = Mesh(xjax.devices()[:1], "x")
    >>> shard_map(lambda x: x * 2, mesh, in_specs=P("x"), out_specs=P("x"))(xjax.numpy.ones(2))
    Array([2., 2.], dtype=float32)
    """
    return current.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)
