"""Errors of `tree` functions for wrong arguments: whole messages, with the path and the difference; unusual trees."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections import OrderedDict, defaultdict
from typing import NamedTuple

import pytest

import xjax
from tests.oracle import real_jax
from xjax import tree_util


class Point(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass
class Pair:
    a: object
    b: object = 0


def a_list_in_itself():
    outer = {"k": [1]}
    outer["k"].append(outer)
    return outer


def nested(depth):
    tree = 0
    for _ in range(depth):
        tree = [tree]
    return tree


structure = tree_util.tree_structure
MISUSE = {
    "another key": (lambda: xjax.tree.map(max, {"a": [1, {"w": 2}]}, {"a": [1, {"v": 2}]}), ValueError, """
tree_map: tree 2 does not have the structure of tree 1.
  at ['a'][1]  expected a dict with keys 'w', got a dict with keys 'v'
  fix: use the same containers in both, down to the leaves of the first (a leaf matches any sub-tree)."""),
    "another container": (lambda: xjax.tree.map(max, Point(1, 2), (1, 2)), ValueError, """
tree_map: tree 2 does not have the structure of tree 1.
  at the top  expected a Point of 2, got a tuple of 2
  fix: use the same containers in both, down to the leaves of the first (a leaf matches any sub-tree)."""),
    "another length": (lambda: xjax.tree.map_with_path(max, (0, [1, 2]), (0, [1])), ValueError, """
tree_map_with_path: tree 2 does not have the structure of tree 1.
  at [1]  expected a list of 2, got a list of 1
  fix: use the same containers in both, down to the leaves of the first (a leaf matches any sub-tree)."""),
    "None is a container": (lambda: xjax.tree.map(max, {"a": None}, {"a": 3}), ValueError, """
tree_map: tree 2 does not have the structure of tree 1.
  at ['a']  expected None, got a leaf (int)
  fix: use the same containers in both, down to the leaves of the first (a leaf matches any sub-tree)."""),
    "no prefix": (lambda: xjax.tree.broadcast({"a": 1, "c": 2}, {"a": (1, 2), "b": 3}), ValueError, """
tree_broadcast: a prefix does not match the full tree.
  at the top  expected a dict with keys 'a', 'c', got a dict with keys 'a', 'b'
  fix: use the same containers in both, down to the leaves of the first (a leaf matches any sub-tree)."""),
    "number of leaves": (lambda: xjax.tree.unflatten(structure({"a": 0, "b": 0}), [1]), ValueError, """
tree_unflatten: the structure has 2 leaves, but 1 were passed.
  structure  PyTreeDef({'a': *, 'b': *})
  fix: pass one value for each leaf (*)."""),
    "arguments exchanged": (lambda: xjax.tree.unflatten([1, 2], structure([0, 0])), TypeError, """
tree_unflatten: the first argument must be a structure.
  given  a list of 2
  fix: pass (treedef, leaves); tree_flatten returns them in the opposite order."""),
    "wrong inner structure": (
        lambda: xjax.tree.transpose(structure([0, 0]), structure((0, 0)), [(1, 2), (3, 4, 5)]), TypeError, """
tree_transpose: the structure is not an outer tree of inner trees.
  expected  PyTreeDef([(*, *), (*, *)])
  given     PyTreeDef([(*, *), (*, *, *)])
  fix: pass a tree of structure outer_treedef in which each leaf is a tree of structure inner_treedef."""),
    "no inner tree": (lambda: xjax.tree.transpose(structure([]), None, []), TypeError, """
tree_transpose: the outer tree has no leaf that defines the inner structure.
  outer  PyTreeDef([])
  fix: pass inner_treedef."""),
    "nothing to reduce": (lambda: xjax.tree.reduce(max, {}), TypeError, """
tree_reduce: the tree has no leaves.
  fix: pass an initializer."""),
    "keys without an order": (lambda: xjax.tree.leaves_with_path({"p": [0, {1: "x", "a": "y"}]}), ValueError, """
tree['p'][1]: the keys of a dict cannot be sorted, so its leaves have no order.
  keys  1, 'a'
  fix: use keys of one type, or an OrderedDict."""),
    "keys without an order, in an argument": (lambda: xjax.jit(len)([defaultdict(int, {1: 2, "a": 3})]), ValueError, """
tree[0][0][0]: the keys of a dict cannot be sorted, so its leaves have no order.
  keys  1, 'a'
  fix: use keys of one type, or an OrderedDict."""),
    "a cycle": (lambda: xjax.tree.leaves(a_list_in_itself()), RecursionError, """
tree: a container contains itself.
  at  tree['k'][1]
  fix: break the cycle: a tree cannot contain itself."""),
    "too deep": (lambda: xjax.tree.map(str, nested(20_000)), RecursionError, """
