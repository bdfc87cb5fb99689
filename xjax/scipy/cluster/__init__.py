"""Clustering under SciPy's names: the public namespace `xjax.scipy.cluster`."""

from xjax.core.public import attributes_of
from xjax.scipy.cluster import vq

__all__ = ["vq"]

__getattr__ = attributes_of(__name__)
