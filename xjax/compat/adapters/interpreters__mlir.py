"""`jax.interpreters.mlir`: rules that write the operations of a program.

A rule is a function of arrays (`lower_fun`), or it writes operations with jaxlib's MLIR bindings. xjax writes programs
as text. So such a rule writes a private function in a module of its own, whose text becomes part of the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xjax.compat.primitive import Lowered, Outputs, Primitive, by_function, write_operations
from xjax.core import primitive as core
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, dense, element_type, tensor_type
from xjax.core.lowering import symbol_name, write_call, write_function
from xjax.core.public import attributes_of
from xjax.core.types import ShapedArray, typeof
from xjax.runtime.callbacks import emit_call
from xjax.runtime.xla.mlir_builders import Bindings, bindings
from xjax.typing import ArrayLike, DTypeLike

if TYPE_CHECKING:
    from xjax.runtime.xla.mlir_builders import IrAttribute, IrType, IrValue

__all__ = ["LoweringRuleContext", "ModuleContext", "aval_to_ir_type", "dense_int_array", "dense_int_elements",
           "dtype_to_ir_type", "emit_python_callback", "flatten_ir_values", "i32_attr", "i64_attr", "ir_constant",
           "lower_fun", "register_lowering"]


class ModuleContext:
    """The module that a rule writes to.

    Attributes: platforms, context, module: as in JAX.
    """

    def __init__(self, b: Builder):
        self._builder, self.bindings = b, Bindings()
        self.platforms = (b.module.platform,)
        self.context, self.module = self.bindings.context, self.bindings.module

    def add_keepalive(self, x: object) -> None:
        """The program keeps its callbacks alive itself."""

    def written_outside(self, name: str, write: Callable[[Builder, Sequence[Value]], Sequence[Value]],
                        operands: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
        """Write a function of the program with xjax's builder, and call it; results are values of the bindings.

        Args: operands: values of the bindings; avals: their types.
        """
        b = self._builder
        symbol = f"{symbol_name(name)}_{b.module.number()}"
        results = write_function(b, f"@{symbol}", lambda inner, *params: write(inner, params), avals)
        return self.bindings.call(symbol, operands, [x.type for x in results])


class LoweringRuleContext:
    """The operation that a rule writes, and the module that it writes to.

    Attributes: module_context, primitive, avals_in, avals_out, platforms, tokens_in, name_stack: as in JAX.
    """

    def __init__(self, module_context: ModuleContext, p: core.Primitive, avals_in: Sequence[ShapedArray],
                 avals_out: Sequence[ShapedArray]):
        self.module_context, self.primitive = module_context, p
        self.avals_in, self.avals_out = avals_in, avals_out
        self.platforms = module_context.platforms
        self.tokens_in, self.name_stack = None, ""

    def replace(self, **changed: object) -> LoweringRuleContext:
        """A copy with other attributes."""
        copy = LoweringRuleContext(self.module_context, self.primitive, self.avals_in, self.avals_out)
        for name, value in changed.items():
            setattr(copy, name, value)
        return copy

    def is_forward_compat(self) -> bool:
        """False: programs are for the installed jaxlib."""
        return False


class _Function:
    """A rule made of a function of arrays."""

    def __init__(self, fun: Callable, multiple_results: bool):
        self.fun, self.multiple_results = fun, multiple_results

    def __call__(self, ctx: LoweringRuleContext, *operands: IrValue, **params: object) -> list[IrValue]:
        """The operations of the function, called from a rule that is written with the bindings."""
        def write(b: Builder, xs: Sequence[Value]) -> Sequence[Value]:
            return write_operations(b, self.fun, self.multiple_results, xs, params)

        return ctx.module_context.written_outside(ctx.primitive.name, write, operands, ctx.avals_in)


def lower_fun(fun: Callable, multiple_results: bool = True) -> Callable:
    """The rule that writes the operations of ``fun(*operands, **params)``."""
    return _Function(fun, multiple_results)


def register_lowering(prim: core.Primitive, rule: Callable, platform: str | None = None, inline: bool = True,
                      cacheable: bool = True) -> Callable:
    """Set the rule of an operation of a library, for one platform or all; returns the rule.

    Args: inline, cacheable: without effect: XLA decides.
    """
    if not isinstance(prim, Primitive):
        raise bad("register_lowering", "the lowering of an operation of xjax cannot be replaced", {"prim": prim.name},
                  "define an operation of your own with jax.extend.core.Primitive.", NotImplementedError)
    if isinstance(rule, _Function):
        prim.set_lowering(by_function(rule.fun, rule.multiple_results), platform)
    else:
        prim.set_lowering(functools.partial(_by_bindings, prim, rule), platform)
    return rule


def _by_bindings(p: Primitive, rule: Callable, b: Builder, out: Outputs, *operands: Value, **params: object) -> Lowered:
    """Call a rule that writes operations with the bindings, in a function of its own."""
    outs = [out] if isinstance(out, ShapedArray) else [*out]
    context = ModuleContext(b)
    ctx = LoweringRuleContext(context, p, [x.aval for x in operands], outs)
    symbol = f"{symbol_name(p.name)}_{b.module.number()}"
    context.bindings.write_function(symbol, [x.type for x in operands], [tensor_type(a) for a in outs],
                                    lambda args: flatten_ir_values(rule(ctx, *args, **params)))
    b.module.functions += context.bindings.functions()
    written = write_call(b, f"@{symbol}", operands, outs)
    return written if p.multiple_results else written[0]


def flatten_ir_values(x: Any) -> list[IrValue]:
    """The values in the result of a rule: values, operations, and sequences of them."""
    if isinstance(x, (list, tuple)):
        return [value for item in x for value in flatten_ir_values(item)]
    if hasattr(x, "results"):
        return list(x.results)
    return [x]


def emit_python_callback(ctx: LoweringRuleContext, callback: Callable, token: object, operands: Sequence[Any],
                         operand_avals: Sequence[ShapedArray], result_avals: Sequence[ShapedArray], *,
                         has_side_effect: bool, returns_token: bool = True, partitioned: bool = False,
                         sharding: object = None) -> tuple[list[Any], Any, Any]:
    """Write a call of a Python function.

    Args: returns_token, sharding: without effect: there are no tokens here, and the function gets whole arrays.
    Returns: (its results, None, None).
    """
    def write(b: Builder, xs: Sequence[Value]) -> Sequence[Value]:
        return emit_call(b, f"callback of `{ctx.primitive.name}`", lambda *arrays: callback(*arrays), xs, result_avals,
                         has_effect=has_side_effect, partitioned=partitioned)

    return ctx.module_context.written_outside("callback", write, operands, operand_avals), None, None


# -- types and constants of the bindings: called while a rule runs, in the context of its module -------------------

def aval_to_ir_type(*args: ModuleContext | ShapedArray) -> IrType:
    """The type of the bindings for a type.  Args: the type last; JAX 0.12 passes the module context before it."""
    return bindings().Type.parse(tensor_type(args[-1]))


def dtype_to_ir_type(dtype: DTypeLike) -> IrType:
    """The element type of the bindings."""
    return bindings().Type.parse(element_type(np.dtype(dtype)))


def ir_constant(val: ArrayLike, *, const_lowering: object = None,
                aval: ShapedArray | None = None) -> IrValue:
    """A constant.  Args: const_lowering: without effect; aval: its type, if not that of `val`."""
    aval = typeof(val) if aval is None else aval
    text = f"{dense(np.asarray(val, aval.dtype))} : {tensor_type(aval)}"
    attribute = bindings().Attribute.parse(text)
    return bindings().Operation.create("stablehlo.constant", [aval_to_ir_type(aval)],
                                  attributes={"value": attribute}).result


def dense_int_array(xs: Sequence[int]) -> IrAttribute:
    """The attribute ``array<i64: ...>``."""
    return bindings().DenseI64ArrayAttr.get([int(x) for x in xs])


def dense_int_elements(xs: Sequence[int]) -> IrAttribute:
    """The attribute ``dense<[...]> : tensor<nxi64>``."""
    return bindings().DenseIntElementsAttr.get(np.asarray(xs, np.int64))


def i32_attr(i: int) -> IrAttribute:
    """The attribute of a 32-bit integer."""
    return bindings().IntegerAttr.get(bindings().IntegerType.get_signless(32), i)


def i64_attr(i: int) -> IrAttribute:
    """The attribute of a 64-bit integer."""
    return bindings().IntegerAttr.get(bindings().IntegerType.get_signless(64), i)


__getattr__ = attributes_of(__name__, {"ir": ("jaxlib.mlir.ir", "")})
