"""The networks of `networks.py` in PyTorch, in the usual style of PyTorch programs: features before rows."""

from __future__ import annotations

import torch
from torch import nn


def mlp() -> nn.Module:
    sizes = (784, 512, 512, 512)
    layers = [layer for a, b in zip(sizes, sizes[1:], strict=False) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(512, 10))


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10))


class BasicBlock(nn.Module):
    def __init__(self, n_in: int, n_out: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False), nn.BatchNorm2d(n_out))
        self.skip = nn.Identity() if n_in == n_out else nn.Sequential(
            nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))

    def forward(self, x):
        return torch.relu(self.skip(x) + self.body(x))


def resnet18() -> nn.Module:
    blocks, n_in = [], 64
    for stage, n_out in enumerate((64, 128, 256, 512)):
        blocks += [BasicBlock(n_in, n_out, 2 if stage else 1), BasicBlock(n_out, n_out, 1)]
        n_in = n_out
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Block(nn.Module):
    """A transformer block, with norms first, or last as in BERT."""

    def __init__(self, width: int, heads: int, causal: bool = False, norm_first: bool = True):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        gelu = nn.GELU("tanh" if causal else "none")            # GPT-2 has the approximation, BERT and ViT do not
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), gelu, nn.Linear(4 * width, width))
        self.heads, self.causal, self.norm_first = heads, causal, norm_first

    def attention(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        first, second = self.norms
        if self.norm_first:
            x = x + self.attention(first(x))
            return x + self.mlp(second(x))
        x = first(x + self.attention(x))
        return second(x + self.mlp(x))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 192, 4, 4)
        self.first = nn.Parameter(torch.zeros(1, 1, 192))
        self.positions = nn.Parameter(0.02 * torch.randn(65, 192))
        self.body = nn.Sequential(*[Block(192, 3) for _ in range(12)], nn.LayerNorm(192))
        self.head = nn.Linear(192, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.body(x)[:, 0])


class Transformer(nn.Module):
    """GPT-2 (causal, norms first) and BERT (norms last) with a tied output."""

    def __init__(self, vocabulary: int, tokens: int, heads: int, causal: bool, width: int = 256, layers: int = 4):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.positions = nn.Parameter(0.02 * torch.randn(tokens, width))
        self.before = nn.Identity() if causal else nn.LayerNorm(width)
        self.body = nn.Sequential(*[Block(width, heads, causal, norm_first=causal) for _ in range(layers)])
        self.after = nn.LayerNorm(width) if causal else nn.Identity()

    def forward(self, tokens):
        x = self.body(self.before(self.embed(tokens) + self.positions))
        return self.after(x) @ self.embed.weight.T


class LSTM(nn.Module):
    def __init__(self, vocabulary: int, width: int = 256):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.body = nn.LSTM(width, width, 2, batch_first=True)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens))[0])


class UNet(nn.Module):
    """A U-Net with group norms: two poolings, and shortcuts between equal resolutions."""

    def __init__(self, classes: int = 10, features: tuple[int, ...] = (16, 32, 64)):
        super().__init__()

        def block(n_in: int, n_out: int) -> nn.Module:
            layers = [layer for n in (n_in, n_out) for layer in (
                nn.Conv2d(n, n_out, 3, padding=1, bias=False), nn.GroupNorm(8, n_out), nn.ReLU())]
            return nn.Sequential(*layers)

        *upper, bottom = features
        self.down = nn.ModuleList([block(a, b) for a, b in zip((3, *upper), upper, strict=False)])
        self.bottom = block(upper[-1], bottom)
        self.up = nn.ModuleList([nn.ConvTranspose2d(below, n, 2, 2)
                                 for n, below in zip(upper, features[1:], strict=True)])
        self.merge = nn.ModuleList([block(2 * n, n) for n in upper])
        self.head = nn.Conv2d(features[0], classes, 1)

    def forward(self, x):
        shortcuts = []
        for block in self.down:
            shortcuts.append(x := block(x))
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for i in reversed(range(len(shortcuts))):
            x = self.merge[i](torch.cat([shortcuts[i], self.up[i](x)], 1))
        return self.head(x)


class GAT(nn.Module):
    """One layer of graph attention (Velickovic et al., 2018), as PyTorch Geometric computes it."""

    def __init__(self, n_in: int, n_out: int, heads: int):
        super().__init__()
        self.w = nn.Parameter(torch.randn(n_in, heads * n_out) / n_in ** 0.5)
        self.of_source, self.of_target = (nn.Parameter(torch.randn(heads, n_out) / n_out ** 0.5) for _ in range(2))
        self.b = nn.Parameter(torch.zeros(heads * n_out))

    def forward(self, x, source, target):
        rows, (heads, n_out) = x.shape[0], self.of_source.shape
        x = (torch.sparse.mm(x, self.w) if x.is_sparse_csr else x @ self.w).view(rows, heads, n_out)
        scores = nn.functional.leaky_relu(
            (x * self.of_source).sum(-1)[source] + (x * self.of_target).sum(-1)[target], 0.2)
        at, zeros = target[:, None].expand_as(scores), x.new_zeros(rows, heads)
        greatest = zeros.scatter_reduce(0, at, scores.detach(), "amax", include_self=False)
        weights = (scores - greatest[target]).exp()
        weights = weights / zeros.index_add(0, target, weights)[target]
        sums = x.new_zeros(rows, heads, n_out).index_add(0, target, weights[..., None] * x[source])
        return sums.view(rows, heads * n_out) + self.b


def gat_step(edges: torch.Tensor, x: torch.Tensor, labels: torch.Tensor, hidden: int, classes: int):
    """A function that runs one step of Adam on a whole graph.  Args: edges: [2, edges], sources and targets."""
    first, second = GAT(x.shape[1], hidden // 8, 8), GAT(hidden, classes, 1)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], 0.01)

    def call():
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(second(first(x, *edges).relu(), *edges), labels)
        value.backward()
        optimizer.step()
        return value.item()
    return call
