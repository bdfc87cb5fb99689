"""The exception classes of xjax, under the names of `jax.errors`, and functions that build messages, such as `bad`."""

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from xjax.core import errors as _errors
from xjax.core import tree as _tree
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
    check_choice,
    did_you_mean,
)
from xjax.core.public import attributes_of
from xjax.runtime.xla import XlaRuntimeError as JaxRuntimeError

__all__ = [
    "ConcretizationTypeError", "EscapedTracerError", "JAXIndexError", "JAXTypeError", "JaxRuntimeError",
    "KeyReuseError", "NonConcreteBooleanIndexError", "TracerArrayConversionError", "TracerBoolConversionError",
    "TracerIntegerConversionError", "TypePromotionError", "UnexpectedTracerError", "api_boundary", "bad",
    "check_choice", "did_you_mean", "tree_mismatch"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _with_old_name(f: Callable[_P, _T]) -> Callable[_P, _T]:
    """`f`, which accepts its argument `caller` by its old name `where` too, with a warning."""
    @functools.wraps(f)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if "where" in kwargs and "caller" not in kwargs:
            warnings.warn(f"{f.__name__}: the argument where is caller now", DeprecationWarning, stacklevel=2)
            kwargs["caller"] = kwargs.pop("where")
        return f(*args, **kwargs)

    return call


bad, tree_mismatch = _with_old_name(_errors.bad), _with_old_name(_tree.tree_mismatch)

__getattr__ = attributes_of(__name__)
