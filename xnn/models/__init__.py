"""Models: each is a function from a config, a frozen dataclass, to a Layer, in a file of its own.

A model's file is loaded when its name is first used; the files of the configs do not need jaxlib.

    model = ResNet(ResNetConfig(stages=((1, 16), (1, 32)), classes=10))
    model = resnet18(classes=10, small_images=True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xnn.models.configs import (
    BERTConfig,
    ConvNeXtConfig,
    DiTConfig,
    GPT2Config,
    LeNetConfig,
    LlamaConfig,
    LSTMLanguageModelConfig,
    MLPConfig,
    ResNetConfig,
    T5Config,
    UNetConfig,
    VAEConfig,
    ViTConfig,
)
from xnn.models.graph_configs import (
    APPNPConfig,
    GATConfig,
    GATv2Config,
    GCNConfig,
    GCNIIConfig,
    GINConfig,
    GraphSAGEConfig,
    GraphStackConfig,
    SGCConfig,
)
from xnn.public import public_names

if TYPE_CHECKING:
    from xnn.models.bert import BERT
    from xnn.models.convnext import ConvNeXt, convnext_tiny
    from xnn.models.dit import DiT
    from xnn.models.gpt2 import GPT2
    from xnn.models.graph_networks import (
        APPNPStack,
        GATStack,
        GATv2Stack,
        GCNIIStack,
        GCNStack,
        GINStack,
        GraphSAGEStack,
        SGCStack,
        graph_stack,
    )
    from xnn.models.lenet import LeNet
    from xnn.models.llama import Llama
    from xnn.models.lstm import LSTMLanguageModel
    from xnn.models.mlp import MLP
    from xnn.models.resnet import ResNet, resnet18, resnet50
    from xnn.models.t5 import T5
    from xnn.models.unet import UNet
    from xnn.models.vae import VAE
    from xnn.models.vit import ViT

_FILES = {"BERT": "bert", "ConvNeXt": "convnext", "convnext_tiny": "convnext", "DiT": "dit", "GPT2": "gpt2",
          "LeNet": "lenet", "Llama": "llama", "LSTMLanguageModel": "lstm", "MLP": "mlp", "ResNet": "resnet",
          "resnet18": "resnet", "resnet50": "resnet", "T5": "t5", "UNet": "unet", "VAE": "vae", "ViT": "vit",
          **dict.fromkeys(("APPNPStack", "GATStack", "GATv2Stack", "GCNIIStack", "GCNStack", "GINStack",
                           "GraphSAGEStack", "SGCStack", "graph_stack"), "graph_networks")}

public_names(__name__, holders={name: f"xnn.models.{file}" for name, file in _FILES.items()})

__all__ = [
    "BERT", "GPT2", "MLP", "T5", "VAE", "BERTConfig", "ConvNeXt", "ConvNeXtConfig", "DiT", "DiTConfig", "GPT2Config",
    "LSTMLanguageModel", "LSTMLanguageModelConfig", "LeNet", "LeNetConfig", "Llama", "LlamaConfig", "MLPConfig",
    "ResNet", "ResNetConfig", "T5Config", "UNet", "UNetConfig", "VAEConfig", "ViT", "ViTConfig", "convnext_tiny",
    "resnet18", "resnet50", "APPNPConfig", "GATConfig", "GATv2Config", "GCNConfig", "GCNIIConfig", "GINConfig",
    "GraphSAGEConfig", "GraphStackConfig", "SGCConfig", "APPNPStack", "GATStack", "GATv2Stack", "GCNIIStack",
    "GCNStack", "GINStack", "GraphSAGEStack", "SGCStack", "graph_stack"]
