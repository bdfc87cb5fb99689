"""The cache of compiled programs on disk: the module `compilation_cache` in this package sets its folder."""
from xjax.core.public import attributes_of

__all__: list[str] = []

__getattr__ = attributes_of(__name__)
