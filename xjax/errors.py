"""The exception classes of xjax, under the names of `jax.errors`; and `bad`, which builds messages in the house form."""

from xjax.core.errors import (
    ConcretizationTypeError, EscapedTracerError, JAXIndexError, JAXTypeError, JaxRuntimeError, KeyReuseError,
    NonConcreteBooleanIndexError, TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError,
    TypePromotionError, UnexpectedTracerError, bad, did_you_mean)

__all__ = [
    "ConcretizationTypeError", "EscapedTracerError", "JAXIndexError", "JAXTypeError", "JaxRuntimeError",
    "KeyReuseError", "NonConcreteBooleanIndexError", "TracerArrayConversionError", "TracerBoolConversionError",
    "TracerIntegerConversionError", "TypePromotionError", "UnexpectedTracerError", "bad", "did_you_mean"]
