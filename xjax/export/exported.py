"""`Exported`: a function as StableHLO in portable form, with the types and the structure of arguments and results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xjax.core.calls import api_boundary
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.tree import PyTreeDef
from xjax.core.types import ShapedArray
from xjax.export import calling, file_format
from xjax.export.checks import DisabledSafetyCheck
from xjax.runtime.placement.abstract_mesh import AbstractMesh
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.sharding import NamedSharding
from xjax.runtime.xla.artifacts import Artifact
from xjax.typing import PyTree

# The versions of the calling convention of modules that can be called.
minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10


@dataclass(frozen=True, eq=False, repr=False)
class Exported:
    """A function that was compiled to StableHLO: it can be saved, loaded in another process, and called.

    Attributes:
      fun_name: the name of the function, for messages.
      in_tree, out_tree: structures of ``(args, kwargs)`` and of the result.
      in_avals, out_avals: types of the leaves; shapes may contain symbolic dimensions.
      in_shardings_hlo, out_shardings_hlo: None for each leaf, as in JAX 0.12; see `in_shardings_jax`.
      nr_devices: the number of devices that the module is for.
      platforms: names of the platforms: "cpu", "cuda". With several, the first argument of the module is the position
        of the platform among them.
      ordered_effects, unordered_effects: names of effects of the module.
      disabled_safety_checks: see `DisabledSafetyCheck`.
      mlir_module_serialized: the module, as a portable artifact of StableHLO.
      calling_convention_version: the version of the calling convention of the module.
      module_kept_var_idx: positions of the leaves that are arguments of the module; it does not use the others.
      uses_global_constants: whether shapes or the platform are only known when the module is called.
    """

    fun_name: str
    in_tree: PyTreeDef
    in_avals: tuple[ShapedArray, ...]
    out_tree: PyTreeDef
    out_avals: tuple[ShapedArray, ...]
    _in_named_shardings: tuple[NamedSharding | None, ...]
    _out_named_shardings: tuple[NamedSharding | None, ...]
    in_shardings_hlo: tuple[None, ...]
    out_shardings_hlo: tuple[None, ...]
    nr_devices: int
    platforms: tuple[str, ...]
    ordered_effects: tuple[str, ...]
    unordered_effects: tuple[str, ...]
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...]
    mlir_module_serialized: bytes
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    _get_vjp: Callable[[Exported], Exported] | None

    def __repr__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    def mlir_module(self, serialized: bool = True) -> Any:
        """The module as text; with ``serialized=False``, as an object of jaxlib's MLIR bindings."""
        artifact = Artifact(self.mlir_module_serialized)
        return artifact.text if serialized else artifact.module

    def in_shardings_jax(self, mesh: Mesh | AbstractMesh | None = None) -> tuple[NamedSharding | None, ...]:
        """The sharding of each argument, over `mesh` or over the mesh without devices for which it was exported."""
        return tuple([_over(mesh, s) for s in self._in_named_shardings])

    def out_shardings_jax(self, mesh: Mesh | AbstractMesh | None = None) -> tuple[NamedSharding | None, ...]:
        """The sharding of each result; see `in_shardings_jax`."""
        return tuple([_over(mesh, s) for s in self._out_named_shardings])

    def has_vjp(self) -> bool:
        """Whether there is a derivative: always, for a function that was not loaded from a file without one."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The derivative in reverse mode.

        Its arguments are the leaves of the arguments and a cotangent for each leaf of the result, in one flat list; its
        result is the tuple of cotangents of the arguments.

        Raises: ValueError if the file of the function has no derivative.
        """
        if self._get_vjp is None:
            raise bad(f"exported `{self.fun_name}`", "it was saved without a derivative", None,
                      "save it with serialize(vjp_order=1).", ValueError)
        return self._vjp

    @functools.cached_property
    def _vjp(self) -> Exported:
        assert self._get_vjp is not None
        return self._get_vjp(self)

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The function as bytes, which `export.deserialize` of xjax and of JAX read.

        Args: vjp_order: the number of derivatives to save: 1 for `grad`, 2 for `grad` of `grad`.
        Raises: ValueError if a type of tree nodes has no registered form, or there are fewer derivatives.
        """
        return bytearray(file_format.write(self, vjp_order))

    @api_boundary
    def call(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the function, also inside `jit` and, if there is a derivative, `grad`.

        Raises: ValueError for arguments of another structure or type, and on a platform it was not exported for.
        """
        return calling.call(self, args, kwargs)

    @functools.cached_property
    def flat_call(self) -> Callable:
        """The function of leaves: ``flat_call(*leaves) -> tuple of leaves``."""
        return calling.flat_call(self)

    @functools.cached_property
    def programs(self) -> dict[tuple, ClosedJaxpr]:
        """Programs of one call, by the types of arguments."""
        return {}


def _over(mesh: Mesh | AbstractMesh | None, s: NamedSharding | None) -> NamedSharding | None:
    if s is None or mesh is None:
        return s
    if mesh.axis_names != s.mesh.axis_names or mesh.axis_sizes != s.mesh.axis_sizes:
        raise bad("exported shardings", "the mesh differs from that of the export",
                  {"mesh": repr(mesh), "exported for": repr(s.mesh)}, "use a mesh with the same axes.", ValueError)
    return s.update(mesh=mesh)


@api_boundary
def deserialize(blob: bytes | bytearray) -> Exported:
    """The function in the result of `Exported.serialize`, of xjax or of JAX.

    Only load files that you trust: the module may call any foreign function that is registered in the process.

    Raises: ValueError for bytes that are damaged, or not a file of an exported function.
    """
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        raise bad("export.deserialize", "a file of an exported function is bytes", {"blob": type(blob).__name__},
                  "open the file with mode 'rb' and pass the result of read().")
    try:
        return _of_fields(file_format.read(bytes(blob)))
    except (ValueError, RecursionError) as error:
        if getattr(error, "explained", False):
            raise
        raise bad("export.deserialize", "the bytes are damaged, or not a file of an exported function",
                  {"reason": str(error).splitlines()[0] if str(error) else type(error).__name__, "bytes": len(blob)},
                  "pass the result of Exported.serialize, unchanged.", ValueError) from None


def _of_fields(fields: dict[str, Any]) -> Exported:
    vjp = fields.pop("vjp")
    version = fields["calling_convention_version"]
    low, high = minimum_supported_calling_convention_version, maximum_supported_calling_convention_version
    if not low <= version <= high:
        raise bad("export.deserialize", f"the calling convention has version {version}",
                  {"supported": f"{low} to {high}"}, "export the function again.", ValueError)
    main = Artifact(fields["mlir_module_serialized"]).main
    extra = (len(fields["platforms"]) > 1) + len(fields["ordered_effects"])
    if len(main.ins) != extra + len(fields["module_kept_var_idx"]):
        raise ValueError("the module has another number of arguments than the types that are saved with it")
    derivative = None if vjp is None else _of_fields(vjp)
    none_in, none_out = (None,) * len(fields["in_avals"]), (None,) * len(fields["out_avals"])
    return Exported(**fields, in_shardings_hlo=none_in, out_shardings_hlo=none_out,
                    _get_vjp=None if derivative is None else lambda _: derivative)
