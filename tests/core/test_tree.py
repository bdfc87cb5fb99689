"""Trees: round trips, the same results as jax.tree_util, errors that name the path."""

import collections
import dataclasses
import functools
import pickle
import subprocess
import sys
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.core import tree, tree_nodes

OrderedDict, defaultdict = collections.OrderedDict, collections.defaultdict


class Point(NamedTuple):
    x: object
    y: object


@tree_nodes.register_pytree_with_keys_class
class Box:
    """A node with one child, a name as aux data, and keys."""

    def __init__(self, item, name):
        self.item, self.name = item, name

    def tree_flatten_with_keys(self):
        return ((tree.GetAttrKey("item"), self.item),), self.name

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children, aux)

    def __eq__(self, other):
        return (self.item, self.name) == (other.item, other.name)


@tree_nodes.register_dataclass
@dataclasses.dataclass
class Weights:
    w: object
    b: object
    name: str = dataclasses.field(default="", metadata={"static": True})


@tree_nodes.register_static
@dataclasses.dataclass(frozen=True)
class Mode:
    train: bool


def containers(children):
    keys = st.sampled_from("abcd")
    dicts = st.dictionaries(keys, children, max_size=3)
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        dicts,
        dicts.map(OrderedDict),
        dicts.map(lambda d: defaultdict(list, d)),
        st.builds(Point, children, children),
    )


plain_trees = st.recursive(st.one_of(st.integers(), st.none(), st.text()), containers, max_leaves=8)
our_trees = st.recursive(
    plain_trees,
    lambda t: st.one_of(
        containers(t),
        st.builds(Box, t, st.sampled_from("mn")),
        st.builds(Weights, t, t, st.sampled_from("uv")),
        st.builds(Mode, st.booleans()),
    ),
    max_leaves=8,
)


@given(our_trees)
@settings(deadline=None, max_examples=60)
def test_round_trip(t):
    leaves, treedef = tree.tree_flatten(t)
    assert tree.tree_unflatten(treedef, leaves) == t
    assert tree.tree_structure(t) == treedef
    assert treedef.num_leaves == len(leaves)
    with_paths, same = tree.tree_flatten_with_path(t)
    assert same == treedef
    assert [leaf for _, leaf in with_paths] == leaves
    assert len({tree.keystr(path) for path, _ in with_paths}) == len(leaves)
    assert tree.tree_mismatch("t", t, treedef) == []


@given(our_trees)
@settings(deadline=None, max_examples=60)
def test_structures_survive_pickling(t):
    treedef = tree.tree_structure(t)
    plain = pickle.loads(pickle.dumps(tree_nodes.treedef_to_plain(treedef)))
    assert tree_nodes.treedef_from_plain(plain) == treedef


@given(plain_trees)
@settings(deadline=None, max_examples=60)
def test_equals_jax(t):
    theirs = real_jax().tree_util
    leaves, treedef = tree.tree_flatten(t)
    assert leaves == theirs.tree_leaves(t)
    assert str(treedef) == str(theirs.tree_structure(t))
    for options in ({}, {"simple": True, "separator": "/"}):
        ours = [tree.keystr(path, **options) for path, _ in tree.tree_leaves_with_path(t)]
        paths = [path for path, _ in theirs.tree_leaves_with_path(t)]
        assert ours == [theirs.keystr(path, **options) for path in paths]
    assert tree.tree_map(str, t) == theirs.tree_map(str, t)
    none_is_leaf = {"is_leaf": lambda x: x is None}
    assert tree.tree_leaves(t, **none_is_leaf) == theirs.tree_leaves(t, **none_is_leaf)
    pairs = tree.tree_map(lambda leaf: (leaf, [leaf]), t)
    inner = tree.tree_structure((0, [0]))
    turned = tree.tree_transpose(treedef, inner, pairs)
    assert turned == (t, [t])
    if leaves:  # JAX's function fails without leaves
        their_inner = theirs.tree_structure((0, [0]))
        assert turned == theirs.tree_transpose(theirs.tree_structure(t), their_inner, pairs)
    assert tree.tree_broadcast(7, t) == theirs.tree_broadcast(7, t)
    assert tree.tree_reduce(lambda a, b: f"({a}{b})", t, "") == theirs.tree_reduce(
        lambda a, b: f"({a}{b})", t, ""
    )
    joined = tree.tree_reduce_associative(lambda a, b: f"({a}{b})", t, identity="")
    assert joined == theirs.tree_reduce_associative(lambda a, b: f"({a}{b})", t, identity="")
    assert tree.all_leaves(leaves) == theirs.all_leaves(leaves)


def test_the_public_names_of_jax_tree_util():
    theirs = real_jax().tree_util
    types_only = {"KeyEntry"}  # an annotation
    names = {name for name in dir(theirs) if not name.startswith("_")} - types_only
    missing = {n for n in names if not (hasattr(tree, n) or hasattr(tree_nodes, n))}
    assert not missing


