"""Writes folders of small random decoders of transformers, with outputs, for tests/xnn/test_pretrained_decoders.py.

    python -m tests.xnn.peers.pretrained_decoders [NAME ...]     # needs torch and transformers; writes pretrained/NAME/

Each name has a seed of its own, so that a new one changes no other folder.
"""

import json
import sys
import zlib

import numpy as np
import torch
import transformers as hf

from tests.xnn.peers.pretrained import FOLDER

SMALL = {"vocab_size": 11, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "attn_implementation": "eager", "pad_token_id": 0}
LOCAL = ["sliding_attention", "full_attention", "sliding_attention"]
THREE = {**SMALL, "num_hidden_layers": 3, "head_dim": 6, "layer_types": LOCAL, "sliding_window": 3,
         "query_pre_attn_scalar": 5}
# The rotation of the layers without a window, and of those with one.
GEMMA3 = {**THREE, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e5},
                                       "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}}
MODELS = {
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**SMALL, sliding_window=4)),
    "mistral_base": lambda: hf.MistralModel(hf.MistralConfig(**SMALL, sliding_window=3, head_dim=6)),
    "llama_bias": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, attention_bias=True, mlp_bias=True)),
    "llama_sequence": lambda: hf.LlamaForSequenceClassification(hf.LlamaConfig(**SMALL, num_labels=3)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(
        **SMALL, use_sliding_window=True, sliding_window=3, max_window_layers=1, tie_word_embeddings=True)),
    "qwen2_token": lambda: hf.Qwen2ForTokenClassification(hf.Qwen2Config(**SMALL, num_labels=3)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**SMALL, head_dim=6, attention_bias=True)),
    "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**SMALL, head_dim=6)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(
        **THREE, attn_logit_softcapping=1.0, final_logit_softcapping=2.0)),
    "gemma3": lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**GEMMA3)),
    "gemma3_sequence": lambda: hf.Gemma3TextForSequenceClassification(hf.Gemma3TextConfig(**GEMMA3, num_labels=3)),
    "rope": lambda: rope_model({"rope_type": "default", "rope_theta": 10_000.0}),
}
# Scalings of rotary positions of a model for 8 positions; a head has four pairs of features.
ROPES = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8},
    "yarn, options": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 8.0,
                      "beta_slow": 0.5, "truncate": False, "attention_factor": 1.5},
    "yarn, mscale": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "mscale": 1.0,
                     "mscale_all_dim": 0.5},
    "longrope": {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 8,
                 "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2.0, 3.0, 4.0]},
}


def rope_model(parameters):
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, head_dim=8, max_position_embeddings=8,
                                              rope_parameters=parameters))


def greedy(model, x, mask):
    return model.generate(x, attention_mask=mask, max_new_tokens=8, do_sample=False, pad_token_id=0,
                          eos_token_id=None).numpy()


def write(name, model):
    torch.manual_seed(zlib.crc32(name.encode()))
    for weight in model.eval().parameters():
        torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(FOLDER / name)
    (FOLDER / name / "generation_config.json").unlink(missing_ok=True)
    x = torch.randint(1, 11, (2, 9))
    mask = torch.tensor([[0, 0] + [1] * 7, [1] * 9])
    padded = torch.where(mask.flip(1) == 1, x, 0)        # on the right
    arrays = {"x": x.numpy(), "y": model(x)[0].numpy()}
    if hasattr(model, "lm_head"):
        arrays["greedy"] = greedy(model, x, mask)
    else:
        arrays |= {"padded": padded.numpy(), "padded_y": model(padded, attention_mask=(padded != 0).long())[0].numpy()}
    np.savez_compressed(FOLDER / name / "arrays.npz", **arrays)
    if name == "rope":
        write_ropes(model)


def write_ropes(model):
    """Outputs of the model with each scaling, for 12 and, generated, up to 20 positions, and settings as JSON."""
    x, arrays, settings = torch.randint(1, 11, (2, 12)), {}, {}
    for name, parameters in ROPES.items():
        def other(parameters=parameters):                # a new one for each call: it remembers the longest sequence
            made = rope_model({"rope_theta": 10_000.0, **parameters}).eval()
            made.load_state_dict(model.state_dict())
            return made

        arrays |= {f"{name} y": other()(x)[0].numpy(), f"{name} short": other()(x[:, :5])[0].numpy()}
        # One row at a time: transformers gives all rows of a batch the length of the longest.
        arrays[f"{name} greedy"] = np.concatenate([greedy(other(), row[None], torch.ones(1, 12)) for row in x])
        settings[name] = other().config.rope_parameters
    np.savez_compressed(FOLDER / "rope" / "ropes.npz", x=x.numpy(), **arrays)
    (FOLDER / "rope" / "ropes.json").write_text(json.dumps(settings, indent=2) + "\n")


@torch.no_grad()
def main(names):
    for name in names or MODELS:
        write(name, MODELS[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
