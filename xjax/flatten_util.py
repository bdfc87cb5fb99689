"""Conversion of trees of arrays to vectors: the public namespace `xjax.flatten_util`."""

from xjax.core.public import attributes_of
from xjax.numpy.ravel_pytree import ravel_pytree

__all__ = ["ravel_pytree"]

__getattr__ = attributes_of(__name__)
