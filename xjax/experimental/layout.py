"""Layouts of arrays: `Layout`, `Format`, `with_layout_constraint`."""

from xjax.core.public import attributes_of
from xjax.runtime.layout_constraint import with_layout_constraint
from xjax.runtime.placement.layout import Format, Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]

__getattr__ = attributes_of(__name__)
