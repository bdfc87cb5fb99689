"""Functions of StableHLO written with jaxlib's MLIR bindings, as text that becomes part of a module.

xjax writes StableHLO as text. Libraries of JAX write operations with the bindings: an operation is an object with
operands and results.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xjax.runtime.xla.programs import new_context

if TYPE_CHECKING:
    from jaxlib.mlir.ir import Type as IrType
    from jaxlib.mlir.ir import Value as IrValue


def bindings() -> Any:
    """jaxlib's module `ir`."""
    return importlib.import_module("jaxlib.mlir.ir")


class Bindings:
    """A module of jaxlib's bindings, while functions are written in it.

    Attributes:
      ir: jaxlib's module `ir`.
      context: the context of the module.
      module: the module.
    """

    def __init__(self) -> None:
        self.ir: Any = bindings()
        self._func: Any = importlib.import_module("jaxlib.mlir.dialects.func")
        self.context: Any = new_context()
        with self.context, self.ir.Location.unknown():
            self.module: Any = self.ir.Module.create()
        self._declared: set[str] = set()

    def type_of(self, text: str) -> IrType:
        """The type written as `text`: ``tensor<2xf32>``."""
        return self.ir.Type.parse(text, self.context)

    def write_function(self, name: str, ins: Sequence[str], outs: Sequence[str],
                       body: Callable[[Sequence[IrValue]], Sequence[IrValue]]) -> None:
        """Add a private function.

        Args:
          ins, outs: types of its arguments and results.
          body: writes operations with the bindings; arguments -> results.
        """
        ir = self.ir
        with self.context, ir.Location.unknown(), ir.InsertionPoint(self.module.body):
            kind = ([self.type_of(t) for t in ins], [self.type_of(t) for t in outs])
            function = self._func.FuncOp(name, kind, visibility="private")
            block = function.add_entry_block()
            with ir.InsertionPoint(block):
                self._func.ReturnOp(list(body(list(block.arguments))))

    def call(self, name: str, operands: Sequence[IrValue], outs: Sequence[str]) -> list[IrValue]:
        """Write a call of a private function that is not in this module; its results."""
        ir = self.ir
        types = [self.type_of(t) for t in outs]
        with ir.InsertionPoint(self.module.body), ir.Location.unknown(self.context):
            self._func.FuncOp(name, ([x.type for x in operands], types), visibility="private")
        self._declared.add(name)
        return list(self._func.CallOp(types, ir.FlatSymbolRefAttr.get(name, self.context), list(operands)).results)

    def functions(self) -> list[str]:
        """The text of each function of the module, after a check that operations are well formed.

        Raises: ValueError with the verifier's message.
        """
        try:
            self.module.operation.verify()
        except self.ir.MLIRError as error:
            raise ValueError(str(error)) from None
        return [op.get_asm(use_local_scope=True) for op in self.module.body.operations
                if self.ir.StringAttr(op.attributes["sym_name"]).value not in self._declared]
