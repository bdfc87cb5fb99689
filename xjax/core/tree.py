"""Pytrees: nested containers of leaves, flattened and rebuilt by jaxlib's C++ code.

Nodes are tuple, list, dict (keys in sorted order), namedtuple, None (a node without children), OrderedDict,
defaultdict, and the types registered by `xjax.core.tree_nodes`; any other value is a leaf. The registry is separate
from that of the real JAX, so that both libraries work in one process: a type registered in one is not registered in
the other.

The public functions are the functions of `jax.tree_util`. They are followed by functions for transforms: `flatten`,
`broadcast_prefix`, `flatten_axes`, `tree_mismatch`.
"""

from __future__ import annotations

import copyreg
import functools
import operator
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from jaxlib import _jax

from xjax.core.errors import bad
from xjax.typing import PyTree

if TYPE_CHECKING:
    # jaxlib's classes, which come without types.
    class PyTreeDef:
        num_leaves: int
        num_nodes: int

        def children(self) -> list[PyTreeDef]: ...
        def compose(self, inner: PyTreeDef, /) -> PyTreeDef: ...
        def flatten_up_to(self, tree: PyTree, /) -> list[Any]: ...
        def from_iterable_tree(self, xs: Iterable[Any], /) -> PyTree: ...
        def node_data(self) -> tuple[type, Any] | None: ...
        def unflatten(self, leaves: Iterable[Any], /) -> PyTree: ...

    class SequenceKey:
        idx: int

        def __init__(self, idx: int): ...

    class DictKey:
        key: Hashable

        def __init__(self, key: Hashable): ...

    class GetAttrKey:
        name: str

        def __init__(self, name: str): ...

    class FlattenedIndexKey:
        key: int

        def __init__(self, key: int): ...
else:
    PyTreeDef = _jax.pytree.PyTreeDef
    SequenceKey = _jax.pytree.SequenceKey
    DictKey = _jax.pytree.DictKey
    GetAttrKey = _jax.pytree.GetAttrKey
    FlattenedIndexKey = _jax.pytree.FlattenedIndexKey
T = TypeVar("T")
KeyEntry = TypeVar("KeyEntry", bound=Hashable)
KeyPath = tuple[Any, ...]
IsLeaf = Callable[[Any], bool] | None

registry = default_registry = _jax.pytree.PyTreeRegistry()

_MISSING: Any = object()


def _our_registry() -> object:
    return registry


def _reduce_registry(other: object) -> str | tuple:
    """The pickled form of a registry: ours by a function of this module, another by its own `__reduce__`."""
    return (_our_registry, ()) if other is registry else other.__reduce__()


copyreg.pickle(type(registry), _reduce_registry)        # a structure is pickled with its registry

registry.register_node(
    OrderedDict,
    lambda d: (tuple(d.values()), tuple(d)),
    lambda keys, values: OrderedDict(zip(keys, values, strict=True)),
    lambda d: (tuple((DictKey(k), v) for k, v in d.items()), tuple(d)),
)
registry.register_node(
    defaultdict,
    lambda d: (tuple(d[k] for k in sorted(d)), (d.default_factory, tuple(sorted(d)))),
    lambda aux, values: defaultdict(aux[0], zip(aux[1], values, strict=True)),
    lambda d: (
        tuple((DictKey(k), d[k]) for k in sorted(d)),
        (d.default_factory, tuple(sorted(d))),
    ),
)

