"""The exception classes of xjax, under the names of `jax.errors`, and functions that build messages, such as `bad`."""

from xjax.core import errors as _errors
from xjax.core import tree as _tree
from xjax.core.calls import api_boundary, old_keywords
from xjax.core.errors import (
    ConcretizationTypeError,
    EscapedTracerError,
    InconclusiveDimensionOperation,
    JAXIndexError,
    JAXTypeError,
    KeyReuseError,
    NonConcreteBooleanIndexError,
    RetraceWarning,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TypePromotionError,
    UnexpectedTracerError,
    check_choice,
    did_you_mean,
    no_attribute,
)
from xjax.core.public import attributes_of, missing_name
from xjax.runtime.xla import XlaRuntimeError as JaxRuntimeError

__all__ = [
    "ConcretizationTypeError", "EscapedTracerError", "InconclusiveDimensionOperation", "JAXIndexError",
    "JAXTypeError", "JaxRuntimeError", "KeyReuseError", "NonConcreteBooleanIndexError", "RetraceWarning",
    "TracerArrayConversionError", "TracerBoolConversionError", "TracerIntegerConversionError", "TypePromotionError",
    "UnexpectedTracerError", "api_boundary", "bad", "check_choice", "did_you_mean", "missing_name", "no_attribute",
    "old_keywords", "tree_mismatch"]

bad = old_keywords(where="caller")(_errors.bad)
tree_mismatch = old_keywords(where="caller")(_tree.tree_mismatch)

__getattr__ = attributes_of(__name__)
