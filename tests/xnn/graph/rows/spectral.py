"""Rows of SGC, APPNP, ChebConv and GCNII."""

import math

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.gcn import matrix, symmetric
from xnn import Layer
from xnn.graph.layers.chebyshev import ChebConv
from xnn.graph.layers.spectral import APPNP, GCNII, SGC


def by_rows(a, self_loops=True):
    """D^-1 (A + I)."""
    a = a + np.eye(len(a)) if self_loops else a
    degree = a.sum(1, keepdims=True)
    return np.divide(a, degree, out=np.zeros_like(a), where=degree > 0)


# -- values ---------------------------------------------------------------------------------------------------------


def sgc(k, normal=symmetric):
    def value(params, x, graph):
        for _ in range(k):
            x = normal(matrix(graph)) @ x
        return x @ params["w"] + params.get("b", 0)
    return value


def appnp(k, alpha, normal=symmetric):
    def value(params, x, graph):
        y = x
        for _ in range(k):
            y = (1 - alpha) * normal(matrix(graph)) @ y + alpha * x
        return y
    return value


def chebyshev(norm="symmetric", lambda_max=2.0):
    """With the polynomials themselves: NumPy gives the coefficients of T_i(z) = cos(i arccos z)."""
    def value(params, x, graph):
        a, eye = matrix(graph), np.eye(graph.n_nodes)
        laplacian = {"symmetric": lambda: eye - symmetric(a, False), "row": lambda: eye - by_rows(a, False),
                     None: lambda: np.diag(a.sum(1)) - a}[norm]()
        z, y = 2 * laplacian / lambda_max - eye, params.get("b", 0)
        for i, w in enumerate(params["w"]):
            powers = np.polynomial.chebyshev.cheb2poly([0] * i + [1])
            y = y + sum(c * np.linalg.matrix_power(z, n) for n, c in enumerate(powers)) @ x @ w
        return y
    return value


BETA = math.log(1.25)                                # of layer 2, with the default of theta


def gcnii(alpha=0.1, beta=BETA, normal=symmetric):
    def value(params, x, graph, initial):
        eye = np.eye(x.shape[1])
        map_of = lambda w: (1 - beta) * eye + beta * w
        h, first = (1 - alpha) * normal(matrix(graph)) @ x, alpha * initial
        return h @ map_of(params["w"]) + first @ map_of(params.get("w_initial", params["w"]))
    return value


# -- peers ----------------------------------------------------------------------------------------------------------


def tensor(x):
    import torch
    return torch.tensor(np.array(x))


def sgc_peer(k, **options):
    def peer(params):
        from torch_geometric.nn import SGConv
        layer = SGConv(*params["w"].shape, K=k, **options)
        layer.lin.weight.data = tensor(params["w"]).T
        if "b" in params:
            layer.lin.bias.data = tensor(params["b"])
        return layer, lambda x, graph: layer(x, graph.edge_index, graph.weight)
    return peer


def appnp_peer(k, alpha, **options):
    def peer(params):
        from torch_geometric.nn import APPNP
        layer = APPNP(k, alpha, **options)
        return layer, lambda x, graph: layer(x, graph.edge_index, graph.weight)
    return peer


def chebyshev_peer(normalization="sym", lambda_max=2.0):
    def peer(params):
        from torch_geometric.nn import ChebConv
        k, n_in, n_out = params["w"].shape
        # Its degrees count senders. With reversed edges and flow they count receivers, as in xnn.
        layer = ChebConv(n_in, n_out, k, normalization, bias="b" in params, flow="target_to_source")
        for lin, w in zip(layer.lins, params["w"], strict=True):
            lin.weight.data = tensor(w).T
        if "b" in params:
            layer.bias.data = tensor(params["b"])
        return layer, lambda x, graph: layer(x, graph.edge_index.flip(0), graph.weight, lambda_max=lambda_max)
    return peer


def gcnii_peer(**options):
    def peer(params):
        from torch_geometric.nn import GCN2Conv
        layer = GCN2Conv(params["w"].shape[0], shared_weights="w_initial" not in params, **options)
        layer.weight1.data = tensor(params["w"])
        if "w_initial" in params:
            layer.weight2.data = tensor(params["w_initial"])
        return layer, lambda x, graph, initial: layer(x, initial, graph.edge_index, graph.weight)
    return peer


def after_a_map(layer):
    """GCNII of 2 x, with the initial features x: a layer without further inputs, which can be batched."""
    def apply(params, x, graph, *, rng=None, train=False):
        return layer.apply(params, 2 * x, graph, x)
    return Layer(layer.init, apply, "after_a_map")



INITIAL = {"initial": lambda npr, graph: npr.normal(size=(graph.n_nodes, 4))}

