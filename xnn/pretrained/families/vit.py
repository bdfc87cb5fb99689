"""Names of ViT."""

import numpy as np

from xnn.models import ViT, ViTConfig
from xnn.pretrained.families.tables import (
    ENCODER,
    SIZES,
    Family,
    Form,
    Tensor,
    dense,
    encoder_block,
    norms,
    read_classes,
    write_classes,
)


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
            *encoder_block("attention.attention"),
            *(dense("pooler.dense", "pooler") if config.head == "pooler" else []),
            *norms({"layernorm": "norm", "encoder.layer.{i}.layernorm_before": "blocks/attention_norm",
                     "encoder.layer.{i}.layernorm_after": "blocks/feed_forward_norm"})]


def _head(config: ViTConfig) -> list[Tensor]:
    return dense("classifier", "logits") if config.head == "image" else []


VIT_FAMILY = Family(
    "vit", ViT, ViTConfig, {"ViTForImageClassification": {"head": "image"}, "ViTModel": {"head": "pooler"}},
    {**SIZES, **ENCODER, "image": "image_size", "patch": "patch_size"},
    {"hidden_act": "gelu", "qkv_bias": True, "num_channels": 3, "pooler_act": "tanh"},
    _vit, lambda config: ((1, config.image, config.image, 3), {}), _head, "vit.", base="ViTModel",
    without_head={"head": "none"}, read=read_classes, write=lambda config: write_classes(config.classes))
