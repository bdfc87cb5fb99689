"""The module of an exported function: StableHLO text, with the calling convention of `jax.export`.

The arguments of `@main` are, in this order: the position of the platform in the list of platforms, if there are
several; the arrays. The sizes of symbolic dimensions are computed from the shapes of arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Module, Value
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.lowering import count_programs, function_text, lower_closed, symbol_name, write_call
from xjax.core.symbolic.dims import is_symbolic_dim, variables_of
from xjax.core.symbolic.scope import SymbolicScope
from xjax.core.symbolic.solve import solve
from xjax.export.dynamic import ANY_PLATFORM, I32, DynamicBuilder
from xjax.transforms.physical import physical_program

_PLATFORM_INDEX = ' {jax.global_constant = "_platform_index"}'        # an attribute of the argument


def module_text(caller: str, closed: ClosedJaxpr, name: str, platforms: Sequence[str]) -> str:
    """The module of a program for these platforms of xjax ("cpu", "gpu"); its constants are part of it.

    Raises: NotImplementedError for a program that a file cannot hold.
    """
    dims = [n for a in closed.in_avals for n in a.shape if is_symbolic_dim(n)]
    closed = physical_program(closed)
    if "ordered" in closed.effects:
        raise bad(caller, "the program has ordered effects, which depend on this process", None,
                  "leave out io_callback and debug.print with ordered=True.", NotImplementedError)
    if dims:
        module = Module(ANY_PLATFORM, target=platforms[0] if len(platforms) == 1 else None)
        _write_dynamic(caller, module, closed, dims[0].scope, len(platforms) > 1)
        _refuse(caller, module)
        return _with_head(module, name, dynamic=True)
    module = Module(platforms[0])
    module.uses = count_programs(closed.jaxpr)
    if len(platforms) == 1:
        _write_program(module, closed, "public @main")
    else:
        _write_choice(module, closed, platforms)
    _refuse(caller, module)
    return _with_head(module, name, dynamic=len(platforms) > 1)


def _with_head(module: Module, name: str, dynamic: bool) -> str:
    several = str(dynamic).lower()
    attributes = f"jax.uses_shape_polymorphism = {several}, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32"
    return f"module @{symbol_name(f'jit_{name}')} attributes {{{attributes}}} {{\n{module.text()}\n}}\n"


def _write_program(module: Module, closed: ClosedJaxpr, head: str) -> None:
    b = Builder(module)
    params = [Value(f"%{module.number()}", aval) for aval in closed.in_avals]
    module.functions.append(function_text(head, params, lower_closed(b, closed, params), b.lines))


def _write_choice(module: Module, closed: ClosedJaxpr, platforms: Sequence[str]) -> None:
    """One function for each platform, and `@main`, which calls the one whose position is its first argument."""
    for platform in platforms:
        module.platform, module.target, module.subprograms = platform, platform, {}
        _write_program(module, closed, f"private @on_{platform}")
    b = Builder(module)
    index, *params = [Value(f"%{module.number()}", aval) for aval in (I32, *closed.in_avals)]

    def branch(platform: str):
        return lambda inner: write_call(inner, f"@on_{platform}", params, closed.out_avals)

    results = b.case(index, [branch(platform) for platform in platforms], closed.out_avals)
    attributes = [_PLATFORM_INDEX, *[""] * len(params)]
    module.functions.append(function_text("public @main", [index, *params], results, b.lines, attributes))


def _write_dynamic(caller: str, module: Module, closed: ClosedJaxpr, scope: SymbolicScope, has_index: bool) -> None:
    """`@main` of a program with symbolic dimensions: their values, checks of them, and the operations."""
    shapes = [a.shape for a in closed.in_avals]
    try:
        solutions = solve(shapes)
    except ValueError as error:
        raise bad(caller, "the values of dimension variables do not follow from the shapes of arguments",
                  {"variables": str(error)}, "use each variable alone, or times an integer, as the size of an axis.",
                  ValueError) from None
    params = [Value(f"%{module.number()}", aval) for aval in closed.in_avals]
    sizes: dict[str, Value] = {}
    b = DynamicBuilder(module, sizes, scope)

    def size_of(argument: int, axis: int) -> Value:
        x = params[argument]
        return b.op(f"stablehlo.get_dimension_size {x}, dim = {axis} : ({x.type}) -> tensor<i32>", I32)

    for s in solutions:
        difference = b.sub(size_of(s.argument, s.axis), b.size(s.rest))
        sizes[s.name] = difference if s.factor == 1 else b.div(difference, s.factor)
    one = b.constant(1, I32)
    for name, value in sizes.items():
        b.check(b.compare("GE", value, one, "SIGNED"), f"the dimension {name} is at least 1, but it is {{0}}", [value])
    for i, shape in enumerate(shapes):
        for axis, n in enumerate(shape):
            if is_symbolic_dim(n):
                given, wanted = size_of(i, axis), b.size(n)
                b.check(b.compare("EQ", given, wanted, "SIGNED"),
                        f"argument {i} has the size {{0}} along axis {axis}, but {n} is {{1}}", [given, wanted])
    for text, sign, difference in scope.constraints:
        if variables_of(difference) <= set(sizes):
            value = b.size(difference)
            b.check(b.compare("EQ" if sign == "==" else "GE", value, b.constant(0, I32), "SIGNED"),
                    f"the constraint {text} does not hold", [])
    results = lower_closed(b, closed, params)
    index = [Value(f"%{module.number()}", I32)] if has_index else []
    attributes = [*[_PLATFORM_INDEX for _ in index], *[""] * len(params)]
    module.functions.append(function_text("public @main", [*index, *params], results, b.lines, attributes))


def _refuse(caller: str, module: Module) -> None:
    """Raise an error for functions, meshes and memories, which a file cannot hold."""
    if module.callbacks:
        raise bad(caller, "the program calls Python functions, which a file cannot hold", None,
                  "leave out callbacks and debug.print.", NotImplementedError)
    if module.meshes:
        raise bad(caller, "the program is for several devices", None,
                  "export the function of one device, and call it inside shard_map or jit.", NotImplementedError)
    if module.uses_other_memory:
        raise bad(caller, "the program places arrays in another kind of memory", None,
                  "leave out device_put to memory kinds.", NotImplementedError)
