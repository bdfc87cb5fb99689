"""`compute_on`: where a part of a program computes. Programs compute on their device, so only "device" is possible."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from xjax.core.errors import bad
from xjax.core.memory_kinds import Space
from xjax.core.public import attributes_of
from xjax.core.tree import flatten, flatten_axes, tree_unflatten
from xjax.runtime.device_put import put_one
from xjax.typing import PyTree

__all__ = ["compute_on", "compute_on2"]

_KNOWN = ("device", "device_host", "tpu_sparsecore")


class _OnDevice:
    """``with compute_on("device"):``, also a decorator."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, f: Callable) -> Callable:
        return f


def compute_on(f: Callable | str | None = None, *, compute_type: str | None = None, out_memory_spaces: PyTree = None,
               compiler_options: Mapping[str, Any] | None = None) -> Any:
    """A function whose operations run on the device, as all do; or a context manager for this.

    Args:
      f: a function of arrays; None: the result is a decorator; "device": it is a context manager, as in JAX 0.10.
      compute_type: "device".
      out_memory_spaces: `memory.Space.Device` or `Host`, the memory of the results, or a tree of them.
      compiler_options: None.

    Raises: TypeError unless the type is text; ValueError for an unknown type; NotImplementedError for a type of JAX
      other than "device", and for compiler options.

    >>> with compute_on("device"):
    ...     y = jnp.ones(2) + 1
    >>> compute_on(lambda x: x * 2, compute_type="device", out_memory_spaces=xjax.memory.Space.Device)(y)
    Array([4., 4.], dtype=float32)
    """
    as_context = isinstance(f, str) or (compute_type is None and not callable(f))
    _check(f if as_context else compute_type)
    if compiler_options:
        raise bad("compute_on", "a part of a program has no compiler options", {"compiler_options": compiler_options},
                  "pass them to the outermost jit.", exc=NotImplementedError)
    if as_context:
        return _OnDevice()
    if f is None:
        return functools.partial(compute_on, compute_type=compute_type, out_memory_spaces=out_memory_spaces)
    if out_memory_spaces is None:
        return f
    return _placing(f, out_memory_spaces)


def _check(compute_type: object) -> None:
    if not isinstance(compute_type, str):
        raise bad("compute_on", f"compute_type must be text, not a {type(compute_type).__name__}",
                  {"compute_type": repr(compute_type)}, 'pass "device".')
    if compute_type not in _KNOWN and not compute_type.startswith("gpu_stream:"):
        raise bad("compute_on", "there is no such compute_type", {"compute_type": compute_type}, 'pass "device".',
                  exc=ValueError)
    if compute_type != "device":
        raise bad("compute_on", "a part of a program cannot compute elsewhere than on its device",
                  {"compute_type": compute_type},
                  'pass "device", or call a function on the host by pure_callback.', exc=NotImplementedError)


def _placing(f: Callable, spaces: PyTree) -> Callable:
    @functools.wraps(f)
    def placed(*args: PyTree, **kwargs: PyTree) -> PyTree:
        leaves, tree = flatten(f(*args, **kwargs))
        wanted = flatten_axes("compute_on: out_memory_spaces", tree, spaces)
        for space in wanted:
            if not isinstance(space, Space) or space is Space.Any:
                raise bad("compute_on", "out_memory_spaces must be Space.Device or Space.Host",
                          {"space": repr(space)}, "pass xjax.memory.Space.Device.", exc=ValueError)
        return tree_unflatten(tree, [put_one(x, s) for x, s in zip(leaves, wanted, strict=True)])

    return placed


def compute_on2(f: Callable | None = None, *, compute_type: str, out_memory_spaces: PyTree,
                compiler_options: Mapping[str, Any] | None = None) -> Any:
    """`compute_on` of a function, under its name in JAX 0.10."""
    return compute_on(f, compute_type=compute_type, out_memory_spaces=out_memory_spaces,
                      compiler_options=compiler_options)


__getattr__ = attributes_of(__name__)
