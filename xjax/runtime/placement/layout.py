"""`Layout` and `Format`: the order of an array's elements in memory, and this order together with a sharding.

Every array is stored in row-major order, as compiled programs expect. So a `Format` places arrays if its layout is the
default one; inside a program, `with_layout_constraint` gives an intermediate value another layout.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from xjax.core.errors import bad
from xjax.core.types import ShapedArray
from xjax.runtime.placement.sharding import Sharding


class AutoLayout:
    """The type of `Layout.AUTO`: the compiler chooses the layout."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "AutoLayout"


class Layout:
    """The order of an array's elements in memory.

    Args:
      major_to_minor: the axes, from the one whose index moves slowest to the fastest; (0, 1) is row-major.
      tiling: sizes of tiles, for hardware with tiled memory; None is the default of the device, on CPUs and GPUs ().
      sub_byte_element_size_in_bits: bits of a packed element of less than a byte; 0 is the default.

    >>> Layout((1, 0))
    Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)
    """

    __slots__ = ("major_to_minor", "tiling", "sub_byte_element_size_in_bits")

    AUTO: ClassVar[AutoLayout] = AutoLayout()

    def __init__(self, major_to_minor: Iterable[int], tiling: Iterable[Iterable[int]] | None = None,
                 sub_byte_element_size_in_bits: int = 0):
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    @classmethod
    def row_major(cls, ndim: int) -> Layout:
        """The layout of the library's arrays of this rank."""
        return cls(range(ndim), ())

    @staticmethod
    def for_array(x: ShapedArray) -> Layout:
        """The layout of an array of this type on its device: row-major."""
        return Layout.row_major(x.ndim)

    @property
    def is_row_major(self) -> bool:
        """Whether the layout is the one of the library's arrays."""
        return (self.major_to_minor == tuple(range(len(self.major_to_minor))) and not self.tiling
                and not self.sub_byte_element_size_in_bits)

    def update(self, **fields: object) -> Layout:
        """The layout with other values of these fields."""
        return Layout(**{name: getattr(self, name) for name in self.__slots__} | fields)

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        """Raise ValueError unless the layout orders all axes of an array of this shape."""
        if sorted(self.major_to_minor) != [*range(len(aval_shape))]:
            raise bad("Layout", "major_to_minor must name each axis of the array once",
                      {"major_to_minor": self.major_to_minor, "shape": aval_shape},
                      "pass the layout of an array of this rank, such as Layout((0, 1)) for two axes.", exc=ValueError)

    def _key(self) -> tuple:
        return self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (f"Layout(major_to_minor={self.major_to_minor}, tiling={self.tiling}, "
                f"sub_byte_element_size_in_bits={self.sub_byte_element_size_in_bits})")


class Format:
    """A layout and a sharding: where an array is, and in which order.

    Args:
      layout: a `Layout`, `Layout.AUTO`, or None for the default layout.
      sharding: a `Sharding`; None if the arguments or the compiler decide.

    Raises: TypeError for other types; ValueError for a layout without a sharding.

    >>> Format()
    Format(layout=None, sharding=None)
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: Layout | AutoLayout | None = None, sharding: Sharding | None = None):
        if not isinstance(layout, (Layout, AutoLayout, type(None))):
            raise bad("Format", "layout must be a Layout, Layout.AUTO or None", {"layout": repr(layout)},
                      "pass a layout such as Layout((0, 1)).")
        if not isinstance(sharding, (Sharding, type(None))):
            raise bad("Format", "sharding must be a sharding or None", {"sharding": repr(sharding)},
                      "pass a NamedSharding or a SingleDeviceSharding.")
        if isinstance(layout, Layout) and sharding is None:
            raise bad("Format", "a layout needs a sharding", {"layout": layout},
                      "pass a NamedSharding or a SingleDeviceSharding too, such as x.sharding.", exc=ValueError)
        self.layout, self.sharding = layout, sharding

    def sharding_for(self, caller: str, aval: ShapedArray | None = None) -> Sharding | None:
        """The sharding, for an array of this type, if it is known.

        Raises: ValueError if the layout is for another rank; NotImplementedError if it is not the default layout.
        """
        if isinstance(self.layout, Layout):
            if aval is not None:
                self.layout.check_compatible_aval(aval.shape)
            if not self.layout.is_row_major:
                raise bad(caller, "arrays are always stored in row-major order", {"layout": self.layout},
                          "leave the layout out, store a transposed array, or constrain a value inside a program by "
                          "experimental.layout.with_layout_constraint.", exc=NotImplementedError)
        return self.sharding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and (self.layout, self.sharding) == (other.layout, other.sharding)

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"
