"""Columns of numbers, texts and bytes, one after the other: a whole array is written or read in one step.

Numbers are little-endian. A column says how long it is, and nothing else: who reads it knows what was written. A
checksum over all of it is the caller's business.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from struct import Struct
from typing import Any, Final

from protocol.errors import DecodeError

Buffer = bytes | bytearray | memoryview

COUNT: Final = Struct("<Q")
NONE_LENGTH: Final = -1
IS_SWAPPED: Final = sys.byteorder == "big"


class ColumnWriter:
    """Gathers columns; `parts` has their bytes in order."""

    def __init__(self) -> None:
        self.parts: list[Buffer] = []

    def raw(self, parts: Sequence[Buffer]) -> None:
        """Add the parts as one column of bytes."""
        self.parts.append(COUNT.pack(sum(map(len, parts))))
        self.parts += parts

    def numbers(self, typecode: str, values: Iterable[int]) -> None:
        """Add numbers of `array`'s `typecode`, "i" or "q"."""
        self.raw([number_bytes(array(typecode, values))])

    def blobs(self, values: Sequence[Buffer | None]) -> None:
        """Add byte strings, of which any may be None."""
        self.numbers("i", (NONE_LENGTH if value is None else len(value) for value in values))
        self.raw([b"".join(value for value in values if value is not None)])

    def texts(self, values: Iterable[str | None]) -> None:
        """Add texts, of which any may be None."""
        self.blobs([None if value is None else value.encode("utf-8", "surrogatepass") for value in values])


class ColumnReader:
    """Reads the columns of a `ColumnWriter`, in their order. Methods raise DecodeError where `data` ends early."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def raw(self) -> memoryview:
        """Return the next column's bytes, not copied."""
        start = self._at + COUNT.size
        if start > len(self._data):
            raise DecodeError("a column is missing")
        end = start + COUNT.unpack_from(self._data, self._at)[0]
        if end > len(self._data):
            raise DecodeError(f"a column ends at {end}, there are {len(self._data)} bytes")
        self._at = end
        return self._data[start:end]

    def numbers(self, typecode: str) -> array[int]:
        """Return a column of numbers."""
        return numbers_of(typecode, self.raw())

    def blobs(self) -> list[bytes | None]:
        """Return a column of byte strings."""
        lengths, data = self.numbers("i"), self.raw().tobytes()
        ends = [0, *accumulate(max(length, 0) for length in lengths)]
        if ends[-1] != len(data):
            raise DecodeError(f"{ends[-1]} bytes are named, there are {len(data)}")
        return [
            None if length == NONE_LENGTH else data[start:end]
            for length, (start, end) in zip(lengths, pairwise(ends), strict=True)
        ]

    def texts(self) -> list[Any]:
        """Return a column of texts, each a str or None as it was written."""
        return [None if value is None else value.decode("utf-8", "surrogatepass") for value in self.blobs()]

    def check_end(self) -> None:
        """Raise DecodeError if anything follows."""
        if self._at != len(self._data):
            raise DecodeError(f"{len(self._data) - self._at} bytes follow the last column")


def number_bytes(column: array[int]) -> bytes:
    """Return the bytes of a column of numbers."""
    if IS_SWAPPED:
        column = column[:]
        column.byteswap()
    return column.tobytes()


def numbers_of(typecode: str, data: memoryview) -> array[int]:
    """Return the numbers in `data`. Raises DecodeError for a broken one."""
    column = array(typecode)
    if len(data) % column.itemsize:
        raise DecodeError(f"{len(data)} bytes hold no numbers of {column.itemsize}")
    column.frombytes(data)
    if IS_SWAPPED:
        column.byteswap()
    return column
