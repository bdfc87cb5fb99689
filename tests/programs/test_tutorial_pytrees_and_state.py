"""Programs after JAX's tutorials on pytrees, stateful computation and gradient checkpointing; in both libraries."""

import collections
import functools
from typing import Any, NamedTuple

import numpy as np

from tests.programs.tutorials import check, each

Point = collections.namedtuple("Point", ["x", "y"])


def leaves_of_many_containers(jax):
    trees = [[1, "a"], (1, (2, 3), ()), [1, {"k1": 2, "k2": (3, 4)}, 5], {"b": 2, "a": (2, None)}, np.ones(2), None,
             collections.OrderedDict([("z", 1), ("y", 2)]), Point(1, Point(2, 3))]
    return [[jax.tree.leaves(t), str(jax.tree.structure(t))] for t in trees]


def mapping_over_trees(jax):
    lists = [[1, 2, 3], [1, 2], [1, 2, 3, 4]]
    doubled = jax.tree.map(lambda x: x * 2, lists)
    added = jax.tree.map(lambda x, y: x + y, lists, doubled)
    total = jax.tree.reduce(lambda a, b: a + b, added)
    nones = jax.tree.map(lambda x: 0 if x is None else x, {"a": None, "b": 1}, is_leaf=lambda x: x is None)
    turned = jax.tree.transpose(jax.tree.structure([0, 0]), jax.tree.structure({"u": 0, "v": 0}),
                                [{"u": 1, "v": 2}, {"u": 3, "v": 4}])
    return doubled, added, total, nones, turned, jax.tree.all({"a": True, "b": [True, False]})


def paths_of_leaves(jax):
    tree = {"layers": [(np.ones(2), 3.0), Point(1.0, {"deep": 2.0})], "name": "net"}
    pairs, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = jax.tree_util.tree_map_with_path(lambda path, x: jax.tree_util.keystr(path), tree)
    return [jax.tree_util.keystr(path) for path, _ in pairs], named


def own_containers(jax):
    class Special:
        def __init__(self, x, y):
            self.x, self.y = x, y

    jax.tree_util.register_pytree_with_keys(
        Special, lambda s: (((jax.tree_util.GetAttrKey("x"), s.x), (jax.tree_util.GetAttrKey("y"), s.y)), None),
        lambda aux, children: Special(*children))

    @jax.tree_util.register_pytree_node_class
    class Scaled:
        def __init__(self, value, unit):
            self.value, self.unit = value, unit

        def tree_flatten(self):
            return (self.value,), self.unit

        @classmethod
        def tree_unflatten(cls, unit, children):
            return cls(children[0], unit)

    s = Special(2.0, {"k": 3.0})
    g = jax.grad(lambda s: s.x ** 2 * s.y["k"])(s)
    paths = [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_flatten_with_path(s)[0]]
    scaled = jax.jit(lambda v: jax.tree.map(lambda x: x * 2, v))(Scaled(4.0, "m"))
    rows = jax.vmap(lambda v: Scaled(v.value + 1, v.unit))(Scaled(np.arange(3.0), "s"))
    return g.x, g.y, paths, scaled.value, scaled.unit, rows.value, rows.unit


def a_network_as_a_tree(jax):
    jnp = jax.numpy
    widths = [1, 8, 8, 1]
    rng = np.random.default_rng(0)
    params = [{"w": rng.normal(size=(m, n)) * np.sqrt(2 / m), "b": np.ones(n)}
              for m, n in zip(widths[:-1], widths[1:], strict=True)]

    def forward(params, x):
        *hidden, last = params
        for layer in hidden:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        return x @ last["w"] + last["b"]

    @jax.jit
    def update(params, x, y):
        grads = jax.grad(lambda p: jnp.mean((forward(p, x) - y) ** 2))(params)
        return jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads)
    x = np.linspace(-1, 1, 16)[:, None]
    for _ in range(10):
        params = update(params, x, x ** 2)
    return jax.tree.map(jnp.shape, params), forward(params, x)


class CounterState(NamedTuple):
    count: Any
    history: Any


def a_counter_without_side_effects(jax):
    @jax.jit
    def count(state):
        return state.count, CounterState(state.count + 1, state.history.at[state.count].set(state.count * 10))
    state, seen = CounterState(0, jax.numpy.zeros(4, int)), []
    for _ in range(3):
        value, state = count(state)
        seen.append(value)
    many = jax.vmap(count)(CounterState(np.arange(2), np.zeros((2, 4), int)))
    return seen, state, many


