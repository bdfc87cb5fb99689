"""Helpers of the special functions: checks of arguments, polynomials and their quotients, Chebyshev coefficients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.tree import tree_map
from xjax.core.types import typeof
from xjax.numpy.promote import promote_inexact, promote_shapes
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.convert import convert_element_type_p
from xjax.typing import Array, ArrayLike

Result = TypeVar("Result")


def floats(name: str, *xs: ArrayLike) -> list[Array]:
    """The arguments of `scipy.special.<name>` as arrays of one float or complex dtype and one rank."""
    caller = f"scipy.special.{name}"
    return [to_array_like(caller, x) for x in promote_shapes(caller, *promote_inexact(caller, *xs))]


def reals(name: str, *xs: ArrayLike) -> list[Array]:
    """The arguments as by `floats`, but real. Raises: ValueError for complex numbers."""
    values = floats(name, *xs)
    if dtypes.is_complex(values[0].dtype):
        raise bad(f"scipy.special.{name}", "complex numbers are not accepted", given={"dtype": values[0].dtype.name},
                  fix="use the real parts: x.real.", exc=ValueError)
    return values


def single_or_double(name: str, x: ArrayLike) -> list[Array]:
    """The argument as an array of floats of 32 or 64 bits. Raises: TypeError if it has another dtype."""
    x, = floats(name, x)
    if not dtypes.is_float(x.dtype) or x.dtype.itemsize < 4:
        raise bad(f"scipy.special.{name}", "takes single and double precision only", given={"x": typeof(x)},
                  fix="convert it with x.astype('float32').")
    return [x]


def of_reals(name: str, function: Callable[..., Result], *xs: ArrayLike) -> Result:
    """``function(*xs)``, one or several arrays, for real floats of one shape; 16-bit floats are computed in 32 bits."""
    values = jnp.broadcast_arrays(*reals(name, *xs))
    dtype = values[0].dtype
    if dtype.itemsize >= 4:
        return function(*values)
    wide = [lax.convert_element_type(x, np.float32) for x in values]
    return tree_map(lambda y: lax.convert_element_type(y, dtype), function(*wide))


def weak_as(y: Array, *xs: ArrayLike) -> Array:
    """`y` with a weak type if all of `xs`, the arguments of the function, have one or are Python numbers."""
    if not all(typeof(x).weak_type for x in xs):
        return y
    return convert_element_type_p.bind(y, new_dtype=typeof(y).dtype, weak_type=True)


def horner(x: ArrayLike, coefficients: Sequence[float]) -> Array:
    """The value of a polynomial by Horner's scheme, element-wise; the coefficient of the lowest power comes first."""
    total = lax.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + float(c)
    return total


def rational(x: ArrayLike, numerator: Sequence[float], denominator: Sequence[float]) -> Array:
    """The quotient of two polynomials, as by `horner`."""
    return horner(x, numerator) / horner(x, denominator)


def chebyshev_series(f: Callable[[np.ndarray], np.ndarray], count: int) -> np.ndarray:
    """The first `count` Chebyshev coefficients of a function on [-1, 1], from its values at `count` points.

    Points, values and results are in extended precision if the platform has it.
    """
    pi, odd = np.arccos(np.longdouble(-1)), 2 * np.arange(count) + 1
    turns = np.outer(np.arange(count), odd) % (4 * count)                   # reduced exactly, as integers
    values = f(np.cos(odd * (pi / (2 * count))))
    coefficients = np.cos(turns * (pi / (2 * count))) @ values * 2 / count
    coefficients[0] /= 2
    return coefficients