tree: is nested 20000 levels deep, which is too deep.
  at  tree[0][0][0][0][0]
  fix: store the items in one list, or raise the limit by sys.setrecursionlimit."""),
    "one level of a leaf": (lambda: tree_util.flatten_one_level(3), ValueError, """
flatten_one_level: a leaf (int) is not a node of a tree.
  fix: pass a container, or register the type."""),
    "registered twice": (lambda: tree_util.register_static(Point and dict), ValueError, """
register_pytree_node: dict is already registered.
  fix: register each class once."""),
    "fields that are not listed": (lambda: tree_util.register_dataclass(Pair, ["a"], []), ValueError, """
register_dataclass: the lists do not match the fields of Pair.
  neither data nor meta  b
  fix: list each constructor argument once, as data, meta or in drop_fields."""),
}


@pytest.mark.parametrize("name", MISUSE)
def test_message(name):
    run, error, text = MISUSE[name]
    with pytest.raises(error) as caught:
        run()
    assert str(caught.value) == text.strip()


def test_an_error_of_the_users_own_function_is_left_alone():
    with pytest.raises(TypeError, match="can only concatenate"):
        xjax.tree.leaves([1, 2], is_leaf=lambda x: x + "a")
    with pytest.raises(ValueError, match="mine"):
        xjax.tree.flatten_with_path([1], is_leaf=lambda x: (_ for _ in ()).throw(ValueError("mine")))


def test_structures_are_pickled_and_copied():
    tree = {"b": [1, None], "a": OrderedDict(z=Point(1, 2)), "c": defaultdict(list, k=3)}
    leaves, treedef = xjax.tree.flatten(tree)
    for again in (pickle.loads(pickle.dumps(treedef)), copy.deepcopy(treedef), copy.copy(treedef)):
        assert again == treedef and hash(again) == hash(treedef) and again.unflatten(leaves) == tree


def test_pickling_the_structures_of_jax_is_left_alone():
    jax = real_jax()
    treedef = jax.tree.structure({"a": (1, None)})
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert jax.tree.unflatten(pickle.loads(pickle.dumps(treedef)), [5]) == {"a": (5, None)}


def test_static_fields_as_jax():
    for lib in (xjax, real_jax()):
        @lib.tree_util.register_dataclass
        @dataclasses.dataclass
        class Scaled:
            w: object
            power: int = lib.tree.static(default=2, metadata={"unit": "m"})

        leaves, treedef = lib.tree.flatten(Scaled(0.5))
        assert leaves == [0.5] and lib.tree.unflatten(treedef, [3]) == Scaled(3, 2)
        assert dataclasses.fields(Scaled)[1].metadata["unit"] == "m"
        assert lib.tree.structure(Scaled(0.5, 3)) != treedef


@tree_util.register_pytree_node_class
class Scalar:
    """Its constructor accepts numbers and arrays, and nothing else."""

    def __init__(self, x):
        self.x = xjax.numpy.asarray(x)

    def tree_flatten(self):
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _, xs):
        return cls(*xs)


def test_a_constructor_that_refuses_placeholders():
    """The structure alone is used where no values are known: such a class works in all transforms."""
    x, more = Scalar(2.0), lambda c: Scalar(c.x + 1.0)
    assert xjax.jit(lambda x, pair: Scalar(x.x * pair["b"][0].x))(x, {"b": [x], "c": 1.0}).x == 4.0
    assert xjax.jit(more, donate_argnums=0)(Scalar(7.0)).x == 8.0
    assert xjax.grad(lambda x: x.x**2)(x).x == 4.0
    assert xjax.vmap(lambda x: x.x * 2, in_axes=None, axis_size=3)(x).tolist() == [4.0] * 3
    assert xjax.lax.scan(lambda c, _: (more(c), None), x, None, 3)[0].x == 5.0
    assert xjax.lax.while_loop(lambda c: c.x < 10, more, x).x == 10.0
    assert xjax.lax.fori_loop(0, 3, lambda i, c: more(c), x).x == 5.0
    assert xjax.jit(lambda x: xjax.lax.cond(x.x > 0, more, lambda x: x, x))(x).x == 3.0
    assert xjax.lax.custom_linear_solve(lambda v: Scalar(v.x * 2), x, lambda _, b: (Scalar(b.x / 2), b),
                                        has_aux=True)[1].x == 2.0
    square = xjax.custom_vjp(lambda x: x.x**2)
    square.defvjp(lambda x: (square(x), x), lambda x, ct: (Scalar(2 * x.x * ct),))
    assert xjax.jit(xjax.grad(square))(x).x == 4.0
    assert xjax.eval_shape(lambda x: x.x, x).shape == ()
    with pytest.raises(xjax.errors.TracerBoolConversionError, match="traced value bool"):
        xjax.jit(lambda x: bool(x.x > 0))(x)
