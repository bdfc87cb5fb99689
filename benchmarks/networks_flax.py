"""The networks of `networks.py` in Flax (linen), in the usual style of Flax programs."""

from __future__ import annotations

import functools

import flax.linen as nn
import jax.numpy as jnp
import networkx as nx
import numpy as np


class MLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (512, 512, 512):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(10)(x)


class GCN(nn.Module):
    """Two layers on the karate club graph, with its normalised adjacency as a dense matrix."""

    @nn.compact
    def __call__(self, x):
        edges = nx.to_numpy_array(nx.karate_club_graph(), weight=None) + np.eye(34)
        scale = edges.sum(1) ** -0.5
        adjacency = jnp.asarray(edges * scale * scale[:, None], jnp.float32)
        x = nn.relu(adjacency @ nn.Dense(16, use_bias=False)(x))
        return adjacency @ nn.Dense(2, use_bias=False)(x)


class LeNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.max_pool(nn.tanh(nn.Conv(6, (5, 5))(x)), (2, 2), (2, 2))
        x = nn.max_pool(nn.tanh(nn.Conv(16, (5, 5), padding="VALID")(x)), (2, 2), (2, 2))
        x = x.reshape(len(x), -1)
        x = nn.tanh(nn.Dense(84)(nn.tanh(nn.Dense(120)(x))))
        return nn.Dense(10)(x)


def norm() -> nn.Module:
    return nn.BatchNorm(use_running_average=False, momentum=0.9, epsilon=1e-5)


class BasicBlock(nn.Module):
    features: int
    strides: int = 1

    @nn.compact
    def __call__(self, x):
        y = nn.Conv(self.features, (3, 3), self.strides, padding=1, use_bias=False)(x)
        y = nn.Conv(self.features, (3, 3), padding=1, use_bias=False)(nn.relu(norm()(y)))
        y = norm()(y)
        if x.shape != y.shape:
            x = norm()(nn.Conv(self.features, (1, 1), self.strides, use_bias=False)(x))
        return nn.relu(x + y)


class ResNet18(nn.Module):
    """For images of 32 x 32: a 3 x 3 stem without a pool."""

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(64, (3, 3), padding=1, use_bias=False)(x)
        x = nn.relu(norm()(x))
        for stage, features in enumerate((64, 128, 256, 512)):
            for block in range(2):
                x = BasicBlock(features, 2 if stage and not block else 1)(x)
        return nn.Dense(10)(x.mean((1, 2)))


class Block(nn.Module):
    """A transformer block, with norms first, or last as in BERT."""

    heads: int
    causal: bool = False
    norm_first: bool = True

    @nn.compact
    def __call__(self, x):
        width = x.shape[-1]
        mask = nn.make_causal_mask(jnp.ones(x.shape[:2])) if self.causal else None
        attention = nn.MultiHeadDotProductAttention(self.heads)
        gelu = functools.partial(nn.gelu, approximate=self.causal)      # only GPT-2 has the approximation
        mlp = nn.Sequential([nn.Dense(4 * width), gelu, nn.Dense(width)])
        if self.norm_first:
            y = nn.LayerNorm()(x)
            x = x + attention(y, y, mask=mask)
            return x + mlp(nn.LayerNorm()(x))
        x = nn.LayerNorm()(x + attention(x, x, mask=mask))
        return nn.LayerNorm()(x + mlp(x))


class ViT(nn.Module):
    """Images of 32 x 32 in patches of 4, width 192, 12 layers, 3 heads."""

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(192, (4, 4), (4, 4))(x).reshape(len(x), -1, 192)
        first = self.param("class", nn.initializers.zeros, (1, 1, 192))
        x = jnp.concatenate([jnp.broadcast_to(first, (len(x), 1, 192)), x], 1)
        x = x + self.param("positions", nn.initializers.normal(0.02), x.shape[1:])
        for _ in range(12):
            x = Block(3)(x)
        return nn.Dense(10)(nn.LayerNorm()(x)[:, 0])


class LanguageModel(nn.Module):
    """GPT-2 with 4 layers of 256 features and 8 heads."""

    vocabulary: int

    @nn.compact
    def __call__(self, tokens):
        embed = nn.Embed(self.vocabulary, 256)
        x = embed(tokens) + self.param("positions", nn.initializers.normal(0.02), (tokens.shape[1], 256))
        for _ in range(4):
            x = Block(8, causal=True)(x)
        return embed.attend(nn.LayerNorm()(x))


class LSTM(nn.Module):
    """Two LSTM layers of 256 features."""

    vocabulary: int

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(self.vocabulary, 256)(tokens)
        for _ in range(2):
            x = nn.RNN(nn.OptimizedLSTMCell(256))(x)
        return nn.Dense(self.vocabulary)(x)


class BERT(nn.Module):
    """BERT without the pooler: logits at every position."""

    vocabulary: int
    features: int = 256
    layers: int = 4
    heads: int = 4

    @nn.compact
    def __call__(self, tokens):
        embed = nn.Embed(self.vocabulary, self.features)
        x = embed(tokens) + self.param("positions", nn.initializers.normal(0.02), (tokens.shape[1], self.features))
        x = nn.LayerNorm()(x)
        for _ in range(self.layers):
            x = Block(self.heads, norm_first=False)(x)
        return embed.attend(x)


class UNet(nn.Module):
    """A U-Net with group norms: two poolings, and shortcuts between equal resolutions."""

    features: tuple[int, ...] = (16, 32, 64)

    @nn.compact
    def __call__(self, x):
        def block(x, n):
            for _ in range(2):
                x = nn.relu(nn.GroupNorm(8)(nn.Conv(n, (3, 3), use_bias=False)(x)))
            return x

        *upper, bottom = self.features
        shortcuts = []
        for n in upper:
            shortcuts.append(x := block(x, n))
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = block(x, bottom)
        for n, shortcut in zip(reversed(upper), reversed(shortcuts), strict=True):
            x = block(jnp.concatenate([shortcut, nn.ConvTranspose(n, (2, 2), (2, 2))(x)], -1), n)
        return nn.Conv(10, (1, 1))(x)
