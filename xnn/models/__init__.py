"""Models: a function that takes a config, a frozen dataclass, and returns a Layer; one file each.

    model = ResNet(ResNetConfig(stages=((1, 16), (1, 32)), classes=10))
    model = resnet18(classes=10, small_images=True)
"""

from xnn.models.convnext import ConvNeXt, ConvNeXtConfig, convnext_tiny
from xnn.models.lenet import LeNet, LeNetConfig
from xnn.models.lstm import LSTMLanguageModel, LSTMLanguageModelConfig
from xnn.models.resnet import ResNet, ResNetConfig, resnet18, resnet50
from xnn.models.unet import UNet, UNetConfig
from xnn.models.vae import VAE, VAEConfig

__all__ = [
    "VAE",
    "ConvNeXt",
    "ConvNeXtConfig",
    "LSTMLanguageModel",
    "LSTMLanguageModelConfig",
    "LeNet",
    "LeNetConfig",
    "ResNet",
    "ResNetConfig",
    "UNet",
    "UNetConfig",
    "VAEConfig",
    "convnext_tiny",
    "resnet18",
    "resnet50",
]
