"""The modules of `jax.experimental`, imported by name: `from xjax.experimental.jet import jet`."""

from xjax.core.public import attributes_of
from xjax.lax.callbacks import io_callback

__all__ = ["io_callback"]

__getattr__ = attributes_of(__name__)
