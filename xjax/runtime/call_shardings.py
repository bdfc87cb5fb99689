"""`in_shardings` and `out_shardings` of `jit`: how the arguments and results of a call are sharded over devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core.calls import leaf_of_arguments
from xjax.core.errors import bad
from xjax.core.tree import flatten_axes, skeleton
from xjax.core.types import typeof
from xjax.runtime.arrays.array import Array, put
from xjax.runtime.placement.current_mesh import current_mesh, devices_for
from xjax.runtime.placement.layout import Format
from xjax.runtime.placement.partition_spec import UNCONSTRAINED
from xjax.runtime.placement.places import Place, check_same_layout
from xjax.runtime.placement.sharding import NamedSharding, Sharding
from xjax.runtime.sharding_constraint import as_sharding, constrain, constrain_tree
from xjax.typing import ArrayLike, PyTree


class CallShardings:
    """The `in_shardings` and `out_shardings` of a `jit`; None leaves the choice to XLA.

    Both are tree prefixes: of the positional arguments, and of the result.
    """

    __slots__ = ("_caller", "_ins", "_outs", "_of_arguments", "_formats")

    def __init__(self, caller: str, ins: PyTree, outs: PyTree):
        self._caller, self._outs = caller, outs
        self._ins = tuple(ins) if isinstance(ins, list) else ins        # a list is accepted for the tuple of arguments
        self._of_arguments: dict[tuple, list[Sharding | None]] = {}
        self._formats: dict[PyTree, list[tuple[int, Format]]] = {}      # leaves with a Format, where there are any

    def of_arguments(self, tree: PyTree) -> list[Sharding | None]:
        """The sharding of each leaf of (args, kwargs); None leaves the choice to XLA."""
        key = tree, current_mesh()
        shardings = self._of_arguments.get(key)
        if shardings is None:
            shardings = self._of_arguments[key] = self._resolve_arguments(tree)
        return shardings

    def _resolve_arguments(self, tree: PyTree) -> list[Sharding | None]:
        if self._ins is None:
            return [None] * tree.num_leaves
        _, kwargs = skeleton(tree)
        if kwargs:
            raise bad(self._caller, "in_shardings apply only to positional arguments",
                      {"by keyword": ", ".join(kwargs)},
                      "pass these by position, or place them with xjax.device_put.", exc=ValueError)
        caller = f"{self._caller}: in_shardings"
        given = flatten_axes(caller, tree, (self._ins, {}))
        if formats := [(i, s) for i, s in enumerate(given) if isinstance(s, Format)]:
            self._formats[tree] = formats
        return [as_sharding(caller, s) for s in given]

    def _check_formats(self, leaves: Sequence[Any], tree: PyTree) -> None:
        for i, wanted in self._formats.get(tree, ()):
            wanted.sharding_for(f"{self._caller}: in_shardings of argument {leaf_of_arguments(tree, i)}",
                                typeof(leaves[i]))

    def put_arguments(self, arrays: Sequence[Array], tree: PyTree, given: Sequence[Any]) -> list[Array]:
        """The arguments of a call, moved to their `in_shardings`; `given` are the values that the user passed.

        Raises: ValueError for an argument that is committed to another sharding or cannot be split evenly, and for a
          host value whose sharding would give different parts of it to different processes.
        """
        wanted = self.of_arguments(tree)
        if self._formats:
            self._check_formats(arrays, tree)
        if all([s is None or x._place is s for x, s in zip(arrays, wanted, strict=True)]):
            return list(arrays)
        self.check_arguments(given, tree)
        shardings = [x.sharding for x in arrays]
        placed = [s and on_devices(self._caller, s, shardings) for s in wanted]
        for i, (x, s) in enumerate(zip(given, placed, strict=True)):
            if type(x) is not Array and s is not None:
                self._check_host_value(f"argument {leaf_of_arguments(tree, i)}", x, s)
        return [x if s is None else put(x, s) for x, s in zip(arrays, placed, strict=True)]

    def _check_host_value(self, name: str, x: ArrayLike, sharding: Sharding) -> None:
        if not (sharding.is_fully_addressable or sharding.is_fully_replicated):
            raise bad(self._caller, "a host value cannot be sharded over processes, since each may have another value",
                      {name: typeof(x).str_short(), "sharding": repr(sharding)},
                      "pass xjax.make_array_from_process_local_data(sharding, rows of this process).", exc=ValueError)

    def check_arguments(self, leaves: Sequence[Any], tree: PyTree) -> None:
        """Raise ValueError for an argument that cannot have its sharding; see `put_arguments`."""
        wanted = self.of_arguments(tree)
        self._check_formats(leaves, tree)
        for i, (x, sharding) in enumerate(zip(leaves, wanted, strict=True)):
            if sharding is None:
                continue
            name = f"argument {leaf_of_arguments(tree, i)}"
            if type(x) is Array:
                check_same_layout(self._caller, name, x, sharding)
            sharding.check_even(np.shape(x), f"{self._caller}: in_shardings", name)

    def constrain_arguments(self, leaves: Sequence[Any], tree: PyTree) -> list[Any]:
        """`put_arguments` inside a transform, where the arguments are tracers: they are constrained."""
        caller = f"{self._caller}: in_shardings"
        wanted = self.of_arguments(tree)
        self._check_formats(leaves, tree)
        return [constrain(caller, x, s, even=True) for x, s in zip(leaves, wanted, strict=True)]

    def constraining_results(self, fun: Callable) -> Callable:
        """The function to trace: `fun` with its results constrained."""
        if self._outs is None:
            return fun
        caller = f"{self._caller}: out_shardings"

        def constrained(*args: object, **kwargs: object) -> PyTree:
            return constrain_tree(caller, fun(*args, **kwargs), self._outs, even=True)

        return constrained

    def of_results(self, tree: PyTree) -> tuple[Sharding | None, ...]:
        """The sharding of each leaf of the result; None if it leaves any dimension to the compiler."""
        caller = f"{self._caller}: out_shardings"
        shardings = [as_sharding(caller, s) for s in flatten_axes(caller, tree, self._outs)]
        return tuple([None if isinstance(s, NamedSharding) and UNCONSTRAINED in s.spec else s for s in shardings])


def on_devices(caller: str, place: Place, given: Sequence[Sharding]) -> Place:
    """The placement itself; over an abstract mesh, its equivalent over devices. `given`: shardings of all arguments.

    Raises: as `devices_for`.
    """
    if not isinstance(place, NamedSharding):
        return place
    mesh = devices_for(caller, place.mesh, given)
    return place if mesh is place.mesh else place.update(mesh=mesh)
