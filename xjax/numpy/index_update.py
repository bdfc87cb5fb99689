"""The indexed updates of programs written before `x.at`: `xjax.ops.index_update(x, xjax.ops.index[1:], y)`, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xjax.numpy.at import at
from xjax.typing import Array, ArrayLike


class _Index:
    """`index[1:, 2]` is the index in the brackets."""

    def __getitem__(self, key: Any) -> Any:
        return key

    def __repr__(self) -> str:
        return "xjax.ops.index"


index = _Index()


def _update(name: str, method: str) -> Callable:
    def apply(x: ArrayLike, idx: Any, y: Any, indices_are_sorted: bool = False, unique_indices: bool = False) -> Array:
        return getattr(at(x)[idx], method)(y, indices_are_sorted=indices_are_sorted, unique_indices=unique_indices)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"""``x.at[idx].{method}(y)``, as it was written before JAX 0.2.22; returns a new array.

    >>> xjax.ops.{name}(jnp.array([1, 5, 5]), xjax.ops.index[:2], 3).tolist()
    {_EXAMPLES[method]}
    """
    return apply


_EXAMPLES = {"set": [3, 3, 5], "add": [4, 8, 5], "multiply": [3, 15, 5], "min": [1, 3, 5], "max": [3, 5, 5]}

index_update = _update("index_update", "set")
index_add = _update("index_add", "add")
index_mul = _update("index_mul", "multiply")
index_min = _update("index_min", "min")
index_max = _update("index_max", "max")