def an_object_whose_method_is_jitted_shows_old_state(jax):
    class Counter:
        def __init__(self):
            self.n = 0

        def count(self):
            self.n += 1
            return self.n
    counter = Counter()
    fast = jax.jit(counter.count)
    return [fast() for _ in range(3)], counter.n


def linear_regression_with_optimizer_state(jax):
    jnp = jax.numpy
    x, y = np.linspace(-1, 1, 12), np.linspace(-1, 1, 12) * 3 - 1

    def loss(p):
        return jnp.mean((x * p["w"] + p["b"] - y) ** 2)

    @jax.jit
    def step(carry, _):
        p, m = carry
        value, g = jax.value_and_grad(loss)(p)
        m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
        return (jax.tree.map(lambda p, m: p - 0.05 * m, p, m), m), value
    start = {"w": 0.0, "b": 0.0}
    (p, m), losses = jax.lax.scan(step, (start, jax.tree.map(jnp.zeros_like, start)), None, length=40)
    return p, m, losses


def partial_functions_are_trees(jax):
    add = jax.tree_util.Partial(lambda a, b: a + b, 2.0)
    called = jax.jit(lambda f, x: f(x))(add, 3.0)
    gradient = jax.grad(lambda f: f(3.0) * f(1.0))(add)
    return called, gradient.args, jax.tree.leaves(add)


# -- gradient checkpointing ---------------------------------------------------------------------------------------

def count(jaxpr, name):
    """The number of occurrences of an operation in a program and its nested programs."""
    total = 0
    for eqn in jaxpr.eqns:
        total += eqn.primitive.name == name
        for value in eqn.params.values():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                item = getattr(item, "jaxpr", item)
                total += count(item, name) if hasattr(item, "eqns") else 0
    return total


def layers_with_policies(jax):
    """Values agree for every policy; the saved values determine how many sines and products are computed."""
    jnp, policies = jax.numpy, jax.checkpoint_policies
    rng = np.random.default_rng(1)
    weights, x = [rng.normal(size=(4, 4)) for _ in range(3)], rng.normal(size=4)

    def layer(w, x):
        return jnp.sin(jnp.dot(w, x))

    def network(wrap):
        def f(weights):
            y = x
            for w in weights:
                y = wrap(layer)(w, y)
            return jnp.sum(y)
        return f
    ways = {
        "none": lambda f: f,
        "all": jax.checkpoint,
        "dots": functools.partial(jax.checkpoint, policy=policies.dots_saveable),
        "everything": functools.partial(jax.checkpoint, policy=policies.everything_saveable),
        "nothing": functools.partial(jax.checkpoint, policy=policies.nothing_saveable),
    }
    counts = {}
    for name, wrap in ways.items():
        program = jax.make_jaxpr(jax.grad(network(wrap)))(weights).jaxpr
        counts[name] = {"grad": jax.jit(jax.grad(network(wrap)))(weights), "sin": count(program, "sin"),
                        "dots": count(program, "dot_general")}
    return counts


def recursive_checkpointing(jax):
    def chain(fs):
        if len(fs) == 1:
            return fs[0]
        half = len(fs) // 2
        first, second = chain(fs[:half]), chain(fs[half:])
        return jax.checkpoint(lambda x: second(first(x)))
    f = chain([jax.numpy.sin] * 8)
    return jax.jit(jax.value_and_grad(f))(0.9), jax.grad(jax.grad(f))(0.9)


def a_checkpointed_scan(jax):
    @jax.checkpoint
    def body(c, w):
        return jax.numpy.tanh(c * w + 0.1), c ** 2

    def f(ws):
        c, squares = jax.lax.scan(body, 0.5, ws)
        return c + squares.sum()
    return jax.jit(jax.value_and_grad(f))(np.linspace(0.5, 1.5, 6))


@each(leaves_of_many_containers, mapping_over_trees, paths_of_leaves, own_containers, a_network_as_a_tree,
      a_counter_without_side_effects, an_object_whose_method_is_jitted_shows_old_state,
      linear_regression_with_optimizer_state, partial_functions_are_trees, layers_with_policies,
      recursive_checkpointing, a_checkpointed_scan)
def test_program(program):
    check(program)
