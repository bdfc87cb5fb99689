"""The exception classes of xjax, under the names of `jax.errors`, and `bad`, the builder of messages."""

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
    did_you_mean,
)
from xjax.runtime.xla import XlaRuntimeError as JaxRuntimeError

__all__ = [
    "ConcretizationTypeError", "EscapedTracerError", "JAXIndexError", "JAXTypeError", "JaxRuntimeError",
    "KeyReuseError", "NonConcreteBooleanIndexError", "TracerArrayConversionError", "TracerBoolConversionError",
    "TracerIntegerConversionError", "TypePromotionError", "UnexpectedTracerError", "bad", "did_you_mean"]
