"""The two sparse indexes of a segment, in memory and in Kafka's file formats.

`.index` has 8-byte entries (relative offset, position), `.timeindex` 12-byte entries (timestamp, relative
offset), all big-endian. An entry of the first says: the batch at this position ends with this offset. An
entry of the second says: up to this offset no timestamp is larger than this one. Kafka keeps them in
memory-mapped files that it allocates ahead and trims; ours live in arrays and their files grow by what was
added, so a reader never meets a page that the disk cannot deliver. They cost 8 and at most 12 bytes for each
`index.interval.bytes` of log: about 5 MiB of memory for a GiB that is being read.

An index is never trusted over the log: whatever does not look right is refused here and built again from the
batches by the segment. One thread adds while others look up: the array that is searched grows last.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from struct import Struct
from typing import Final

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")
NO_TIMESTAMP: Final = -1
MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class CorruptIndex(ValueError):
    """An index file that cannot be what was written; it is built again."""


def _big_endian(values: array[int]) -> array[int]:
    """`values` with their bytes turned where this machine is little-endian."""
    if sys.byteorder == "little":
        values.byteswap()
    return values


class OffsetIndex:
    """A sparse map from offsets to bytes of the log: where to begin looking for an offset."""

    __slots__ = ("_base_offset", "_offsets", "_positions")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._offsets = array("i")  # Relative to the base offset, rising.
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, last_offset: int, position: int) -> None:
        """Add an entry: the batch at `position` ends with `last_offset`."""
        self._positions.append(position)
        self._offsets.append(last_offset - self._base_offset)

    def floor(self, offset: int) -> tuple[int, int | None]:
        """Position of the last indexed batch that ends at or before `offset`, and the offset it ends with.

        (0, None) when there is none: begin at the first batch.
        """
        slot = bisect_right(self._offsets, min(offset - self._base_offset, MAX_RELATIVE_OFFSET)) - 1
        if slot < 0:
            return 0, None
        return self._positions[slot], self._offsets[slot] + self._base_offset

    def floor_position(self, position: int) -> int:
        """Position of the last indexed batch that begins at or before `position`; 0 when there is none."""
        slot = bisect_right(self._positions, position) - 1
        return self._positions[slot] if slot >= 0 else 0

    def last(self) -> tuple[int, int] | None:
        """The newest entry, position and last offset; None when empty."""
        if not self._offsets:
            return None
        return self._positions[-1], self._offsets[-1] + self._base_offset

    def forget_from(self, offset: int) -> None:
        """Keep only the entries of batches that end before `offset`."""
        kept = bisect_left(self._offsets, min(offset - self._base_offset, MAX_RELATIVE_OFFSET))
        del self._offsets[kept:], self._positions[kept:]

    def encode(self, first: int = 0) -> bytes:
        """The file's bytes from entry `first` on."""
        pairs = zip(self._offsets[first:], self._positions[first:], strict=True)
        return b"".join(OFFSET_ENTRY.pack(offset, position) for offset, position in pairs)

    @classmethod
    def decode(cls, base_offset: int, data: bytes, log_size_bytes: int) -> OffsetIndex:
        """Read a file's bytes; CorruptIndex unless offsets and positions rise and stay inside the log."""
        if len(data) % OFFSET_ENTRY.size:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
        numbers = _big_endian(array("i", data))
        index = cls(base_offset)
        index._offsets, index._positions = numbers[0::2], numbers[1::2]
        if not _rises(index._offsets, 0) or not _rises(index._positions, 0):
            raise CorruptIndex("entries do not rise")
        if index._positions and index._positions[-1] >= log_size_bytes:
            raise CorruptIndex(f"points to byte {index._positions[-1]} of {log_size_bytes}")
        return index


class TimeIndex:
    """A sparse map from timestamps to offsets: up to an entry's offset, no timestamp is above the entry's."""

    __slots__ = ("_base_offset", "_offsets", "_timestamps")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")  # Rising.
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._timestamps)

    def maybe_add(self, timestamp_ms: int, offset: int) -> None:
        """Note that `timestamp_ms`, first met in the batch that ends at `offset`, is the largest so far.

        Nothing is added unless it is larger than the newest entry's.
        """
        if timestamp_ms > (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            self._offsets.append(offset - self._base_offset)
            self._timestamps.append(timestamp_ms)

    def floor(self, timestamp_ms: int) -> tuple[int, int]:
        """The newest entry that is not above `timestamp_ms`: its timestamp and offset; (-1, base) if none.

        Nothing before that offset has a timestamp of at least `timestamp_ms`. It ends the first batch that
        has the entry's timestamp.
        """
        slot = bisect_right(self._timestamps, timestamp_ms) - 1
        if slot < 0:
            return NO_TIMESTAMP, self._base_offset
        return self._timestamps[slot], self._base_offset + self._offsets[slot]

    def last(self) -> tuple[int, int]:
        """The newest entry: timestamp and offset; (-1, base offset) when empty."""
        if not self._timestamps:
            return NO_TIMESTAMP, self._base_offset
        return self._timestamps[-1], self._offsets[-1] + self._base_offset

    def forget_from(self, offset: int) -> None:
        """Keep only the entries of batches that end before `offset`."""
        kept = bisect_left(self._offsets, min(offset - self._base_offset, MAX_RELATIVE_OFFSET))
        del self._offsets[kept:], self._timestamps[kept:]

    def encode(self, first: int = 0) -> bytes:
        """The file's bytes from entry `first` on."""
        pairs = zip(self._timestamps[first:], self._offsets[first:], strict=True)
        return b"".join(TIME_ENTRY.pack(timestamp, offset) for timestamp, offset in pairs)

    @classmethod
    def decode(cls, base_offset: int, data: bytes) -> TimeIndex:
        """Read a file's bytes; CorruptIndex unless timestamps rise and offsets do not fall."""
        if len(data) % TIME_ENTRY.size:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
        index = cls(base_offset)
        for timestamp, offset in TIME_ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
        if not _rises(index._timestamps, 0) or not _rises(index._offsets, 0):
            raise CorruptIndex("entries do not rise")
        return index


def _rises(values: array[int], least: int) -> bool:
    """Whether `values` begin at `least` or above and each is larger than the one before."""
    return not values or (values[0] >= least and all(a < b for a, b in pairwise(values)))
