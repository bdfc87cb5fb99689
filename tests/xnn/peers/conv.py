"""PyTorch's values of convolutions, pools and resizing layers, for tests/xnn/test_conv.py.

    python -m tests.xnn.peers.conv        # needs torch; writes conv.npz next to this file

For each case: input x, parameters, output y, and the gradients of sum(sin(y)), in the layouts of xnn.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def resized(**settings):
    return lambda x: F.interpolate(x, align_corners=False, **settings)


def padded(*pads, **settings):
    return lambda x: F.pad(x, pads, **settings)


# name -> (module, shape of x in PyTorch's layout [batch, features, *spatial])
CASES = {
    "conv, one axis": (nn.Conv1d(3, 4, 3, stride=2, padding=1), (2, 3, 7)),
    "conv": (nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 0)), (2, 3, 6, 5)),
    "conv, three axes": (nn.Conv3d(2, 3, (2, 3, 1), padding=(0, 1, 0), bias=False), (2, 2, 3, 4, 2)),
    "conv, dilated groups": (nn.Conv2d(4, 6, 3, dilation=2, padding=2, groups=2), (2, 4, 5, 6)),
    "conv, same": (nn.Conv2d(3, 4, (4, 3), padding="same"), (2, 3, 5, 5)),
    "conv, circular": (nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), (2, 2, 5)),
    "conv, reflect": (nn.Conv1d(2, 3, 5, padding=2, padding_mode="reflect"), (2, 2, 5)),
    "depthwise": (nn.Conv2d(3, 6, 3, padding=1, groups=3), (2, 3, 4, 5)),
    "transposed": (nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), (2, 3, 3, 4)),
    "transposed, one axis": (nn.ConvTranspose1d(3, 2, 4, stride=3), (2, 3, 4)),
    "transposed, dilated groups": (nn.ConvTranspose2d(4, 6, (2, 3), stride=2, dilation=2, groups=2, padding=1),
                                   (2, 4, 3, 2)),
    "max pool": (nn.MaxPool2d(3, stride=2, padding=1), (2, 3, 5, 6)),
    "max pool, dilated": (nn.MaxPool1d(2, stride=1, dilation=3), (2, 3, 7)),
    "average pool": (nn.AvgPool2d((3, 2), stride=2, padding=1), (2, 3, 5, 6)),
    "average pool, inside": (nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), (2, 3, 5, 6)),
    "adaptive average": (nn.AdaptiveAvgPool2d((3, 7)), (2, 3, 5, 6)),
    "adaptive average, size kept": (nn.AdaptiveAvgPool2d((None, 4)), (2, 3, 5, 6)),
    "adaptive max": (nn.AdaptiveMaxPool3d((2, 1, 3)), (2, 3, 3, 4, 5)),
    "nearest": (nn.Upsample(scale_factor=3), (2, 2, 3, 2)),
    "nearest, other sizes": (nn.Upsample(size=(5, 4), mode="nearest-exact"), (2, 2, 3, 6)),
    "bilinear": (resized(size=(7, 3), mode="bilinear"), (2, 2, 4, 5)),
    "bilinear, fractional": (resized(scale_factor=1.5, mode="bilinear", recompute_scale_factor=True), (2, 2, 4, 5)),
    "bilinear, smooth": (resized(size=(3, 7), mode="bilinear", antialias=True), (2, 2, 8, 5)),
    "bicubic": (resized(size=(7, 4), mode="bicubic"), (2, 2, 5, 5)),
    "bicubic, smooth": (resized(size=(3, 9), mode="bicubic", antialias=True), (2, 2, 8, 5)),
    "shuffle": (nn.PixelShuffle(2), (2, 8, 3, 2)),
    "unshuffle": (nn.PixelUnshuffle(3), (2, 2, 3, 6)),
    "pad, replicate": (padded(1, 2, 0, 3, mode="replicate"), (2, 2, 3, 4)),
    "pad, circular": (padded(2, 1, 0, 1, mode="circular"), (2, 2, 3, 4)),
    "pad, cropped": (padded(-1, 2, 1, -2, value=0.5), (2, 2, 3, 4)),
}


def features_last(x):
    return np.moveaxis(x.detach().numpy(), 1, -1)


def conv_weight(w):
    """[out, in, *window] -> [*window, in, out]."""
    return np.moveaxis(w.detach().numpy(), (0, 1), (-1, -2))


def transposed_weight(w, groups=1):
    """[in, out / groups, *window] -> flipped [*window, in / groups, out]."""
    w = w.detach().numpy()
    window = w.shape[2:]
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])                # [groups, in, out, *window]
    w = np.moveaxis(w, (1, 0, 2), (-3, -2, -1)).reshape(*window, w.shape[1], -1)
    return np.flip(w, tuple(range(len(window))))


def arrays_of(module, shape):
    x = torch.randn(shape, requires_grad=True)
    y = module(x)
    torch.sin(y).sum().backward()
    arrays = {"x": features_last(x), "y": features_last(y), "dx": features_last(x.grad)}
    if hasattr(module, "weight"):
        is_transposed = isinstance(module, nn.ConvTranspose1d | nn.ConvTranspose2d)
        converted = (lambda w: transposed_weight(w, module.groups)) if is_transposed else conv_weight
        arrays |= {"w": converted(module.weight), "dw": converted(module.weight.grad)}
        if module.bias is not None:
            arrays |= {"b": module.bias.detach().numpy(), "db": module.bias.grad.numpy()}
    return arrays


if __name__ == "__main__":
    arrays = {f"{name}/{key}": value for name, case in CASES.items() for key, value in arrays_of(*case).items()}
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)
