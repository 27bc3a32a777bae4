"""Arrays of small structs read by columns, as they lie on the wire: no object for each of them.

A commit of a thousand partitions is a thousand structs of three numbers and an empty note. Where every text of an
array is empty, and no element has tagged fields, the elements lie at one distance from each other, and `struct`
reads them all in one go: a tenth of the time that a thousand objects take. A caller that wants objects gets them
one by one, made when they are asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from struct import Struct as StructFormat
from typing import Any, Final, Generic, SupportsIndex, TypeVar, overload

from protocol.codec.packed_numbers import WIDTHS, column, interleave, take_numbers
from protocol.codec.primitives import Fixed
from protocol.codec.schema import FieldSpec, Text, layout_of

T = TypeVar("T")

PACKED_FROM: Final = 16
"""The fewest elements that are read packed: shorter arrays are as quick as objects."""

_ALL_ZERO: Final = b"\0"
_NULL_OR_EMPTY: Final = b"\0\1"
_MINUS_ONE: Final = b"\xff"


class Packing:
    """The layout, of fixed size, of a class's elements in one version, as long as their texts are empty.

    Texts and the count of tagged fields are columns, too: 0 for null and 1 for "" where the version is
    flexible, else -1 and 0.
    """

    def __init__(self, cls: type, version: int, flexible: bool) -> None:
        """TypeError if elements of `cls` hold anything but numbers and texts."""
        layout = layout_of(cls, version, flexible)
        self.cls = cls
        self.fields = layout.inline
        self._absent = layout.absent + layout.tagged
        self._flexible = flexible
        text = "B" if flexible else "h"
        codes = [text if isinstance(field.type, Text) else _code(field) for field in self.fields]
        self.form = StructFormat(">" + "".join(codes) + ("B" if flexible else ""))
        starts = [StructFormat(">" + "".join(codes[:index])).size for index in range(len(codes) + 1)]
        self._nullable = {
            start: version in field.nullable
            for start, field in zip(starts, self.fields, strict=False)
            if isinstance(field.type, Text)
        }
        self._tags_at = starts[-1]
        self.numbers = [
            (field.name, start, code)
            for field, start, code in zip(self.fields, starts, codes, strict=False)
            if not isinstance(field.type, Text)
        ]

    def take(self, buffer: bytes, position: int, count: int) -> PackedArray[Any] | None:
        """Return `count` elements from byte `position` of `buffer` on, packed.

        None if they do not have this layout, for a text or tagged fields, or if the buffer ends too early.
        """
        size = self.form.size
        raw = buffer[position : position + count * size]
        if len(raw) != count * size:
            return None
        if self._flexible and raw[self._tags_at :: size].strip(_ALL_ZERO):
            return None
        if not all(self._is_empty(raw, start, nullable) for start, nullable in self._nullable.items()):
            return None
        return PackedArray(self, raw)

    def _is_empty(self, raw: bytes, start: int, nullable: bool) -> bool:
        """Whether the string field at byte `start` of every element in `raw` is empty, or null if `nullable`."""
        first = raw[start :: self.form.size]
        if self._flexible:
            return not first.strip(_NULL_OR_EMPTY if nullable else _NULL_OR_EMPTY[1:])
        second = raw[start + 1 :: self.form.size]
        return first == second and (not first.strip(_ALL_ZERO) or (nullable and not first.strip(_MINUS_ONE)))

    def pack(self, **columns: Sequence[int]) -> PackedArray[Any]:
        """Return packed elements of `columns`, all of one length and by field name, with empty texts."""
        count = len(next(iter(columns.values())))
        empty = b"\1" if self._flexible else b"\0\0"
        values = [
            empty if isinstance(field.type, Text) else column(_code(field), columns[field.name])
            for field in self.fields
        ]
        return PackedArray(self, bytes(interleave(count, *values, b"\0" if self._flexible else b"")))

    def element(self, position: int, raw: bytes) -> Any:
        """Return the element at byte `position` of `raw` as an object."""
        made: Any = object.__new__(self.cls)
        for field, value in zip(self.fields, self.form.unpack_from(raw, position), strict=False):
            is_null = isinstance(field.type, Text) and value == (0 if self._flexible else -1)
            setattr(made, field.name, (None if is_null else "") if isinstance(field.type, Text) else value)
        for field in self._absent:
            setattr(made, field.name, field.default_value())
        return made


def _code(field: FieldSpec) -> str:
    if not isinstance(field.type, Fixed) or field.type.code not in WIDTHS:
        raise TypeError(f"{field.name} is neither a whole number nor a text")
    return field.type.code


packing_of: Final = cache(Packing)
"""Returns the packing of a class in a version: always the same object, so that identity can be compared."""


class PackedArray(Generic[T]):
    """A read-only list of elements, made from the bytes `raw` on access; equal to a list of equal elements."""

    def __init__(self, packing: Packing, raw: bytes) -> None:
        self.packing = packing
        self.raw = raw

    @cached_property
    def columns(self) -> dict[str, array[int]]:
        """The numbers of all elements, by the name of their field; texts are empty, and not among them."""
        count, stride = len(self), self.packing.form.size
        return {
            name: take_numbers(self.raw, start, stride, code, count)
            for name, start, code in self.packing.numbers
        }

    def __len__(self) -> int:
        return len(self.raw) // self.packing.form.size

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> T | list[T]:
        positions = range(0, len(self.raw), self.packing.form.size)[index]
        if isinstance(positions, range):
            return [self.packing.element(position, self.raw) for position in positions]
        element: T = self.packing.element(positions, self.raw)
        return element

    def __iter__(self) -> Iterator[T]:
        return (self.packing.element(at, self.raw) for at in range(0, len(self.raw), self.packing.form.size))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | PackedArray):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # A list has none either.

    def __repr__(self) -> str:
        return repr(list(self))


def as_packed(items: Sequence[T]) -> PackedArray[T] | None:
    """Return `items` if it is a PackedArray, else None: a message's field of that kind may be a list as well."""
    array: object = items
    return array if isinstance(array, PackedArray) else None
