"""Models: a function that takes a config, a frozen dataclass, and returns a Layer; one file each.

    model = ResNet(ResNetConfig(stages=((1, 16), (1, 32)), classes=10))
    model = resnet18(classes=10, small_images=True)
"""

from xnn.models.bert import BERT, BERTConfig
from xnn.models.convnext import ConvNeXt, ConvNeXtConfig, convnext_tiny
from xnn.models.gpt2 import GPT2, GPT2Config
from xnn.models.lenet import LeNet, LeNetConfig
from xnn.models.llama import Llama, LlamaConfig
from xnn.models.lstm import LSTMLanguageModel, LSTMLanguageModelConfig
from xnn.models.mlp import MLP, MLPConfig
from xnn.models.resnet import ResNet, ResNetConfig, resnet18, resnet50
from xnn.models.t5 import T5, T5Config
from xnn.models.unet import UNet, UNetConfig
from xnn.models.vae import VAE, VAEConfig
from xnn.models.vit import ViT, ViTConfig

__all__ = [
    "BERT",
    "GPT2",
    "MLP",
    "T5",
    "VAE",
    "BERTConfig",
    "ConvNeXt",
    "ConvNeXtConfig",
    "GPT2Config",
    "LSTMLanguageModel",
    "LSTMLanguageModelConfig",
    "LeNet",
    "LeNetConfig",
    "Llama",
    "LlamaConfig",
    "MLPConfig",
    "ResNet",
    "ResNetConfig",
    "T5Config",
    "UNet",
    "UNetConfig",
    "VAEConfig",
    "ViT",
    "ViTConfig",
    "convnext_tiny",
    "resnet18",
    "resnet50",
]
