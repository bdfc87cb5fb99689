"""A generated graph of the size of ogbn-products on one machine: 2.4 M nodes, 60 M edges, 100 features.

It trains two layers of GraphSAGE with 64 units: full steps (forward, gradient, Adam on all nodes), then an epoch of
batches of sampled neighbours for a part of the nodes. It prints seconds and the peak resident memory.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import xjax
import xjax.numpy as jnp
import xnn
from xnn import graph as xg
from xnn import optim

FEATURES, HIDDEN, CLASSES = 100, 64, 47


def make_graph(nodes: int, edges: int) -> xg.Graph:
    """An undirected graph with power-law degrees and more edges within classes; features are class means and noise."""
    npr = np.random.default_rng(0)
    labels = npr.integers(0, CLASSES, nodes).astype(np.int32)
    cumulated = np.cumsum((np.arange(nodes) + 1000.0) ** -0.5)
    ends = (np.searchsorted(cumulated, npr.random(edges // 2) * cumulated[-1]).astype(np.int32) for _ in range(2))
    senders, receivers = ends
    # Half of the edges are moved to a node of the sender's class, so that neighbours carry information on the class.
    by_class = np.argsort(labels, kind="stable").astype(np.int32)
    first = np.searchsorted(labels[by_class], np.arange(CLASSES + 1))
    moved = npr.random(len(senders)) < 0.5
    own = labels[senders[moved]]
    receivers[moved] = by_class[first[own] + (npr.random(len(own)) * (first[own + 1] - first[own])).astype(np.int64)]
    centres = npr.standard_normal((CLASSES, FEATURES), dtype=np.float32)
    x = npr.standard_normal((nodes, FEATURES), dtype=np.float32) + 0.3 * centres[labels]
    return xg.Graph.from_edges(np.concatenate([senders, receivers]), np.concatenate([receivers, senders]),
                               {"x": x, "label": labels})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_400_000)
    parser.add_argument("--edges", type=int, default=60_000_000)
    parser.add_argument("--train", type=int, default=196_000, help="number of seeds in a sampled epoch")
    parser.add_argument("--batch", type=int, default=1024)
    args = parser.parse_args()
    graph = report("graph", lambda: make_graph(args.nodes, args.edges))
    training = Training()
    full_steps(training, graph)
    sampled_epoch(training, graph, args.train, args.batch)


class Training:
    """The parameters, the optimizer state, and a step that updates them."""

    def __init__(self) -> None:
        self.model = xnn.serial(xg.GraphSAGE(HIDDEN), xnn.Relu, xg.GraphSAGE(CLASSES))
        self.adam = optim.adam(0.003)
        params = self.model.init(xjax.random.key(0), (-1, FEATURES))[1]
        self.kept = params, self.adam.init(params)
        self._step = xjax.jit(self._stepped, donate_argnums=(0, 1))

    def step(self, *batch: Any) -> Any:
        """Runs a step and returns the loss before it. Args: features, graph; labels, rows and mask of the seeds."""
        *self.kept, loss = self._step(*self.kept, *batch)
        return loss

    def _stepped(self, params: Any, state: Any, *batch: Any) -> Any:
        loss, g = xjax.value_and_grad(self._loss)(params, *batch)
        updates, state = self.adam.update(g, state, params)
        return optim.apply_updates(params, updates), state, loss

    def _loss(self, params: Any, x: Any, graph: Any, labels: Any, rows: Any, mask: Any) -> Any:
        logits = self.model.apply(params, x, graph)[rows]
        losses = -jnp.take_along_axis(xjax.nn.log_softmax(logits), labels[:, None], 1)[:, 0]
        return jnp.sum(jnp.where(mask, losses, 0)) / jnp.sum(mask)


def full_steps(training: Training, graph: xg.Graph) -> None:
    tuned = report("tables", lambda: graph.tune(columns=HIDDEN, steps=100).replace(nodes=None))
    whole, x, labels = xjax.device_put((tuned, graph.nodes["x"], graph.nodes["label"]))
    rows, mask = jnp.arange(len(labels)), jnp.ones(len(labels), bool)
    for which in ("first", "second", "third"):
        loss = report(f"{which} full step", lambda: training.step(x, whole, labels, rows, mask))
        print(f"  loss {float(loss):.3f}")


def sampled_epoch(training: Training, graph: xg.Graph, count: int, batch_size: int) -> None:
    train = np.random.default_rng(1).choice(graph.n_nodes, count, replace=False)
    sampler = xg.NeighbourSampler(graph, fan_out=(15, 10), batch_size=batch_size).fitted(train)
    batches = xg.SeedBatches(sampler, train)

    def epoch() -> list[float]:
        losses = []
        for block in batches.epoch(0):
            nodes = block.graph.nodes
            losses.append(float(training.step(nodes["x"], block.graph.replace(nodes=None), nodes["label"][block.seeds],
                                              block.seeds, block.seed_mask)))
        return losses

    losses = report(f"epoch of {count} sampled seeds", epoch)
    print(f"  loss of the first batch {losses[0]:.3f}, of the last {losses[-1]:.3f}")


def report(name: str, work: Callable[[], Any]) -> Any:
    """The result of `work`; prints its time, and the peak memory so far."""
    start = time.perf_counter()
    result = xjax.block_until_ready(work())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name}: {time.perf_counter() - start:.1f} s, at most {peak:.1f} GiB resident", flush=True)
    return result


if __name__ == "__main__":
    main()