# ------------------------------------------------------------------------- flatten and rebuild


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree, in a fixed order, and its structure.

    Args: is_leaf: called on each node; a node for which it is True is treated as a leaf.
    Raises: ValueError if the keys of a dict cannot be sorted, RecursionError if a container contains itself.

    >>> tree_flatten({"b": 1, "a": (2, None)})
    ([2, 1], PyTreeDef({'a': (*, None), 'b': *}))
    """
    try:
        return registry.flatten(tree, is_leaf)
    except _FAULTS as error:
        _explain(tree, error)
        raise


flatten = tree_flatten
_FAULTS = (ValueError, TypeError, RecursionError, SystemError)


def _explain(tree: PyTree, error: Exception) -> None:
    """Raise a clearer error, with the path, if the tree itself cannot be flattened."""
    deep = isinstance(error, (RecursionError, SystemError))     # jaxlib raises SystemError for a recursion error
    clearer = _too_deep(tree) if deep else _unsortable(tree)
    if clearer is not None:
        raise clearer from error


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> PyTree:
    """The tree of this structure with these leaves; ValueError if their number is wrong."""
    if not isinstance(treedef, PyTreeDef):
        raise bad("tree_unflatten", "the first argument must be a structure", {"given": _outline(treedef)},
                  "pass (treedef, leaves); tree_flatten returns them in the opposite order.")  # fmt: skip
    leaves = list(leaves)
    if len(leaves) != treedef.num_leaves:
        raise bad(
            "tree_unflatten",
            f"the structure has {treedef.num_leaves} leaves, but {len(leaves)} were passed",
            {"structure": str(treedef)},
            "pass one value for each leaf (*).",
            ValueError,
        )
    return treedef.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> PyTreeDef:
    """The structure of a tree, without its leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(f: Callable, tree: PyTree, *rest: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Apply f to the leaves; each further tree must have the structure of the first, or be deeper.

    Raises: ValueError with the path where a further tree differs.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    columns = [leaves, *_columns("tree_map", tree, treedef, rest, is_leaf)]
    return treedef.unflatten(f(*xs) for xs in zip(*columns, strict=True))


def _columns(caller: str, tree: PyTree, treedef: PyTreeDef, rest: Sequence, is_leaf: IsLeaf) -> list:
    columns = []
    for i, other in enumerate(rest):
        try:
            columns.append(treedef.flatten_up_to(other))
        except (ValueError, TypeError) as error:
            what = f"tree {i + 2} does not have the structure of tree 1"
            raise _prefix_error(caller, what, tree, other, is_leaf) or error from None
    return columns


def tree_reduce(
    function: Callable[[T, Any], T], tree: PyTree, initializer: T = _MISSING, is_leaf: IsLeaf = None
) -> T:
    """Fold the leaves from left to right: ``function(function(leaf0, leaf1), leaf2)``.

    Raises: TypeError if there are neither leaves nor an initializer.
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is not _MISSING:
        return functools.reduce(function, leaves, initializer)
    if not leaves:
        raise bad("tree_reduce", "the tree has no leaves", fix="pass an initializer.")
    return functools.reduce(function, leaves)


def tree_reduce_associative(
    operation: Callable[[T, T], T], tree: PyTree, *, identity: T = _MISSING, is_leaf: IsLeaf = None
) -> T:
    """Fold the leaves by halves (depth log n), for an operation that is associative.

    >>> tree_reduce_associative(lambda a, b: f"({a}{b})", ["a", "b", "c", "d"])
    '((ab)(cd))'
    """
    leaves = tree_leaves(tree, is_leaf)
    if not leaves:
        if identity is _MISSING:
            raise bad("tree_reduce_associative", "the tree has no leaves", fix="pass identity=...")
        return identity
    return _fold(operation, leaves)


def _fold(operation: Callable[[T, T], T], items: list[T]) -> T:
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    return operation(_fold(operation, items[:half]), _fold(operation, items[half:]))


def tree_all(tree: PyTree, *, is_leaf: IsLeaf = None) -> bool:
    """True if all leaves are true."""
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: PyTree
) -> PyTree:
    """Convert an outer tree of inner trees to an inner tree of outer trees.

    Args: inner_treedef: the inner structure; None: that of the first inner tree.

    >>> tree_transpose(tree_structure([0, 0]), None, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = _first_inner(outer_treedef, pytree_to_transpose)
    n_outer, n_inner = outer_treedef.num_leaves, inner_treedef.num_leaves
    if len(leaves) != n_outer * n_inner:
        raise bad(
            "tree_transpose",
            "the structure is not an outer tree of inner trees",
            {"expected": str(outer_treedef.compose(inner_treedef)), "given": str(treedef)},
            "pass a tree of structure outer_treedef in which each leaf is a tree of structure inner_treedef.",
        )
    columns = (leaves[i::n_inner] for i in range(n_inner))
    return inner_treedef.unflatten(outer_treedef.unflatten(column) for column in columns)


def _first_inner(outer_treedef: PyTreeDef, tree: PyTree) -> PyTreeDef:
    if not outer_treedef.num_leaves:
        raise bad("tree_transpose", "the outer tree has no leaf that defines the inner structure",
                  {"outer": str(outer_treedef)}, "pass inner_treedef.")  # fmt: skip
    (inner,) = _columns("tree_transpose", skeleton(outer_treedef), outer_treedef, [tree], None)
    return tree_structure(inner[0])


def tree_broadcast(prefix_tree: PyTree, full_tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Repeat each leaf of a prefix for all leaves of the sub-tree at its position in the full tree.

    >>> tree_broadcast({"a": 1, "b": 2}, {"a": "x", "b": ["y", "z"]})
    {'a': 1, 'b': [2, 2]}
    """
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf, "tree_broadcast")
    return tree_structure(full_tree).unflatten(leaves)


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """True if all items are leaves."""
    if is_leaf is None:
        return _jax.pytree.all_leaves(registry, iterable)
    items = list(iterable)
    leaves = tree_leaves(items, is_leaf)
    return len(leaves) == len(items) and all(map(operator.is_, leaves, items))


def build_tree(treedef: PyTreeDef, xs: Iterable[Any]) -> PyTree:
    """Rebuild a tree from nested iterables, one for each node, each in the order of the children.

    >>> build_tree(tree_structure({"a": 0, "b": (0, 0)}), [5, [6, 7]])
    {'a': 5, 'b': (6, 7)}
    """
    return treedef.from_iterable_tree(xs)


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees."""
    return _jax.pytree.treedef_tuple(registry, list(treedefs))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children of the topmost node."""
    return treedef.children()


def is_pair(treedef: PyTreeDef) -> bool:
    """True for the structure of a tuple or list of two."""
    kind, _ = treedef.node_data() or (object, None)
    return issubclass(kind, (tuple, list)) and len(treedef.children()) == 2


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """True for the structure of a single leaf, and of a node without children."""
    return treedef.num_nodes == 1


def flatten_one_level(tree: PyTree) -> tuple[Iterable[Any], Any]:
    """(children, aux data) of the topmost node; ValueError for a leaf."""
    return _top(tree, "flatten_one_level", registry.flatten_one_level)


def flatten_one_level_with_keys(tree: PyTree) -> tuple[Iterable[tuple[Any, Any]], Any]:
    """((key, child) pairs, aux data) of the topmost node; ValueError for a leaf."""
    return _top(tree, "flatten_one_level_with_keys", registry.flatten_one_level_with_keys)


def _top(tree: PyTree, caller: str, method: Callable) -> tuple:
    level = method(tree)
    if level is None:
        raise bad(caller, f"{_outline(tree)} is not a node of a tree",
                  fix="pass a container, or register the type.", exc=ValueError)  # fmt: skip
    return level


def is_tree_node(typ: type) -> bool:
    """True if values of exactly this type are nodes, including namedtuples."""
    return registry.is_node(typ)


# ---------------------------------------------------------------------------------- key paths


def tree_flatten_with_path(
    tree: PyTree, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The pairs [(path, leaf), ...] and the structure; a path is a tuple of keys, see `keystr`."""
    predicate = is_leaf if is_leaf is None or is_leaf_takes_path else lambda _path, x: is_leaf(x)

    try:
        return registry.flatten_with_path(tree, predicate)
    except _FAULTS as error:
        _explain(tree, error)
        raise


def tree_leaves_with_path(
    tree: PyTree, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The pairs [(path, leaf), ...] of a tree."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable, tree: PyTree, *rest: PyTree, is_leaf: Callable | None = None, is_leaf_takes_path: bool = False
) -> PyTree:
    """Like `tree_map`, with the path as the first argument of f.

    >>> tree_map_with_path(lambda path, x: keystr(path) + x, {"a": ["x", "y"]})
    {'a': ["['a'][0]x", "['a'][1]y"]}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    plain = None if is_leaf_takes_path else is_leaf
    columns = _columns("tree_map_with_path", tree, treedef, rest, plain)
    rows = zip(pairs, *columns, strict=True)
    return treedef.unflatten(f(path, x, *others) for (path, x), *others in rows)


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text: ``['a'][0].w``, or ``a/0/w`` with ``simple=True, separator="/"``."""
    return separator.join(map(_simple_key if simple else str, keys))


def leaf_paths(name: str, treedef: PyTreeDef) -> list[str]:
    """The name and path of each leaf of a structure: ``carry['h']``; the name itself for a single leaf."""
    tree = skeleton(treedef)
    return [name + keystr(path) for path, _ in tree_flatten_with_path(tree)[0]]


def _simple_key(key: object) -> str:
    for field in ("idx", "key", "name"):
        if isinstance(key, _KEY_CLASSES) and hasattr(key, field):
            return str(getattr(key, field))
    return str(key)


_KEY_CLASSES = (SequenceKey, DictKey, GetAttrKey, FlattenedIndexKey)

# ------------------------------------------------------------------- prefixes and their mismatches


def broadcast_prefix(
    prefix: PyTree, full: PyTree, is_leaf: IsLeaf = None, caller: str = "tree prefix"
) -> list[Any]:
    """For each leaf of `full`, the leaf of `prefix` at or above it.

    Raises: ValueError with the path, both structures there, and a fix.

    >>> broadcast_prefix((0, 1), ("x", {"a": "y", "b": "z"}))
    [0, 1, 1]
    """
    leaves, treedef = tree_flatten(prefix, is_leaf)
    try:
        subtrees = treedef.flatten_up_to(full)
    except (ValueError, TypeError) as error:
        what = "a prefix does not match the full tree"
        raise _prefix_error(caller, what, prefix, full, is_leaf) or error from None
    out: list[Any] = []
    for leaf, subtree in zip(leaves, subtrees, strict=True):
        out += [leaf] * flatten(subtree)[1].num_leaves
    return out


def flatten_axes(caller: str, treedef: PyTreeDef, axes: PyTree) -> list[Any]:
    """An entry of `axes` (a prefix; entries may be None) for each leaf of `treedef`."""
    return broadcast_prefix(axes, skeleton(treedef), lambda x: x is None, caller)


def tree_mismatch(caller: str, expected: PyTree, got: PyTree) -> list[str]:
    """Lines that describe where two trees (or structures) differ; [] if they do not differ.

    >>> for line in tree_mismatch("carry", {"a": 1, "b": (2, 3)}, {"a": 1, "b": [2, 3]}):
    ...     print(line)
    carry['b']  expected a tuple of 2, got a list of 2
    """
    differences = _differences((), _as_tree(expected), _as_tree(got), None, exact=True)
    return [f"{caller}{keystr(path)}  expected {a}, got {b}" for path, a, b in differences]


def tree_differences(old: PyTreeDef, new: PyTreeDef) -> list[tuple[KeyPath, str, str]]:
    """(path, outline in `old`, outline in `new`) at each place where two structures differ."""
    return list(_differences((), _as_tree(old), _as_tree(new), None, exact=True))


def prefix_differences(prefix: PyTree, full: PyTree, is_leaf: IsLeaf = None) -> Iterator[tuple[KeyPath, str, str]]:
    """(path, outline in `prefix`, outline in `full`) at each place where the first is not a prefix of the second."""
    return _differences((), prefix, full, is_leaf, exact=False)


def _prefix_error(caller: str, what: str, prefix: PyTree, full: PyTree, is_leaf: IsLeaf):
    difference = next(prefix_differences(prefix, full, is_leaf), None)
    if difference is None:
        return None
    path, expected, got = difference
    place = f"at {keystr(path)}" if path else "at the top"
    given = {place: f"expected {expected}, got {got}"}
    fix = "use the same containers in both, down to the leaves of the first (a leaf matches any sub-tree)."
    return bad(caller, what, given, fix, ValueError)


def _differences(
    path: KeyPath, a: PyTree, b: PyTree, is_leaf: IsLeaf, exact: bool
) -> Iterator[tuple[KeyPath, str, str]]:
    """(path, outline of a, outline of b) at each place where a is not a prefix of b; `exact`: where they differ."""
    top_a = None if is_leaf is not None and is_leaf(a) else registry.flatten_one_level_with_keys(a)
    top_b = registry.flatten_one_level_with_keys(b)
    if top_a is None:
        if exact and top_b is not None:
            yield path, _outline(a), _outline(b)
        return
    if top_b is None or type(a) is not type(b):
        yield path, _outline(a), _outline(b)
        return
    (pairs_a, aux_a), (pairs_b, aux_b) = top_a, top_b
    pairs_a, pairs_b = list(pairs_a), list(pairs_b)
    keys_a, keys_b = ([str(key) for key, _ in pairs] for pairs in (pairs_a, pairs_b))
    if keys_a != keys_b:
        yield path, _outline(a), _outline(b)
        return
    if aux_a != aux_b:
        yield path, f"{_outline(a)} with {aux_a!r}", f"one with {aux_b!r}"
        return
    for (key, child_a), (_, child_b) in zip(pairs_a, pairs_b, strict=True):
        yield from _differences((*path, key), child_a, child_b, is_leaf, exact)


def _outline(x: object) -> str:
    kind = type(x).__name__
    if x is None:
        return "None"
    if x is _LEAF:
        return "a leaf"
    if isinstance(x, dict):
        return f"a {kind} with keys {', '.join(map(repr, x)) or '(none)'}"
    if isinstance(x, (tuple, list)):
        return f"a {kind} of {len(x)}"
    if registry.is_node(type(x)):
        return f"a {kind}"
    str_short = getattr(getattr(x, "aval", x), "str_short", None)
    return f"a leaf ({str_short() if callable(str_short) else kind})"


# In place of a leaf in a tree that is rebuilt from its structure. Classes of libraries recognize its type `object`.
_LEAF = object()


def skeleton(treedef: PyTreeDef) -> PyTree:
    """A tree of this structure, with `object()` as each leaf.

    A registered class whose constructor refuses such leaves is replaced by a tuple of its children.
    """
    try:
        return treedef.unflatten([_LEAF] * treedef.num_leaves)
    except Exception:                           # of the constructor, which may be any code
        children = [skeleton(child) for child in treedef.children()]
        kind, data = treedef.node_data() or (tuple, None)
        return dict(zip(data, children, strict=True)) if kind is dict else tuple(children)


def _as_tree(x: PyTree) -> PyTree:
    return skeleton(x) if isinstance(x, PyTreeDef) else x


def _unsortable(tree: PyTree, path: KeyPath = ()) -> Exception | None:
    """The error for the first dict whose keys cannot be sorted; None if there is none."""
    if isinstance(tree, dict):
        try:
            sorted(tree)
        except TypeError:
            return bad(
                f"tree{keystr(path)}",
                "the keys of a dict cannot be sorted, so its leaves have no order",
                {"keys": ", ".join(map(repr, tree))},
                "use keys of one type, or an OrderedDict.",
                ValueError,
            )
    try:
        pairs = (registry.flatten_one_level_with_keys(tree) or ((), None))[0]
    except ValueError:
        return None
    errors = (_unsortable(child, (*path, key)) for key, child in pairs)
    return next((error for error in errors if error is not None), None)


def _too_deep(tree: PyTree) -> Exception:
    """The error for a container that contains itself, or is nested too deeply to be flattened."""
    above: set[int] = set()                         # the containers around the current node
    todo: list[tuple] = [(tree, None, 1, True)]     # (node, (place of its container, key), depth, whether to enter it)
    deepest, levels = None, 0
    while todo:
        node, place, depth, entering = todo.pop()
        if not entering:
            above.discard(id(node))
            continue
        if id(node) in above:
            return bad("tree", "a container contains itself", {"at": f"tree{keystr(_path(place))}"},
                       "break the cycle: a tree cannot contain itself.", RecursionError)  # fmt: skip
        top = registry.flatten_one_level_with_keys(node)
        if top is None:
            continue
        if depth > levels:
            deepest, levels = place, depth
        above.add(id(node))
        todo.append((node, place, depth, False))
        todo += [(child, (place, key), depth + 1, True) for key, child in top[0]]
    return bad("tree", f"is nested {levels} levels deep, which is too deep",
               {"at": f"tree{keystr(_path(deepest)[:5])}"},
               "store the items in one list, or raise the limit by sys.setrecursionlimit.", RecursionError)  # fmt: skip


def _path(place: tuple | None) -> KeyPath:
    """The keys from the root to a place ``((... , key), key)``."""
    keys = []
    while place is not None:
        place, key = place
        keys.append(key)
    return tuple(reversed(keys))
