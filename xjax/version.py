"""The version of this package: `xjax.__version__`."""

__version__ = "0.2.0"
__version_info__ = tuple(int(part) for part in __version__.split("."))

__all__ = ["__version__", "__version_info__"]
