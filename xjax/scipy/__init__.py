"""Functions named as in SciPy: the public namespace `xjax.scipy`."""

from xjax.scipy import special

__all__ = ["special"]
