"""Weights in folders of Hugging Face: `load` returns a model and its parameters, `save` writes a folder."""

from xnn.pretrained.folders import Pretrained, load, save
from xnn.public import public_names

__all__ = ["Pretrained", "load", "save"]

public_names(__name__)
