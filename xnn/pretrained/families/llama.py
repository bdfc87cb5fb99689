"""Names of Llama, Mistral, and Qwen 2 and 3. All of them, and Gemma, are one model, `Llama`, with other options."""

from collections.abc import Mapping, Sequence
from typing import Any

from xjax.errors import bad
from xnn.models import Llama, LlamaConfig
from xnn.pretrained.families.rope import read_rope, write_rope
from xnn.pretrained.families.tables import SIZES, Family, Tensor, dense, read_classes, write_classes
from xnn.scaling import DynamicScaling

NAMES = {**SIZES, "vocabulary": "vocab_size", "hidden": "intermediate_size", "kv_heads": "num_key_value_heads",
         "head_size": "head_dim", "epsilon": "rms_norm_eps", "tied": "tie_word_embeddings", "padding": "pad_token_id"}
_ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu", "gelu_new": "gelu"}


def architectures(name: str, classifier: str | None = None) -> dict[str, dict[str, Any]]:
    """Their classes of a decoder, by its name; `classifier` is the start of the names of those with classes."""
    classifier = classifier or name
    return {f"{name}ForCausalLM": {"head": "next_token"}, f"{classifier}Model": {"head": "none"},
            f"{classifier}ForSequenceClassification": {"head": "sequence"},
            f"{classifier}ForTokenClassification": {"head": "token"}}


def tensors(config: LlamaConfig, norms: Mapping[str, str] | None = None) -> list[Tensor]:
    """The tensors of the blocks, embedding and last norm.

    Args: norms: their names of the norms of a block -> ours; None: those of Llama.
    """
    norms = norms or {"input_layernorm": "attention_norm", "post_attention_layernorm": "feed_forward_norm"}
    if config.head_norm:
        norms = {**norms, "self_attn.q_norm": "attention/query_norm", "self_attn.k_norm": "attention/key_norm"}
    scales = {**{f"layers.{{i}}.{theirs}": f"blocks/{ours}" for theirs, ours in norms.items()}, "norm": "norm"}
    inputs, out = config.bias != "none", config.bias == "all"
    matrices = {"self_attn.q_proj": ("attention/query", inputs), "self_attn.k_proj": ("attention/key", inputs),
                "self_attn.v_proj": ("attention/value", inputs), "self_attn.o_proj": ("attention/out", out),
                **{f"mlp.{name}_proj": (f"feed_forward/{name}", config.feed_forward_bias)
                   for name in ("gate", "up", "down")}}
    return [Tensor("embed_tokens.weight", ("tokens/table",)),
            *(tensor for theirs, (ours, bias) in matrices.items() for tensor in dense(
                f"layers.{{i}}.{theirs}", f"blocks/{ours}", bias)),
            *(Tensor(f"{theirs}.weight", (f"{ours}/scale",)) for theirs, ours in scales.items())]


def head(config: LlamaConfig) -> list[Tensor]:
    """The tensors of the output layer."""
    if config.head == "none" or (config.head == "next_token" and config.tied):
        return []
    return dense("lm_head" if config.head == "next_token" else "score", "logits", bias=config.head == "token")


