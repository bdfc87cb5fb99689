"""Names of Llama."""

from collections.abc import Mapping
from typing import Any

from xjax.errors import bad
from xnn.layers import Llama3Scaling
from xnn.models import Llama, LlamaConfig
from xnn.pretrained.families.tables import SIZES, Family, Tensor, dense


def _llama(config: LlamaConfig) -> list[Tensor]:
    names = {"self_attn.q_proj": "attention/query", "self_attn.k_proj": "attention/key",
             "self_attn.v_proj": "attention/value", "self_attn.o_proj": "attention/out",
             "mlp.gate_proj": "feed_forward/gate", "mlp.up_proj": "feed_forward/up",
             "mlp.down_proj": "feed_forward/down"}
    scales = {"layers.{i}.input_layernorm": "blocks/attention_norm",
              "layers.{i}.post_attention_layernorm": "blocks/feed_forward_norm", "norm": "norm"}
    return [Tensor("embed_tokens.weight", ("tokens/table",)),
            *(tensor for theirs, ours in names.items() for tensor in dense(
                f"layers.{{i}}.{theirs}", f"blocks/{ours}", bias=False)),
            *(Tensor(f"{theirs}.weight", (f"{ours}/scale",)) for theirs, ours in scales.items())]


def _head(config: LlamaConfig) -> list[Tensor]:
    return [] if config.tied else dense("lm_head", "logits", bias=False)


# The defaults of our config are those of Llama 3.1; the defaults of their config are those of the first Llama.
_LLAMA_DEFAULTS = {"vocabulary": ("vocab_size", 32_000), "features": ("hidden_size", 4096),
                   "hidden": ("intermediate_size", 11_008), "layers": ("num_hidden_layers", 32),
                   "heads": ("num_attention_heads", 32), "epsilon": ("rms_norm_eps", 1e-6),
                   "tied": ("tie_word_embeddings", False)}


def _read_llama(settings: Mapping[str, Any]) -> dict[str, Any]:
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ("default", "llama3") or rope.get("partial_rotary_factor", 1) != 1:
        raise bad("pretrained.load", f"the scaling {kind!r} of rotary positions is not supported",
                  {"rope": str(rope)}, "load a model with the rope_type llama3 or default.", ValueError)
    scaling = Llama3Scaling(rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"],
                            rope["original_max_position_embeddings"]) if kind == "llama3" else None
    missing = {ours: value for ours, (theirs, value) in _LLAMA_DEFAULTS.items() if settings.get(theirs) is None}
    missing |= {} if settings.get("num_key_value_heads") else {
        "kv_heads": settings.get("num_attention_heads", _LLAMA_DEFAULTS["heads"][1])}
    return {**missing, "base": rope.get("rope_theta", settings.get("rope_theta", 10_000.0)), "scaling": scaling}


def _write_llama(config: LlamaConfig) -> dict[str, Any]:
    rope: dict[str, Any] = {"rope_theta": config.base, "rope_type": "default"}
    if (s := config.scaling) is not None:
        rope |= {"rope_type": "llama3", "factor": s.factor, "low_freq_factor": s.low, "high_freq_factor": s.high,
                 "original_max_position_embeddings": s.original_length}
    return {"rope_parameters": rope}


LLAMA_FAMILY = Family(
    "llama", Llama, LlamaConfig, {"LlamaForCausalLM": {}},
    {**SIZES, "vocabulary": "vocab_size", "hidden": "intermediate_size", "kv_heads": "num_key_value_heads",
     "head_size": "head_dim", "epsilon": "rms_norm_eps", "tied": "tie_word_embeddings"},
    {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False},
    _llama, head=_head, prefix="model.", ignored=("rotary_emb.inv_freq",), read=_read_llama, write=_write_llama)
