"""Weights in the folders of Hugging Face: `load` makes a model and its parameters of one, `save` writes one."""

from xnn.pretrained.folders import Pretrained, load, save

__all__ = ["Pretrained", "load", "save"]
