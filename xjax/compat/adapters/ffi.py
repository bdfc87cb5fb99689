"""`jax.ffi`: rules that write the call of a foreign function with jaxlib's MLIR bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xjax.compat.adapters.interpreters__mlir import LoweringRuleContext
from xjax.core.errors import bad
from xjax.core.hlo import tensor_type
from xjax.ffi import attribute_text, call_attributes, dictionary_text, hashable_attributes, order_of
from xjax.runtime.placement.layout import Layout
from xjax.runtime.xla.mlir_builders import bindings

__all__ = ["build_ffi_lowering_function", "ffi_lowering"]


def build_ffi_lowering_function(call_target_name: str, *, operand_layouts: Sequence[Any] | None = None,
                                result_layouts: Sequence[Any] | None = None,
                                backend_config: Mapping[str, Any] | str | None = None,
                                skip_ffi_layout_processing: bool = False, has_side_effect: bool = False,
                                operand_output_aliases: Mapping[int, int] | None = None, api_version: int = 4,
                                **unknown: object) -> Callable[..., Any]:
    """A function ``(ctx, *operands, **attributes)`` that writes the operation and returns it.

    Args:
      operand_layouts, result_layouts: for each array its axes in memory, from the fastest to the slowest, or a
        `Layout`; None is row-major.
      skip_ffi_layout_processing: accepted as in JAX; layouts are always written.

    Raises: NotImplementedError for other options of JAX.
    """
    caller = f"ffi_lowering of `{call_target_name}`"
    if unknown:
        raise bad(caller, "there are no such options here", unknown, "leave them out.", exc=NotImplementedError)

    def orders(name: str, avals: Sequence[Any], layouts: Sequence[Any] | None) -> list[tuple[int, ...]]:
        layouts = [None] * len(avals) if layouts is None else [
            x if x is None or isinstance(x, Layout) else tuple(x)[::-1] for x in layouts]
        return [order_of(caller, name, a, x) for a, x in zip(avals, layouts, strict=True)]

    def write(ctx: LoweringRuleContext, *operands: object, **attributes: Any) -> Any:
        if api_version >= 4:
            config = dictionary_text(hashable_attributes(caller, {**dict(backend_config or {}), **attributes}))
        else:
            config = attribute_text(str(backend_config or ""))
        text = call_attributes(call_target_name, orders("operand_layouts", ctx.avals_in, operand_layouts),
                               orders("result_layouts", ctx.avals_out, result_layouts), has_side_effect,
                               sorted((operand_output_aliases or {}).items()), api_version, config)
        ir = bindings()
        parsed = ir.DictAttr(ir.Attribute.parse(f"{{{text}}}"))
        types = [ir.Type.parse(tensor_type(a)) for a in ctx.avals_out]
        return ir.Operation.create("stablehlo.custom_call", types, list(operands),
                                   {item.name: item.attr for item in parsed})

    return write


def ffi_lowering(call_target_name: str, **options: Any) -> Callable[..., Any]:
    """A rule for `mlir.register_lowering` that calls a foreign function.

    Args: options: those of `build_ffi_lowering_function`.
    """
    write = build_ffi_lowering_function(call_target_name, **options)

    def rule(ctx: LoweringRuleContext, *operands: object, **attributes: Any) -> list[Any]:
        return list(write(ctx, *operands, **attributes).results)

    return rule