def test_small_functions():
    td = tree.tree_structure({"a": 1, "b": (2, 3)})
    assert [str(c) for c in tree.treedef_children(td)] == ["PyTreeDef(*)", "PyTreeDef((*, *))"]
    assert tree.treedef_tuple([td, td]) == tree.tree_structure(({"a": 1, "b": (2, 3)},) * 2)
    assert tree.treedef_is_leaf(tree.tree_structure(0))
    assert not tree.treedef_is_leaf(td)
    assert tree.build_tree(td, [5, [6, 7]]) == {"a": 5, "b": (6, 7)}
    assert tree.tree_all({"a": 1, "b": [True]})
    assert not tree.tree_all({"a": 1, "b": [0]})
    assert tree.all_leaves([1, (2,)], is_leaf=lambda x: x == (2,))
    assert not tree.all_leaves([1, (2,)])
    assert tree.is_tree_node(dict)
    assert not tree.is_tree_node(set)
    assert tree.flatten_one_level((4, [5])) == ((4, [5]), None)
    assert tree.flatten_one_level_with_keys([4])[0] == ((tree.SequenceKey(0), 4),)
    with pytest.raises(ValueError, match=r"a leaf \(int\) is not a node"):
        tree.flatten_one_level(3)
    assert tree.tree_reduce(lambda a, b: a + b, [1, 2, 3]) == 6
    with pytest.raises(TypeError, match="identity"):
        tree.tree_reduce_associative(min, [])


def test_is_leaf_with_path():
    t = {"a": [1, 2], "b": [3]}
    stop = lambda path, x: tree.keystr(path) == "['a']"
    pairs = tree.tree_leaves_with_path(t, is_leaf=stop, is_leaf_takes_path=True)
    assert [(tree.keystr(p), x) for p, x in pairs] == [("['a']", [1, 2]), ("['b'][0]", 3)]
    out = tree.tree_map_with_path(
        lambda p, x, y: (tree.keystr(p, simple=True, separator="."), x, y),
        t, {"a": 5, "b": [6]}, is_leaf=stop, is_leaf_takes_path=True,
    )  # fmt: skip
    assert out == {"a": ("a", [1, 2], 5), "b": [("b.0", 3, 6)]}


def test_a_dict_that_cannot_be_sorted_is_named():
    assert_refused(lambda: tree.tree_flatten({"p": [0, {1: "x", "a": "y"}]}), ValueError,
                   ["tree['p'][1]: the keys of a dict cannot", "keys  1, 'a'"])


def test_tree_map_names_the_path_that_differs():
    a = {"layers": [{"w": 1, "b": 2}, {"w": 3}]}
    b = {"layers": [{"w": 1, "b": 2}, {"v": 3}]}
    assert_refused(lambda: tree.tree_map(max, a, a, b), ValueError,
                   ["tree 3 does not", "at ['layers'][1]", "a dict with keys 'w'", "a dict with keys 'v'"])
    with pytest.raises(ValueError, match="at the top  expected a tuple of 2, got a list of 2"):
        tree.tree_map(max, (1, 2), [1, 2])


def test_wrong_number_of_leaves():
    td = tree.tree_structure([1, 2, 3])
    for n in (2, 4):
        with pytest.raises(ValueError, match=f"has 3 leaves, but {n} were passed"):
            tree.tree_unflatten(td, range(n))
    with pytest.raises(TypeError, match="not an outer tree of inner trees"):
        tree.tree_transpose(td, tree.tree_structure((0, 0)), [(1, 2), (3, 4)])


def test_broadcast_prefix():
    full = {"a": (1, [2, 3]), "b": None, "c": Box(4, "n")}
    assert tree.broadcast_prefix(0, full) == [0] * 4
    assert tree.broadcast_prefix({"a": 0, "b": None, "c": 1}, full) == [0, 0, 0, 1]
    assert tree.broadcast_prefix({"a": (0, 5), "b": None, "c": Box(1, "n")}, full) == [0, 5, 5, 1]
    none_is_leaf = lambda x: x is None
    out = tree.broadcast_prefix({"a": (None, 1), "b": None, "c": None}, full, none_is_leaf)
    assert out == [None, 1, 1, None]
    with pytest.raises(
        ValueError, match=r"at \['a'\]\[1\]  expected a tuple of 2, got a list of 2"
    ):
        tree.broadcast_prefix({"a": (0, (1, 2)), "b": None, "c": 0}, full)
    with pytest.raises(ValueError, match=r"at \['c'\]  expected a Box with 'm', got one with 'n'"):
        tree.broadcast_prefix({"a": 0, "b": None, "c": Box(0, "m")}, full)
    with pytest.raises(ValueError, match=r"at \['a'\]  expected None"):
        tree.broadcast_prefix({"a": None, "b": None, "c": 0}, full)


