"""Types that are nodes of pytrees: registration, `Partial`, and structures in picklable form."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from xjax.core.errors import bad
from xjax.core.tree import PyTreeDef, registry

T = TypeVar("T", bound=type)

Flatten = Callable[[Any], tuple[Iterable[Any], Hashable]]
FlattenWithKeys = Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]]
Unflatten = Callable[[Any, Iterable[Any]], Any]


def register_pytree_node(
    nodetype: type,
    flatten_func: Flatten,
    unflatten_func: Unflatten,
    flatten_with_keys_func: FlattenWithKeys | None = None,
) -> None:
    """Make values of exactly this type (not of subclasses) nodes of trees.

    Args:
      flatten_func: value -> (children, aux); aux is static: hashable, with ``==``.
      unflatten_func: (aux, children) -> value; must accept children of any kind.
      flatten_with_keys_func: value -> ((key, child), ...), aux; the keys name the children in paths.
    Raises: ValueError if the type is already registered.
    """
    if not isinstance(nodetype, type):
        raise bad("register_pytree_node", f"{nodetype!r} is not a class",
                  fix="pass the class of the nodes.")  # fmt: skip
    try:
        registry.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)
    except ValueError as error:
        raise _twice("register_pytree_node", nodetype) from error


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: FlattenWithKeys,
    unflatten_func: Unflatten,
    flatten_func: Flatten | None = None,
) -> None:
    """Like `register_pytree_node`, with a function that returns (key, child) pairs."""

    def without_keys(value):
        pairs, aux = flatten_with_keys(value)
        return tuple(child for _, child in pairs), aux

    register_pytree_node(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: T) -> T:
    """Class decorator for a class with ``tree_flatten()`` and a class method ``tree_unflatten(aux, children)``.

    >>> @register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    ...     def tree_flatten(self):
    ...         return (self.x, self.y), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children):
    ...         return cls(*children)
    >>> registry.flatten(Pair(1, [2, 3]))[0]
    [1, 2, 3]
    """
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: T) -> T:
    """Class decorator for a class with ``tree_flatten_with_keys()`` and ``tree_unflatten(aux, children)``."""
    plain = operator.methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None
    with_keys = operator.methodcaller("tree_flatten_with_keys")
    register_pytree_with_keys(cls, with_keys, cls.tree_unflatten, plain)
    return cls


def register_dataclass(
    nodetype: T,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> T:
    """Make a dataclass a node: data fields are its children, meta fields are static.

    Without the two lists, a field is meta if it has ``field(metadata={"static": True})``.

    Args: drop_fields: fields that are left out, and therefore must have defaults.
    Raises: TypeError or ValueError if the fields are not exactly the arguments of the constructor.

    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Weights:
    ...     w: list
    ...     name: str = dataclasses.field(metadata={"static": True})
    >>> registry.flatten(Weights([1, 2], "dense"))[0]
    [1, 2]
    """
    has_fields = dataclasses.is_dataclass(nodetype)
    if data_fields is None and meta_fields is None and has_fields:
        fields = [f for f in dataclasses.fields(nodetype) if f.name not in set(drop_fields)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
    if data_fields is None or meta_fields is None:
        raise bad(
            "register_dataclass",
            f"the fields of {nodetype!r} are not known",
            {"data_fields": repr(data_fields), "meta_fields": repr(meta_fields)},
            "pass both lists, or neither for a dataclass.",
        )
    _check_fields(nodetype, data_fields, meta_fields, drop_fields)
    try:
        registry.register_dataclass_node(nodetype, list(data_fields), list(meta_fields))
    except ValueError as error:
        raise _twice("register_dataclass", nodetype) from error
    return nodetype


def _check_fields(nodetype: type, data: Sequence[str], meta: Sequence[str], drop: Sequence[str]):
    listed = {*data, *meta}
    faults = {"both data and meta": set(data) & set(meta)}
    if dataclasses.is_dataclass(nodetype):
        init = {f.name for f in dataclasses.fields(nodetype) if f.init} - set(drop)
        faults["neither data nor meta"] = init - listed
        faults["not an argument of the constructor"] = listed - init
    given = {fault: ", ".join(sorted(names)) for fault, names in faults.items() if names}
    if given:
        raise bad(
            "register_dataclass",
            f"the lists do not match the fields of {nodetype.__name__}",
            given,
            "list each constructor argument once, as data, meta or in drop_fields.",
            ValueError,
        )


def static_field(**kwargs: Any) -> Any:
    """A `dataclasses.field`, with the same arguments, that `register_dataclass` makes static.

    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Scaled:
    ...     w: float
    ...     power: int = static_field(default=2)
    >>> registry.flatten(Scaled(0.5))
    ([0.5], PyTreeDef(CustomNode(Scaled[(2,)], [*])))
    """
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **kwargs)


def register_static(cls: T) -> T:
    """Class decorator for a node without leaves; the (hashable) value itself is the static part."""
    register_pytree_node(cls, lambda value: ((), value), lambda value, _children: value)
    return cls


def _twice(caller: str, nodetype: type) -> Exception:
    name = nodetype.__qualname__
    fix = "register each class once."
    return bad(caller, f"{name} is already registered", fix=fix, exc=ValueError)


@dataclasses.dataclass(frozen=True, slots=True)
class _Boxed:
    """Hides that a function is a `functools.partial`, which Python would merge into the new `Partial`."""

    call: Callable

    def __call__(self, *args: object, **kwargs: object) -> int:
        return self.call(*args, **kwargs)


class Partial(functools.partial):
    """A `functools.partial` that is a node of trees: the bound arguments are its children.

    So a function with bound arrays can be an argument or a result of transformed functions.

    >>> add = Partial(lambda x, y: x + y, 1)
    >>> add(2), registry.flatten(add)[0]
    (3, [1])
    """

    def __new__(cls, func: Callable, *args: object, **kwargs: object):
        if isinstance(func, functools.partial):
            func = _Boxed(func)
        return super().__new__(cls, func, *args, **kwargs)


def _rebuild_partial(func: Callable, bound: Iterable[Any]) -> Partial:
    args, kwargs = bound
    return Partial(func, *args, **kwargs)


register_pytree_node(Partial, lambda p: ((p.args, p.keywords), p.func), _rebuild_partial)


# ---------------------------------------------------------------- structures in picklable form


def treedef_to_plain(treedef: PyTreeDef) -> tuple | None:
    """A structure as nested tuples ``(type name, aux, children)``; None for a leaf.

    The result can be pickled, compared and (if all aux data can) hashed.

    >>> from xjax.core.tree import tree_structure
    >>> treedef_to_plain(tree_structure([1, None]))
    ('builtins:list', None, (None, ('builtins:NoneType', None, ())))
    """
    node = treedef.node_data()
    if node is None:
        return None
    kind, aux = node
    if "<locals>" in kind.__qualname__:
        raise bad(
            "treedef_to_plain",
            f"class {kind.__qualname__} is local to a function, so it cannot be imported by its name",
            fix="define the class at the top level of a module.",
        )
    aux = tuple(aux) if kind is dict else aux
    children = tuple(map(treedef_to_plain, treedef.children()))
    return f"{kind.__module__}:{kind.__qualname__}", aux, children


def treedef_from_plain(plain: tuple | None) -> PyTreeDef:
    """The inverse of `treedef_to_plain`; it imports the modules of the node types.

    Raises: ValueError if a type of that name does not exist, or is not registered here.
    """
    if plain is None:
        return PyTreeDef.from_node_data_and_children(registry, None, [])
    name, aux, children = plain
    kind = _type_named(name)
    aux = list(aux) if kind is dict else aux
    return PyTreeDef.from_node_data_and_children(
        registry, (kind, aux), [treedef_from_plain(child) for child in children]
    )


def _type_named(name: str) -> type:
    if name == "builtins:NoneType":
        return type(None)
    module, _, path = name.partition(":")
    try:
        kind = operator.attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError):
        kind = None
    if not (isinstance(kind, type) and registry.is_node(kind)):
        raise bad("treedef_from_plain", f"{name!r} is not a class of tree nodes",
                  fix="make the class available under this name, and register it.",
                  exc=ValueError)  # fmt: skip
    return kind
