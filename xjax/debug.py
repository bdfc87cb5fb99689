"""Inspection of running programs, as in `jax.debug`: `print`, `log`, `callback`, `breakpoint`."""

from xjax.core.public import attributes_of
from xjax.lax.breakpoint import breakpoint
from xjax.lax.debug_callbacks import debug_callback as callback
from xjax.lax.debug_callbacks import debug_log as log
from xjax.lax.debug_callbacks import debug_print as print
from xjax.runtime.arrays.visualize import visualize_array_sharding, visualize_sharding
from xjax.runtime.inspect_sharding import inspect_array_sharding

__all__ = ["breakpoint", "callback", "inspect_array_sharding", "log", "print", "visualize_array_sharding",
           "visualize_sharding"]

__getattr__ = attributes_of(__name__)
