"""Whole modules: the StableHLO text of a program or of one operation, with donation and sharding attributes.

Programs to be lowered capture no arrays: tracing has made their constants leading arguments. A literal in the text
would be parsed, hashed and copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xjax.core.hlo import Argument, Builder, Module, Stored
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.lowering import count_programs, function_text, lower_closed, symbol_name
from xjax.core.memory_kinds import annotated
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.programs import events
from xjax.runtime.xla import Device
from xjax.transforms.physical import physical_program


class ModuleText(NamedTuple):
    """A module, the host functions that it calls by position, and the memory kinds of its results.

    Attributes: memories: None for the default kind; empty if all results are in the default memory.
    """

    text: str
    callbacks: tuple[Callable, ...] = ()
    memories: tuple[str | None, ...] = ()


class Shardings:
    """`sdy` text of each argument and of each result (None: XLA chooses it); all over one mesh."""

    __slots__ = ("mesh", "ins", "outs")

    def __init__(self, mesh: Mesh, ins: Sequence[str], outs: Sequence[str | None]):
        self.mesh, self.ins, self.outs = mesh, ins, outs


def lower_program(closed: ClosedJaxpr, name: str = "main", *, shardings: Shardings | None = None,
                  donated: Sequence[bool] = (), memories: Sequence[str | None] = (),
                  platform: str = "cpu", devices: Sequence[Device] = ()) -> ModuleText:
    """The module of a program; profilers show `name`.

    Args:
      shardings: how arguments and results are sharded over a mesh; None for one device.
      donated: for each argument, whether its memory may be reused for a result.
      memories: for each result, its memory kind, or None: the memory in which the program stored it, else the
        default. Empty: None for all.
      platform: of the devices on which it will run; a few operations are lowered differently for "cpu".
      devices: the one device on which it will run, if it is known.
    """
    with events.span(events.LOWER, fun_name=f"jit({name})"):
        return _lower_program(closed, name, shardings, donated, memories, platform, devices)


def _lower_program(closed: ClosedJaxpr, name: str, shardings: Shardings | None, donated: Sequence[bool],
                   memories: Sequence[str | None], platform: str, devices: Sequence[Device]) -> ModuleText:
    closed = physical_program(closed)
    module = Module(platform, partitioned=shardings is not None)
    module.uses, module.devices = count_programs(closed.jaxpr), devices
    if shardings is not None:
        module.mesh(shardings.mesh)                 # the first one: the texts of `shardings` name it
    b = Builder(module)
    if "ordered" in closed.jaxpr.effects:
        b.token = b.constant(0, ShapedArray((), np.int32))
    params = [Argument(f"%{module.number()}", aval) for aval in closed.in_avals]
    results = lower_closed(b, closed, params)
    memories = memories or [None] * len(results)
    results = [r if kind is None else annotated(b, r, kind) for r, kind in zip(results, memories, strict=True)]
    memories = [r.memory if type(r) is Stored else kind for r, kind in zip(results, memories, strict=True)]
    arg_attributes, result_attributes = _attributes(module, params, results, shardings, donated, memories)
    module.functions.append(function_text("public @main", params, results, b.lines, arg_attributes, result_attributes))
    return ModuleText(f"module @{symbol_name(name)} {{\n{module.text()}\n}}\n", tuple(module.callbacks),
                      tuple(memories) if any(memories) else ())


def _attributes(module, params, results, shardings, donated, memories):
    """Attribute texts of main's arguments and results."""
    args = [[] for _ in params]
    outs = [[] if kind is None else [f'mhlo.memory_kind = "{kind}"'] for kind in memories]
    if shardings is not None:
        for attrs, text in zip((*args, *outs), (*shardings.ins, *shardings.outs), strict=True):
            if text:
                attrs.append(f"sdy.sharding = {text}")
    for i, attribute in _donations(params, results, donated, memories, sharded=shardings is not None):
        args[i].append(attribute)
    return [[f" {{{', '.join(attrs)}}}" if attrs else "" for attrs in each] for each in (args, outs)]


def _donations(params, results, donated, memories, sharded):
    """Pair each donated argument with a result of its type; an argument without a partner is only freed early."""
    partners_by_type: dict[str, list[int]] = {}
    for k, (r, kind) in enumerate(zip(results, memories, strict=True)):
        if kind is None:
            partners_by_type.setdefault(r.type, []).append(k)
    for i, (p, give) in enumerate(zip(params, donated, strict=False)):
        if not give:
            continue
        partners = partners_by_type.get(p.type, [])
        if partners and not sharded:
            yield i, f"tf.aliasing_output = {partners.pop(0)} : i32"
        else:
            yield i, "jax.buffer_donor = true"


def lower_primitive(p: Primitive, avals: Sequence[ShapedArray], params: dict,
                    platform: str = "cpu") -> tuple[ModuleText, tuple[ShapedArray, ...]]:
    """The module of one operation, and its result types."""
    with events.span(events.LOWER, fun_name=f"jit({p.name})"):
        return _lower_primitive(p, avals, params, platform)


def _lower_primitive(p: Primitive, avals: Sequence[ShapedArray], params: dict,
                     platform: str) -> tuple[ModuleText, tuple[ShapedArray, ...]]:
    out = p.out_type(tuple(avals), params)
    module = Module(platform)
    b = Builder(module)
    args = [Argument(f"%{module.number()}", aval) for aval in avals]
    if p.multiple_results:
        outs = tuple(out)
        results = p.lower(b, list(outs), *args, **params)
    else:
        outs = (out,)
        results = [p.lower(b, out, *args, **params)]
    memories = [r.memory if type(r) is Stored else None for r in results]
    attributes = _attributes(module, args, results, None, (), memories)
    module.functions.append(function_text("public @main", args, results, b.lines, *attributes))
    return ModuleText(f"module @{symbol_name(p.name)} {{\n{module.text()}\n}}\n", tuple(module.callbacks),
                      tuple(memories) if any(memories) else ()), outs