ROWS = {
    "SGC": GraphRow(SGC(3), sgc(2), weights=True, peer=sgc_peer(2)),
    "SGC, more features than before": GraphRow(SGC(6, 3), sgc(3), weights=True, peer=sgc_peer(3)),
    "SGC, no propagation": GraphRow(SGC(3, 0), sgc(0)),
    "SGC, means, without bias": GraphRow(SGC(3, 1, norm="row", bias=False), sgc(1, by_rows), weights=True),
    "SGC, without self loops": GraphRow(SGC(3, self_loops=False), sgc(2, lambda a: symmetric(a, False)), weights=True,
                                        peer=sgc_peer(2, add_self_loops=False)),
    "SGC, as it is": GraphRow(SGC(3, norm=None), sgc(2, lambda a: a), weights=True),
    "APPNP": GraphRow(APPNP(), appnp(10, 0.1), weights=True, peer=appnp_peer(10, 0.1)),
    "APPNP, with dropout": GraphRow(APPNP(3, 0.2, dropout=0.5), appnp(3, 0.2), weights=True, random=True,
                                    peer=appnp_peer(3, 0.2, dropout=0.5)),
    "APPNP, no propagation": GraphRow(APPNP(0), lambda params, x, graph: x, weights=True),
    "APPNP, means": GraphRow(APPNP(2, norm="row"), appnp(2, 0.1, by_rows), weights=True),
    "APPNP, as it is": GraphRow(APPNP(2, 0.3, norm=None, dropout=0.3), appnp(2, 0.3, lambda a: a), weights=True,
                                random=True, peer=appnp_peer(2, 0.3, normalize=False)),
    "APPNP, without self loops": GraphRow(APPNP(2, self_loops=False), appnp(2, 0.1, lambda a: symmetric(a, False)),
                                          weights=True, peer=appnp_peer(2, 0.1, add_self_loops=False)),
    "ChebConv": GraphRow(ChebConv(3, 4), chebyshev(), weights=True, peer=chebyshev_peer()),
    "ChebConv, more features than before": GraphRow(ChebConv(6, 4), chebyshev(), weights=True, peer=chebyshev_peer()),
    "ChebConv, one polynomial": GraphRow(ChebConv(3, 1, bias=False), chebyshev(), weights=True, peer=chebyshev_peer()),
    "ChebConv, two polynomials": GraphRow(ChebConv(6, 2), chebyshev(), weights=True, peer=chebyshev_peer()),
    "ChebConv, of a walk": GraphRow(ChebConv(3, 3, norm="row", lambda_max=1.5), chebyshev("row", 1.5), weights=True,
                                    peer=chebyshev_peer("rw", 1.5)),
    "ChebConv, not normalised": GraphRow(ChebConv(3, 3, norm=None, lambda_max=6.0), chebyshev(None, 6.0), weights=True,
                                         peer=chebyshev_peer(None, 6.0)),
    "GCNII": GraphRow(GCNII(2), gcnii(), weights=True, extra=INITIAL, peer=gcnii_peer(alpha=0.1, theta=0.5, layer=2)),
    "GCNII, two matrices": GraphRow(GCNII(2, shared_weights=False, alpha=0.3), gcnii(0.3), weights=True, extra=INITIAL,
                                    peer=gcnii_peer(alpha=0.3, theta=0.5, layer=2)),
    "GCNII, without identity": GraphRow(GCNII(1, theta=None, norm="row"), gcnii(beta=1.0, normal=by_rows), weights=True,
                                        extra=INITIAL),
    "GCNII, as it is": GraphRow(GCNII(2, norm=None), gcnii(normal=lambda a: a), weights=True, extra=INITIAL,
                                peer=gcnii_peer(alpha=0.1, theta=0.5, layer=2, normalize=False)),
    "GCNII, in a model": GraphRow(after_a_map(GCNII(2)), weights=True,
                                  oracle=lambda params, x, graph: gcnii()(params, 2 * x, graph, x)),
}

WRONG = {
    "SGC, an unknown norm": (lambda: SGC(3, norm="both"), ValueError, ["SGC", "unknown norm", "both"]),
    "SGC, fewer than 0 propagations": (lambda: SGC(3, -1), ValueError, ["SGC", "at least 0", "-1"]),
    "SGC, integers": (lambda: SGC(3).apply(SGC(3).init(KEY, (-1, 2))[1], np.ones((2, 2), int), np.eye(2)),
                      TypeError, ["SGC", "floating-point", "[2,2]"]),
    "SGC, params for other features": (
        lambda: SGC(3).apply(SGC(3).init(KEY, (-1, 2))[1], np.ones((2, 4), np.float32), np.eye(2)),
        TypeError, ["SGC", "another shape", "[4,3]"]),
    "APPNP, alpha is not a share": (lambda: APPNP(alpha=1.5), ValueError, ["APPNP", "alpha", "1.5"]),
    "APPNP, a dropout of 1": (lambda: APPNP(dropout=1.0), ValueError, ["rate", "1.0"]),
    "APPNP, dropout without rng": (
        lambda: APPNP(dropout=0.5).apply((), np.ones((2, 1), np.float32), np.eye(2, dtype=np.float32), train=True),
        TypeError, ["APPNP", "random bits"]),
    "ChebConv, no polynomial": (lambda: ChebConv(3, 0), ValueError, ["ChebConv", "at least 1", "0"]),
    "ChebConv, no bound": (lambda: ChebConv(3, 2, norm=None), ValueError, ["ChebConv", "bound", "lambda_max"]),
    "ChebConv, a negative bound": (lambda: ChebConv(3, 2, lambda_max=-1.0), ValueError, ["ChebConv", "positive"]),
    "GCNII, layer 0": (lambda: GCNII(0), ValueError, ["GCNII", "layer", "0"]),
    "GCNII, theta 0": (lambda: GCNII(1, theta=0.0), ValueError, ["GCNII", "theta"]),
    "GCNII, other initial features": (
        lambda: GCNII(1).apply(GCNII(1).init(KEY, (-1, 2))[1], np.ones((3, 2), np.float32),
                               np.eye(3, dtype=np.float32), np.ones((3, 4), np.float32)),
        ValueError, ["GCNII", "initial", "[3,2]", "[3,4]"]),
}
