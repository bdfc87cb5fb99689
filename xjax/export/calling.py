"""`call_exported_p`: the call of an exported function, whose module becomes part of the calling program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xjax.core.calls import leaf_of_arguments
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from xjax.core.key_types import is_key, physical
from xjax.core.lowering import symbol_name
from xjax.core.primitive import Missing, Primitive
from xjax.core.symbolic.dims import Dim, evaluate_shape, is_static, is_symbolic_dim
from xjax.core.symbolic.solve import check, solve, values_of
from xjax.core.tree import flatten, tree_mismatch, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.export.checks import DisabledSafetyCheck
from xjax.export.dynamic import I32
from xjax.ops.keys import random_unwrap, random_wrap
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.programs.executable import program_executable
from xjax.runtime.xla import register_lapack
from xjax.runtime.xla.artifacts import Artifact
from xjax.transforms.custom_vjp import custom_vjp
from xjax.typing import ArrayLike, PyTree

if TYPE_CHECKING:
    from xjax.export.exported import Exported

# Names of platforms in files, by those of xjax.
NAME_IN_FILES = {"cpu": "cpu", "gpu": "cuda"}


def call(exported: Exported, args: tuple, kwargs: dict) -> PyTree:
    """The result of an exported function."""
    caller = f"call of exported `{exported.fun_name}`"
    leaves, tree = flatten((args, kwargs))
    if tree != exported.in_tree:
        raise bad(caller, "called with another structure of arguments than it was exported for",
                  tree_mismatch("arguments", exported.in_tree, tree), "pass the same structure.", ValueError)
    _check(caller, exported, [typeof(x) for x in leaves])
    return tree_unflatten(exported.out_tree, exported.flat_call(*leaves))


def flat_call(exported: Exported) -> Callable:
    """The function of the leaves of arguments, with its derivative if the file has one."""
    def on_keys(*args: ArrayLike) -> tuple:
        words = [random_unwrap(x) if is_key(a) else x for x, a in zip(args, exported.in_avals, strict=True)]
        outs = call_exported_p.bind(*words, exported=exported)
        return tuple([random_wrap(y, a.dtype.kind) if is_key(a) else y
                      for y, a in zip(outs, exported.out_avals, strict=True)])

    function = custom_vjp(on_keys)

    def backward(args: tuple, cotangents: tuple) -> tuple:
        return tuple(exported.vjp().flat_call(*args, *cotangents))

    function.defvjp(lambda *args: (function(*args), args), backward)
    return function


def _check(caller: str, exported: Exported, avals: Sequence[ShapedArray]) -> None:
    """Raise ValueError for an argument of another type than the function was exported for."""
    for i, (wanted, given) in enumerate(zip(exported.in_avals, avals, strict=True)):
        if wanted.dtype != given.dtype or not fits(wanted, given):
            raise bad(caller, f"{_argument(exported, i)} has another type than the function was exported for",
                      {"exported for": wanted.strong().str_short(), "given": given.str_short()},
                      "convert the argument, or export the function for this type.", ValueError)


def fits(wanted: ShapedArray, given: ShapedArray) -> bool:
    """Whether each size that is an int is the same."""
    return wanted.ndim == given.ndim and all(
        n == m for n, m in zip(wanted.shape, given.shape, strict=True) if type(n) is int)


def _argument(exported: Exported, i: int) -> str:
    return f"argument `{leaf_of_arguments(exported.in_tree, i)}`"


def _type(*avals: ShapedArray, exported: Exported) -> tuple[ShapedArray, ...]:
    outs = [physical(a) for a in exported.out_avals]
    dims = [n for a in exported.in_avals for n in a.shape if is_symbolic_dim(n)]
    if not dims:
        return tuple(outs)
    values = _dimension_values(exported, dims, avals)
    return tuple([a.update(shape=evaluate_shape(a.shape, values)) for a in outs])


def _dimension_values(exported: Exported, dims: Sequence[Dim], avals: Sequence[ShapedArray]) -> dict[str, Any]:
    """The values of dimension variables for these arguments.  Raises: ValueError if they do not fit."""
    caller = f"call of exported `{exported.fun_name}`"
    wanted, given = [a.shape for a in exported.in_avals], [a.shape for a in avals]
    try:
        values = values_of(solve(wanted), given)
        fault = check(dims, values)
    except ValueError as error:
        values, fault = {}, str(error)
    if not fault:
        i = next((i for i, (shape, own) in enumerate(zip(wanted, given, strict=True))
                  if evaluate_shape(shape, values) != tuple(own[:len(shape)])), None)
        if i is None:
            return values
        fault = f"{_argument(exported, i)} has another shape"
    raise bad(caller, "the shapes of the arguments do not fit the symbolic shapes", {
        "exported for": ", ".join(a.strong().str_short() for a in exported.in_avals),
        "given": ", ".join(a.str_short() for a in avals), "reason": fault},
        "pass arguments of such shapes.", ValueError)


def _lower(b: Builder, outs: Sequence[ShapedArray], *operands: Value, exported: Exported) -> Sequence[Value]:
    caller = f"call of exported `{exported.fun_name}`"
    if exported.ordered_effects:
        raise bad(caller, "the module has ordered effects of the process that exported it",
                  {"effects": ", ".join(exported.ordered_effects)}, "export the function without them.",
                  NotImplementedError)
    if exported.nr_devices != 1:
        raise bad(caller, "the module is for several devices", {"devices": exported.nr_devices},
                  "export the function of one device.", NotImplementedError)
    platform = _platform_index(caller, exported, NAME_IN_FILES.get(b.module.target, "any"))
    args = [operands[i] for i in exported.module_kept_var_idx]
    if len(exported.platforms) > 1:
        args = [b.constant(platform, I32), *args]
    prefix = f"exported_{symbol_name(exported.fun_name)}_{b.module.number()}_"
    ins = [x.type for x in args]
    try:
        artifact = Artifact(exported.mlir_module_serialized)
        main = artifact.main
        if not all(is_static(x.aval.shape) for x in args):      # the caller has symbolic dimensions too
            args = [_converted(b, x, wanted) for x, wanted in zip(args, main.ins, strict=True)]
            ins = list(main.ins)
        elif exported.uses_global_constants or list(main.ins) != ins:
            artifact = artifact.with_types(ins)
        functions = artifact.functions(prefix)
    except ValueError as error:
        raise bad(caller, "the module does not fit these arguments", {"reason": str(error).splitlines()[0]},
                  "check the file and the shapes of the arguments.", ValueError) from None
    if any("@lapack_" in text for text in functions):
        register_lapack()
    b.module.functions += functions
    names, out_types = ", ".join(x.name for x in args), artifact.main.outs
    called = b.ops(f"func.call @{prefix}main({names}) : ({', '.join(ins)}) -> ({', '.join(out_types)})", outs)
    return [y if y.type == t else b.op(f"stablehlo.convert {y} : ({t}) -> {y.type}", y.aval)
            for y, t in zip(called, out_types, strict=True)]


def _converted(b: Builder, x: Value, wanted: str) -> Value:
    """The value with fewer static sizes in its type."""
    if x.type == wanted:
        return x
    return b.op(f"stablehlo.convert {x} : ({x.type}) -> {wanted}", x.aval)


def _platform_index(caller: str, exported: Exported, platform: str) -> int:
    if platform in exported.platforms:
        return exported.platforms.index(platform)
    if DisabledSafetyCheck.platform() in exported.disabled_safety_checks:
        return 0
    raise bad(caller, "the function was exported for other platforms", {
        "exported for": ", ".join(exported.platforms), "called on": platform},
        f"export it with platforms=[{platform!r}, ...].", ValueError)


def _evaluate(*operands: ArrayLike, exported: Exported) -> list[Any]:
    args = [to_array(x) for x in operands]
    avals = tuple([x.aval for x in args])
    closed = exported.programs.get(avals)
    if closed is None:
        invars = [Var(a) for a in avals]
        outvars = [Var(a) for a in _type(*avals, exported=exported)]
        equation = Eqn(invars, outvars, call_exported_p, {"exported": exported})
        closed = exported.programs[avals] = ClosedJaxpr(Jaxpr((), invars, [equation], outvars))
    return program_executable(closed, exported.fun_name, [x._place for x in args])(args)


call_exported_p = Primitive(
    "call_exported", type_rule=_type, lower=_lower, evaluate=_evaluate, multiple_results=True, cacheable=False,
    jvp=Missing("an exported function has a derivative in reverse mode only", "use grad or vjp."),
    transpose=Missing("an exported function is not known to be linear", "use grad or vjp."),
    batch=Missing("an exported function cannot be mapped by vmap: its module is fixed",
                  "export vmap(f), or call the function in lax.map."))
