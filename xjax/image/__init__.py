"""Images of other sizes: the public namespace `xjax.image`."""

from xjax.core.public import attributes_of
from xjax.image.scale import ResizeMethod, resize, scale_and_translate

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]

__getattr__ = attributes_of(__name__)
