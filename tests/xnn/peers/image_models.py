"""The image models in PyTorch, for tests/xnn/test_image_models.py.

    python -m tests.xnn.peers.image_models        # needs torch; writes image_models.npz next to this file

Modules have the names of xnn's parameters. For each model the file has the input x, the parameters, and the output y in
evaluation. For a step of training it has the output, the gradient of its sum(sin(y)) for the first weights, and the new
running statistics.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut; a bottleneck has three."""

    def __init__(self, n_in, features, stride, bottleneck):
        super().__init__()
        out = 4 * features if bottleneck else features
        sizes = [(features, 1, 1), (features, 3, stride), (out, 1, 1)] if bottleneck else [
            (features, 3, stride), (features, 3, 1)]
        self.n, last = len(sizes), n_in
        for i, (width, window, step) in enumerate(sizes, 1):
            setattr(self, f"conv{i}", nn.Conv2d(last, width, window, step, window // 2, bias=False))
            setattr(self, f"norm{i}", nn.BatchNorm2d(width))
            last = width
        self.shortcut = nn.Identity() if stride == 1 and n_in == out else nn.Sequential()
        if stride > 1 or n_in != out:
            self.shortcut.add_module("conv", nn.Conv2d(n_in, out, 1, stride, bias=False))
            self.shortcut.add_module("norm", nn.BatchNorm2d(out))

    def forward(self, x):
        y = x
        for i in range(1, self.n + 1):
            y = getattr(self, f"norm{i}")(getattr(self, f"conv{i}")(y))
            y = torch.relu(y) if i < self.n else y
        return torch.relu(y + self.shortcut(x))


def sequence(**modules):
    made = nn.Sequential()
    for name, module in modules.items():
        made.add_module(name, module)
    return made


class GlobalAverage(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def resnet(stages, bottleneck, small_images, classes=5):
    width = stages[0][1]
    stem = sequence(conv=nn.Conv2d(3, width, 3, 1, 1, bias=False), norm=nn.BatchNorm2d(width), relu=nn.ReLU())
    if not small_images:
        stem = sequence(conv=nn.Conv2d(3, width, 7, 2, 3, bias=False), norm=nn.BatchNorm2d(width), relu=nn.ReLU(),
                        pool=nn.MaxPool2d(3, 2, 1))
    parts, n_in = {}, width
    for i, (n_blocks, features) in enumerate(stages):
        blocks = {}
        for j in range(n_blocks):
            blocks[f"block{j}"] = Block(n_in, features, 2 if i and j == 0 else 1, bottleneck)
            n_in = 4 * features if bottleneck else features
        parts[f"stage{i}"] = sequence(**blocks)
    return sequence(stem=stem, **parts, head=sequence(pool=GlobalAverage(), dense=nn.Linear(n_in, classes)))


class FeaturesFirst(nn.Module):
    """A module of [..., features] for images [batch, features, ...]."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.movedim(1, -1)).movedim(-1, 1)


class LayerScale(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features))

    def forward(self, x):
        return x * self.weight[:, None, None]


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


def layer_norm(features):
    return FeaturesFirst(nn.LayerNorm(features, eps=1e-6))


def convnext(stages, patch, classes=5):
    parts, n_in = {}, stages[0][1]
    for i, (n_blocks, width) in enumerate(stages):
        layers = {"downsample": sequence(norm=layer_norm(n_in), conv=nn.Conv2d(n_in, width, 2, 2))} if i else {}
        for j in range(n_blocks):
            layers[f"block{j}"] = Residual(sequence(
                depthwise=nn.Conv2d(width, width, 7, padding=3, groups=width), norm=layer_norm(width),
                expand=FeaturesFirst(nn.Linear(width, 4 * width)), gelu=nn.GELU(),
                project=FeaturesFirst(nn.Linear(4 * width, width)), scale=LayerScale(width)))
        parts[f"stage{i}"], n_in = sequence(**layers), width
    stem = sequence(conv=nn.Conv2d(3, stages[0][1], patch, patch), norm=layer_norm(stages[0][1]))
    head = sequence(pool=GlobalAverage(), norm=nn.LayerNorm(n_in, eps=1e-6), dense=nn.Linear(n_in, classes))
    return sequence(stem=stem, **parts, head=head)


class UNet(nn.Module):
    def __init__(self, classes, features):
        super().__init__()
        n_in, (*self.features, bottom) = 1, features
        for i, n in enumerate(self.features):
            setattr(self, f"down{i}", self.two_convs(n_in, n))
            n_in = n
        self.bottom = self.two_convs(n_in, bottom)
        for i, (n, above) in enumerate(zip(self.features, features[1:], strict=True)):
            setattr(self, f"up{i}", nn.ConvTranspose2d(above, n, 2, 2))
            setattr(self, f"merge{i}", self.two_convs(2 * n, n))
        self.head = nn.Conv2d(features[0], classes, 1)

    @staticmethod
    def two_convs(n_in, n):
        return sequence(conv1=nn.Conv2d(n_in, n, 3, padding=1, bias=False), norm1=nn.BatchNorm2d(n), relu1=nn.ReLU(),
                        conv2=nn.Conv2d(n, n, 3, padding=1, bias=False), norm2=nn.BatchNorm2d(n), relu2=nn.ReLU())

    def forward(self, x):
        kept = []
        for i in range(len(self.features)):
            kept.append(x := getattr(self, f"down{i}")(x))
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for i in reversed(range(len(self.features))):
            x = getattr(self, f"merge{i}")(torch.cat([kept[i], getattr(self, f"up{i}")(x)], 1))
        return self.head(x)


class Flat(nn.Module):
    """All positions of [batch, features, ...], the features last."""

    def forward(self, x):
        return x.movedim(1, -1).flatten(1)


def lenet():
    return sequence(
        conv1=nn.Conv2d(1, 2, 5, padding=2), tanh1=nn.Tanh(), pool1=nn.AvgPool2d(2),
        conv2=nn.Conv2d(2, 3, 5), tanh2=nn.Tanh(), pool2=nn.AvgPool2d(2), flat=Flat(),
        dense1=nn.Linear(3 * 4, 6), tanh3=nn.Tanh(), dense2=nn.Linear(6, 5), tanh4=nn.Tanh(), dense3=nn.Linear(5, 4))


# name -> (module, shape of the input); the sizes are repeated in the test.
MODELS = {
    "LeNet": (lenet(), (2, 1, 16, 16)),
    "ResNet": (resnet(((1, 3), (2, 4)), False, False), (2, 3, 17, 20)),
    "ResNet, bottleneck": (resnet(((1, 2), (2, 3)), True, True), (2, 3, 6, 7)),
    "ConvNeXt": (convnext(((1, 3), (2, 4)), 2), (2, 3, 12, 16)),
    "UNet": (UNet(2, (2, 3, 4)), (2, 1, 8, 12)),
}


def converted(module, of):
    """{name: array} of the module's own parameters, in xnn's form; `of` returns a parameter or its gradient."""
    arrays = {name: of(p).detach().numpy() for name, p in module.named_parameters(recurse=False)}
    weight, bias = arrays.get("weight"), arrays.get("bias")
    if isinstance(module, nn.ConvTranspose2d):
        leaves = {"w": weight.transpose(2, 3, 0, 1)[::-1, ::-1], "b": bias}
    elif isinstance(module, nn.Conv2d):
        leaves = {"w": weight.transpose(2, 3, 1, 0), "b": bias}
    elif isinstance(module, nn.Linear):
        leaves = {"w": weight.T, "b": bias}
    else:
        leaves = {"scale": weight, "bias": bias}
    return {name: array for name, array in leaves.items() if array is not None}


def params_of(model, of=lambda parameter: parameter):
    return {f"{path.replace('.inner', '').replace('.', '/')}/{name}": array for path, module in model.named_modules()
            for name, array in converted(module, of).items()}


def state_of(model):
    return {f"{path.replace('.', '/')}/{name}": getattr(module, f"running_{name}").numpy().copy()
            for path, module in model.named_modules() if isinstance(module, nn.BatchNorm2d) for name in ("mean", "var")}


def arrays_of(model, shape):
    for p in model.parameters():                               # scales and biases other than 1 and 0
        nn.init.normal_(p, 1.0 if p.ndim == 1 else 0.0, 0.3)
    x = torch.randn(shape)
    features_last = lambda x: x.detach().movedim(1, -1).numpy()
    model.train()
    trained = model(x)
    torch.sin(trained).sum().backward()
    gradient = next(iter(params_of(model, lambda p: p.grad).values()))
    arrays = {"x": features_last(x), "trained": features_last(trained), "gradient": gradient}
    arrays |= {f"params/{path}": array for path, array in params_of(model).items()}
    arrays |= {f"state/{path}": array for path, array in state_of(model).items()}
    model.eval()
    return arrays | {"y": features_last(model(x))}


if __name__ == "__main__":
    arrays = {f"{name}/{key}": value for name, case in MODELS.items() for key, value in arrays_of(*case).items()}
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)
