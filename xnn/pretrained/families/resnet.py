"""Names of ResNet."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xjax.errors import bad
from xnn.models import ResNet, ResNetConfig
from xnn.pretrained.families.tables import STATE, Family, Form, Tensor, dense, norms, read_classes, write_classes


def _resnet(config: ResNetConfig) -> list[Tensor]:
    kernel = Form(lambda w: [np.transpose(w, (2, 3, 1, 0))], lambda ws: np.transpose(ws[0], (3, 2, 0, 1)))
    steps = Form(lambda w: [], lambda ws: np.zeros((), np.int64))      # a count that is not used

    def convolution(theirs, ours, number=""):
        norm = f"{ours}/norm{number}"
        return [Tensor(f"{theirs}.convolution.weight", (f"{ours}/conv{number}/w",), kernel),
                *norms({f"{theirs}.normalization": norm}),
                Tensor(f"{theirs}.normalization.running_mean", (f"{STATE}{norm}/mean",)),
                Tensor(f"{theirs}.normalization.running_var", (f"{STATE}{norm}/var",)),
                Tensor(f"{theirs}.normalization.num_batches_tracked", (), steps)]

    tensors = convolution("embedder.embedder", "stem")
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
            "bottleneck": kind == "bottleneck", **read_classes(settings)}


def _write_resnet(config: ResNetConfig) -> dict[str, Any]:
    if config.small_images:
        raise bad("pretrained.save", "the format does not support a ResNet for small images", {"small_images": True},
                  "write its parameters and state with the package safetensors.", ValueError)
    kind, out = ("bottleneck", 4) if config.bottleneck else ("basic", 1)
    return {"layer_type": kind, "embedding_size": config.stages[0][1], "depths": [n for n, _ in config.stages],
            "hidden_sizes": [out * features for _, features in config.stages], **write_classes(config.classes)}


def _head(config: ResNetConfig) -> list[Tensor]:
    return dense("classifier.1", "head/dense") if config.head == "image" else []


RESNET_FAMILY = Family(
    "resnet", ResNet, ResNetConfig,
    {"ResNetForImageClassification": {"head": "image"}, "ResNetModel": {"head": "none"}}, {},
    {"hidden_act": "relu", "num_channels": 3, "downsample_in_first_stage": False, "downsample_in_bottleneck": False},
    _resnet, lambda config: ((1, 64, 64, 3), {}), _head, "resnet.", base="ResNetModel", read=_read_resnet,
    write=_write_resnet)
