"""Writes dense.npz: outputs and gradients of PyTorch for the linear family, activations and normalised weights.

Run as ``python -m tests.xnn.peers.dense``, with torch installed. Keys are "case/array"; gradients are those of
``sum(sin(y))``.
"""

import math
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils import spectral_norm
from torch.nn.utils.parametrizations import weight_norm

ARRAYS = Path(__file__).with_name("dense.npz")

# Layers of torch.nn with their defaults -> names in xnn.
ACTIVATIONS = {
    "ReLU": "Relu", "ReLU6": "Relu6", "LeakyReLU": "LeakyRelu", "ELU": "Elu", "CELU": "Celu", "SELU": "Selu",
    "SiLU": "Silu", "Mish": "Mish", "GELU": "ExactGelu", "Softplus": "Softplus", "Softsign": "SoftSign", "Tanh": "Tanh",
    "Tanhshrink": "TanhShrink", "Sigmoid": "Sigmoid", "LogSigmoid": "LogSigmoid", "Hardtanh": "HardTanh",
    "Hardsigmoid": "HardSigmoid", "Hardswish": "HardSwish", "Hardshrink": "HardShrink", "Softshrink": "SoftShrink",
    "GLU": "GLU"}


def draw(*shape):
    return torch.randn(*shape, requires_grad=True)


def case(inputs, weights, y):
    """Arrays of one case: the inputs, y, and all gradients; weights are transposed to xnn's layout."""
    grads = torch.autograd.grad(torch.sin(y).sum(), [*inputs.values(), *(w for w, _ in weights.values())])
    named = dict(zip([*inputs, *weights], grads, strict=True))
    ours = {name: layout for name, (_, layout) in weights.items()} | {name: lambda x: x for name in inputs}
    values = inputs | {name: w for name, (w, _) in weights.items()}
    return {"y": y} | {name: ours[name](x) for name, x in values.items()} | {
        f"grad {name}": ours[name](grad) for name, grad in named.items()}


def bilinear():
    layer, x, other = nn.Bilinear(5, 4, 3), draw(2, 5), draw(2, 4)
    weights = {"w": (layer.weight, lambda w: w.permute(1, 2, 0)), "b": (layer.bias, lambda b: b)}
    return case({"x": x, "other": other}, weights, layer(x, other))


def prelu():
    layer, x = nn.PReLU(5, init=0.1), draw(4, 5)
    return case({"x": x}, {"slope": (layer.weight, lambda w: w)}, layer(x))


def weight_normed():
    layer, x = weight_norm(nn.Linear(5, 3)), draw(4, 5)
    g, v = layer.parametrizations.weight.original0, layer.parametrizations.weight.original1
    with torch.no_grad():
        g.mul_(torch.rand(3, 1) + 0.5)
    weights = {"g": (g, lambda g: g[:, 0]), "v": (v, lambda v: v.T), "b": (layer.bias, lambda b: b)}
    return case({"x": x}, weights, layer(x))


def spectral_normed():
    """Three steps of training, with the gradient of the last."""
    layer, x = spectral_norm(nn.Linear(5, 3)), draw(4, 5)
    start = layer.weight_u.clone()
    for _ in range(3):
        y = layer(x)
    weights = {"w": (layer.weight_orig, lambda w: w.T), "b": (layer.bias, lambda b: b)}
    return case({"x": x}, weights, y) | {"u": start, "u after": layer.weight_u}


def activations():
    x = torch.linspace(-4, 4, 24).reshape(4, 6)[:, torch.randperm(6)].clone().requires_grad_()
    arrays = {"x": x}
    for name, ours in ACTIVATIONS.items():
        y = getattr(nn, name)()(x)
        arrays |= {f"y {ours}": y, f"grad {ours}": torch.autograd.grad(torch.sin(y).sum(), x)[0]}
    return arrays


def alpha_dropout():
    """The two results of PyTorch for 1: dropped and kept."""
    y = nn.AlphaDropout(0.3)(torch.ones(1000))
    return {"values": torch.unique(y)}


def main():
    torch.manual_seed(0)
    cases = {make.__name__: make() for make in
             (bilinear, prelu, weight_normed, spectral_normed, activations, alpha_dropout)}
    arrays = {f"{name}/{key}": np.asarray(value.detach())
              for name, part in cases.items() for key, value in part.items()}
    assert all(math.isfinite(value.sum()) for value in arrays.values())
    np.savez_compressed(ARRAYS, **arrays)


if __name__ == "__main__":
    main()
