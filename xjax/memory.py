"""Names of memory for use without a sharding: `device_put(x, memory.Space.Host)`."""

from xjax.core.memory_kinds import Space
from xjax.core.public import attributes_of

__all__ = ["Space"]

__getattr__ = attributes_of(__name__)
