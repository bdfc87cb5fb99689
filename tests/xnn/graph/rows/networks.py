"""Rows of stacks of layers on graphs."""

import numpy as np

from tests.xnn.graph.row import GraphRow
from tests.xnn.graph.rows.gcn import convolution
from tests.xnn.graph.rows.norm import graph_norm
from tests.xnn.graph.rows.pooling import members
from xnn import GraphConvolution
from xnn.graph.layers.norm import PairNorm
from xnn.models.graph_configs import GCNConfig, GraphStackConfig
from xnn.models.graph_networks import GCNStack, graph_stack


def stack(norm=False, jump=None, residual=False, pool=None):
    def value(params, x, graph):
        outs = []
        for i in range(sum(key.startswith("layer_") for key in params)):
            y = convolution(params[f"layer_{i}"], x, graph)
            if not jump and not pool and f"layer_{i + 1}" not in params:
                return y
            if norm:
                y = np.concatenate([graph_norm(params[f"norm_{i}"], y[nodes]) for nodes in members(graph)])
            y = np.maximum(y, 0)
            x = y + x if residual and y.shape == x.shape else y
            outs.append(x)
        x = jump(outs) if jump else x
        x = np.stack([x[nodes].sum(0) for nodes in members(graph)]) if pool else x
        return x @ params["head"]["w"] + params["head"]["b"]
    return value


def gcn_peer(**options):
    def build(params):
        import torch
        from torch_geometric.nn.models import GCN

        module, tensor = GCN(4, 5, 3, 3, **options), lambda x: torch.tensor(np.array(x))
        for i, conv in enumerate(module.convs):
            w, b = params[f"layer_{i}"]
            conv.lin.weight.data, conv.bias.data = tensor(w).T, tensor(b)
            if f"norm_{i}" in params:
                ours = params[f"norm_{i}"]
                module.norms[i].load_state_dict({"weight": tensor(ours["scale"]), "bias": tensor(ours["bias"]),
                                                 "mean_scale": tensor(ours["mean_scale"])})
        if "head" in params:
            module.lin.weight.data, module.lin.bias.data = tensor(params["head"]["w"]).T, tensor(params["head"]["b"])
        return module, lambda x, graph: module(x, graph.edge_index, graph.weight, batch=graph.batch)
    return build


def row(value, peer=None, hidden=(5, 5), **options):
    config = GCNConfig(features=3, hidden=hidden, dropout=0.3, **options)
    return GraphRow(GCNStack(config), value, weights=True, random=True, peer=peer, tol=10,
                    per="graph" if config.pool else "node")


CONCAT = lambda outs: np.concatenate(outs, 1)

ROWS = {
    "GCNStack": row(stack(), gcn_peer()),
    "GCNStack, norms": row(stack(norm=True), gcn_peer(norm="GraphNorm"), norm="graph"),
    "GCNStack, jumping": row(stack(jump=CONCAT), gcn_peer(jk="cat"), (5, 5, 5), jumping="concat"),
    "GCNStack, jumping by the maximum": row(stack(jump=lambda outs: np.max(outs, 0)), gcn_peer(jk="max"), (5, 5, 5),
                                            jumping="max"),
    "GCNStack, residual": row(stack(residual=True), None, (4, 5, 5), residual=True),
    "GCNStack, of graphs": row(stack(pool=True), None, pool="sum"),
    "GCNStack, of graphs with everything": row(stack(norm=True, jump=CONCAT, residual=True, pool=True), None,
                                               (4, 5, 5), norm="graph", jumping="concat", residual=True, pool="sum"),
}

CONV = GraphConvolution

WRONG = {
    "graph_stack, an unknown norm": (
        lambda: graph_stack(CONV, GraphStackConfig(norm="group")), ValueError, ["graph_stack", "unknown norm"]),
    "graph_stack, an unknown activation": (
        lambda: graph_stack(CONV, GraphStackConfig(activation="rilu")), ValueError, ["graph_stack", "rilu"]),
    "graph_stack, an unknown pool": (
        lambda: graph_stack(CONV, GraphStackConfig(pool="median")), ValueError, ["GraphPool", "median"]),
    "graph_stack, nothing to pool": (
        lambda: graph_stack(CONV, GraphStackConfig(hidden=(), pool="sum")), ValueError, ["graph_stack", "hidden"]),
    "graph_stack, a maker of no layer": (
        lambda: graph_stack(lambda n: CONV), TypeError, ["graph_stack['layer_0']", "GraphConvolution(...)"]),
    "graph_stack, a norm that is not a layer": (
        lambda: graph_stack(CONV, GraphStackConfig(norm=lambda: PairNorm)), TypeError, ["graph_stack['norm_0']"]),
}
