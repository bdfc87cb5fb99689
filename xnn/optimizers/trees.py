"""Optimizers for trees of arrays from rules for one array, and their state, packed and unpacked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeAlias

from xjax import tree_util
from xjax.errors import bad, tree_mismatch
from xjax.typing import Params, PyTree
from xnn.optimizers.schedules import Step

State: TypeAlias = PyTree
Updates: TypeAlias = PyTree
InitFn = Callable[[Params], "OptimizerState"]
UpdateFn = Callable[[Step, Updates, "OptimizerState"], "OptimizerState"]
ParamsFn = Callable[["OptimizerState"], Params]
P = ParamSpec("P")


class Optimizer(NamedTuple):
    """An optimizer: a tuple of three functions.

    Attributes:
      init_fn: ``params -> opt_state``.
      update_fn: ``(step, grads, opt_state) -> opt_state``; grads has the structure of params.
      params_fn: ``opt_state -> params``.
    """

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


class OptimizerState(NamedTuple):
    """The states of all parameters; a pytree, so that it works with jit, pmap, scan and `tree_map`.

    Attributes:
      packed_state: for each parameter, the leaves of its state; the only part that holds arrays.
      tree_def: structure of the parameters.
      subtree_defs: for each parameter, the structure of its state.
    """

    packed_state: Sequence[Sequence[Any]]
    tree_def: Any
    subtree_defs: Sequence[Any]


tree_util.register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), state[1:]),
    lambda defs, children: OptimizerState(*children, *defs),
    lambda state: (((tree_util.GetAttrKey("packed_state"), state.packed_state),), state[1:]))


def optimizer(opt_maker: Callable[P, tuple[Callable, Callable, Callable]]) -> Callable[P, Optimizer]:
    """Decorator that extends an optimizer for one array to trees of arrays.

    Args:
      opt_maker: a function with any arguments that returns the triple ``init(x) -> state``,
        ``update(i, g, state) -> state``, ``get_params(state) -> x`` for one array. The state is a tree of constant
        structure.
    Returns: a function with the same arguments that returns an `Optimizer` for trees. Its update raises TypeError if
      the gradients do not have the structure of the parameters, or if the rule changes the structure of its state.

    >>> @optimizer
    ... def sign_descent(step_size):
    ...     return lambda x: x, lambda i, g, x: x - step_size * jnp.sign(g), lambda x: x
    >>> init, update, get_params = sign_descent(0.5)
    >>> get_params(update(0, {"w": jnp.array([3.0, -0.2])}, init({"w": jnp.zeros(2)})))
    {'w': Array([-0.5,  0.5], dtype=float32)}
    """
    @functools.wraps(opt_maker)
    def tree_opt_maker(*args: P.args, **kwargs: P.kwargs) -> Optimizer:
        return _for_trees(f"optimizers.{opt_maker.__name__}", *opt_maker(*args, **kwargs))

    return tree_opt_maker


def _for_trees(name: str, init: Callable, update: Callable, get_params: Callable) -> Optimizer:
    def tree_init(params: Params) -> OptimizerState:
        leaves, tree = tree_util.tree_flatten(params)
        return _pack(tree, [init(x) for x in leaves])

    def tree_update(i: Step, grads: Updates, opt_state: OptimizerState) -> OptimizerState:
        states = _unpack(f"{name} update", opt_state)
        leaves, tree = tree_util.tree_flatten(grads)
        if tree != opt_state.tree_def:
            raise bad(f"{name} update", "the gradients do not have the structure of the parameters",
                      tree_mismatch("grads", opt_state.tree_def, tree),
                      "pass the gradient with respect to get_params(opt_state): update(step, grads, opt_state).")
        new = _pack(tree, [update(i, g, state) for g, state in zip(leaves, states, strict=True)])
        if new.subtree_defs != opt_state.subtree_defs:
            raise bad(f"{name} update", "the rule changed the structure of its state", _state_mismatch(opt_state, new),
                      "let update return a state with the structure that init returned.")
        return new

    def tree_get_params(opt_state: OptimizerState) -> Params:
        states = _unpack(f"{name} get_params", opt_state)
        return opt_state.tree_def.unflatten([get_params(state) for state in states])

    return Optimizer(tree_init, tree_update, tree_get_params)


def _pack(tree: PyTree, states: Iterable[State]) -> OptimizerState:
    """The `OptimizerState` of the states of all leaves; `tree` is the structure of the parameters."""
    flat = [tree_util.tree_flatten(state) for state in states]
    return OptimizerState(tuple(leaves for leaves, _ in flat), tree, tuple(subtree for _, subtree in flat))


def _unpack(caller: str, opt_state: OptimizerState) -> list[State]:
    """The state of each parameter."""
    if not isinstance(opt_state, OptimizerState):
        raise bad(caller, "needs the state that init or update returned",
                  {"given": f"{type(opt_state).__name__} {opt_state!r:.60}"},
                  "call opt_state = init(params), update(step, grads, opt_state), get_params(opt_state).")
    pairs = zip(opt_state.subtree_defs, opt_state.packed_state, strict=True)
    return [subtree.unflatten(leaves) for subtree, leaves in pairs]


def _state_mismatch(before: OptimizerState, after: OptimizerState) -> list[str]:
    """Lines that describe the states with changed structure."""
    numbered = before.tree_def.unflatten(range(before.tree_def.num_leaves))
    paths = [tree_util.keystr(path) for path, _ in tree_util.tree_leaves_with_path(numbered)]
    triples = zip(paths, before.subtree_defs, after.subtree_defs, strict=True)
    return [line for path, *pair in triples for line in tree_mismatch(f"state of params{path}: ", *pair)]


# -- the state as a plain tree -----------------------------------------------------------------------------------------

class JoinPoint:
    """A leaf that holds `subtree`, the state of one parameter, at the parameter's place in the tree."""

    def __init__(self, subtree: PyTree) -> None:
        self.subtree = subtree

    def __iter__(self) -> Iterator[PyTree]:
        """Yields the subtree, for code that treats all leaves as containers."""
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> PyTree:
    """The tree of parameters with each parameter replaced by a `JoinPoint` of its state; it can be pickled.

    >>> state = xnn.optimizers.momentum(0.1, 0.9).init_fn({"w": jnp.ones(2)})
    >>> unpack_optimizer_state(state)["w"].subtree
    (Array([1., 1.], dtype=float32), Array([0., 0.], dtype=float32))
    """
    states = _unpack("optimizers.unpack_optimizer_state", opt_state)
    return opt_state.tree_def.unflatten(map(JoinPoint, states))


def pack_optimizer_state(marked_pytree: PyTree) -> OptimizerState:
    """The inverse of `unpack_optimizer_state`.  Raises: TypeError if a leaf is not a `JoinPoint`."""
    leaves, tree = tree_util.tree_flatten(marked_pytree)
    for path, leaf in tree_util.tree_leaves_with_path(marked_pytree):
        if not isinstance(leaf, JoinPoint):
            raise bad("optimizers.pack_optimizer_state", "a leaf is not a JoinPoint",
                      {f"tree{tree_util.keystr(path)}": f"{type(leaf).__name__} {leaf!r:.60}"},
                      "pass a result of unpack_optimizer_state.")
    return _pack(tree, [leaf.subtree for leaf in leaves])
