"""Writes attention.npz: blocks of PyTorch, positions of transformers. `python -m tests.xnn.peers.attention`."""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.t5.modeling_t5 import T5Attention

FILE = Path(__file__).with_suffix(".npz")
PADDING = torch.tensor([[False, False, False, True], [False] * 4])            # True is padding in PyTorch


def block(kind, seed, **options):
    torch.manual_seed(seed)
    layer = kind(8, 2, 12, dropout=0.0, batch_first=True, **options)
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.3)
    return layer


def recorded(name, layer, *inputs, **options):
    """Inputs, output, weights, and the gradients of the sum of sines of the output."""
    inputs = [x.requires_grad_() for x in inputs]
    y = layer(*inputs, **options)
    torch.sin(y).sum().backward()
    arrays = {"y": y, **{f"x{i}": x for i, x in enumerate(inputs)}, **{f"dx{i}": x.grad for i, x in enumerate(inputs)}}
    for key, weight in layer.named_parameters():
        arrays |= {f"w/{key}": weight, f"dw/{key}": weight.grad}
    return {f"{name}/{key}": array.detach().numpy() for key, array in arrays.items()}


def main():
    x, context = torch.randn(2, 4, 8), torch.randn(2, 3, 8)
    arrays = {}
    for name, norm_first in (("encoder, norm first", True), ("encoder, norm last", False)):
        layer = block(nn.TransformerEncoderLayer, 1, norm_first=norm_first).train()       # eval() takes a fused path
        arrays |= recorded(name, layer, x.clone(), src_key_padding_mask=PADDING)
    layer = block(nn.TransformerDecoderLayer, 2, norm_first=True)
    causal = torch.ones(4, 4).triu(1).bool()
    arrays |= recorded("decoder", layer, x.clone(), context.clone(), tgt_mask=causal)
    distance = torch.arange(-200, 201)
    for both in (True, False):
        arrays[f"t5/{both}"] = T5Attention._relative_position_bucket(distance, both, 32, 128).numpy().astype(np.int8)
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192, "rope_theta": 500_000.0}
    config = LlamaConfig(hidden_size=256, num_attention_heads=2, rope_parameters=scaling,
                         max_position_embeddings=131_072)
    arrays["llama3"] = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")[0].numpy()
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    main()
