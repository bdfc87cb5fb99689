"""Jraph: message passing on a batch of graphs, in jit and scan."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np

RNG = np.random.default_rng(0)


def graph(nodes, edges):
    return jraph.GraphsTuple(
        nodes=RNG.standard_normal((nodes, 4), np.float32), edges=RNG.standard_normal((edges, 2), np.float32),
        senders=RNG.integers(0, nodes, edges), receivers=RNG.integers(0, nodes, edges),
        n_node=np.array([nodes]), n_edge=np.array([edges]), globals=np.ones((1, 3), np.float32))


BATCH = jraph.pad_with_graphs(jraph.batch([graph(5, 8), graph(3, 4), graph(4, 6)]), 16, 24, 5)
# Small, so that no step depends on the last digits: tanh is not saturated.
W = [0.2 * jnp.asarray(RNG.standard_normal(shape, np.float32)) for shape in ((13, 2), (11, 4), (9, 3))]


def loss(w):
    edge, node, whole = w
    net = jraph.GraphNetwork(
        update_edge_fn=lambda e, s, r, g: jnp.tanh(jnp.concatenate([e, s, r, g], 1) @ edge),
        update_node_fn=lambda n, s, r, g: jnp.tanh(jnp.concatenate([n, s, r, g], 1) @ node),
        update_global_fn=lambda n, e, g: jnp.tanh(jnp.concatenate([n, e, g], 1) @ whole))
    out = net(net(BATCH))
    return jnp.mean((out.globals[:3] - 0.5) ** 2) + jnp.mean(out.nodes ** 2)


def jitted():
    w, step = W, jax.jit(jax.value_and_grad(loss))
    for _ in range(20):
        value, g = step(w)
        w = jax.tree.map(lambda w, g: w - 0.002 * g, w, g)
        yield value


def scanned():
    def step(w, _):
        value, g = jax.value_and_grad(loss)(w)
        return jax.tree.map(lambda w, g: w - 0.002 * g, w, g), value

    yield from jax.lax.scan(step, W, None, 20)[1]


def convolution():
    net = jraph.GraphConvolution(lambda x: x @ W[1][:4], symmetric_normalization=True, add_self_edges=True)
    attention = jraph.GAT(lambda x: x @ W[1][:4], lambda s, r, e: jnp.sum(s * r, 1, keepdims=True))
    for scale in jnp.linspace(0, 1, 10):
        nodes = BATCH.nodes * scale
        yield jax.grad(lambda x: jnp.sum(net(BATCH._replace(nodes=x)).nodes ** 2))(nodes).sum()
        yield jnp.sum(attention(BATCH._replace(nodes=nodes, edges=None)).nodes)


PROGRAMS = [jitted, scanned, convolution]
