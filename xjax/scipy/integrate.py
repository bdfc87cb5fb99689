"""Integrals: the public namespace `xjax.scipy.integrate`."""

from xjax.core.public import attributes_of
from xjax.numpy import trapezoid

__all__ = ["trapezoid"]

__getattr__ = attributes_of(__name__)
