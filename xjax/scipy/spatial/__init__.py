"""Geometry under SciPy's names: the public namespace `xjax.scipy.spatial`."""

from xjax.core.public import attributes_of
from xjax.scipy.spatial import transform

__all__ = ["transform"]

__getattr__ = attributes_of(__name__)
