"""The exception classes of xjax, under the names of `jax.errors`."""

from xjax.core.errors import (
    ConcretizationTypeError, EscapedTracerError, JAXIndexError, JAXTypeError, JaxRuntimeError, KeyReuseError,
    NonConcreteBooleanIndexError, TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError,
    TypePromotionError, UnexpectedTracerError)

__all__ = [
    "ConcretizationTypeError", "EscapedTracerError", "JAXIndexError", "JAXTypeError", "JaxRuntimeError",
    "KeyReuseError", "NonConcreteBooleanIndexError", "TracerArrayConversionError", "TracerBoolConversionError",
    "TracerIntegerConversionError", "TypePromotionError", "UnexpectedTracerError"]
