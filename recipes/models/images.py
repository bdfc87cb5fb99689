"""Networks that classify images, as sections of a config: `Network`, one of five models of xnn, chosen by its name."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from recipes.config import ACTIVATIONS, check_choice, check_numbers, fault, section_of
from recipes.lazy import xnn
from recipes.process.parallel import AXIS
from xnn.models.configs import ConvNeXtConfig, LeNetConfig, MLPConfig, ResNetConfig, ViTConfig

MLP = section_of("mlp", MLPConfig, without=("features",))
LeNet = section_of("lenet", LeNetConfig, without=("classes",))
ResNet = section_of("resnet", ResNetConfig, without=("classes", "axis_name", "head"))
ConvNeXt = section_of("convnext", ConvNeXtConfig, without=("classes",))
ViT = section_of("vit", ViTConfig, without=("classes", "image", "head"))

Network = Annotated[MLP | LeNet | ResNet | ConvNeXt | ViT, Field(discriminator="name")]

LEAST_OF_LENET = 12                                           # pixels: two pools, and a convolution of 4 pixels


def make_network(section: Any, image: int, classes: int) -> xnn.Layer:
    """The layer.  Shape: [batch, image, image, channels] -> [batch, classes]."""
    if isinstance(section, MLP):
        return xnn.serial(xnn.Flatten, xnn.models.MLP(section.make(features=classes)))
    models = {"lenet": xnn.models.LeNet, "resnet": xnn.models.ResNet, "convnext": xnn.models.ConvNeXt,
              "vit": xnn.models.ViT}
    filled_in = {"resnet": {"axis_name": AXIS}, "vit": {"image": image}}.get(section.name, {})
    return models[section.name](section.make(classes=classes, **filled_in))


def check_network(section: Any, image: int) -> None:
    """Raises: a fault of the config if a number is out of range, or does not fit images of this size."""
    check_numbers(section)
    if isinstance(section, MLP):
        check_choice("task.model.activation", section.activation, ACTIVATIONS)
    if isinstance(section, LeNet) and image < LEAST_OF_LENET:
        raise fault("task.data.image", f"must be at least {LEAST_OF_LENET} for lenet, got {image}")
    if isinstance(section, ResNet | ConvNeXt) and not section.stages:
        raise fault("task.model.stages", "needs at least one stage")
    if isinstance(section, ConvNeXt) and image < (least := section.patch * 2**(len(section.stages) - 1)):
        raise fault("task.data.image", f"must be at least {least} for the patches of {section.patch} pixels and the "
                                       f"{len(section.stages)} stages of convnext, got {image}")
    if isinstance(section, ViT):
        _check_vit(section, image)


def _check_vit(section: Any, image: int) -> None:
    if image % section.patch:
        raise fault("task.model.patch", f"must divide task.data.image, which is {image}, got {section.patch}")
    if section.features % section.heads:
        raise fault("task.model.heads", f"must divide task.model.features, which is {section.features}, got "
                                        f"{section.heads}")
