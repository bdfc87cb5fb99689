"""Types of tree nodes in files of exported functions: their names there, and how their static data are written."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from xjax.core.errors import bad
from xjax.core.tree import PyTreeDef, registry

T = TypeVar("T", bound=type)

_REGISTER = "use export.register_pytree_node_serialization or export.register_namedtuple_serialization."


class NodeFormat(NamedTuple):
    """How nodes of a type are written.

    Attributes:
      nodetype: the type; name: its name in files.
      write, read: static data to bytes, and back.
      build: static data and children to a node; None: by the registration of the type.
    """

    nodetype: type
    name: str
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]
    build: Callable[[Any, Sequence[Any]], Any] | None


_by_type: dict[type, NodeFormat] = {}
_by_name: dict[str, NodeFormat] = {}


def register_pytree_node_serialization(
        nodetype: T, *, serialized_name: str, serialize_auxdata: Callable[[Any], bytes],
        deserialize_auxdata: Callable[[bytes], Any],
        from_children: Callable[[Any, Sequence[Any]], Any] | None = None) -> T:
    """Let files of exported functions have arguments and results with nodes of this type; returns the type.

    Register the type with `tree_util.register_pytree_node` first.

    Args:
      serialized_name: the name of the type in files.
      serialize_auxdata, deserialize_auxdata: the node's static data to bytes, and back.
      from_children: (static data, children) -> a node; None: the `unflatten_func` of the type.

    Raises: ValueError if the type or the name is registered already, or the type is not a tree node.
    """
    caller = "export.register_pytree_node_serialization"
    if nodetype in _by_type:
        raise bad(caller, f"{nodetype.__name__} is registered already", {"name": _by_type[nodetype].name},
                  "register each type once.", ValueError)
    if serialized_name in _by_name:
        raise bad(caller, f"the name {serialized_name!r} is registered already",
                  {"for": _by_name[serialized_name].nodetype.__name__}, "choose another name.", ValueError)
    if from_children is None and not registry.is_node(nodetype):
        raise bad(caller, f"{nodetype.__name__} is not a type of tree nodes", None,
                  "call tree_util.register_pytree_node first, or pass from_children.", ValueError)
    node = NodeFormat(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children)
    _by_type[nodetype] = _by_name[serialized_name] = node
    return nodetype


def register_namedtuple_serialization(nodetype: T, *, serialized_name: str) -> T:
    """Let files of exported functions have arguments and results of this named tuple; returns the type.

    Raises: ValueError if it is not a named tuple, or the type or the name is registered already.
    """
    if not (issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise bad("export.register_namedtuple_serialization", f"{nodetype.__name__} is not a named tuple", None,
                  "use export.register_pytree_node_serialization.", ValueError)
    fields: Any = nodetype
    return register_pytree_node_serialization(
        nodetype, serialized_name=serialized_name,
        serialize_auxdata=lambda _: json.dumps(fields._fields).encode(), deserialize_auxdata=json.loads,
        from_children=lambda names, children: fields(**dict(zip(names, children, strict=True))))


def format_of(nodetype: type) -> NodeFormat:
    """How nodes of a type are written.  Raises: ValueError for a type that is not registered."""
    if nodetype not in _by_type:
        raise bad("Exported.serialize", f"the type {nodetype.__name__} has no form in files", None, _REGISTER,
                  ValueError)
    return _by_type[nodetype]


def node_of(name: str, data: bytes, children: Sequence[PyTreeDef]) -> PyTreeDef:
    """The structure of a node in a file.  Raises: ValueError for a type that is not registered here."""
    if name not in _by_name:
        raise bad("export.deserialize", f"the file has nodes of a type named {name!r}, which is not registered", None,
                  _REGISTER, ValueError)
    node = _by_name[name]
    static = node.read(data)
    if node.build is None:
        return PyTreeDef.from_node_data_and_children(registry, (node.nodetype, static), list(children))
    leaves, structure = registry.flatten(node.build(static, [_Child(child) for child in children]))
    return PyTreeDef.from_node_data_and_children(registry, structure.node_data(), [leaf.structure for leaf in leaves])


class _Child:
    """A leaf in the place of a child of a node."""

    def __init__(self, structure: PyTreeDef):
        self.structure = structure


def _ordered_keys(keys: Sequence[Any]) -> bytes:
    if not all(isinstance(key, str) for key in keys):
        raise bad("Exported.serialize", "an OrderedDict needs strings as keys", {"keys": list(keys)},
                  "convert the keys with str.", NotImplementedError)
    return json.dumps(list(keys)).encode()


register_pytree_node_serialization(
    collections.OrderedDict, serialized_name="collections.OrderedDict", serialize_auxdata=_ordered_keys,
    deserialize_auxdata=json.loads, from_children=lambda keys, children: collections.OrderedDict(
        zip(keys, children, strict=True)))
