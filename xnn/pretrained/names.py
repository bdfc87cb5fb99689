"""Tables of Hugging Face's names for the settings and tensors of each model.

Here "ours" are names and arrays of xnn, "theirs" those of Hugging Face.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.errors import bad
from xnn.layers import Llama3Scaling
from xnn.models import (
    BERT,
    GPT2,
    T5,
    BERTConfig,
    GPT2Config,
    Llama,
    LlamaConfig,
    ResNet,
    ResNetConfig,
    T5Config,
    ViT,
    ViTConfig,
)


class Form(NamedTuple):
    """Conversion between one of their tensors and a list of ours, by `to_ours` and its inverse `to_theirs`."""

    to_ours: Callable[[np.ndarray], list[np.ndarray]]
    to_theirs: Callable[[list[np.ndarray]], np.ndarray]


SAME = Form(lambda w: [w], lambda ws: ws[0])
TRANSPOSED = Form(lambda w: [w.T], lambda ws: ws[0].T)
IN_THREE = Form(lambda w: np.split(w, 3, -1), lambda ws: np.concatenate(ws, -1))


STATE = "state: "                                             # prefix of paths in the state, such as running statistics


class Tensor(NamedTuple):
    """One of their tensors, with "{i}" for the number of the block in its name, and the paths of ours in it.

    A tensor without any of ours is a constant, which is written but not read.
    """

    theirs: str
    ours: tuple[str, ...]
    form: Form = SAME


class Family(NamedTuple):
    """One of their model types.

    Attributes:
      model, config_type: our constructor and the type of its config.
      settings: names of our fields -> names of their settings.
      fixed: their settings with only one supported value, the default.
      tensors: config -> all tensors, except the ignored ones.
      shapes: config -> (shape for `init`, shapes of extra inputs by name).
      architecture: the name of their class, which `save` writes.
      prefix: prefix of tensor names in some files.
      ignored: suffixes of names of tensors that are constants, or copies of others.
      heads: prefixes of names of output layers that the model does not have, such as BERT's pretraining heads.
      read, write: conversions beyond the tables: their settings -> our fields; config -> their settings.
    """

    model: Callable
    config_type: type
    settings: Mapping[str, str]
    fixed: Mapping[str, Any]
    tensors: Callable[[Any], Sequence[Tensor]]
    shapes: Callable[[Any], tuple[tuple[int, ...], dict[str, tuple[int, ...]]]]
    architecture: str
    prefix: str = ""
    ignored: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    read: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda settings: {}
    write: Callable[[Any], dict[str, Any]] = lambda config: {}


def _dense(theirs: str, ours: str, bias: bool = True) -> list[Tensor]:
    return [Tensor(f"{theirs}.weight", (f"{ours}/w",), TRANSPOSED),
            *([Tensor(f"{theirs}.bias", (f"{ours}/b",))] if bias else [])]


def _norms(pairs: Mapping[str, str]) -> list[Tensor]:
    return [Tensor(f"{theirs}.{name}", (f"{ours}/{key}",)) for theirs, ours in pairs.items()
            for name, key in (("weight", "scale"), ("bias", "bias"))]


_SIZES = {"features": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads"}
_ENCODER = {"hidden": "intermediate_size", "epsilon": "layer_norm_eps", "dropout": "hidden_dropout_prob"}


def _gpt2(config: GPT2Config) -> list[Tensor]:
    def conv1d(theirs, *ours):                     # both are stored as [in, out]
        form = IN_THREE if len(ours) == 3 else SAME
        return [Tensor(f"h.{{i}}.{theirs}.{name}", tuple(f"blocks/{path}/{key}" for path in ours), form)
                for name, key in (("weight", "w"), ("bias", "b"))]

    return [Tensor("wte.weight", ("tokens/table",)), Tensor("wpe.weight", ("positions/table",)),
            *conv1d("attn.c_attn", *(f"attention/{name}" for name in ("query", "key", "value"))),
            *conv1d("attn.c_proj", "attention/out"), *conv1d("mlp.c_fc", "feed_forward/up"),
            *conv1d("mlp.c_proj", "feed_forward/down"),
            *_norms({"h.{i}.ln_1": "blocks/attention_norm", "h.{i}.ln_2": "blocks/feed_forward_norm", "ln_f": "norm"})]


def _llama(config: LlamaConfig) -> list[Tensor]:
    names = {"self_attn.q_proj": "attention/query", "self_attn.k_proj": "attention/key",
             "self_attn.v_proj": "attention/value", "self_attn.o_proj": "attention/out",
             "mlp.gate_proj": "feed_forward/gate", "mlp.up_proj": "feed_forward/up",
             "mlp.down_proj": "feed_forward/down"}
    scales = {"layers.{i}.input_layernorm": "blocks/attention_norm",
              "layers.{i}.post_attention_layernorm": "blocks/feed_forward_norm", "norm": "norm"}
    return [Tensor("embed_tokens.weight", ("tokens/table",)),
            *(tensor for theirs, ours in names.items() for tensor in _dense(
                f"layers.{{i}}.{theirs}", f"blocks/{ours}", bias=False)),
            *(Tensor(f"{theirs}.weight", (f"{ours}/scale",)) for theirs, ours in scales.items()),
            *([] if config.tied else _dense("lm_head", "logits", bias=False))]


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


def _encoder_block(attention: str) -> list[Tensor]:
    """The matrices of a block of BERT or ViT; the two differ in the name of the attention."""
    names = {f"{attention}.query": "attention/query", f"{attention}.key": "attention/key",
             f"{attention}.value": "attention/value", "attention.output.dense": "attention/out",
             "intermediate.dense": "feed_forward/up", "output.dense": "feed_forward/down"}
    return [tensor for theirs, ours in names.items() for tensor in _dense(
        f"encoder.layer.{{i}}.{theirs}", f"blocks/{ours}")]


def _bert(config: BERTConfig) -> list[Tensor]:
    tables = {"word": "tokens", "position": "positions", "token_type": "types"}
    return [*(Tensor(f"embeddings.{theirs}_embeddings.weight", (f"{ours}/table",)) for theirs, ours in tables.items()),
            *_encoder_block("attention.self"), *_dense("pooler.dense", "pooler"),
            *_norms({"embeddings.LayerNorm": "norm", "encoder.layer.{i}.attention.output.LayerNorm":
                     "blocks/attention_norm", "encoder.layer.{i}.output.LayerNorm": "blocks/feed_forward_norm"})]


def _vit(config: ViTConfig) -> list[Tensor]:
    size, features = config.patch, config.features
    # Theirs is a convolution [features, channels, height, width], ours [height * width * channels, features].
    patches = Form(lambda w: [np.moveaxis(w, (2, 3, 1, 0), (0, 1, 2, 3)).reshape(-1, features)],
                   lambda ws: np.transpose(ws[0].reshape(size, size, -1, features), (3, 2, 0, 1)))
    return [Tensor("embeddings.patch_embeddings.projection.weight", ("patches/w",), patches),
            Tensor("embeddings.patch_embeddings.projection.bias", ("patches/b",)),
            Tensor("embeddings.cls_token", ("first/token",), Form(lambda w: [w[0, 0]], lambda ws: ws[0][None, None])),
            Tensor("embeddings.position_embeddings", ("positions/table",), Form(
                lambda w: [w[0]], lambda ws: ws[0][None])),
            *_encoder_block("attention.attention"), *_dense("classifier", "logits"),
            *_norms({"layernorm": "norm", "encoder.layer.{i}.layernorm_before": "blocks/attention_norm",
                     "encoder.layer.{i}.layernorm_after": "blocks/feed_forward_norm"})]


def _resnet(config: ResNetConfig) -> list[Tensor]:
    kernel = Form(lambda w: [np.transpose(w, (2, 3, 1, 0))], lambda ws: np.transpose(ws[0], (3, 2, 0, 1)))
    steps = Form(lambda w: [], lambda ws: np.zeros((), np.int64))      # a count that is not used

    def convolution(theirs, ours, number=""):
        norm = f"{ours}/norm{number}"
        return [Tensor(f"{theirs}.convolution.weight", (f"{ours}/conv{number}/w",), kernel),
                *_norms({f"{theirs}.normalization": norm}),
                Tensor(f"{theirs}.normalization.running_mean", (f"{STATE}{norm}/mean",)),
                Tensor(f"{theirs}.normalization.running_var", (f"{STATE}{norm}/var",)),
                Tensor(f"{theirs}.normalization.num_batches_tracked", (), steps)]

    tensors = [*convolution("embedder.embedder", "stem"), *_dense("classifier.1", "head/dense")]
    for stage, (blocks, _) in enumerate(config.stages):
        for block in range(blocks):
            theirs, ours = f"encoder.stages.{stage}.layers.{block}", f"stage{stage}/block{block}"
            for i in range(3 if config.bottleneck else 2):
                tensors += convolution(f"{theirs}.layer.{i}", ours, str(i + 1))
            if block == 0 and (stage > 0 or config.bottleneck):
                tensors += convolution(f"{theirs}.shortcut", f"{ours}/shortcut")
    return tensors


def _read_resnet(settings: Mapping[str, Any]) -> dict[str, Any]:
    kind, sizes = settings.get("layer_type", "bottleneck"), settings.get("hidden_sizes", [256, 512, 1024, 2048])
    stem, depths = settings.get("embedding_size", 64), settings.get("depths", [3, 4, 6, 3])
    out = 4 if kind == "bottleneck" else 1
    if (kind not in ("basic", "bottleneck") or len(depths) != len(sizes) or sizes[0] != stem * out
            or any(size % out for size in sizes)):
        raise bad("pretrained.load", "this form of ResNet is not supported", {
            "layer_type": repr(kind), "embedding_size": stem, "hidden_sizes": sizes, "depths": depths},
            "load a ResNet with basic or bottleneck blocks, and a first stage with the features of the stem.",
            ValueError)
    return {"stages": tuple((n, size // out) for n, size in zip(depths, sizes, strict=True)),
            "bottleneck": kind == "bottleneck", **_read_classes(settings)}


def _write_resnet(config: ResNetConfig) -> dict[str, Any]:
    if config.small_images:
        raise bad("pretrained.save", "the format does not support a ResNet for small images", {"small_images": True},
                  "write its parameters and state with the package safetensors.", ValueError)
    kind, out = ("bottleneck", 4) if config.bottleneck else ("basic", 1)
    return {"layer_type": kind, "embedding_size": config.stages[0][1], "depths": [n for n, _ in config.stages],
            "hidden_sizes": [out * features for _, features in config.stages], **_write_classes(config)}


def _read_classes(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"classes": len(settings["id2label"]) if "id2label" in settings else settings.get("num_labels", 2)}


def _write_classes(config: ViTConfig | ResNetConfig) -> dict[str, Any]:
    names = {i: f"LABEL_{i}" for i in range(config.classes)}
    return {"id2label": {str(i): name for i, name in names.items()}, "label2id": {name: i for i, name in names.items()}}


def _t5(config: T5Config) -> list[Tensor]:
    feed_forward = {"wi_0": "gate", "wi_1": "up", "wo": "down"} if config.gated else {"wi": "up", "wo": "down"}
    tensors = [Tensor("shared.weight", ("tokens/table",)),
               *([] if config.tied else _dense("lm_head", "logits", bias=False))]
    for side, ours, parts in (("encoder", "encoder/", ("SelfAttention", "DenseReluDense")),
                              ("decoder", "", ("SelfAttention", "EncDecAttention", "DenseReluDense"))):
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        tensors += [Tensor(bias, (f"{ours}bias/table",)),
                    Tensor(f"{side}.final_layer_norm.weight", (f"{ours}norm/scale",))]
        for i, part in enumerate(parts):
            layer, block = f"{side}.block.{{i}}.layer.{i}", f"{ours}blocks/{_T5_PARTS[part]}"
            names = feed_forward if part == "DenseReluDense" else {"q": "query", "k": "key", "v": "value", "o": "out"}
            tensors.append(Tensor(f"{layer}.layer_norm.weight", (f"{block}_norm/scale",)))
            for theirs, name in names.items():
                tensors += _dense(f"{layer}.{part}.{theirs}", f"{block}/{name}", bias=False)
    return tensors


_T5_PARTS = {"SelfAttention": "attention", "EncDecAttention": "cross_attention", "DenseReluDense": "feed_forward"}


def _read_t5(settings: Mapping[str, Any]) -> dict[str, Any]:
    kind, layers = settings.get("feed_forward_proj", "relu"), settings.get("num_layers", 6)
    if kind not in ("relu", "gated-gelu") or settings.get("num_decoder_layers", layers) not in (layers, None):
        raise bad("pretrained.load", "this form of T5 is not supported", {
            "feed_forward_proj": repr(kind), "num_decoder_layers": settings.get("num_decoder_layers")},
            "load a T5 with relu or gated-gelu, and as many layers in the decoder as in the encoder.", ValueError)
    return {"gated": kind == "gated-gelu", "scaled": settings.get("scale_decoder_outputs")}


FAMILIES: dict[str, Family] = {
    "gpt2": Family(
        GPT2, GPT2Config, {"vocabulary": "vocab_size", "length": "n_positions", "features": "n_embd",
                           "layers": "n_layer", "heads": "n_head", "dropout": "resid_pdrop"},
        {"activation_function": "gelu_new", "n_inner": None, "scale_attn_by_inverse_layer_idx": False,
         "tie_word_embeddings": True, "layer_norm_epsilon": 1e-5, "scale_attn_weights": True,
         "add_cross_attention": False}, _gpt2, lambda config: ((1, 1), {}),
        "GPT2LMHeadModel", "transformer.", ("attn.bias", "attn.masked_bias")),
    "llama": Family(
        Llama, LlamaConfig, {**_SIZES, "vocabulary": "vocab_size", "hidden": "intermediate_size",
                             "kv_heads": "num_key_value_heads", "head_size": "head_dim", "epsilon": "rms_norm_eps",
                             "tied": "tie_word_embeddings"},
        {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False}, _llama, lambda config: ((1, 1), {}),
        "LlamaForCausalLM", "model.", ("rotary_emb.inv_freq",), read=_read_llama, write=_write_llama),
    "bert": Family(
        BERT, BERTConfig, {**_SIZES, **_ENCODER, "vocabulary": "vocab_size", "types": "type_vocab_size",
                           "length": "max_position_embeddings"},
        {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False,
         "add_cross_attention": False}, _bert, lambda config: ((1, 1), {}), "BertModel", "bert.",
        ("position_ids",), heads=("cls.",)),
    "t5": Family(
        T5, T5Config, {"vocabulary": "vocab_size", "features": "d_model", "hidden": "d_ff", "layers": "num_layers",
                       "heads": "num_heads", "head_size": "d_kv", "tied": "tie_word_embeddings",
                       "buckets": "relative_attention_num_buckets", "max_distance": "relative_attention_max_distance",
                       "dropout": "dropout_rate", "epsilon": "layer_norm_epsilon"}, {}, _t5,
        lambda config: ((1, 1), {"source": (1, 1)}), "T5ForConditionalGeneration", "",
        ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), read=_read_t5,
        write=lambda config: {"feed_forward_proj": "gated-gelu" if config.gated else "relu",
                        "num_decoder_layers": config.layers, "scale_decoder_outputs": config.scaled}),
    "vit": Family(
        ViT, ViTConfig, {**_SIZES, **_ENCODER, "image": "image_size", "patch": "patch_size"},
        {"hidden_act": "gelu", "qkv_bias": True, "num_channels": 3}, _vit,
        lambda config: ((1, config.image, config.image, 3), {}), "ViTForImageClassification", "vit.",
        read=_read_classes, write=_write_classes),
    "resnet": Family(
        ResNet, ResNetConfig, {}, {"hidden_act": "relu", "num_channels": 3, "downsample_in_first_stage": False,
                                   "downsample_in_bottleneck": False}, _resnet,
        lambda config: ((1, 64, 64, 3), {}), "ResNetForImageClassification", "resnet.",
        read=_read_resnet, write=_write_resnet),
}
