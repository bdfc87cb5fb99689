"""Penzai: named axes, a module whose parameters are selected and changed, and their printed form."""

import jax
import jax.numpy as jnp
from penzai import pz

KEY = jax.random.key(0)
X = pz.nx.wrap(jax.random.normal(KEY, (4, 6)), "batch", "features")


def named_axes():
    y = pz.nx.nmap(jnp.tanh)(X + 1)
    yield from pz.nx.nmap(jnp.sum)(y.untag("features")).unwrap("batch")
    yield from pz.nx.nmap(jnp.dot)(X.untag("features"), X.untag("features")).unwrap("batch")


def trained():
    net = pz.nn.Sequential([
        pz.nn.Linear.from_config("linear", KEY, input_axes={"features": 6}, output_axes={"hidden": 8}),
        pz.nn.Elementwise(jnp.tanh)])
    net, parameters = pz.unbind_params(net)

    @jax.jit
    def loss(parameters):
        y = pz.bind_variables(net, parameters)(X)
        return pz.nx.nmap(jnp.mean)((y - 0.5).untag("batch", "hidden")).unwrap() ** 2

    frozen = pz.freeze_params(parameters)
    for _ in range(20):
        value, g = jax.value_and_grad(loss)(frozen)
        frozen = jax.tree.map(lambda p, g: p - 0.5 * g, frozen, g)
        yield value


def selected():
    tree = {"a": jnp.arange(3.0), "b": [jnp.ones(2), "text"]}
    doubled = pz.select(tree).at_instances_of(jax.Array).apply(lambda x: 2 * x)
    yield from (*doubled["a"], *doubled["b"][0])
    yield len(pz.select(tree).at_instances_of(jax.Array).get_sequence())


PROGRAMS = [named_axes, trained, selected]
