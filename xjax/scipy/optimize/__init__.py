"""Minimization of functions: the public namespace `xjax.scipy.optimize`."""

from xjax.core.public import attributes_of
from xjax.scipy.optimize.minimize import OptimizeResults, minimize

__all__ = ["OptimizeResults", "minimize"]

__getattr__ = attributes_of(__name__)