def read(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that all decoders have.

    Args: defaults: values of their settings where config.json has none; ours are those of Llama 3.1.
    """
    kv_heads = settings.get("num_key_value_heads", defaults.get("num_key_value_heads"))
    settings = {**defaults, **{name: value for name, value in settings.items() if value is not None}}
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    activation = settings["hidden_act"]
    if activation not in _ACTIVATIONS:
        raise bad("pretrained.load", f"the activation {activation!r} is not supported",
                  {"supported": ", ".join(_ACTIVATIONS)}, "load a model with one of them.", ValueError)
    return {**{ours: settings[theirs] for ours, theirs in NAMES.items() if theirs in settings},
            "kv_heads": kv_heads or settings["num_attention_heads"],
            "activation": _ACTIVATIONS[activation],
            "base": rope.get("rope_theta", settings.get("rope_theta", 10_000.0)),
            "scaling": read_rope(rope, settings["max_position_embeddings"]), **read_classes(settings)}


def read_window(settings: Mapping[str, Any], window: int | None, local: Sequence[bool]) -> dict[str, Any]:
    """The fields for the window.

    Args: local: which layers have the window if the settings do not list the types of layers.
    """
    types = settings.get("layer_types")
    unknown = set(types or ()) - {"full_attention", "sliding_attention"}
    if unknown:
        raise bad("pretrained.load", "the model has layers of a type that is not supported",
                  {"layer_types": ", ".join(sorted(unknown)), "supported": "full_attention, sliding_attention"},
                  "load a model with these types of layers.", ValueError)
    local = tuple(kind == "sliding_attention" for kind in types) if types else tuple(local)
    if window is None or not any(local):
        return {"window": None, "local": None}
    return {"window": window, "local": None if all(local) else local}


def write(config: LlamaConfig) -> dict[str, Any]:
    """Their settings that all decoders have, beyond the table of names."""
    scaling = config.scaling
    return {"rope_parameters": write_rope(config.base, scaling),
            **({"max_position_embeddings": scaling.original_length} if isinstance(scaling, DynamicScaling) else {}),
            "hidden_act": "silu" if config.activation == "silu" else "gelu_pytorch_tanh",
            **(write_classes(config.classes) if config.head in ("sequence", "token") else {})}


def write_head_size(config: LlamaConfig) -> dict[str, Any]:
    """The features of a head, for families with a default that does not depend on other settings."""
    return {"head_dim": config.head_size or config.features // config.heads}


def read_bias(settings: Mapping[str, Any]) -> str:
    """The field `bias` of families with the setting `attention_bias`."""
    return "all" if settings.get("attention_bias") else "none"


def layer_types(config: LlamaConfig) -> list[str]:
    """Their list of the types of layers."""
    local = config.local or (config.window is not None,) * config.layers
    return ["sliding_attention" if each else "full_attention" for each in local]


# Options that only some families have; the value is that of the others.
_PLAIN = {"bias": "none", "feed_forward_bias": False, "window": None, "local": None, "local_base": None,
          "head_norm": False, "norm_out": False, "norm_offset": 0.0, "embedding_scale": False, "query_size": None,
          "attention_cap": None, "logit_cap": None}


def plain_but(config: LlamaConfig, *options: str) -> bool:
    """Whether a config has no options of some families only, except those named."""
    return all(getattr(config, name) == value for name, value in _PLAIN.items() if name not in options)


def _read_llama(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**read(settings, _LLAMA), "bias": read_bias(settings), "feed_forward_bias": bool(settings.get("mlp_bias"))}


def _read_mistral(settings: Mapping[str, Any]) -> dict[str, Any]:
    # Their class Mistral has the window in all layers, also where layer_types says otherwise.
    return {**read(settings, _MISTRAL), "window": settings.get("sliding_window", 4096)}


def _read_qwen(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    fields = read(settings, defaults)
    window = settings.get("sliding_window", 4096) if settings.get("use_sliding_window") else None
    first = settings.get("max_window_layers", 28)
    return {**fields, **read_window(settings, window, [i >= first for i in range(fields["layers"])])}


def _write_qwen(config: LlamaConfig) -> dict[str, Any]:
    return {**write(config), "use_sliding_window": config.window is not None, "sliding_window": config.window,
            "layer_types": layer_types(config)}


_LLAMA = {"vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32,
          "num_attention_heads": 32, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "hidden_act": "silu",
          "max_position_embeddings": 2048}
_MISTRAL = {**_LLAMA, "intermediate_size": 14_336, "num_key_value_heads": 8, "max_position_embeddings": 131_072}
_QWEN2 = {**_LLAMA, "vocab_size": 151_936, "intermediate_size": 22_016, "num_key_value_heads": 32,
          "max_position_embeddings": 32_768}
_QWEN3 = {**_QWEN2, "head_dim": 128}


def _decoder(kind: str, name: str, **options: Any) -> Family:
    return Family(kind, Llama, LlamaConfig, architectures(name), NAMES, {}, tensors, head=head, prefix="model.",
                  base=f"{name}Model", ignored=("rotary_emb.inv_freq",), **options)


LLAMA_FAMILY = _decoder(
    "llama", "Llama", read=_read_llama,
    write=lambda config: {**write(config), "attention_bias": config.bias == "all",
                          "mlp_bias": config.feed_forward_bias},
    fits=lambda config: plain_but(config, "bias", "feed_forward_bias") and config.bias != "inputs")

MISTRAL_FAMILY = _decoder(
    "mistral", "Mistral", read=_read_mistral, write=lambda config: {**write(config), "sliding_window": config.window},
    fits=lambda config: plain_but(config, "window"))

QWEN2_FAMILY = _decoder(
    "qwen2", "Qwen2", read=lambda settings: {**_read_qwen(settings, _QWEN2), "bias": "inputs"}, write=_write_qwen,
    fits=lambda config: plain_but(config, "bias", "window", "local") and config.bias == "inputs")

QWEN3_FAMILY = _decoder(
    "qwen3", "Qwen3", read=lambda settings: {
        **_read_qwen(settings, _QWEN3), "bias": read_bias(settings), "head_norm": True},
    write=lambda config: {**_write_qwen(config), **write_head_size(config), "attention_bias": config.bias == "all"},
    fits=lambda config: plain_but(config, "bias", "window", "local", "head_norm") and (
        config.head_norm and config.bias != "inputs"))
