"""Methods, properties and operators of arrays, attached to `Array` when `xjax.numpy` is imported.

The class is defined in a lower layer; only the tables here give it the functions of this package. Arrays on devices
and traced values inherit them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy import (
    composed,
    contract,
    creation,
    manipulate,
    masked,
    matrices,
    reductions,
    rounding,
    searching,
    selection,
    sorting,
)
from xjax.numpy.array_api import array_namespace
from xjax.numpy.at import at, immutable
from xjax.numpy.indexing import getitem
from xjax.numpy.operators import operators
from xjax.numpy.take import choose, take
from xjax.numpy.view import byteswap, view
from xjax.ops.shape import transpose as lax_transpose
from xjax.runtime.device_put import device_put
from xjax.runtime.placement.sharding import Sharding
from xjax.runtime.xla import Device
from xjax.typing import Array, ArrayLike, ShapeLike


def _sizes(args: tuple) -> ShapeLike:
    """The sizes in the arguments of `x.reshape(2, 3)` or `x.reshape((2, 3))`."""
    return args[0] if len(args) == 1 else args


def _reshape(self: Array, *shape: ShapeLike, order: str = "C") -> Array:
    """`x.reshape(2, -1)` or `x.reshape((2, -1))`: the elements in another shape; one size may be -1."""
    return manipulate.reshape(self, _sizes(shape), order=order)


def _transpose(self: Array, *axes: ShapeLike | None) -> Array:
    """The axes reversed, or in the order of `axes`."""
    if not axes or axes == (None,):
        return _reversed_axes(self)
    return manipulate.transpose(self, _sizes(axes) if not isinstance(axes[0], int) else axes)


def _reversed_axes(self: Array) -> Array:
    """The array with its axes in reverse order."""
    return lax_transpose(self, range(self.ndim - 1, -1, -1))


def _matrix_transpose(self: Array) -> Array:
    """The array with its last two axes exchanged."""
    if self.ndim < 2:
        raise bad("x.mT", "needs at least two axes", given={"x": self}, fix="add an axis: x[None, :].", exc=ValueError)
    return lax_transpose(self, (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))


def _flatten(self: Array, order: str = "C") -> Array:
    """The elements as an array with one axis."""
    return manipulate.ravel(self, order=order)


def _to_device(self: Array, device: Device | Sharding, *, stream: object = None) -> Array:
    """The array on a device, or with a sharding."""
    return device_put(self, device)


def _setitem(self: Array, index: object, value: ArrayLike) -> None:
    raise immutable(self, index, value)


def _delitem(self: Array, index: object) -> None:
    raise immutable(self, index, deletes=True)


def _iter(self: Array) -> Iterator[Array]:
    if not self.ndim:
        raise TypeError(f"iteration over a 0-d array ({typeof(self).str_short()})")
    return (getitem(self, i) for i in range(self.shape[0]))


def _contains(self: Array, value: ArrayLike) -> bool:
    """`value in x`: whether any element equals it."""
    equal = self == value
    return equal if isinstance(equal, bool) else bool(reductions.any(equal))


METHODS: dict[str, Callable] = {
    **operators(),
    "__array_namespace__": array_namespace,
    "__getitem__": getitem, "__setitem__": _setitem, "__delitem__": _delitem, "__iter__": _iter,
    "__contains__": _contains,
    "all": reductions.all, "any": reductions.any, "argmax": reductions.argmax, "argmin": reductions.argmin,
    "argpartition": sorting.argpartition, "argsort": sorting.argsort, "astype": creation.astype, "byteswap": byteswap,
    "choose": choose, "clip": selection.clip,
    "compress": lambda self, condition, axis=None, **options: masked.compress(condition, self, axis, **options),
    "conj": composed.conj, "conjugate": composed.conj, "copy": creation.copy, "cumprod": reductions.cumprod,
    "cumsum": reductions.cumsum, "diagonal": matrices.diagonal, "dot": contract.dot, "flatten": _flatten,
    "max": reductions.max, "mean": reductions.mean, "min": reductions.min, "nonzero": searching.nonzero,
    "prod": reductions.prod, "ptp": reductions.ptp, "ravel": manipulate.ravel, "repeat": manipulate.repeat,
    "reshape": _reshape, "round": rounding.round, "searchsorted": searching.searchsorted, "sort": sorting.sort,
    "squeeze": manipulate.squeeze, "std": reductions.std, "sum": reductions.sum, "swapaxes": manipulate.swapaxes,
    "take": take, "to_device": _to_device, "trace": contract.trace, "transpose": _transpose,
    "var": reductions.var, "view": view,
}

PROPERTIES: dict[str, Callable] = {
    "T": _reversed_axes, "mT": _matrix_transpose, "real": composed.real, "imag": composed.imag, "at": at,
}


for _name, _function in METHODS.items():
    setattr(Array, _name, _function)
for _name, _function in PROPERTIES.items():
    setattr(Array, _name, property(_function, doc=_function.__doc__))
