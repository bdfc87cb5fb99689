"""Functions named as in SciPy: the public namespace `xjax.scipy`."""

from xjax.scipy import linalg, special

__all__ = ["linalg", "special"]
