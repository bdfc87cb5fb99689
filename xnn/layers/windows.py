"""Sliding windows over the spatial axes of [batch, ..., features]: sizes, strides, dilation, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad, check_choice
from xjax.typing import Array, ArrayLike, PyTree
from xnn.checks import check_shape, counted

Pads = tuple[tuple[int, int], ...]
Sizes = int | Sequence[int]
Padding = str | int | Sequence[int | tuple[int, int]]

# Name -> mode of `xjax.numpy.pad`, and function from the extent of a window to (before, after). "SAME" has no function,
# because it also depends on the size of the input.
_NAMES = {
    "SAME": ("constant", None),
    "VALID": ("constant", lambda extent: (0, 0)),
    "CAUSAL": ("constant", lambda extent: (extent - 1, 0)),
    "CIRCULAR": ("wrap", lambda extent: ((extent - 1) // 2, extent // 2)),
    "REFLECT": ("reflect", lambda extent: ((extent - 1) // 2, extent // 2)),
}


class Window(NamedTuple):
    """A window; its fields have one entry for each spatial axis.

    Attributes:
      caller: name of the layer, for messages.
      sizes, strides, dilation: sizes, steps and dilation of the window.
      padding: a name, or (before, after) for each axis.
    """

    caller: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: str | Pads

    @property
    def n_axes(self) -> int:
        return len(self.sizes)

    @property
    def extents(self) -> tuple[int, ...]:
        """Sizes of the dilated window."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.sizes, self.dilation, strict=True))

    def pads(self, spatial: Sequence[int]) -> Pads:
        """(before, after) for each axis of an input with these spatial sizes."""
        if not isinstance(self.padding, str):
            return self.padding
        if self.padding == "SAME":
            totals = [max((-(-n // s) - 1) * s + e - n, 0)
                      for n, s, e in zip(spatial, self.strides, self.extents, strict=True)]
            return tuple((total // 2, total - total // 2) for total in totals)
        return tuple(_NAMES[self.padding][1](extent) for extent in self.extents)

    def padded(self, x: ArrayLike) -> tuple[Any, Pads]:
        """(x with its padding, or unchanged if that is zeros; numbers of zeros that remain to be added)."""
        pads = self.pads(self.spatial(x.shape))
        mode = _NAMES[self.padding][0] if isinstance(self.padding, str) else "constant"
        if mode == "constant":
            return x, pads
        return pad_spatial(x, pads, mode), ((0, 0),) * self.n_axes

    def spatial(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The spatial sizes in a shape."""
        return tuple(shape[-self.n_axes - 1:-1])

    def check_shape(self, in_shape: PyTree) -> tuple[int, ...]:
        """The argument in_shape of `init`. Raises: TypeError for too few axes or an unknown number of features."""
        return check_spatial_shape(self.caller, in_shape, self.n_axes)

    def out_sizes(self, spatial: Sequence[int]) -> tuple[int, ...]:
        """Spatial sizes of the output, -1 if unknown. Raises: ValueError if the window exceeds the padded input."""
        pads = self.pads([max(n, 0) for n in spatial])
        out = [-1 if n < 0 else max((n + sum(pad) - e) // s + 1, 0)
               for n, s, e, pad in zip(spatial, self.strides, self.extents, pads, strict=True)]
        if 0 in out:
            raise bad(self.caller, "the window is larger than the padded input",
                      {"spatial sizes": str(tuple(spatial)), "window": f"{self.extents}, with its dilation",
                       "padding": repr(self.padding)},
                      'pass larger inputs, choose a smaller window, or padding="SAME".', ValueError)
        return tuple(out)


def make_window(caller: str, window: Sizes, strides: Sizes, padding: Padding, dilation: Sizes = 1,
                names: Sequence[str] = ("SAME", "VALID")) -> Window:
    """A `Window` from the arguments of a layer.

    Args: names: names of paddings that the layer supports.
    Raises: TypeError for values of another type, ValueError for an unknown padding.
    """
    sizes = sizes_of(caller, "window", window)
    if not 1 <= len(sizes) <= 3:
        raise bad(caller, "a window must have 1 to 3 axes", {"window": repr(window)},
                  "pass one size for each spatial axis: (3, 3) for images.", ValueError)
    n = len(sizes)
    return Window(caller, sizes, sizes_of(caller, "strides", strides, n), sizes_of(caller, "dilation", dilation, n),
                  _padding(caller, padding, n, names))


def sizes_of(caller: str, name: str, value: Sizes, n: int | None = None, least: int = 1) -> tuple[int, ...]:
    """One int for each of n axes, from an int or a sequence; n None: a sequence of any length, or an int for one axis.

    Raises: TypeError for anything else, and for numbers below `least`.
    """
    sizes = (value,) * (n or 1) if _is_int(value) else value
    if isinstance(sizes, tuple | list) and len(sizes) == (n or len(sizes)) and all(
            _is_int(size) and size >= least for size in sizes):
        return tuple(int(size) for size in sizes)
    raise bad(caller, f"`{name}` must be an int of at least {least}, or one for each spatial axis",
              {name: repr(value), **({"spatial axes": n} if n else {})},
              f"pass a tuple of {counted(n, 'int')}." if n else "pass a tuple of ints.")


def _padding(caller: str, padding: Padding, n: int, names: Sequence[str]) -> str | Pads:
    if not isinstance(padding, str):
        return pads_of(caller, "padding", padding, n, least=0)
    name = padding.upper()
    check_choice(caller, "padding", name, names, "pass one of these, a number, or (before, after) for each axis; a Pad "
                 "layer has more modes.")
    if name == "CAUSAL" and n > 1:
        raise bad(caller, "causal padding needs exactly one spatial axis", {"spatial axes": n},
                  "pass (before, after) for each axis.", ValueError)
    return name


def pads_of(caller: str, name: str, value: Any, n: int, least: int | None = None) -> Pads:
    """(before, after) for each of n axes, from one number for all axes, or a number or pair for each axis.

    Raises: TypeError for anything else, and for numbers below `least`.
    """
    entries = (value,) * n if _is_int(value) else value
    if isinstance(entries, tuple | list) and len(entries) == n:
        pairs = [(entry, entry) if _is_int(entry) else entry for entry in entries]
        if all(_is_pair(pair) and (least is None or min(pair) >= least) for pair in pairs):
            return tuple((int(before), int(after)) for before, after in pairs)
    kind = "a number" if least is None else f"a number of at least {least}"
    raise bad(caller, f"`{name}` must be {kind}, or a number or pair (before, after) for each spatial axis",
              {name: repr(value), "spatial axes": n}, f"pass {name}={((1, 1),) * n}.")


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(_is_int, value))


def _is_int(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_spatial_shape(caller: str, in_shape: PyTree, n: int) -> tuple[int, ...]:
    """The shape of an input with n spatial axes. Raises: TypeError for too few axes or unknown features."""
    in_shape = check_shape(caller, in_shape)
    if len(in_shape) <= n:
        raise bad(caller, f"the input must have {counted(n, 'spatial axis', 'spatial axes')} before the features",
                  {"in_shape": str(in_shape)}, f"pass a shape such as {(-1, *(28,) * n, 3)}.")
    return in_shape


def pad_spatial(x: ArrayLike, pads: Pads, mode: str = "constant", value: float = 0.0) -> Array:
    """x padded along its spatial axes, which are the last axes before the features."""
    widths = ((0, 0),) * (x.ndim - len(pads) - 1) + (*pads, (0, 0))
    return jnp.pad(x, widths, mode, **({"constant_values": value} if mode == "constant" else {}))


def as_one_batch(x: ArrayLike, n: int) -> tuple[Any, tuple[int, ...]]:
    """(x with all axes before the n spatial axes and the features merged into one, the sizes of these axes)."""
    leading = x.shape[:-n - 1]
    return jnp.reshape(x, (math.prod(leading), *x.shape[-n - 1:])), leading
