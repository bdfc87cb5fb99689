"""Names of T5."""

from collections.abc import Mapping
from typing import Any

from xjax.errors import bad
from xnn.models import T5, T5Config
from xnn.pretrained.families.tables import Family, Tensor, dense


def _t5(config: T5Config) -> list[Tensor]:
    feed_forward = {"wi_0": "gate", "wi_1": "up", "wo": "down"} if config.gated else {"wi": "up", "wo": "down"}
    tensors = [Tensor("shared.weight", ("tokens/table",))]
    encoder = ("encoder", "encoder/" if config.decoder else "", ("SelfAttention", "DenseReluDense"))
    decoder = ("decoder", "", ("SelfAttention", "EncDecAttention", "DenseReluDense"))
    for side, ours, parts in (encoder, decoder) if config.decoder else (encoder,):
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        tensors += [Tensor(bias, (f"{ours}bias/table",)),
                    Tensor(f"{side}.final_layer_norm.weight", (f"{ours}norm/scale",))]
        for i, part in enumerate(parts):
            layer, block = f"{side}.block.{{i}}.layer.{i}", f"{ours}blocks/{_T5_PARTS[part]}"
            names = feed_forward if part == "DenseReluDense" else {"q": "query", "k": "key", "v": "value", "o": "out"}
            tensors.append(Tensor(f"{layer}.layer_norm.weight", (f"{block}_norm/scale",)))
            for theirs, name in names.items():
                tensors += dense(f"{layer}.{part}.{theirs}", f"{block}/{name}", bias=False)
    return tensors


_T5_PARTS = {"SelfAttention": "attention", "EncDecAttention": "cross_attention", "DenseReluDense": "feed_forward"}


def _read_t5(settings: Mapping[str, Any]) -> dict[str, Any]:
    kind, layers = settings.get("feed_forward_proj", "relu"), settings.get("num_layers", 6)
    if kind not in ("relu", "gated-gelu") or settings.get("num_decoder_layers", layers) not in (layers, None):
        raise bad("pretrained.load", "this form of T5 is not supported", {
            "feed_forward_proj": repr(kind), "num_decoder_layers": settings.get("num_decoder_layers")},
            "load a T5 with relu or gated-gelu, and as many layers in the decoder as in the encoder.", ValueError)
    return {"gated": kind == "gated-gelu", "scaled": settings.get("scale_decoder_outputs")}


def _head(config: T5Config) -> list[Tensor]:
    return dense("lm_head", "logits", bias=False) if config.decoder and not config.tied else []


T5_FAMILY = Family(
    "t5", T5, T5Config,
    {"T5ForConditionalGeneration": {"decoder": True}, "T5EncoderModel": {"decoder": False},
     "T5WithLMHeadModel": {"decoder": True}},
    {"vocabulary": "vocab_size", "features": "d_model", "hidden": "d_ff", "layers": "num_layers", "heads": "num_heads",
     "head_size": "d_kv", "tied": "tie_word_embeddings", "buckets": "relative_attention_num_buckets",
     "max_distance": "relative_attention_max_distance", "dropout": "dropout_rate", "epsilon": "layer_norm_epsilon"}, {},
    _t5, lambda config: ((1, 1), {"source": (1, 1)} if config.decoder else {}), _head, base="T5EncoderModel",
    copies=dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"),
                         "tokens/table"),
    read=_read_t5,
    write=lambda config: {"feed_forward_proj": "gated-gelu" if config.gated else "relu",
                          "num_decoder_layers": config.layers,
                          **({} if config.scaled is None else {"scale_decoder_outputs": config.scaled})})
