"""Reads fields of fixed size and pieces of text out of many byte strings at once, from an Arrow column's buffers.

A `Cells` is a binary column as one array of bytes with the begin and the end of each cell. Fields are gathered
by their positions; the caller has made sure that they lie within their cells. Nothing is read outside of the
array: numpy checks every index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

INT8: Final = np.dtype(np.uint8)
INT16: Final = np.dtype(">i2")
INT32: Final = np.dtype(">i4")
INT64: Final = np.dtype(">i8")


@dataclass(frozen=True, slots=True)
class Cells:
    """A binary column: cell i is `data[starts[i]:ends[i]]`; a null cell is empty."""

    data: np.ndarray[Any, np.dtype[np.uint8]]
    starts: Ints
    ends: Ints

    @property
    def sizes(self) -> Ints:
        return self.ends - self.starts

    def of(self, rows: Ints) -> Cells:
        """The cells of these rows, over the same bytes."""
        return Cells(self.data, self.starts[rows], self.ends[rows])

    def gather(self, positions: Ints, field: np.dtype[Any]) -> Ints:
        """The big-endian integers that begin at `positions`. Raises IndexError for one outside of `data`."""
        count = max(len(self.data) - field.itemsize + 1, 0)
        if count == 0:
            if len(positions):
                raise IndexError(f"{len(self.data)} bytes have no field of {field.itemsize}")
            return np.zeros(0, np.int64)
        # A field may begin at any byte: a view whose elements overlap.
        view: Any = np.ndarray((count,), field, self.data.data, 0, (1,))
        return np.asarray(view[positions], np.int64)

    def texts(self, starts: Ints, sizes: Ints) -> pa.Array:
        """The pieces of `data` with these starts and sizes, as a binary array."""
        ends = np.cumsum(sizes)
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        total = int(offsets[-1])
        positions = np.arange(total) + np.repeat(starts - offsets[:-1], sizes)
        chosen = self.data[positions]
        return pa.Array.from_buffers(
            pa.large_binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(chosen)]
        )


def cells(column: pa.Array) -> Cells:
    """The cells of a binary or large_binary array, which may be a slice of its buffers."""
    width = np.dtype(np.int64 if pa.types.is_large_binary(column.type) else np.int32)
    count = len(column)
    _, offsets_buffer, data_buffer = column.buffers()
    if count == 0 or offsets_buffer is None:
        empty = np.zeros(0, np.int64)
        return Cells(np.zeros(0, np.uint8), empty, empty)
    offsets = np.frombuffer(offsets_buffer, width, count + 1, column.offset * width.itemsize)
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    wide = offsets.astype(np.int64)
    starts, ends = wide[:-1], wide[1:]
    if column.null_count:
        ends = np.where(np.asarray(column.is_valid()), ends, starts)
    return Cells(data, starts, ends)
