"""Rows of RGCN; padding, permutations and the peer are in `tests/xnn/graph/test_relational.py`."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.mpnn import received
from xjax import random
from xnn.graph.layers.relational import RGCN


def relation_of(npr, graph):
    return npr.integers(0, 3, graph.n_edges).astype(np.int32)


def rgcn(reduction="mean"):
    def value(params, x, graph, relation):
        out = x @ params["root"] + params["b"] if "root" in params else 0.0
        for r in range(3):
            if "coefficients" in params:
                w = sum(c * w for c, w in zip(params["coefficients"][r], params["w"], strict=True))
            else:
                w = params["w"][r]
            if w.ndim == 3:                                                   # blocks on the diagonal
                full = np.zeros((w.shape[0] * w.shape[1], w.shape[0] * w.shape[2]))
                for i, block in enumerate(w):
                    full[i * w.shape[1]:(i + 1) * w.shape[1], i * w.shape[2]:(i + 1) * w.shape[2]] = block
                w = full
            of_r = relation == r
            some = graph.replace(senders=graph.senders[of_r], receivers=graph.receivers[of_r], edges=None)
            out = out + received(some, x[some.senders] @ w, reduction)
        return out

    return value


# Features of edges are not read; they mark a row whose relations a matrix cannot give.
LIKE = {"edge_features": 1, "extra": {"relation": relation_of}}
ROWS = {
    "RGCN": GraphRow(RGCN(6, 3), rgcn(), **LIKE),
    "RGCN, bases": GraphRow(RGCN(6, 3, bases=2), rgcn(), **LIKE),
    "RGCN, blocks": GraphRow(RGCN(6, 3, blocks=2), rgcn(), **LIKE),
    "RGCN, sum": GraphRow(RGCN(6, 3, aggregate="sum", root=False, bias=False), rgcn("sum"), **LIKE),
}


def applied(relation, **settings):
    def call():
        layer = RGCN(4, 2, **settings)
        graph = (([0, 1], [1, 0]), np.ones(2, np.float32))
        return layer.apply(layer.init(KEY, (-1, 4))[1], random.normal(KEY, (2, 4)), graph, relation)

    return call


WRONG = {
    "RGCN, bases and blocks": (lambda: RGCN(4, 2, bases=2, blocks=2), ValueError, ["RGCN", "decompositions"]),
    "RGCN, unknown aggregate": (lambda: RGCN(4, 2, aggregate="max"), ValueError, ["RGCN", "aggregate"]),
    "RGCN, blocks that do not divide": (
        lambda: RGCN(4, 2, blocks=3).init(KEY, (-1, 4)), ValueError, ["RGCN", "blocks", "divisor"]),
    "RGCN, no relations": (applied(None), TypeError, ["RGCN", "relation", "missing"]),
    "RGCN, a relation too many": (applied(np.array([0, 2])), ValueError, ["RGCN", "relations=3"]),
    "RGCN, a relation too few": (applied(np.array([0])), ValueError, ["RGCN", "one relation"]),
    "RGCN, relations as floats": (applied(np.zeros(2)), TypeError, ["RGCN", "integer"]),
}
