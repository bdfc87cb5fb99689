"""A reader and a writer of FlatBuffers, for the parts of the format that files of exported functions use.

A buffer has tables, strings and vectors, which refer to others by the distance to them, always towards the end. A table
starts with the distance to its list of fields, which has the place of each field inside the table, 0 for one that is
missing. All numbers are little-endian and aligned to their size.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Scalar(NamedTuple):
    """The value of a field with its type, a letter of the module `struct`."""

    kind: str
    value: int


class Ref(NamedTuple):
    """A part that is written already: its distance from the end of the buffer."""

    end: int


class Writer:
    """Writes a buffer from its end: a part is written before the parts that refer to it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def string(self, text: str) -> Ref:
        return self._sized(len(text.encode()), text.encode() + b"\0")

    def octets(self, data: bytes) -> Ref:
        return self._sized(len(data), data)

    def numbers(self, kind: str, values: Sequence[int]) -> Ref:
        """A vector of numbers of the type `kind`, a letter of `struct`."""
        return self._sized(len(values), struct.pack(f"<{len(values)}{kind}", *values))

    def refs(self, items: Sequence[Ref]) -> Ref:
        """A vector of references."""
        start = self._size + -self._size % 4 + 4 * len(items)
        distances = [start - 4 * i - item.end for i, item in enumerate(items)]
        return self._sized(len(items), struct.pack(f"<{len(items)}I", *distances))

    def table(self, fields: Mapping[int, Ref | Scalar | None]) -> Ref:
        """A table.  Args: fields: by number; None and 0 are left out."""
        kept = {n: f for n, f in fields.items() if f is not None and not (isinstance(f, Scalar) and f.value == 0)}
        sizes = {n: 4 if isinstance(f, Ref) else struct.calcsize(f.kind) for n, f in kept.items()}
        order = sorted(kept, key=lambda n: -sizes[n])           # large fields first: each is aligned
        places, length = {}, 4
        for n in order:
            places[n], length = length, length + sizes[n]
        count = max(kept, default=-1) + 1
        listed = struct.pack(f"<{count + 2}H", 4 + 2 * count, length, *[places.get(n, 0) for n in range(count)])
        start = self._size + -(self._size + length) % 4 + length
        body = struct.pack("<i", len(listed))
        for n in order:
            field = kept[n]
            body += (struct.pack("<I", start - places[n] - field.end) if isinstance(field, Ref)
                     else struct.pack(f"<{field.kind}", field.value))
        self._prepend(body, 4)
        end = self._size
        self._prepend(listed, 2)
        return Ref(end)

    def finish(self, root: Ref) -> bytes:
        """The buffer whose first part is `root`."""
        self._prepend(b"", 4)
        self._prepend(struct.pack("<I", self._size + 4 - root.end), 4)
        return b"".join(reversed(self._parts))

    def _sized(self, count: int, data: bytes) -> Ref:
        self._prepend(data, 4)
        self._prepend(struct.pack("<I", count), 4, pad=False)
        return Ref(self._size)

    def _prepend(self, data: bytes, align: int, pad: bool = True) -> None:
        """Add bytes at the front, with zeros after them so that they start at a multiple of `align` from the end."""
        if pad and (zeros := -(self._size + len(data)) % align):
            self._parts.append(bytes(zeros))
            self._size += zeros
        self._parts.append(data)
        self._size += len(data)


class Table:
    """A table of a buffer. All methods raise ValueError for places outside the buffer: it is damaged or foreign."""

    def __init__(self, buffer: bytes, place: int, depth: int = 0):
        if depth > 200:
            raise ValueError("tables are nested too deeply")
        self._buffer, self._place, self._depth = buffer, place, depth
        self._list = place - self._number("i", place)
        size = self._number("H", self._list)
        if size < 4 or size % 2:
            raise ValueError("the list of fields of a table is damaged")
        self._count = size // 2 - 2

    @classmethod
    def root(cls, buffer: bytes) -> Table:
        return cls(buffer, _number(buffer, "I", 0))

    def scalar(self, field: int, kind: str, default: int = 0) -> int:
        place = self._field(field)
        return self._number(kind, place) if place else default

    def octets(self, field: int) -> bytes | None:
        """The bytes of a string or of a vector of bytes; None if it is missing."""
        place = self._field(field)
        return None if not place else self._octets(self._target(place))

    def string(self, field: int) -> str | None:
        data = self.octets(field)
        return None if data is None else data.decode()          # UnicodeDecodeError is a ValueError

    def table(self, field: int) -> Table | None:
        place = self._field(field)
        return None if not place else Table(self._buffer, self._target(place), self._depth + 1)

    def tables(self, field: int) -> list[Table]:
        return self._vector(field, 4, lambda place: Table(self._buffer, self._target(place), self._depth + 1))

    def strings(self, field: int) -> list[str]:
        return self._vector(field, 4, lambda place: self._octets(self._target(place)).decode())

    def numbers(self, field: int, kind: str) -> list[int]:
        return self._vector(field, struct.calcsize(kind), lambda place: self._number(kind, place))

    def has(self, field: int) -> bool:
        return self._field(field) != 0

    def _vector(self, field: int, size: int, item: Callable[[int], T]) -> list[T]:
        place = self._field(field)
        if not place:
            return []
        start = self._target(place)
        count = self._number("I", start)
        if start + 4 + count * size > len(self._buffer):
            raise ValueError("a vector is longer than the file")
        return [item(start + 4 + i * size) for i in range(count)]

    def _octets(self, place: int) -> bytes:
        count = self._number("I", place)
        if place + 4 + count > len(self._buffer):
            raise ValueError("a string is longer than the file")
        return self._buffer[place + 4:place + 4 + count]

    def _field(self, field: int) -> int:
        """The place of a field in the buffer; 0 if it is missing."""
        inside = self._number("H", self._list + 4 + 2 * field) if field < self._count else 0
        return self._place + inside if inside else 0

    def _target(self, place: int) -> int:
        distance = self._number("I", place)
        if not distance:
            raise ValueError("a reference refers to itself")
        return place + distance

    def _number(self, kind: str, place: int) -> int:
        return _number(self._buffer, kind, place)


def _number(buffer: bytes, kind: str, place: int) -> int:
    if place < 0 or place + struct.calcsize(kind) > len(buffer):
        raise ValueError("a part is outside the file")
    return struct.unpack_from(f"<{kind}", buffer, place)[0]
