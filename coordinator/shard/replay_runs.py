"""Runs of commit records that differ in partition and value alone, replayed all at once.

A commit of many partitions leaves such a run in the log: records of one size, whose constant parts are equal byte
for byte. `struct` takes all of them apart in one go, and each part is compared as a column; what is equal from the
first record on is the run, and nothing else is believed. A record costs half of what it does by itself; where
there is no run, a look at the next record is all that is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import add
from struct import Struct
from typing import Final, NamedTuple

from coordinator.offsets.topic_offsets import NewestOffsets
from protocol.records.run import delta_column
from protocol.records.varint import VARINTS

MIN_RUN: Final = 8
"""The fewest further records for which it is tried: fewer are as quick one by one."""
MAX_RUN: Final = 1_024
"""The most records that are taken apart at once; a longer run is several."""
END: Final = "i3s21s20s"
"""The end of a record: partition, length and version of the value, the part that goes to the row, and the rest."""
METADATA_AT: Final = 4 + 3 + 12  # Length of the metadata, behind the partition.
NO_METADATA: Final = b"\1"
pack_offset: Final = Struct(">q").pack


class FirstRecord(NamedTuple):
    """A plain commit that was replayed, as positions in its batch's records: where a run may begin."""

    start: int
    prefix: int  # Where the key's length and key begin, after the varint of the offset delta.
    tail: int  # Where the partition is.
    end: int
    delta: int  # Its offset within the batch.


def replay_run(data: bytes, first: FirstRecord, at_most: int, base_offset: int, found: NewestOffsets) -> int:
    """Put the commits that follow `first` in its run into `found`; return how many, at most `at_most`."""
    start, prefix, tail, end, delta = first
    size, delta_bytes = end - start, len(VARINTS[delta])
    last_of_size = (1 << 7 * delta_bytes - 1) - 1
    most = min(at_most, (len(data) - end) // size, last_of_size - delta, MAX_RUN)
    count = _same_prefixes(data, first, most)
    if count < MIN_RUN:
        return 0
    form = _form(prefix - delta_bytes - start, delta_bytes, tail - prefix)
    head, _, prefix_bytes, _, lead, _, rest = form.unpack_from(data, start)
    columns = zip(*form.iter_unpack(data[end : end + count * size]), strict=True)
    heads, deltas, prefixes, partitions, leads, rows, rests = columns
    metadata = data[tail + size + METADATA_AT : end + count * size : size]
    expected = delta_column(range(delta + 1, delta + 1 + count))[1]
    equal = min(
        _equal(heads, head),
        count if b"".join(deltas) == expected else _equal_deltas(deltas, expected),
        _equal(prefixes, prefix_bytes),
        _equal(leads, lead),
        count - len(metadata.lstrip(NO_METADATA)),
        _equal(rests, rest),
    )
    log_offsets = range(base_offset + delta + 1, base_offset + delta + 1 + equal)
    stored = map(add, rows[:equal], map(pack_offset, log_offsets))
    found.newest.update(zip(partitions[:equal], stored, strict=True))
    return equal


@lru_cache(256)
def _form(head: int, delta: int, prefix: int) -> Struct:
    """Return the parts of a record: what is before the delta, the delta, the key up to the partition, the end."""
    return Struct(f">{head}s{delta}s{prefix}s{END}")


def _equal(column: Sequence[bytes], value: bytes) -> int:
    """Return how many of a column are `value`, from the first on."""
    if column.count(value) == len(column):
        return len(column)
    return next(number for number, each in enumerate(column) if each != value)


def _equal_deltas(deltas: Sequence[bytes], expected: bytes | bytearray) -> int:
    size = len(deltas[0])
    cut = [expected[at : at + size] for at in range(0, len(expected), size)]
    return next(number for number, (one, other) in enumerate(zip(deltas, cut, strict=True)) if one != other)


def _same_prefixes(data: bytes, first: FirstRecord, at_most: int) -> int:
    """Return about how many records after `first` have its prefix, if they have its size: no more than so many.

    Looks at few of them: those between may still differ.
    """
    if at_most < MIN_RUN:
        return 0
    start, at, tail, end, _ = first
    size, prefix = end - start, data[at:tail]
    low, high = 0, 1  # The record `low` has the prefix.
    while high < at_most and data[at + high * size : tail + high * size] == prefix:
        low, high = high, 2 * high
    high = min(high, at_most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if data[at + middle * size : tail + middle * size] == prefix:
            low = middle
        else:
            high = middle
    return low