def test_flatten_axes():
    td = tree.tree_structure(({"w": 1, "b": 2}, [3, 4], 5))
    assert tree.flatten_axes("vmap in_axes", td, (0, None, 1)) == [0, 0, None, None, 1]
    assert tree.flatten_axes("vmap in_axes", td, ({"b": None, "w": 1}, 0, 0)) == [None, 1, 0, 0, 0]
    assert tree.flatten_axes("vmap in_axes", td, None) == [None] * 5
    with pytest.raises(ValueError, match=r"vmap in_axes: .*\n  at the top  expected a tuple of 2"):
        tree.flatten_axes("vmap in_axes", td, (0, 1))
    with pytest.raises(ValueError, match=r"at \[0\]  .* keys 'w', got a dict with keys"):
        tree.flatten_axes("vmap in_axes", td, ({"w": 1}, 0, 0))


def test_tree_mismatch_lists_every_difference():
    a = {"x": 1, "y": (2, 3), "z": [4], "k": Box(1, "m")}
    b = {"x": [1], "y": (2, 3, 3), "z": [4], "k": Box(1, "n")}
    assert tree.tree_mismatch("carry", a, b) == [
        "carry['k']  expected a Box with 'm', got one with 'n'",
        "carry['x']  expected a leaf (int), got a list of 1",
        "carry['y']  expected a tuple of 2, got a tuple of 3",
    ]
    from_structures = tree.tree_mismatch("carry", tree.tree_structure(a), tree.tree_structure(b))
    assert from_structures[1] == "carry['x']  expected a leaf, got a list of 1"
    assert len(from_structures) == 3


def test_registration_errors():
    with pytest.raises(ValueError, match="Box is already registered"):
        tree_nodes.register_pytree_node(Box, lambda b: ((), None), lambda aux, ch: None)
    with pytest.raises(ValueError, match="Weights is already registered"):
        tree_nodes.register_dataclass(Weights)
    with pytest.raises(TypeError, match="is not a class"):
        tree_nodes.register_pytree_node("Box", lambda b: ((), None), lambda aux, ch: None)

    @dataclasses.dataclass
    class Three:
        a: int
        b: int
        c: int = 0

    with pytest.raises(ValueError, match="neither data nor meta  b, c"):
        tree_nodes.register_dataclass(Three, ["a"], [])
    with pytest.raises(ValueError, match="both data and meta  a"):
        tree_nodes.register_dataclass(Three, ["a", "b", "c"], ["a"])
    with pytest.raises(ValueError, match="not an argument of the constructor  d"):
        tree_nodes.register_dataclass(Three, ["a", "b", "c", "d"], [])
    with pytest.raises(TypeError, match="both lists"):
        tree_nodes.register_dataclass(Three, ["a"])
    tree_nodes.register_dataclass(Three, drop_fields=["c"])
    assert tree.tree_leaves(Three(1, 2, 3)) == [1, 2]
    with pytest.raises(TypeError, match="local to a function"):
        tree_nodes.treedef_to_plain(tree.tree_structure(Three(1, 2)))
    for name in ("no_such_module:X", "builtins:no_such", "builtins:set", "math:pi"):
        with pytest.raises(ValueError, match="not a class of tree nodes"):
            tree_nodes.treedef_from_plain((name, None, ()))


def test_node_class_without_keys_gets_indices():
    @tree_nodes.register_pytree_node_class
    class Pair:
        def __init__(self, x, y):
            self.x, self.y = x, y

        def tree_flatten(self):
            return (self.x, self.y), None

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls(*children)

    paths = [tree.keystr(p) for p, _ in tree.tree_leaves_with_path([Pair(1, (2,))])]
    assert paths == ["[0][<flat index 0>]", "[0][<flat index 1>][0]"]


def test_partial():
    f = tree_nodes.Partial(lambda *args, **kw: (args, kw), 1, k=[2])
    assert tree.tree_leaves(f) == [1, 2]
    assert tree.tree_map(lambda x: x * 10, f)(5) == ((10, 5), {"k": [20]})
    inner = functools.partial(max, 3)
    boxed = tree_nodes.Partial(inner, 7)
    assert tree.tree_leaves(boxed) == [7]  # the arguments of an inner partial are not children
    assert boxed() == 7
    same = tree_nodes.Partial(inner, 9)
    assert tree.tree_structure(boxed) == tree.tree_structure(same)
    assert tree.tree_map(lambda x: x - 5, boxed)() == 3


def test_jax_can_be_imported_later():
    real_jax()
    program = (
        "import sys, collections\n"
        "from xjax.core import tree, tree_nodes\n"
        "assert 'jax' not in sys.modules\n"
        "t = collections.OrderedDict(b=1, a=collections.defaultdict(list, c=2))\n"
        "ours = tree.tree_leaves(t)\n"
        "import jax\n"
        "assert jax.tree_util.tree_leaves(t) == ours == [1, 2], ours\n"
        "class Ours: pass\n"
        "tree_nodes.register_pytree_node(Ours, lambda o: ((), 0), lambda a, c: Ours())\n"
        "assert tree.tree_leaves(Ours()) == [] and len(jax.tree_util.tree_leaves(Ours())) == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
