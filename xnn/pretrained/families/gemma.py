"""Names of Gemma 1, 2 and 3: decoders whose norms have an offset of 1 and whose embeddings are scaled.

Only the models for text are read: the larger models of Gemma 3 also read images, and have the model type gemma3.
"""

from collections.abc import Mapping
from typing import Any

from xnn.models import Llama, LlamaConfig
from xnn.pretrained.families.llama import (
    NAMES,
    architectures,
    head,
    layer_types,
    plain_but,
    read,
    read_bias,
    read_window,
    tensors,
    write,
    write_head_size,
)
from xnn.pretrained.families.rope import write_rope
from xnn.pretrained.families.tables import Family, Tensor

_OWN = {"norm_offset": 1.0, "embedding_scale": True}
_CAPS = {"attention_cap": "attn_logit_softcapping", "logit_cap": "final_logit_softcapping"}
_NORMS = {"input_layernorm": "attention_norm", "post_attention_layernorm": "attention_out_norm",
          "pre_feedforward_layernorm": "feed_forward_norm", "post_feedforward_layernorm": "feed_forward_out_norm"}

_GEMMA = {"vocab_size": 256_000, "hidden_size": 3072, "intermediate_size": 24_576, "num_hidden_layers": 28,
          "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "rms_norm_eps": 1e-6,
          "tie_word_embeddings": True, "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 8192}
_GEMMA2 = {**_GEMMA, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
           "num_key_value_heads": 4}
_GEMMA3 = {**_GEMMA2, "vocab_size": 262_208, "max_position_embeddings": 131_072}


def _read_common(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that all three versions have."""
    activation = settings.get("hidden_activation") or settings.get("hidden_act") or defaults["hidden_act"]
    # "gelu" in the first files of Gemma means the tanh approximation.
    named = {**settings, "hidden_act": "gelu_pytorch_tanh" if activation == "gelu" else activation}
    return {**read(named, defaults), "bias": read_bias(settings), **_OWN}


def _read_later(settings: Mapping[str, Any], defaults: Mapping[str, Any], caps: Mapping[str, float | None],
                period: int) -> dict[str, Any]:
    """The fields of Gemma 2 and 3; the last of each `period` layers has no window."""
    fields = _read_common(settings, defaults)
    local = [(i + 1) % period != 0 for i in range(fields["layers"])]
    return {**fields, **read_window(settings, settings.get("sliding_window", 4096), local), "norm_out": True,
            "query_size": settings.get("query_pre_attn_scalar", 256),
            **{ours: settings.get(theirs, caps[ours]) for ours, theirs in _CAPS.items()}}


def _read_gemma3(settings: Mapping[str, Any]) -> dict[str, Any]:
    rope = settings.get("rope_parameters") or {}
    # Files of transformers 4 have the rotation of the two types of layers in other settings.
    everywhere = rope.get("full_attention") or {
        "rope_theta": settings.get("rope_theta", 1_000_000.0), **(settings.get("rope_scaling") or {})}
    near = rope.get("sliding_attention") or {"rope_theta": settings.get("rope_local_base_freq", 10_000.0)}
    fields = _read_later({**settings, "rope_parameters": everywhere}, _GEMMA3, dict.fromkeys(_CAPS),
                         settings.get("sliding_window_pattern", 6))
    return {**fields, "head_norm": True, "local_base": near["rope_theta"]}


def _write_later(config: LlamaConfig) -> dict[str, Any]:
    settings = write(config)
    settings["hidden_activation"] = settings.pop("hidden_act")
    return {**settings, **write_head_size(config), "attention_bias": config.bias == "all",
            "sliding_window": config.window, "layer_types": layer_types(config),
            "query_pre_attn_scalar": config.query_size or config.head_size or config.features // config.heads,
            # None is written too, because the defaults of Gemma 2 are limits.
            **{theirs: getattr(config, ours) for ours, theirs in _CAPS.items()}}


def _write_gemma3(config: LlamaConfig) -> dict[str, Any]:
    near = write_rope(config.base if config.local_base is None else config.local_base, None)
    return {**_write_later(config), "rope_parameters": {
        "full_attention": write_rope(config.base, config.scaling), "sliding_attention": near}}


def _tensors(config: LlamaConfig) -> list[Tensor]:
    return tensors(config, _NORMS)


def _fits(config: LlamaConfig, *options: str) -> bool:
    """Whether a config has the options of all versions, and of the others only those named."""
    return (all(getattr(config, name) == value for name, value in _OWN.items()) and config.bias != "inputs"
            and plain_but(config, "bias", *_OWN, *options))


_LATER = ("norm_out", "window", "local", "query_size", *_CAPS)

GEMMA_FAMILY = Family(
    "gemma", Llama, LlamaConfig, architectures("Gemma"), NAMES, {"use_bidirectional_attention": False}, tensors,
    head=head, prefix="model.", base="GemmaModel", ignored=("rotary_emb.inv_freq",),
    read=lambda settings: _read_common(settings, _GEMMA),
    write=lambda config: {**write(config), **write_head_size(config), "attention_bias": config.bias == "all"},
    fits=_fits)

GEMMA2_FAMILY = Family(
    "gemma2", Llama, LlamaConfig, architectures("Gemma2"), NAMES, {"use_bidirectional_attention": False}, _tensors,
    head=head, prefix="model.", base="Gemma2Model",
    read=lambda settings: _read_later(settings, _GEMMA2, {"attention_cap": 50.0, "logit_cap": 30.0}, 2),
    write=_write_later, fits=lambda config: config.norm_out and _fits(config, *_LATER))

GEMMA3_FAMILY = Family(
    "gemma3_text", Llama, LlamaConfig, architectures("Gemma3", "Gemma3Text"), NAMES,
    {"use_bidirectional_attention": False}, _tensors, head=head, prefix="model.", base="Gemma3TextModel",
    read=_read_gemma3, write=_write_gemma3,
    fits=lambda config: config.norm_out and config.head_norm and _fits(config, *_LATER, "head_norm", "local_base") and (
        config.local_base is not None or config.scaling is None))
