"""The file of an exported function: a FlatBuffer with the fields of `jax.export`'s schema.

Numbers of fields and codes are those of JAX's schema, so both libraries read the files of both. xjax adds a checksum
after the end of the buffer, where readers of JAX do not look.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from xjax.core import dtypes
from xjax.core.depth import deep
from xjax.core.errors import bad
from xjax.core.key_types import KEY_TYPES
from xjax.core.symbolic.scope import SymbolicScope, symbolic_shape
from xjax.core.tree import PyTreeDef, registry
from xjax.core.types import ShapedArray
from xjax.export.checks import DisabledSafetyCheck
from xjax.export.flatbuffer import Ref, Scalar, Table, Writer
from xjax.export.trees import format_of, node_of
from xjax.runtime.placement.abstract_mesh import AbstractDevice, AbstractMesh
from xjax.runtime.placement.mesh_axes import AxisType
from xjax.runtime.placement.partition_spec import PartitionSpec
from xjax.runtime.placement.sharding import NamedSharding
from xjax.version import __version__

if TYPE_CHECKING:
    from xjax.export.exported import Exported

_SCHEMA = 12                    # the version of JAX's schema that is written here
_WRITER = "xjax "
_CHECKSUM = b"xjax-sha256:"     # followed by the hash of all bytes before it

# Numbers of the fields of tables.
_EXPORTED = {name: n for n, name in enumerate((
    "schema", "fun_name", "in_tree", "in_avals", "out_tree", "out_avals", "nr_devices_short", "in_shardings",
    "out_shardings", "platforms", "ordered_effects", "unordered_effects", "disabled_checks", "module",
    "calling_convention_version", "module_kept_var_idx", "uses_global_constants", "vjp", "nr_devices", "unique_avals",
    "unique_meshes", "unique_shardings", "in_aval_numbers", "out_aval_numbers", "in_sharding_numbers",
    "out_sharding_numbers", "writer"))}
_KIND, _CHILDREN, _KEYS, _NODE_NAME, _NODE_DATA = range(5)              # of the structure of a tree
_LEAF, _NONE, _TUPLE, _LIST, _DICT, _CUSTOM = range(6)                  # the kinds of its nodes
_AVAL_KIND, _SHAPE, _DTYPE, _MEMORY = range(4)                          # of a type
_ON_DEVICE = 1                                                          # its memory space
_SIZES, _NAMES, _TYPES, _DEVICE = range(4)                              # of an abstract mesh
_DEVICE_KIND, _CORES, _DEVICE_PLATFORM = range(3)                       # of an abstract device
_MESH, _SPEC, _MEMORY_KIND, _MESH_NUMBER = range(4)                     # of a sharding
_PLATFORM_CHECK, _CALL_CHECK, _SHAPE_CHECK = range(3)                   # kinds of disabled checks

# The code of each dtype is its position.
_DTYPES: tuple[Any, ...] = (
    *map(np.dtype, ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                    "float32", "float64", "complex64", "complex128")),
    *map(np.dtype, (ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3b11fnuz,
                    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
                    ml_dtypes.float8_e5m2fnuz)),
    dtypes.float0,
    *map(np.dtype, (ml_dtypes.float8_e4m3, ml_dtypes.float8_e3m4, ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn)),
    KEY_TYPES["threefry2x32"], KEY_TYPES["rbg"], KEY_TYPES["unsafe_rbg"])
_AXIS_TYPES = (None, *[getattr(AxisType, name, None) for name in ("Auto", "Explicit", "Manual")])


# -- writing -------------------------------------------------------------------------------------------------------

@deep
def write(exported: Exported, vjp_order: int) -> bytes:
    """The file of a function and of its derivatives up to the order `vjp_order`."""
    writer = Writer()
    data = writer.finish(_write_exported(writer, exported, vjp_order))
    return data + _CHECKSUM + hashlib.sha256(data).digest()


def _write_exported(w: Writer, exported: Exported, vjp_order: int) -> Ref:
    avals = list(dict.fromkeys((*exported.in_avals, *exported.out_avals)))
    ins, outs = exported._in_named_shardings, exported._out_named_shardings
    shardings = list(dict.fromkeys(s for s in (*ins, *outs) if s is not None))
    meshes = list(dict.fromkeys(s.mesh for s in shardings))
    written_avals = [_write_aval(w, a) for a in avals]
    written_meshes = [_write_mesh(w, m) for m in meshes]
    written_shardings = [_write_sharding(w, s, written_meshes, meshes.index(s.mesh)) for s in shardings]
    no_sharding = w.table({})

    def either(s: NamedSharding | None) -> Ref:
        return no_sharding if s is None else w.table({2: written_shardings[shardings.index(s)]})

    def number(s: NamedSharding | None) -> int:
        return 0 if s is None else 1 + shardings.index(s)

    fields: dict[str, Ref | Scalar | None] = {
        "schema": Scalar("H", _SCHEMA),
        "fun_name": w.string(exported.fun_name),
        "in_tree": _write_tree(w, exported.in_tree),
        "in_avals": w.refs([written_avals[avals.index(a)] for a in exported.in_avals]),
        "out_tree": _write_tree(w, exported.out_tree),
        "out_avals": w.refs([written_avals[avals.index(a)] for a in exported.out_avals]),
        "nr_devices": Scalar("I", exported.nr_devices),
        "in_shardings": w.refs([either(s) for s in ins]),
        "out_shardings": w.refs([either(s) for s in outs]),
        "platforms": w.refs([w.string(p) for p in exported.platforms]),
        "ordered_effects": w.refs([w.table({0: w.string(e)}) for e in exported.ordered_effects]),
        "unordered_effects": w.refs([w.table({0: w.string(e)}) for e in exported.unordered_effects]),
        "disabled_checks": w.refs([_write_check(w, c) for c in exported.disabled_safety_checks]),
        "module": w.octets(exported.mlir_module_serialized),
        "calling_convention_version": Scalar("H", exported.calling_convention_version),
        "module_kept_var_idx": w.numbers("H", exported.module_kept_var_idx),
        "uses_global_constants": Scalar("B", exported.uses_global_constants),
        "vjp": _write_exported(w, exported.vjp(), vjp_order - 1) if vjp_order > 0 else None,
        "unique_avals": w.refs(written_avals),
        "unique_meshes": w.refs(written_meshes),
        "unique_shardings": w.refs(written_shardings),
        "in_aval_numbers": w.numbers("I", [avals.index(a) for a in exported.in_avals]),
        "out_aval_numbers": w.numbers("I", [avals.index(a) for a in exported.out_avals]),
        "in_sharding_numbers": w.numbers("I", [number(s) for s in ins]),
        "out_sharding_numbers": w.numbers("I", [number(s) for s in outs]),
        "writer": w.string(f"{_WRITER}{__version__}"),
    }
    return w.table({_EXPORTED[name]: value for name, value in fields.items()})


def _write_tree(w: Writer, tree: PyTreeDef) -> Ref:
    node = tree.node_data()
    if node is None:
        return w.table({_KIND: Scalar("b", _LEAF)})
    kind, static = node
    children = w.refs([_write_tree(w, child) for child in tree.children()]) if tree.children() else None
    plain = {NoneType: _NONE, tuple: _TUPLE, list: _LIST}.get(kind)
    if plain is not None:
        return w.table({_KIND: Scalar("b", plain), _CHILDREN: children})
    if kind is dict:
        for key in static:
            if not isinstance(key, str):
                raise bad("Exported.serialize", "a dict of arguments or results needs strings as keys",
                          {"key": repr(key)}, "convert the keys with str.")
        return w.table({_KIND: Scalar("b", _DICT), _CHILDREN: children, _KEYS: w.refs([w.string(k) for k in static])})
    form = format_of(kind)
    data = form.write(static)
    if not isinstance(data, (bytes, bytearray)):
        raise bad("Exported.serialize", f"serialize_auxdata of {kind.__name__} returned no bytes",
                  {"returned": type(data).__name__}, "return bytes, such as json.dumps(x).encode().", ValueError)
    return w.table({_KIND: Scalar("b", _CUSTOM), _CHILDREN: children, _NODE_NAME: w.string(form.name),
                    _NODE_DATA: w.octets(bytes(data))})


def _write_aval(w: Writer, aval: ShapedArray) -> Ref:
    return w.table({_SHAPE: w.refs([w.string(str(n)) for n in aval.shape]),
                    _DTYPE: Scalar("b", _DTYPES.index(aval.dtype)), _MEMORY: Scalar("b", _ON_DEVICE)})


def _write_mesh(w: Writer, mesh: AbstractMesh) -> Ref:
    device = mesh.abstract_device
    written = None if device is None else w.table({
        _DEVICE_KIND: w.string(device.device_kind), _CORES: Scalar("I", device.num_cores or 0),
        _DEVICE_PLATFORM: w.string(device.platform)})
    return w.table({
        _SIZES: w.numbers("I", mesh.axis_sizes), _NAMES: w.refs([w.string(str(n)) for n in mesh.axis_names]),
        _TYPES: w.numbers("b", [_AXIS_TYPES.index(t) for t in mesh.axis_types]), _DEVICE: written})


def _write_sharding(w: Writer, s: NamedSharding, meshes: Sequence[Ref], number: int) -> Ref:
    def axis(names: str | Sequence[str] | None) -> Ref:
        names = () if names is None else (names,) if isinstance(names, str) else names
        return w.table({0: w.refs([w.string(n) for n in names])})

    spec = w.table({0: w.refs([axis(names) for names in s.spec])})
    return w.table({_MESH: meshes[number], _SPEC: spec, _MESH_NUMBER: Scalar("I", number),
                    _MEMORY_KIND: w.string(s.other_memory) if s.other_memory else None})


def _write_check(w: Writer, check: DisabledSafetyCheck) -> Ref:
    target = check.is_custom_call()
    return w.table({0: Scalar("b", _PLATFORM_CHECK if target is None else _CALL_CHECK),
                    1: None if target is None else w.string(target)})


# -- reading -------------------------------------------------------------------------------------------------------

@deep
def read(data: bytes) -> dict[str, Any]:
    """The fields of an exported function, for the constructor of `Exported`; its derivative in the same form.

    Raises: ValueError for a file that is damaged, or not one of an exported function.
    """
    root = Table.root(data)
    if (root.string(_EXPORTED["writer"]) or "").startswith(_WRITER):
        place = len(data) - len(_CHECKSUM) - hashlib.sha256().digest_size
        if data[:place] + _CHECKSUM + hashlib.sha256(data[:place]).digest() != data:
            raise ValueError("its checksum is wrong")
    return _read_exported(root)


def _read_exported(t: Table) -> dict[str, Any]:
    for name in ("fun_name", "in_tree", "out_tree", "module", "platforms"):
        if not t.has(_EXPORTED[name]):
            raise ValueError(f"it has no {name}")
    scope = SymbolicScope(())
    avals = [_read_aval(a, scope) for a in t.tables(_EXPORTED["unique_avals"])]
    meshes = [_read_mesh(m) for m in t.tables(_EXPORTED["unique_meshes"])]
    shardings = [None, *[_read_sharding(s, meshes) for s in t.tables(_EXPORTED["unique_shardings"])]]

    def listed(numbers: str, items: Sequence[Any], field: str, read_one: Callable[[Table], Any]) -> tuple:
        """Items by number, or written in full in files of older versions."""
        if t.has(_EXPORTED[numbers]) and (positions := t.numbers(_EXPORTED[numbers], "I")):
            if max(positions) >= len(items):
                raise ValueError(f"{numbers} refers to an item that does not exist")
            return tuple([items[n] for n in positions])
        return tuple([read_one(x) for x in t.tables(_EXPORTED[field])])

    either = functools.partial(_read_either, meshes=meshes)
    in_avals, out_avals = [listed(f"{side}_aval_numbers", avals, f"{side}_avals",
                                  functools.partial(_read_aval, scope=scope)) for side in ("in", "out")]
    ins, outs = [listed(f"{side}_sharding_numbers", shardings, f"{side}_shardings", either) for side in ("in", "out")]
    ins, outs = ins or (None,) * len(in_avals), outs or (None,) * len(out_avals)
    in_tree, out_tree = (_read_tree(t.table(_EXPORTED[name])) for name in ("in_tree", "out_tree"))
    for what, tree, types, placed in (("arguments", in_tree, in_avals, ins), ("results", out_tree, out_avals, outs)):
        if not tree.num_leaves == len(types) == len(placed):
            raise ValueError(f"the types of {what} do not match their structure")
    kept = tuple(t.numbers(_EXPORTED["module_kept_var_idx"], "H"))
    if kept and max(kept) >= len(in_avals):
        raise ValueError("the module has an argument that does not exist")
    vjp = t.table(_EXPORTED["vjp"])
    return {
        "fun_name": t.string(_EXPORTED["fun_name"]),
        "in_tree": in_tree, "in_avals": in_avals, "out_tree": out_tree, "out_avals": out_avals,
        "_in_named_shardings": ins, "_out_named_shardings": outs,
        "nr_devices": t.scalar(_EXPORTED["nr_devices"], "I") or t.scalar(_EXPORTED["nr_devices_short"], "h"),
        "platforms": tuple(t.strings(_EXPORTED["platforms"])),
        "ordered_effects": tuple([e.string(0) for e in t.tables(_EXPORTED["ordered_effects"])]),
        "unordered_effects": tuple([e.string(0) for e in t.tables(_EXPORTED["unordered_effects"])]),
        "disabled_safety_checks": tuple([_read_check(c) for c in t.tables(_EXPORTED["disabled_checks"])]),
        "mlir_module_serialized": t.octets(_EXPORTED["module"]),
        "calling_convention_version": t.scalar(_EXPORTED["calling_convention_version"], "H"),
        "module_kept_var_idx": kept,
        "uses_global_constants": bool(t.scalar(_EXPORTED["uses_global_constants"], "B")),
        "vjp": None if vjp is None else _read_exported(vjp),
    }


def _read_tree(t: Table | None) -> PyTreeDef:
    if t is None:
        raise ValueError("the structure of a tree is missing")
    kind, children = t.scalar(_KIND, "b"), [_read_tree(child) for child in t.tables(_CHILDREN)]
    if kind == _LEAF:
        return PyTreeDef.from_node_data_and_children(registry, None, [])
    plain = {_NONE: NoneType, _TUPLE: tuple, _LIST: list}.get(kind)
    if plain is not None:
        return PyTreeDef.from_node_data_and_children(registry, (plain, None), children)
    if kind == _DICT:
        keys = t.strings(_KEYS)
        if len(keys) != len(children):
            raise ValueError("a dict has another number of keys than of values")
        keys, children = zip(*sorted(zip(keys, children, strict=True), key=lambda kv: kv[0])) if keys else ([], [])
        return PyTreeDef.from_node_data_and_children(registry, (dict, list(keys)), list(children))
    if kind != _CUSTOM:
        raise ValueError(f"a tree has a node of the unknown kind {kind}")
    return node_of(t.string(_NODE_NAME) or "", t.octets(_NODE_DATA) or b"", children)


def _read_aval(t: Table, scope: SymbolicScope) -> ShapedArray:
    code = t.scalar(_DTYPE, "b")
    if not 0 <= code < len(_DTYPES):
        raise ValueError(f"a type has the unknown dtype {code}")
    return ShapedArray(symbolic_shape(", ".join(t.strings(_SHAPE)), scope=scope), _DTYPES[code])


def _read_mesh(t: Table) -> AbstractMesh:
    device = t.table(_DEVICE)
    kinds = [_AXIS_TYPES[n] if 0 <= n < len(_AXIS_TYPES) else None for n in t.numbers(_TYPES, "b")]
    if None in kinds:
        raise ValueError("a mesh has axes of a type that xjax does not support")
    return AbstractMesh(t.numbers(_SIZES, "I"), tuple(t.strings(_NAMES)), tuple(kinds), abstract_device=(
        None if device is None else AbstractDevice(
            device.string(_DEVICE_KIND) or "", device.scalar(_CORES, "I"), device.string(_DEVICE_PLATFORM) or "")))


def _read_sharding(t: Table, meshes: Sequence[AbstractMesh]) -> NamedSharding:
    spec, number, mesh = t.table(_SPEC), t.scalar(_MESH_NUMBER, "I"), t.table(_MESH)
    if spec is None or (meshes and number >= len(meshes)) or not (meshes or mesh):
        raise ValueError("a sharding has no mesh or no specification")
    if spec.strings(1) or spec.strings(2):
        raise ValueError("a sharding is reduced or unreduced along an axis, which xjax does not support")
    axes = [names[0] if len(names) == 1 else tuple(names) or None for names in [a.strings(0) for a in spec.tables(0)]]
    return NamedSharding(meshes[number] if meshes else _read_mesh(mesh), PartitionSpec(*axes),
                         memory_kind=t.string(_MEMORY_KIND))


def _read_either(t: Table, meshes: Sequence[AbstractMesh]) -> NamedSharding | None:
    if t.has(1):
        raise ValueError("its shardings have the form of versions of JAX before 0.9")
    named = t.table(2)
    return None if named is None else _read_sharding(named, meshes)


def _read_check(t: Table) -> DisabledSafetyCheck:
    kind = t.scalar(0, "b")
    if kind == _CALL_CHECK:
        return DisabledSafetyCheck.custom_call(t.string(1) or "")
    return DisabledSafetyCheck("shape_assertions") if kind == _SHAPE_CHECK else DisabledSafetyCheck.platform()

