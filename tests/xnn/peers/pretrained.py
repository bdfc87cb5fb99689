"""Writes folders of small random models of transformers, with logits, for tests/xnn/test_pretrained.py.

    python -m tests.xnn.peers.pretrained       # needs torch and transformers; writes pretrained/
"""

from pathlib import Path

import numpy as np
import torch
import transformers as hf

FOLDER = Path(__file__).with_suffix("")
SMALL = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4}
ROPE = {"rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}
MODELS = {
    "gpt2": hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=11, n_positions=16, n_embd=8, n_layer=2, n_head=2)),
    "llama": hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=11, num_key_value_heads=2, rope_parameters=ROPE, **SMALL)),
    "llama_tied": hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=11, tie_word_embeddings=True, **SMALL)),
    "bert": hf.BertModel(hf.BertConfig(vocab_size=11, max_position_embeddings=16, **SMALL)),
    "t5": hf.T5ForConditionalGeneration(hf.T5Config(
        vocab_size=11, d_model=8, d_kv=3, d_ff=12, num_layers=2, num_heads=2, relative_attention_num_buckets=8,
        relative_attention_max_distance=20, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
        decoder_start_token_id=0)),
    "t5_tied": hf.T5ForConditionalGeneration(hf.T5Config(
        vocab_size=11, d_model=8, d_kv=4, d_ff=12, num_layers=2, num_heads=2, decoder_start_token_id=0)),
    "vit": hf.ViTForImageClassification(hf.ViTConfig(image_size=4, patch_size=2, num_labels=3, **SMALL)),
    "resnet": hf.ResNetForImageClassification(hf.ResNetConfig(
        embedding_size=2, hidden_sizes=[8, 16], depths=[1, 2], num_labels=3)),
    "resnet_basic": hf.ResNetForImageClassification(hf.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[2, 1], layer_type="basic", num_labels=3)),
}


def draw_weights(model: torch.nn.Module) -> None:
    """Random weights and running statistics, and the mode of evaluation."""
    for weight in model.eval().parameters():
        torch.nn.init.normal_(weight, std=0.3)
    for name, statistic in model.named_buffers():             # for a ResNet
        if name.endswith(("running_mean", "running_var")):
            torch.nn.init.uniform_(statistic, 0.5, 1.5)


def main():
    torch.manual_seed(0)
    for name, model in MODELS.items():
        draw_weights(model)
        model.save_pretrained(FOLDER / name, max_shard_size="4KB" if name == "llama" else "5GB")
        image = {"vit": 4, "resnet": 32, "resnet_basic": 32}.get(name)
        x = torch.randn(2, 3, image, image) if image else torch.randint(0, 11, (2, 6))
        more = {"decoder_input_ids": torch.randint(0, 11, (2, 5))} if name.startswith("t5") else {}
        with torch.no_grad():
            y = model(x, **more)[0]
        arrays = {"x": x.numpy(), "y": y.numpy(), **{key: value.numpy() for key, value in more.items()}}
        if name in ("gpt2", "llama"):
            mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])
            arrays["greedy"] = model.generate(x, attention_mask=mask, max_new_tokens=8, do_sample=False,
                                              pad_token_id=0, eos_token_id=None).numpy()
        np.savez_compressed(FOLDER / name / "arrays.npz", **arrays)
        (FOLDER / name / "generation_config.json").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
