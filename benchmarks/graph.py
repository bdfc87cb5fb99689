"""Sparse products and training steps of graph networks, against PyTorch's CSR and PyTorch Geometric.

Products alone can also be compared: with --jax against the fastest of JAX's BCSR, BCOO and sorted `segment_sum`; with
--scipy against SciPy's CSR (one thread); with --bfloat16 in bfloat16 against float32.

The matrices are normalised symmetric adjacencies: 50k nodes with 500k edges, and 100k nodes with 1M edges, with uniform
or power-law degrees. PyTorch's gradient is a handwritten product with the stored transpose; its own autograd takes 3 to
30 times as long. A training step is forward, gradient and Adam on the whole graph, with 64 dense features, or of the
size of Cora with 1,433 features. PyTorch Geometric gets its fastest form, measured first: `edge_index`, a sorted
`EdgeIndex` or a sparse `adj_t`, each eager and with `torch.compile` (which needs a C++ compiler).
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))      # before this folder, which has a recipes.py

import numpy as np
import scipy.sparse as sp
from pairs import load, main, shortest, wanted

GRAPHS = {"50k": (50_000, 500_000, False), "100k": (100_000, 1_000_000, False), "power law": (100_000, 1_000_000, True)}
CORA = os.environ.get("PLANETOID_DIR")
OF_STEPS = {name: GRAPHS[name] for name in ("100k", "power law")} | dict.fromkeys(
    ["Cora's size, dense features", "Cora's size, sparse features"], (2_708, 10_556, False))
SPARSE = ("Cora's size, sparse features", "Cora")                     # "max" needs dense features
COLUMNS = (16, 64, 128)
LAYERS = ("GCN", "GAT", "GraphSAGE", "GraphSAGE, max")
HIDDEN, CLASSES = 64, 10


@functools.cache
def adjacency(name: str) -> sp.csr_matrix:
    """A generated adjacency: float32, symmetric, with self loops, normalised."""
    nodes, edges, power_law = (GRAPHS | OF_STEPS)[name]
    npr = np.random.default_rng(0)
    weights = (np.arange(nodes) + 10.0) ** -0.6 if power_law else np.ones(nodes)
    i, j = (npr.choice(nodes, edges // 2, p=weights / weights.sum()) for _ in range(2))
    upper = sp.coo_matrix((np.ones(len(i), np.float32), (i, j)), (nodes, nodes)).tocsr()
    return normalized(upper + upper.T)


def normalized(graph: sp.csr_matrix) -> sp.csr_matrix:
    graph = (graph > 0).astype(np.float32) + sp.eye(graph.shape[0], dtype=np.float32, format="csr")
    scale = sp.diags(1 / np.sqrt(np.asarray(graph.sum(1)).ravel()))
    return sp.csr_matrix(scale @ graph @ scale, dtype=np.float32)


@functools.cache
def task(name: str) -> tuple[sp.csr_matrix, np.ndarray | sp.csr_matrix, np.ndarray]:
    """(Normalised adjacency, features, int32 labels) for a training step."""
    if name == "Cora":
        from recipes.data.planetoid import load_planetoid

        cora = load_planetoid("cora", CORA)
        return normalized(sp.csr_matrix(cora.adjacency)), sp.csr_matrix(cora.features, dtype=np.float32), cora.labels
    a = adjacency(name)
    nodes = a.shape[0]
    labels = np.random.default_rng(2).integers(0, CLASSES, nodes, dtype=np.int32)
    if name.endswith("sparse features"):
        return a, sp.random(nodes, 1433, 0.0127, "csr", np.float32, 3, np.ones), labels
    return a, operand(nodes, 1433 if nodes < 10_000 else 64), labels


def operand(nodes: int, columns: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((nodes, columns), dtype=np.float32)


def work(library: str) -> dict[str, Callable[[], Callable]]:
    product, step = {"xjax": (xnn_product, xnn_step), "torch": (torch_product, torch_step),
                     "jax": (jax_product, None), "numpy": (scipy_product, None)}[library]
    cases = {f"{what}, {name}, {columns} columns": functools.partial(product, name, columns, what == "with gradient")
             for what in ("product", "with gradient") for name in GRAPHS for columns in COLUMNS}
    if step:
        cases |= {f"step of {layer}, {name}": functools.partial(step, layer, name)
                  for layer in LAYERS for name in (*OF_STEPS, *["Cora"] * bool(CORA))
                  if layer != "GraphSAGE, max" or name not in SPARSE}
    return {case: prepare for case, prepare in cases.items() if wanted(case)}


# -- xnn -------------------------------------------------------------------------------------------------------------


def xnn_product(name: str, columns: int, with_gradient: bool) -> Callable[[], object]:
    xjax, jnp = load("xjax")
    import xnn

    csr = xnn.CSR.from_scipy(adjacency(name))
    x = jnp.asarray(operand(csr.shape[0], columns))
    return _compiled(xjax, lambda csr, x: csr @ x, csr, x, with_gradient)


def _compiled(jax: Any, product: Callable, matrix: Any, x: Any, with_gradient: bool) -> Callable[[], object]:
    if not with_gradient:
        f = jax.jit(product)
        return lambda: f(matrix, x).block_until_ready()
    g = jax.jit(jax.value_and_grad(lambda x, matrix: jax.numpy.sum(product(matrix, x) ** 2)))
    return lambda: g(x, matrix)[1].block_until_ready()


def xnn_step(layer: str, name: str) -> Callable[[], object]:
    xjax, jnp = load("xjax")
    import xnn
    from xnn import graph as xg
    from xnn import optim

    a, x, labels = task(name)
    csr = xnn.CSR.from_scipy(a).tune(columns=HIDDEN, steps=1000)
    x = xnn.CSR.from_scipy(x).tune(columns=HIDDEN, steps=1000) if sp.issparse(x) else jnp.asarray(x)
    labels = jnp.asarray(labels)
    make = {"GCN": xnn.GraphConvolution, "GAT": lambda n: xg.GAT(n // 8, 8) if n == HIDDEN else xg.GAT(n),
            "GraphSAGE": xg.GraphSAGE, "GraphSAGE, max": lambda n: xg.GraphSAGE(n, "max")}[layer]
    model = xnn.serial(make(HIDDEN), xnn.Relu, make(CLASSES))
    params = model.init(xjax.random.key(0), x)[1]
    adam = optim.adam(0.01)

    def loss(params, x, labels, csr):
        logits = model.apply(params, x, csr)
        return -jnp.mean(jnp.take_along_axis(xjax.nn.log_softmax(logits), labels[:, None], 1))

    @functools.partial(xjax.jit, donate_argnums=(0, 1))
    def step(params, state, x, labels, csr):
        value, g = xjax.value_and_grad(loss)(params, x, labels, csr)
        updates, state = adam.update(g, state, params)
        return optim.apply_updates(params, updates), state, value

    kept = [params, adam.init(params)]

    def call():
        kept[0], kept[1], value = step(*kept, x, labels, csr)
        return value.block_until_ready()
    return call


# -- JAX -------------------------------------------------------------------------------------------------------------


def jax_product(name: str, columns: int, with_gradient: bool) -> Callable[[], object]:
    jax, jnp = load("jax")
    from jax.experimental import sparse

    a = adjacency(name)
    x, places, rows = jnp.asarray(operand(a.shape[0], columns)), a.tocoo(), a.shape[0]

    def of_segments(parts, x):
        values, of_row, of_column = parts
        return jax.ops.segment_sum(values[:, None] * x[of_column], of_row, rows, indices_are_sorted=True)

    by_segments = (of_segments, tuple(map(jnp.asarray, (places.data, places.row, places.col))))
    forms = [(lambda matrix, x: matrix @ x, kind.from_scipy_sparse(a)) for kind in (sparse.BCSR, sparse.BCOO)]
    calls = [_compiled(jax, *form, x, with_gradient) for form in (*forms, by_segments)]
    return min(calls, key=lambda call: shortest(call, 0.5, 5))


# -- SciPy -----------------------------------------------------------------------------------------------------------


def scipy_product(name: str, columns: int, with_gradient: bool) -> Callable[[], object]:
    a = adjacency(name)
    transposed, x = a.T.tocsr(), operand(a.shape[0], columns)
    if not with_gradient:
        return lambda: a @ x

    def call():
        y = a @ x
        return np.sum(y ** 2), transposed @ (2 * y)
    return call


# -- PyTorch ---------------------------------------------------------------------------------------------------------


def torch_product(name: str, columns: int, with_gradient: bool) -> Callable[[], object]:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    a = adjacency(name)
    matrix = _torch_csr(a)
    transposed = _torch_csr(a.T.tocsr())

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return matrix @ x

        @staticmethod
        def backward(ctx, g):
            return transposed @ g

    x = torch.tensor(operand(a.shape[0], columns), requires_grad=with_gradient)
    if not with_gradient:
        return lambda: matrix @ x

    def call():
        x.grad = None
        (Product.apply(x) ** 2).sum().backward()
        return x.grad
    return call


def _torch_csr(a: sp.csr_matrix) -> Any:
    import torch

    pointers, columns = (torch.tensor(part, dtype=torch.int64) for part in (a.indptr, a.indices))
    return torch.sparse_csr_tensor(pointers, columns, torch.tensor(a.data), a.shape)


def torch_step(layer: str, name: str) -> Callable[[], object] | None:
    try:
        import torch
        import torch_geometric.nn as geometric
        from torch_geometric import EdgeIndex
    except ImportError:
        return None
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    a, x, labels = task(name)
    places = a.tocoo()
    edges = torch.tensor(np.stack([places.col, places.row]), dtype=torch.int64)
    graphs = [edges, EdgeIndex(edges, sparse_size=a.shape, is_undirected=True).sort_by("col")[0], _torch_csr(a)]
    dense = torch.tensor(x.toarray() if sp.issparse(x) else x)
    features = [dense, dense.to_sparse_csr(), dense.to_sparse_coo()] if sp.issparse(x) else [dense]
    labels = torch.tensor(labels).long()
    first, second = {
        "GCN": lambda: (geometric.GCNConv(x.shape[1], HIDDEN, normalize=False),
                        geometric.GCNConv(HIDDEN, CLASSES, normalize=False)),
        "GAT": lambda: (geometric.GATConv(x.shape[1], HIDDEN // 8, 8), geometric.GATConv(HIDDEN, CLASSES)),
        "GraphSAGE": lambda: (geometric.SAGEConv(x.shape[1], HIDDEN), geometric.SAGEConv(HIDDEN, CLASSES)),
        "GraphSAGE, max": lambda: (geometric.SAGEConv(x.shape[1], HIDDEN, "max"),
                                   geometric.SAGEConv(HIDDEN, CLASSES, "max")),
    }[layer]()
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], 0.01)

    def loss(x, graph):
        logits = second(torch.relu(first(x, graph)), graph)
        return torch.nn.functional.cross_entropy(logits, labels)

    def call(forward, graph, x):
        optimizer.zero_grad()
        value = forward(x, graph)
        value.backward()
        optimizer.step()
        return value.item()

    logging.getLogger("torch._inductor").setLevel(logging.ERROR)             # hides warnings about its cache
    forms = itertools.product([loss, torch.compile(loss)], graphs[:2] if layer == "GAT" else graphs, features)
    return min((functools.partial(call, *form) for form in forms), key=_seconds_or_inf)


def _seconds_or_inf(call: Callable) -> float:
    try:
        return shortest(call, 0.5, 5)
    except (RuntimeError, ValueError, NotImplementedError):                # a layer without a rule for sparse features
        return float("inf")


def first_products() -> None:
    """Prints the time of the first product with a new matrix: index tables and compilation; and the chosen form."""
    xjax, jnp = load("xjax")
    import xnn

    for name in GRAPHS:
        a, x = adjacency(name), jnp.asarray(operand(GRAPHS[name][0], 64))
        start = time.perf_counter()
        csr = xnn.CSR.from_scipy(a)
        built = time.perf_counter()
        xjax.jit(lambda csr, x: csr @ x)(csr, x).block_until_ready()
        print(f"{name}: tables {built - start:.2f} s, first product {time.perf_counter() - built:.2f} s, {csr.form}")


def half_precision(pairs: int = 7) -> None:
    """Prints the time of products in bfloat16 divided by the time in float32, measured in turn."""
    xjax, jnp = load("xjax")
    import xnn

    for name, columns, with_gradient in itertools.product(GRAPHS, COLUMNS, (False, True)):
        csr, calls = xnn.CSR.from_scipy(adjacency(name)), {}
        for dtype in (jnp.bfloat16, jnp.float32):
            x = jnp.asarray(operand(csr.shape[0], columns), dtype)
            calls[dtype] = _compiled(xjax, lambda csr, x: csr @ x, csr.astype(dtype), x, with_gradient)
        times = [[shortest(call, 0.1, 10) for call in calls.values()] for _ in range(pairs)]
        ratios = sorted(half / single for half, single in times)
        print(f"{'with gradient' if with_gradient else 'product'}, {name}, {columns} columns: bfloat16 / float32 "
              f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})", flush=True)


PEERS = {"--jax": "jax", "--scipy": "numpy"}

if __name__ == "__main__":
    if "--first" in sys.argv:
        first_products()
    elif "--bfloat16" in sys.argv:
        half_precision()
    else:
        peer = next((PEERS[argument] for argument in sys.argv if argument in PEERS), "torch")
        sys.argv = [argument for argument in sys.argv if argument not in PEERS]
        main(work, peer=peer, together=True, pairs=5)
