"""In which form an operation is written for which platform: the table, for xnn and for those who measure."""

from xjax.core.forms import FORMS, Form, limits
from xjax.core.public import attributes_of

__all__ = ["FORMS", "Form", "limits"]

__getattr__ = attributes_of(__name__)
