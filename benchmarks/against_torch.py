"""The training steps of `step.py` against eager PyTorch, in the usual style of PyTorch programs, on the same numbers.

PyTorch is not a dependency of xjax: install it separately.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import models
import numpy as np
import step
from pairs import main, wanted


def mlp_loss(torch: Any) -> Callable:
    def loss(params, x):
        for w, b in params:
            x = torch.tanh(torch.addmm(b, x, w))
        return (x ** 2).mean()
    return loss


def lenet_loss(torch: Any) -> Callable:
    """PyTorch's convolutions take features before rows, and kernels [out, in, rows, columns]."""
    F = torch.nn.functional

    def convolved(x, kernel, bias, padding):
        return F.max_pool2d(F.relu(F.conv2d(x, kernel.permute(3, 2, 0, 1), bias, padding=padding)), 2)

    def loss(params, images, classes):
        (k1, b1), (k2, b2), *dense, (w, b) = params
        x = convolved(convolved(images.permute(0, 3, 1, 2), k1, b1, "same"), k2, b2, "valid")
        x = x.permute(0, 2, 3, 1).flatten(1)
        for weight, bias in dense:
            x = F.relu(torch.addmm(bias, x, weight))
        return F.cross_entropy(torch.addmm(b, x, w), classes)
    return loss


def transformer_loss(torch: Any) -> Callable:
    F = torch.nn.functional

    def normed(x, gain, bias):
        return F.layer_norm(x, gain.shape, gain, bias, 1e-5)

    def attended(x, norm, to_heads, to_stream):
        q, k, v = (y.unflatten(-1, (models.HEADS, -1)).transpose(1, 2)
                   for y in (normed(x, *norm) @ to_heads).chunk(3, -1))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return heads.transpose(1, 2).flatten(2) @ to_stream

    def loss(params, tokens, following):
        x = F.embedding(tokens, params["embedding"]) + params["positions"]
        for layer in params["layers"]:
            x = x + attended(x, *layer["attention"])
            norm, (up, up_bias), (down, down_bias) = layer["mlp"]
            x = x + F.linear(F.gelu(F.linear(normed(x, *norm), up.T, up_bias), approximate="tanh"), down.T, down_bias)
        logits = normed(x, *params["last"]) @ params["embedding"].T
        return F.cross_entropy(logits.flatten(0, 1), following.flatten())
    return loss


LOSSES = {"MLP 5 x 128": mlp_loss, "MLP 3 x 512": mlp_loss, "LeNet": lenet_loss, "transformer": transformer_loss}


def work(library: str) -> dict[str, float]:
    if library != "torch":
        return step.work(library)
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return {name: step.seconds_of(sgd_step(torch, LOSSES[name](torch), params, batch))
            for name, (_, params, batch) in step.programs().items() if wanted(name)}


def sgd_step(torch: Any, loss: Callable, params: Any, batch: list) -> Callable[[], object]:
    """A function that runs one step and returns the loss before it."""
    leaves = []

    def trained(tree):
        if isinstance(tree, dict):
            return {name: trained(value) for name, value in tree.items()}
        if isinstance(tree, list | tuple):
            return [trained(value) for value in tree]
        leaves.append(torch.tensor(tree, requires_grad=True))
        return leaves[-1]

    params = trained(params)
    batch = [torch.tensor(x if x.dtype.kind == "f" else x.astype(np.int64)) for x in batch]
    optimizer = torch.optim.SGD(leaves, 0.01)

    def call():
        optimizer.zero_grad()
        value = loss(params, *batch)
        value.backward()
        optimizer.step()
        return value.item()
    return call


if __name__ == "__main__":
    main(work, pairs=9, peer="torch")
