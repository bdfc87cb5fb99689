"""The module of an exported function: StableHLO text, with the calling convention of `jax.export`.

The arguments of `@main` are, in this order: the position of the platform among those that the module is for, if there
are several; the arrays. The sizes of symbolic dimensions are computed from the shapes of arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Module, Value
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.lowering import count_programs, function_text, lower_closed, symbol_name
from xjax.core.types import ShapedArray
from xjax.transforms.physical import physical_program

_I32 = ShapedArray((), np.int32)


def module_text(caller: str, closed: ClosedJaxpr, name: str, platforms: Sequence[str], uses_sizes: bool = False) -> str:
    """The module of a program for these platforms of xjax ("cpu", "gpu"); its constants are part of it.

    Raises: NotImplementedError for a program that a file cannot hold.
    """
    closed = physical_program(closed)
    if "ordered" in closed.effects:
        raise bad(caller, "the program has ordered effects, which depend on this process", None,
                  "leave out io_callback and debug.print with ordered=True.", NotImplementedError)
    module = Module(platforms[0])
    module.uses = count_programs(closed.jaxpr)
    if len(platforms) == 1:
        _write_program(module, closed, "public @main")
    else:
        _write_choice(module, closed, platforms)
    _refuse(caller, module)
    several = str(len(platforms) > 1 or uses_sizes).lower()
    attributes = f"jax.uses_shape_polymorphism = {several}, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32"
    return f"module @{symbol_name(f'jit_{name}')} attributes {{{attributes}}} {{\n{module.text()}\n}}\n"


def _write_program(module: Module, closed: ClosedJaxpr, head: str) -> None:
    b = Builder(module)
    params = [Value(f"%{module.number()}", aval) for aval in closed.in_avals]
    module.functions.append(function_text(head, params, lower_closed(b, closed, params), b.lines))


def _write_choice(module: Module, closed: ClosedJaxpr, platforms: Sequence[str]) -> None:
    """One function for each platform, and `@main`, which calls the one whose position is its first argument."""
    for platform in platforms:
        module.platform, module.subprograms = platform, {}
        _write_program(module, closed, f"private @on_{platform}")
    b = Builder(module)
    index, *params = [Value(f"%{module.number()}", aval) for aval in (_I32, *closed.in_avals)]
    operands, ins = ", ".join(p.name for p in params), ", ".join(p.type for p in params)
    outs = ", ".join(Value("", a).type for a in closed.out_avals)

    def branch(platform: str):
        return lambda inner: inner.ops(f"func.call @on_{platform}({operands}) : ({ins}) -> ({outs})", closed.out_avals)

    results = b.case(index, [branch(platform) for platform in platforms], closed.out_avals)
    attributes = [' {jax.global_constant = "_platform_index"}', *[""] * len(params)]
    module.functions.append(function_text("public @main", [index, *params], results, b.lines, attributes))


def _refuse(caller: str, module: Module) -> None:
    """Raise an error for what a module of one process needs and a file cannot hold."""
    if module.callbacks:
        raise bad(caller, "the program calls Python functions, which a file cannot hold", None,
                  "leave out callbacks and debug.print.", NotImplementedError)
    if module.meshes:
        raise bad(caller, "the program is for several devices", None,
                  "export the function of one device, and call it inside shard_map or jit.", NotImplementedError)
    if module.uses_other_memory:
        raise bad(caller, "the program places arrays in another kind of memory", None,
                  "leave out device_put to memory kinds.", NotImplementedError)
