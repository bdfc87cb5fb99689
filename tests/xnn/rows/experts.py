"""Rows of mixtures of experts and of choice between layers, squeeze-excite."""

import numpy as np

import xjax.numpy as jnp
import xnn
from tests.xnn.rows.row import KEY, LayerRow
from xnn import Dense, MixtureOfExperts, SqueezeExcite, serial, switch

X = np.ones((2, 3), np.float32)


def _squeeze_excite(p, x):
    hidden = np.maximum(x.mean((1, 2)) @ p["squeeze"]["w"] + p["squeeze"]["b"], 0)
    gates = 1 / (1 + np.exp(-(hidden @ p["excite"]["w"] + p["excite"]["b"])))
    return x * gates[:, None, None]


def mixture(params, x, k=2, room=None):
    """Token by token, choice by choice: each goes to its expert while that has room."""
    logits = x @ params["router"]["w"]
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    order = np.argsort(-probs, -1, kind="stable")[:, :k]
    used, y = np.zeros(probs.shape[1], int), 0
    for choice in range(k):
        rows = []
        for token, one in enumerate(order[:, choice]):
            gate = probs[token, one] / (probs[token, order[token]].sum() if k > 1 else 1)
            expert = {name: params["experts"][name][one] for name in ("w", "b")}
            has_room = room is None or used[one] < room
            rows.append(has_room * gate * np.tanh(x[token] @ expert["w"] + expert["b"]))
            used[one] += 1
        y = y + np.stack(rows)
    return y


def _mixture(**settings):
    def value(p, x):
        params = {"router": p["router"], "experts": p["experts"][0]}
        return mixture(params, x.reshape(-1, x.shape[-1]), **settings).reshape(*x.shape[:-1], -1)
    return value


def chosen(layers, x):
    return layers.choice(x, index=jnp.asarray(1))


EXPERT = serial(Dense(3), xnn.Tanh)
ROWS = {
    "SqueezeExcite": LayerRow(SqueezeExcite(2), (4, 2, 3, 5), _squeeze_excite),
    "switch": LayerRow(xnn.composite(chosen, "switch", choice=switch(Dense(3), EXPERT)), (4, 5), lambda p, x: np.tanh(
        x @ p["choice"][1][0]["w"] + p["choice"][1][0]["b"])),
    "MixtureOfExperts": LayerRow(MixtureOfExperts(EXPERT, 3, capacity=None), (2, 4, 5), _mixture(), by_example=False),
    "MixtureOfExperts, one": LayerRow(MixtureOfExperts(EXPERT, 3, k=1, capacity=1.0), (8, 5), _mixture(k=1, room=3),
                                      by_example=False),
    "MixtureOfExperts, drops": LayerRow(MixtureOfExperts(EXPERT, 4, capacity=0.5), (8, 5), _mixture(room=2),
                                        by_example=False),
}


def _moe(**options):
    return MixtureOfExperts(Dense(2), 3, **options)


def _trained_without_rng():
    layer = _moe(noisy=True)
    layer.apply_with_state(layer.init(KEY, X.shape)[1], layer.init_state(X.shape), X, train=True)


WRONG = {
    "SqueezeExcite, positions": (lambda: SqueezeExcite().init(KEY, (2, 3)), TypeError,
                                 ["SqueezeExcite: init needs the shape", "(2, 3)"]),
    "SqueezeExcite, reduction": (lambda: SqueezeExcite(0), ValueError, ["reduction must be at least 1"]),
    "switch, none": (lambda: switch(), ValueError, ["switch: there are no layers"]),
    "switch, shapes": (lambda: switch(Dense(2), Dense(3)).init(KEY, (-1, 4)), TypeError,
                       ["switch: the layers have different output shapes", "(-1, 2)", "(-1, 3)"]),
    "switch, index": (lambda: switch(xnn.Relu, xnn.Tanh).apply(((), ()), X, X[0]), TypeError,
                      ["switch: the index must be an integer scalar", "f32[3]", "vmap"]),
    "switch, no index": (lambda: switch(xnn.Relu, xnn.Tanh).apply(((), ()), X), TypeError,
                         ["switch: takes 1 extra input, 0 given", "index"]),
    "MixtureOfExperts, k": (lambda: _moe(k=4), ValueError, ["k must be between 1", "from 1 to 3"]),
    "MixtureOfExperts, capacity": (lambda: _moe(capacity=0), ValueError, ["a capacity must be positive"]),
    "MixtureOfExperts, state": (lambda: MixtureOfExperts(xnn.BatchNorm(), 2), ValueError,
                                ["the expert has running statistics", "BatchNorm"]),
    "MixtureOfExperts, positions": (lambda: MixtureOfExperts(xnn.GroupNorm(), 2), ValueError,
                                    ["the expert is not positionwise", "GroupNorm"]),
    "MixtureOfExperts, inputs": (lambda: MixtureOfExperts(switch(Dense(2)), 2), ValueError,
                                 ["the expert takes extra inputs: index"]),
    "MixtureOfExperts, a mask of numbers": (
        lambda: _moe().apply({}, X, np.ones(2, np.float32), state=_moe().init_state(X.shape)), TypeError,
        ["MixtureOfExperts: the mask", "row_mask", "f32[2]", "bool[2]"]),
    "MixtureOfExperts, no state": (lambda: _moe().apply({}, X), TypeError, ["evaluation needs"]),
    "MixtureOfExperts, no rng": (_trained_without_rng, TypeError, ["MixtureOfExperts: training needs random bits"]),
}
