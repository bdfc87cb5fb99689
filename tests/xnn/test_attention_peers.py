"""Blocks and positions against arrays of PyTorch and `transformers` (`tests/xnn/peers/attention.py`)."""

from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax import nn
from xnn import CrossAttention, DecoderBlock, EncoderBlock, FeedForward, Llama3Scaling, MultiHeadAttention, Rotary
from xnn.layers.relative import bucket_of

ARRAYS = np.load(Path(__file__).parent / "peers" / "attention.npz")


def split(name, kind, places):
    """PyTorch's weights of one block, or their gradients, in xnn's form: `places` maps the names."""
    def of(key):
        return ARRAYS[f"{name}/{kind}/{key}"]

    params = {}
    for ours, theirs in places.items():
        if "attention" in ours and "norm" not in ours:
            matrices, biases = np.split(of(f"{theirs}.in_proj_weight"), 3), np.split(of(f"{theirs}.in_proj_bias"), 3)
            params[ours] = {part: {"w": w.T, "b": b} for part, w, b in zip(
                ("query", "key", "value"), matrices, biases, strict=True)}
            params[ours] |= {"out": dense(of, f"{theirs}.out_proj"), "attend": ()}
        elif ours == "feed_forward":
            params[ours] = {"up": dense(of, "linear1"), "down": dense(of, "linear2"), "dropout": ()}
        else:
            params[ours] = {"scale": of(f"{theirs}.weight"), "bias": of(f"{theirs}.bias")}
    return {**params, "dropout": ()}


def dense(of, key):
    return {"w": of(f"{key}.weight").T, "b": of(f"{key}.bias")}


ENCODER = {"attention_norm": "norm1", "attention": "self_attn", "feed_forward_norm": "norm2", "feed_forward": ""}
DECODER = {**ENCODER, "cross_attention_norm": "norm2", "cross_attention": "multihead_attn",
           "feed_forward_norm": "norm3"}


def check(name, layer, places, n_inputs, **options):
    """Check output and all gradients, within rounding of float32 in sums of 12 terms through a block."""
    inputs = [ARRAYS[f"{name}/x{i}"] for i in range(n_inputs)]
    params = split(name, "w", places)

    def total(params, inputs):
        y = layer.apply(params, *inputs, **options)
        return jnp.sum(jnp.sin(y)), y

    (_, y), (dw, dx) = xjax.jit(xjax.value_and_grad(total, (0, 1), has_aux=True))(params, inputs)
    near = lambda got, want: np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
    near(y, ARRAYS[f"{name}/y"])
    xjax.tree.map(near, dw, split(name, "dw", places))
    for i, grad in enumerate(dx):
        near(grad, ARRAYS[f"{name}/dx{i}"])


@pytest.mark.parametrize("name", ["encoder, norm first", "encoder, norm last"])
def test_encoder_with_padding(name):
    layer = EncoderBlock(MultiHeadAttention(8, 2), FeedForward(8, 12, activation=nn.relu),
                         norm_first=name == "encoder, norm first")
    check(name, layer, ENCODER, 1, mask=np.array([[True] * 3 + [False], [True] * 4]))


def test_decoder():
    layer = DecoderBlock(MultiHeadAttention(8, 2, causal=True), CrossAttention(8, 2),
                         FeedForward(8, 12, activation=nn.relu))
    check("decoder", layer, DECODER, 2)


@pytest.mark.parametrize("both", [True, False])
def test_buckets_of_t5(both):
    got = bucket_of(jnp.arange(-200, 201), 32, 128, both)
    np.testing.assert_array_equal(got, ARRAYS[f"t5/{both}"])


def test_frequencies_of_llama_3():
    ours = Rotary(500_000.0, scaling=Llama3Scaling()).frequencies(128)
    np.testing.assert_allclose(ours, ARRAYS["llama3"], rtol=1e-5)      # PyTorch computes them in float32
