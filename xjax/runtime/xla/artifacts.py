"""StableHLO in its portable binary form, which other versions of jaxlib read, and programs with dynamic shapes."""

from __future__ import annotations

import functools
import importlib
import io
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxlib import _jax

from xjax.runtime.xla.mlir_builders import bindings
from xjax.runtime.xla.programs import new_context, parse_module

MAGIC = b"ML\xefR"              # the first bytes of every module of MLIR in binary form


class Function(NamedTuple):
    """The type of a function of a module, as MLIR text, and the positions of its results that alias arguments."""

    ins: tuple[str, ...]
    outs: tuple[str, ...]


@functools.cache
def _target() -> str:
    """The version of StableHLO to write: one that every jaxlib of the last twelve weeks reads."""
    stablehlo = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    return stablehlo.get_version_from_compatibility_requirement(stablehlo.StablehloCompatibilityRequirement.WEEK_12)


def artifact(text: str) -> bytes:
    """StableHLO text in portable binary form.  Raises: ValueError if it has no such form."""
    module = parse_module(text)
    try:
        return _jax.mlir.serialize_portable_artifact(module, _target(), True)
    except (RuntimeError, ValueError) as error:
        raise ValueError(str(error)) from None


class Artifact:
    """A module in portable binary form, as an object of jaxlib's MLIR bindings.

    Raises: ValueError if the bytes are not such a module.
    """

    def __init__(self, blob: bytes):
        if not blob.startswith(MAGIC):
            raise ValueError("it does not start with the bytes of an MLIR module")
        try:
            self.module: Any = _jax.mlir.deserialize_portable_artifact(blob, new_context())
        except (RuntimeError, ValueError):
            version = re.match(rb"StableHLO_v[\d.]+", blob[len(MAGIC) + 1:len(MAGIC) + 32])
            raise ValueError(f"the module is damaged, or newer than this jaxlib ({version[0].decode()})" if version
                             else "the module is damaged") from None

    @functools.cached_property
    def main(self) -> Function:
        """The type of the function `main`.  Raises: ValueError if there is none."""
        for op in self.module.body.operations:
            if op.operation.name == "func.func" and op.name.value == "main":
                return Function(tuple(map(str, op.type.inputs)), tuple(map(str, op.type.results)))
        raise ValueError("the module has no function `main`")

    @functools.cached_property
    def text(self) -> str:
        """The module as text, without positions in source files."""
        return self.module.operation.get_asm(enable_debug_info=False)

    def with_types(self, ins: Sequence[str]) -> Artifact:
        """The module for arguments of these static types: each dynamic shape in it becomes static.

        Raises: ValueError if the shapes do not fit the program.
        """
        main = self.main
        names = [f"%arg{i}" for i in range(len(ins))]
        lines, operands = [], []
        for name, given, wanted in zip(names, ins, main.ins, strict=True):
            operands.append(name if given == wanted else f"{name}_as_written")
            if given != wanted:
                lines.append(f"{operands[-1]} = stablehlo.convert {name} : ({given}) -> {wanted}")
        results = [f"%result#{i}" for i in range(len(main.outs))] if len(main.outs) > 1 else ["%result"]
        outs = ", ".join(main.outs)
        called = f"func.call @{_INNER}({', '.join(operands)}) : ({', '.join(main.ins)}) -> ({outs})"
        if main.outs:
            called = f"%result:{len(main.outs)} = {called}" if len(main.outs) > 1 else f"%result = {called}"
            lines += [called, f"func.return {', '.join(results)} : {outs}"]
        else:
            lines += [called, "func.return"]
        head = ", ".join(f"{name}: {given}" for name, given in zip(names, ins, strict=True))
        entry = "\n".join([f"func.func public @main({head}) -> ({outs}) {{", *lines, "}"])
        start, end = self.text.index("{\n"), self.text.rindex("}")
        inside = re.sub(r"@main\b", f"@{_INNER}", self.text[start + 2:end]).replace(
            f"func.func public @{_INNER}", f"func.func private @{_INNER}")
        module = parse_module(f"module {{\n{entry}\n{inside}}}\n")
        blob = io.BytesIO()
        module.operation.write_bytecode(blob)
        try:
            refined = _jax.mlir.refine_polymorphic_shapes(blob.getvalue(), True, True)
        except (RuntimeError, ValueError) as error:
            raise ValueError(str(error)) from None
        return _Refined(refined)

    def functions(self, prefix: str) -> list[str]:
        """The text of each function, private, with `prefix` before its name.  Raises: ValueError for other parts."""
        operations = [op.operation for op in self.module.body.operations]
        others = {op.name for op in operations} - {"func.func"}
        if others:
            raise ValueError(f"the module has parts other than functions: {', '.join(sorted(others))}")
        names = [op.attributes["sym_name"].value for op in operations]
        symbol = re.compile(f"@(?:{'|'.join(map(re.escape, names))})(?![A-Za-z0-9_$.])")
        return [_private(symbol.sub(lambda m: f"@{prefix}{m[0][1:]}", op.get_asm(enable_debug_info=False,
                                                                               use_local_scope=True)))
                for op in operations]


class _Refined(Artifact):
    """A module in MLIR's binary form."""

    def __init__(self, blob: bytes):
        context = new_context()
        self.module = bindings().Module.parse(blob, context)


_INNER = "xjax_exported_main"


def _private(function: str) -> str:
    """The text of a function, private, and without the aliases of its arguments and results."""
    head, brace, body = function.partition("{\n")
    head = re.sub(r"func\.func (public )?@", "func.func private @", head)
    head = re.sub(r"tf\.aliasing_output = \d+ : i32(, )?|jax\.buffer_donor = true(, )?", "", head)
    return f"{head}{brace}{body}"
