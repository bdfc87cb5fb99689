"""`pjit`, the older name of `jit` with shardings."""

from __future__ import annotations

from xjax.core.public import attributes_of
from xjax.runtime.jit import jit as pjit

__all__ = ["pjit"]

__getattr__ = attributes_of(__name__)
