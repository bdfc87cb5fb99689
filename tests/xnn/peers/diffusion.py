"""DiT and a conditional U-Net in PyTorch, for tests/xnn/test_diffusion_models.py.

    python -m tests.xnn.peers.diffusion           # needs torch; writes diffusion.npz next to this file

Modules have the names of xnn's parameters. The features of times and positions are those of the papers' code: all sines
before or after all cosines. For each model the file has x, time, label, the parameters, the output y, and the gradient
of sum(sin(y)) for the maps of the condition in one block.
"""

import math
import re
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.xnn.peers.image_models import UNet, params_of, sequence

torch.manual_seed(0)
LABELS = 3


def time_features(time, features):
    frequencies = torch.exp(-math.log(10_000) * torch.arange(features // 2) / (features // 2))
    angles = time[:, None].float() * frequencies
    return torch.cat([torch.cos(angles), torch.sin(angles)], -1)


class Conditioned(nn.Module):
    """A network with embeddings of a time and of a label."""

    def __init__(self, n_time, features, network):
        super().__init__()
        self.n_time = n_time
        self.time = nn.ModuleDict({"1": nn.Linear(n_time, features), "3": nn.Linear(features, features)})
        self.label, self.network = nn.Embedding(LABELS + 1, features), network

    def forward(self, x, time, label):
        hidden = functional.silu(self.time["1"](time_features(time, self.n_time)))
        return self.network(x, self.time["3"](hidden) + self.label(label))


class Attention(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(features, features) for _ in range(4))

    def forward(self, x):
        split = lambda y: y.unflatten(-1, (self.heads, -1)).movedim(-2, 1)
        y = functional.scaled_dot_product_attention(*(split(each(x)) for each in (self.query, self.key, self.value)))
        return self.out(y.movedim(1, -2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(features, hidden), nn.Linear(hidden, features)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x), approximate="tanh"))


class AdaLNZero(nn.Module):
    def __init__(self, features, layer):
        super().__init__()
        self.maps, self.layer = nn.Linear(features, 3 * features), layer

    def forward(self, x, condition):
        scale, shift, gate = self.maps(functional.silu(condition))[:, None].chunk(3, -1)
        y = functional.layer_norm(x, x.shape[-1:], eps=1e-6)
        return x + gate * self.layer(y * (1 + scale) + shift)


class AdaLN(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.film = nn.Linear(features, 2 * features)

    def forward(self, x, condition):
        scale, shift = self.film(functional.silu(condition))[:, None].chunk(2, -1)
        return functional.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift


def positions(features, side):
    """As get_2d_sincos_pos_embed of the code of MAE and DiT."""
    frequencies = 1 / 10_000 ** (np.arange(features // 4) / (features / 4))
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side))).reshape(2, -1)
    parts = [f(np.einsum("m,d->md", at, frequencies)) for at in grid for f in (np.sin, np.cos)]
    return torch.tensor(np.concatenate(parts, 1), dtype=torch.float32)


class DiTNetwork(nn.Module):
    def __init__(self, image, patch, channels, outputs, features, hidden, layers, heads):
        super().__init__()
        self.image, self.patch, self.channels, self.features = image, patch, outputs, features
        self.patches = nn.Linear(patch * patch * channels, features)
        self.blocks = nn.ModuleList(nn.ModuleList([
            AdaLNZero(features, Attention(features, heads)), AdaLNZero(features, FeedForward(features, hidden))])
            for _ in range(layers))
        self.norm, self.outputs = AdaLN(features), nn.Linear(features, patch * patch * outputs)

    def forward(self, x, condition):
        side, p = self.image // self.patch, self.patch
        x = x.movedim(1, -1).unflatten(1, (side, p)).unflatten(3, (side, p)).permute(0, 1, 3, 2, 4, 5).flatten(3)
        x = self.patches(x.flatten(1, 2)) + positions(self.features, side)
        for attention, feed_forward in self.blocks:
            x = feed_forward(attention(x, condition), condition)
        y = self.outputs(self.norm(x, condition)).unflatten(-1, (p, p, -1)).unflatten(1, (side, side))
        return torch.einsum("nhwpqc->nchpwq", y).flatten(4).flatten(2, 3)


class PixelAttention(nn.Module):
    def __init__(self, features, groups, heads):
        super().__init__()
        self.norm = nn.GroupNorm(groups, features)
        self.attend = sequence(attention=Attention(features, heads))

    def forward(self, x):
        y = self.norm(x).flatten(2).movedim(1, -1)
        return x + self.attend(y).movedim(-1, 1).reshape(x.shape)


class Block(nn.Module):
    """Two convolutions with group norms, of which the first depends on the condition."""

    def __init__(self, n_in, n, n_condition, groups, attention):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(n_in, n, 3, padding=1, bias=False), nn.GroupNorm(groups, n)
        self.conv2, self.norm2 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.GroupNorm(groups, n)
        self.film = nn.Linear(n_condition, 2 * n)
        self.attention = PixelAttention(n, groups, 2) if attention else nn.Identity()
        self.condition = None

    def forward(self, x):
        scale, shift = self.film(functional.silu(self.condition))[:, :, None, None].chunk(2, 1)
        x = torch.relu(self.norm1(self.conv1(x)) * (1 + scale) + shift)
        return self.attention(torch.relu(self.norm2(self.conv2(x))))


class ConditionalUNet(UNet):
    """`UNet` with conditional blocks; the lowest resolution has attention."""

    def __init__(self, classes, features, groups):
        super().__init__(classes, features)
        self.groups, self.n_condition = groups, 4 * features[0]
        n_in = 1
        for i, n in enumerate(features[:-1]):
            setattr(self, f"down{i}", Block(n_in, n, self.n_condition, groups, False))
            setattr(self, f"merge{i}", Block(2 * n, n, self.n_condition, groups, False))
            n_in = n
        self.bottom = Block(n_in, features[-1], self.n_condition, groups, True)

    def forward(self, x, condition):
        for module in self.modules():
            if isinstance(module, Block):
                module.condition = condition
        return super().forward(x)


# name -> (module, shape of x, path of the weights with a gradient); the sizes are repeated in the test.
MODELS = {
    "DiT": (Conditioned(256, 8, DiTNetwork(4, 2, 3, 2, 8, 12, 2, 2)), (2, 3, 4, 4), "network/blocks/0/maps/w"),
    "UNet": (Conditioned(4, 16, ConditionalUNet(2, (4, 8), 2)), (2, 1, 6, 4), "network/down0/film/w"),
}


def arrays_of(model, shape, path):
    for p in model.parameters():                               # scales and biases other than 1 and 0
        nn.init.normal_(p, 1.0 if p.ndim == 1 else 0.0, 0.3)
    x, time, label = torch.randn(shape), torch.tensor([3, 700]), torch.tensor([1, LABELS])
    y = model(x, time, label)
    torch.sin(y).sum().backward()
    features_last = lambda x: x.detach().movedim(1, -1).numpy()
    gradient = leaves_of(model, lambda p: p.grad)[path]
    arrays = {"x": features_last(x), "time": time.numpy(), "label": label.numpy(), "y": features_last(y),
              f"gradient/{path}": gradient}
    return {name: np.int32(array) if array.dtype == np.int64 else array for name, array in arrays.items()} | {
        f"params/{path}": array for path, array in leaves_of(model).items()}


def leaves_of(model, of=lambda parameter: parameter):
    """{path: array} in xnn's form; the arrays of blocks are stacked."""
    groups = {}
    for path, array in params_of(model, of).items():
        path = re.sub(r"blocks/\d+", "blocks", path).replace("label/scale", "label/table")
        if path == "time/1/w":                                 # cosines first -> sines and cosines alternately
            array = np.stack(np.split(array, 2)[::-1], 1).reshape(array.shape)
        groups.setdefault(path, []).append(array)
    return {path: np.stack(group) if "/blocks/" in path else group[0] for path, group in groups.items()}


if __name__ == "__main__":
    arrays = {f"{name}/{key}": value for name, case in MODELS.items() for key, value in arrays_of(*case).items()}
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)
