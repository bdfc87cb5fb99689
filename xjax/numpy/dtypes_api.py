"""The public dtypes: `numpy.float32` and the other scalar types, and functions about dtypes.

`numpy.float32` is both a function that makes an array of this dtype (`float32(3)`) and a name of the dtype
(``zeros(3, float32)``, ``x.dtype == float32``).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xjax.core import dtypes
from xjax.core.array_type import converted
from xjax.core.dtypes import isdtype, issubdtype
from xjax.core.errors import bad
from xjax.core.promotion import promote_types, result_type
from xjax.numpy.creation import array
from xjax.typing import Array, ArrayLike, DTypeLike

if TYPE_CHECKING:
    import ml_dtypes

__all__ = ["bool_", "can_cast", "complexfloating", "dtype", "finfo", "float_", "floating", "generic", "iinfo",
           "inexact", "int_", "integer", "isdtype", "issubdtype", "iscomplexobj", "isrealobj", "isscalar", "number",
           "promote_types", "result_type", "signedinteger", "uint", "unsignedinteger", "complex_"]

dtype = np.dtype
generic, number, inexact = np.generic, np.number, np.inexact
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating
flexible, character, object_ = np.flexible, np.character, np.object_


class _ScalarType(type):
    """Metaclass of the scalar types: they compare equal to their dtype, and a call makes an array."""

    dtype: np.dtype

    def __call__(cls, x: ArrayLike | str | bytes | Sequence[Any]) -> Array:
        """`x` (a number, its text, an array or a nested list) as an array of this dtype."""
        return array(np.array(x, cls.dtype) if isinstance(x, str | bytes) else x, dtype=cls.dtype)

    def __eq__(cls, other: object) -> bool:
        if cls is other:
            return True
        try:
            return cls.dtype == other
        except TypeError:
            return False

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __repr__(cls) -> str:
        return f"<class 'xjax.numpy.{cls.__name__}'>"

    def __instancecheck__(cls, x: ArrayLike) -> bool:
        return isinstance(x, cls.dtype.type)


def _scalar_type(name: str, of: np.dtype) -> _ScalarType:
    # An attribute `dtype` makes np.dtype(scalar type) work.
    return _ScalarType(name, (), {"dtype": of, "__module__": "xjax.numpy", "__slots__": (),
                                  "__doc__": f"Scalar type of dtype {of.name}; a call makes an array of this dtype."})


SCALAR_TYPES: dict[str, _ScalarType] = {
    d.name + "_" * (d.name == "bool"): _scalar_type(d.name, d) for d in dtypes.ALL}
globals().update(SCALAR_TYPES)
bool_: Any = SCALAR_TYPES["bool_"]
single: Any = SCALAR_TYPES["float32"]
double: Any = SCALAR_TYPES["float64"]
csingle: Any = SCALAR_TYPES["complex64"]
cdouble: Any = SCALAR_TYPES["complex128"]
int_, uint, float_, complex_ = (SCALAR_TYPES[n] for n in ("int64", "uint64", "float64", "complex128"))

__all__ += [*SCALAR_TYPES, "cdouble", "character", "csingle", "double", "flexible", "object_", "single"]


def _dtype_of(x: Any) -> Any:
    """The dtype of an array or of a scalar type of `xjax.numpy`; else `x`: `dtype` of NumPy's types is a descriptor."""
    attribute = getattr(x, "dtype", x)
    return x if inspect.isgetsetdescriptor(attribute) else attribute


def finfo(dtype: DTypeLike) -> np.finfo:
    """Limits of a float or complex dtype, the narrow formats included, or of the dtype of an array.

    Raises: ValueError for a dtype of integers.

    >>> finfo(np.zeros(2, np.float32)).bits, finfo(np.float16).bits
    (32, 16)
    """
    return dtypes.finfo(_dtype_of(dtype))


def iinfo(int_type: DTypeLike | ArrayLike) -> ml_dtypes.iinfo:
    """Limits of an integer dtype, the narrow ones included, or of the dtype of an array or a number.

    Raises: ValueError for a dtype of floats.

    >>> iinfo(np.zeros(2, np.int8)).max
    127
    """
    number = isinstance(int_type, (int, float, complex)) and not hasattr(int_type, "dtype")
    return dtypes.iinfo(np.asarray(int_type).dtype if number else _dtype_of(int_type))


def can_cast(from_: DTypeLike | ArrayLike, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether a dtype (or an array's dtype) can be cast to another under NumPy's casting rule.

    >>> can_cast("int32", "float64"), can_cast("float64", "int32")
    (True, False)
    """
    if isinstance(from_, (int, float, complex)):
        raise bad("numpy.can_cast", "a Python number has no dtype of its own", given={"from_": from_},
                  fix="pass a dtype or an array.")
    return dtypes.can_cast(getattr(from_, "dtype", from_), np.dtype(to), casting=casting)


def isscalar(element: object) -> bool:
    """Whether `element` is a number or a 0-d array.

    >>> isscalar(3.0), isscalar(np.zeros(2))
    (True, False)
    """
    element = converted(element)
    if isinstance(element, (np.ndarray, np.generic)) or hasattr(element, "aval"):
        return np.ndim(element) == 0
    return bool(np.isscalar(element))


def iscomplexobj(x: ArrayLike) -> bool:
    """Whether the dtype of `x` is complex."""
    if x is None:
        return False
    return dtypes.is_complex(getattr(x, "dtype", None) or np.asarray(x).dtype)


def isrealobj(x: ArrayLike) -> bool:
    """Whether the dtype of `x` is not complex."""
    return not iscomplexobj(x)
