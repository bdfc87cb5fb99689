"""Solvers for linear systems whose matrix is a function: the public namespace `xjax.scipy.sparse`."""

from xjax.core.public import attributes_of
from xjax.scipy.sparse import linalg

__all__ = ["linalg"]

__getattr__ = attributes_of(__name__)
