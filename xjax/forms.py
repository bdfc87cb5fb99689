"""The table of the forms in which operations are written on each platform, for xnn and for benchmarks."""

from xjax.core.forms import FORMS, Form, limits
from xjax.core.public import attributes_of

__all__ = ["FORMS", "Form", "limits"]

__getattr__ = attributes_of(__name__)
