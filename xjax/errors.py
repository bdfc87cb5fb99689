"""The exception classes of xjax, under the names of `jax.errors`, and functions that build messages, such as `bad`."""

from xjax.core.calls import api_boundary
from xjax.core.errors import (
    ConcretizationTypeError,
    EscapedTracerError,
    JAXIndexError,
    JAXTypeError,
    KeyReuseError,
    NonConcreteBooleanIndexError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TypePromotionError,
    UnexpectedTracerError,
    bad,
    check_choice,
    did_you_mean,
)
from xjax.core.public import attributes_of
from xjax.core.tree import tree_mismatch
from xjax.runtime.xla import XlaRuntimeError as JaxRuntimeError

__all__ = [
    "ConcretizationTypeError", "EscapedTracerError", "JAXIndexError", "JAXTypeError", "JaxRuntimeError",
    "KeyReuseError", "NonConcreteBooleanIndexError", "TracerArrayConversionError", "TracerBoolConversionError",
    "TracerIntegerConversionError", "TypePromotionError", "UnexpectedTracerError", "api_boundary", "bad",
    "check_choice", "did_you_mean", "tree_mismatch"]

__getattr__ = attributes_of(__name__)
