"""Rows of heads of nodes and graphs; those of pairs are in `tests/xnn/graph/test_heads.py`."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.pooling import members
from xnn import Dense, GraphConvolution
from xnn.graph.layers.heads import GAE, VGAE, EdgeHead, GraphHead
from xnn.graph.layers.pooling import AttentionPool


def graph_head(params, x, graph):
    mlp = params["mlp"]
    pooled = np.stack([x[nodes].mean(0) for nodes in members(graph)])
    hidden = np.maximum(pooled @ mlp["hidden0"]["dense"]["w"] + mlp["hidden0"]["dense"]["b"], 0)
    return hidden @ mlp["head"]["w"] + mlp["head"]["b"]


ROWS = {"GraphHead": GraphRow(GraphHead(2, hidden=(5,)), graph_head, per="graph")}

X = np.ones((3, 4), np.float32)

WRONG = {
    "GraphHead, an unknown pool": (
        lambda: GraphHead(2, pool="median"), ValueError, ["GraphPool", "unknown reduction"]),
    "GraphHead, a pool that is not a layer": (
        lambda: GraphHead(2, pool=AttentionPool), TypeError, ["GraphHead['pool']", "AttentionPool(...)"]),
    "EdgeHead, an unknown score": (lambda: EdgeHead("cosine"), ValueError, ["EdgeHead", "cosine"]),
    "EdgeHead, features of a dot product": (lambda: EdgeHead("dot", 3), ValueError, ["EdgeHead", "dot"]),
    "EdgeHead, no pairs": (lambda: EdgeHead().apply((), X), TypeError, ["EdgeHead", "no pairs"]),
    "EdgeHead, pairs as rows": (
        lambda: EdgeHead().apply((), X, pairs=np.zeros((2, 5), int)), TypeError, ["EdgeHead", "two nodes in each row"]),
    "EdgeHead, pairs of floats": (
        lambda: EdgeHead().apply((), X, pairs=np.zeros((5, 2))), TypeError, ["EdgeHead", "two nodes in each row"]),
    "GAE, an encoder that is not a layer": (lambda: GAE(GraphConvolution), TypeError, ["GAE['encoder']"]),
    "VGAE, no key": (
        lambda: (model := VGAE(Dense(2), Dense(2), Dense(2))).apply(
            model.init(KEY, (-1, 4))[1], X, np.eye(3, dtype=np.float32), train=True),
        TypeError, ["VGAE", "rng is None"]),
}
