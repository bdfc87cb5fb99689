"""Rows of PNA."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.mpnn import dense, linear, relu
from xnn.graph.layers.pna import PNA

DEGREES = (1, 3, 4, 2)
ALL = ("mean", "max", "min", "std", "var", "sum"), ("identity", "amplification", "attenuation", "linear",
                                                    "inverse_linear")
SHORT = ("mean", "min", "max", "std"), ("identity", "amplification", "attenuation")


def spread(rows):
    variance = np.var(rows, 0)
    return np.where(variance > 1e-5, np.sqrt(variance), 0)


REDUCE = {"mean": lambda rows: np.mean(rows, 0), "max": lambda rows: np.max(rows, 0), "std": spread,
          "min": lambda rows: np.min(rows, 0), "var": lambda rows: np.var(rows, 0), "sum": lambda rows: np.sum(rows, 0)}


def network(layers, tower, x):
    for i, layer in enumerate(layers):
        x = (relu(x) if i else x) @ layer["w"][tower] + layer["b"][tower]
    return x


def pna(aggregators, scalers, towers=1, divided=False):
    share = np.array(DEGREES) / sum(DEGREES)
    mean, log = share @ np.arange(4), share @ np.log(np.arange(4) + 1)
    scale = {"identity": lambda d: 1.0, "amplification": lambda d: np.log(d + 1) / log,
             "attenuation": lambda d: log / np.log(max(d, 1) + 1), "linear": lambda d: d / mean,
             "inverse_linear": lambda d: mean / max(d, 1)}

    def value(params, x, graph):
        out = []
        for node in range(graph.n_nodes):
            mixed = []
            for t in range(towers):
                f = x.shape[1] // towers
                own = x[:, t * f:(t + 1) * f] if divided else x
                messages = []
                for k in np.flatnonzero(graph.receivers == node):
                    parts = [own[node], own[graph.senders[k]]]
                    if "edge" in params:
                        parts.append(dense(params["edge"], graph.edge_features[k]))
                    messages.append(network(params["pre"], t, np.concatenate(parts)))
                reduced = np.concatenate([REDUCE[name](np.array(messages)) if messages else np.zeros(own.shape[1])
                                          for name in aggregators])
                joined = [own[node], *(scale[name](len(messages)) * reduced for name in scalers)]
                mixed.append(network(params["post"], t, np.concatenate(joined)))
            out.append(dense(params["out"], np.concatenate(mixed)))
        return np.array(out)

    return value


def pna_conv(aggregators, scalers, **settings):
    def peer(params):
        import torch
        from torch_geometric.nn import PNAConv

        layer = PNAConv(4, 6, list(aggregators), list(scalers), torch.tensor(DEGREES), **settings)
        for part, theirs in (("pre", layer.pre_nns), ("post", layer.post_nns)):
            for t, tower in enumerate(theirs):
                modules = [module for module in tower if hasattr(module, "bias")]           # no activations
                for module, own in zip(modules, params[part], strict=True):
                    linear(module, {"w": own["w"][t], "b": own["b"][t]})
        linear(layer.lin, params["out"])
        if "edge" in params:
            linear(layer.edge_encoder, params["edge"])
        return layer, lambda x, graph: layer(x, graph.edge_index, graph.features)

    return peer


ROWS = {
    "PNA": GraphRow(PNA(6, DEGREES, aggregators=("mean", "std"), scalers=("identity", "attenuation")),
                    pna(("mean", "std"), ("identity", "attenuation")), tol=3.0,
                    peer=pna_conv(("mean", "std"), ("identity", "attenuation"))),
    "PNA, defaults": GraphRow(PNA(6, DEGREES), pna(*SHORT), peer=pna_conv(*SHORT), tol=3.0),
    "PNA, all reductions": GraphRow(PNA(6, DEGREES, aggregators=ALL[0], scalers=ALL[1]), pna(*ALL), peer=pna_conv(*ALL),
                                    tol=10.0),
    "PNA, towers": GraphRow(PNA(6, DEGREES, towers=2, divide_input=True, pre_layers=2, post_layers=2),
                            pna(*SHORT, towers=2, divided=True), tol=3.0,
                            peer=pna_conv(*SHORT, towers=2, divide_input=True, pre_layers=2, post_layers=2)),
    "PNA, features of edges": GraphRow(PNA(6, DEGREES, edge_features=2, towers=2), pna(*SHORT, towers=2),
                                       edge_features=2, tol=3.0, peer=pna_conv(*SHORT, towers=2, edge_dim=2)),
}

WRONG = {
    "PNA, unknown aggregator": (
        lambda: PNA(6, DEGREES, aggregators=["median"]), ValueError, ["PNA", "aggregators", "median"]),
    "PNA, unknown scaler": (lambda: PNA(6, DEGREES, scalers=["log"]), ValueError, ["PNA", "scalers", "log"]),
    "PNA, a name and no list": (lambda: PNA(6, DEGREES, scalers="linear"), ValueError, ["PNA", "sequence"]),
    "PNA, towers that do not divide": (
        lambda: PNA(6, DEGREES, towers=4), ValueError, ["PNA", "output", "divisible"]),
    "PNA, an input that does not divide": (
        lambda: PNA(6, DEGREES, towers=2, divide_input=True).init(KEY, (-1, 5)), ValueError, ["input", "divisible"]),
    "PNA, no layers": (lambda: PNA(6, DEGREES, pre_layers=0), ValueError, ["PNA", "at least one layer"]),
    "PNA, graphs without edges": (lambda: PNA(6, (4,)), ValueError, ["PNA", "degree_histogram"]),
}
