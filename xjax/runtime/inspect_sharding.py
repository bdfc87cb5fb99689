"""`inspect_array_sharding`: the sharding that the compiler chooses for a value of a program."""

from __future__ import annotations

from collections.abc import Callable

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import Effects, Primitive
from xjax.core.tree import tree_leaves
from xjax.runtime import xla
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.places import on
from xjax.runtime.placement.sharding import GSPMDSharding, Sharding, named_from_hlo
from xjax.typing import PyTree


def inspect_array_sharding(value: PyTree, *, callback: Callable[[Sharding], None]) -> None:
    """Call ``callback(sharding)`` for each array of a tree, also for values inside a program.

    Eagerly it is called at once. In a program it is called when the program is compiled, so not for a later call that
    uses the compiled program, and not for a program that is loaded from disk.

    Raises: TypeError if `callback` cannot be called.

    >>> f = xjax.jit(lambda x: inspect_array_sharding(x * 2, callback=lambda s: print(type(s).__name__)))
    >>> f(1.0)
    SingleDeviceSharding
    """
    if not callable(callback):
        raise bad("debug.inspect_array_sharding", "callback must be a function", {"callback": repr(callback)},
                  "pass a function of a sharding, such as print.")
    for x in tree_leaves(value):
        inspect_sharding_p.bind(x, callback=_Inspector(callback))


class _Inspector:
    """The user's function, as the function that XLA calls while it compiles; the program keeps it alive."""

    __slots__ = ("function", "_asks")

    def __init__(self, function: Callable[[Sharding], None]):
        self.function = function
        self._asks: list[Callable] = []

    def for_mesh(self, mesh: Mesh, ndim: int) -> Callable[[xla.HloSharding], None]:
        """The function of XLA's sharding."""
        def ask(hlo: xla.HloSharding) -> None:
            self.function(named_from_hlo(hlo, mesh, ndim) or GSPMDSharding(tuple(mesh.devices_flat), hlo))

        self._asks.append(ask)
        return ask

    def __repr__(self) -> str:
        return repr(self.function)


def _type(x, *, callback):
    return ()


def _evaluate(x, *, callback):
    callback.function(to_array(x).sharding)
    return []


def _lower(b: Builder, outs: list, x: Value, *, callback: _Inspector) -> list[Value]:
    if b.module.partitioned and b.axes is None:
        mesh = next(iter(b.module.meshes))
        key = xla.inspection_key(callback.for_mesh(mesh, x.aval.ndim))
        text = "".join(f"\\{byte:02X}" for byte in key)
        b.generic("stablehlo.custom_call", [x], [x.aval],
                  f'call_target_name = "InspectSharding", has_side_effect = true, backend_config = "{text}"')
    elif b.module.devices:
        callback.function(on(b.module.devices[0]))
    return []


def _jvp(primals, tangents, *, callback):
    inspect_sharding_p.bind(primals[0], callback=callback)
    return [], []


def _batch(axis, args, bdims, *, callback):
    inspect_sharding_p.bind(args[0], callback=callback)
    return [], []


def _transpose(cts, x, *, callback):
    return [None]


def _effects(*, callback: _Inspector) -> Effects:
    return frozenset(("debug",))


inspect_sharding_p = Primitive("inspect_sharding", type_rule=_type, lower=_lower, jvp=_jvp, batch=_batch,
                               evaluate=_evaluate, effects=_effects, multiple_results=True,
                               transpose=_transpose)
