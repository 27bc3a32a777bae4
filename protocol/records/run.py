"""Records that differ only in numbers of a fixed size, encoded all at once.

The commits of one group and topic have keys that differ in the partition, and values that differ in offset and
epoch. Beside `records.encode_records`, which takes a tuple and a join for each record, a run takes a copy for each
byte of a number, of all records at once (`codec/packed_numbers.py`): a twentieth of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from struct import calcsize
from typing import Final, Protocol

from protocol.codec.packed_numbers import Column, column, interleave
from protocol.records.varint import VARINTS

NO_ATTRIBUTES: Final = b"\0"  # Kafka defines no attributes of records so far.
NO_HEADERS: Final = VARINTS[0]
TABLED_SIZE: Final = 2  # Of offset deltas, in bytes; of a larger size there are too many to keep.


class Run(Protocol):
    """Records one behind the other that encode themselves; they have one timestamp, and no headers."""

    @property
    def count(self) -> int:
        """Number of records."""

    @property
    def size_bytes(self) -> int:
        """Length of all keys and values together."""

    @property
    def timestamp_ms(self) -> int:
        """The time of day of each of them."""

    def encode(self, first_delta: int, base_ms: int) -> bytes:
        """Return the encoded records for a batch with base `base_ms`; offset deltas from `first_delta` on."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The keys, or the values, of a run: each is `head`, one number of each column, and `tail`."""

    head: bytes
    codes: str  # The types of the numbers, as `struct` names them; big-endian.
    numbers: tuple[Sequence[int], ...]
    tail: bytes = b""

    @property
    def size_bytes(self) -> int:
        """Length of one element: each has this many bytes."""
        return len(self.head) + calcsize(">" + self.codes) + len(self.tail)


@dataclass(frozen=True, slots=True)
class RecordRun:
    """`count` records, one behind the other, with one timestamp and no headers."""

    keys: Columns
    values: Columns
    count: int
    timestamp_ms: int

    @property
    def size_bytes(self) -> int:
        """Length of all keys and values together."""
        return self.count * (self.keys.size_bytes + self.values.size_bytes)

    def encode(self, first_delta: int, base_ms: int) -> bytes:
        """Return the encoded records for a batch with base `base_ms`; offset deltas from `first_delta` on."""
        parts = [
            self._encode(range(start, stop), first_delta, base_ms)
            for start, stop in self._equal_size_ranges(first_delta)
        ]
        return b"".join(parts)

    def _equal_size_ranges(self, first_delta: int) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of runs of records whose offset deltas, and so the records, have equal sizes."""
        start = 0
        while start < self.count:
            limit = 1 << 7 * len(VARINTS[first_delta + start]) - 1  # The first delta with a byte more.
            stop = min(self.count, limit - first_delta)
            yield start, stop
            start = stop

    def _encode(self, rows: range, first_delta: int, base_ms: int) -> bytearray:
        deltas = delta_column(range(first_delta + rows.start, first_delta + rows.stop))
        keys, values = self.keys, self.values
        before_key = VARINTS[keys.size_bytes] + keys.head
        between = keys.tail + VARINTS[values.size_bytes] + values.head
        behind = values.tail + NO_HEADERS
        before = NO_ATTRIBUTES + VARINTS[self.timestamp_ms - base_ms]
        body_bytes = len(before) + deltas[0] + len(before_key) + calcsize(">" + keys.codes)
        body_bytes += len(between) + calcsize(">" + values.codes) + len(behind)
        before = VARINTS[body_bytes] + before
        cut = slice(rows.start, rows.stop)
        key_columns, value_columns = (
            [column(code, each[cut]) for code, each in zip(part.codes, part.numbers, strict=True)]
            for part in (keys, values)
        )
        return interleave(
            len(rows), before, deltas, before_key, *key_columns, between, *value_columns, behind
        )


def delta_column(deltas: range) -> Column:
    """Return the varints of offset deltas, which are of one size."""
    size = len(VARINTS[deltas[0]])
    if size > TABLED_SIZE:
        return size, b"".join([VARINTS[delta] for delta in deltas])
    first, encoded = _table(size)
    return size, encoded[(deltas.start - first) * size : (deltas.stop - first) * size]


@cache
def _table(size: int) -> tuple[int, bytes]:
    """Return the first delta whose varint has `size` bytes, and the varints of all that have."""
    first = 0 if size == 1 else 1 << 7 * (size - 1) - 1
    return first, b"".join([VARINTS[delta] for delta in range(first, 1 << 7 * size - 1)])
