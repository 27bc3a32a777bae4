"""Offset commits as record batches, many at once: the bytes that `encode_batch` would make.

Of a commit's record only the lengths, the two deltas, the offset and the time are new: the rest is copied from a
template per lane. All of it is array arithmetic; Python's own loop runs once per batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.effects import CoordinatorRecord
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import OffsetCommitKey, OffsetCommitValue
from protocol.records.batch import (
    BATCH_OVERHEAD,
    CRC,
    CRC_POSITION,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    checksum,
)
from protocol.records.varint import VARINTS
from tools.simulate.population import Ints

Bytes = NDArray[np.uint8]

RECORDS_PER_BATCH_MAX: Final = 256
CHUNK_RECORDS: Final = 4_096  # Records built at a time, about: the arrays then fit a core's caches.
ONE_BYTE: Final = 64  # A zigzag varint below it has one byte; up to the next bound it has two.
TWO_BYTES: Final = 1 << 13
_OFFSET_MARK: Final = 0x0123456789ABCDEF
_TIME_MARK: Final = 0x0FEDCBA987654321
_EIGHT: Final = np.arange(8)


class CommitKey(NamedTuple):
    """The fields of the record key that all commits of a lane have."""

    group_id: str
    topic: str
    partition: int
    topic_id: bytes


class Batch(NamedTuple):
    """One whole batch, whose base offset is not set yet."""

    partition: int  # Of `__consumer_offsets`.
    max_timestamp_ms: int
    data: memoryview
    records: int


@dataclass(frozen=True, slots=True)
class Templates:
    """For each lane, the part of its record from the key's length on. All are in one pool of bytes."""

    pool: Bytes
    starts: Ints
    sizes: Ints
    offset_at: Ints  # Within the template.
    time_at: Ints


def new_templates(keys: Sequence[CommitKey]) -> Templates:
    """A template for each key; offset and time are found in the bytes that the coordinator's encoder makes."""
    tails = [_tail(key) for key in keys]
    sizes = np.array([len(tail) for tail in tails], np.int64)
    return Templates(
        pool=np.frombuffer(b"".join(tails), np.uint8),
        starts=np.cumsum(sizes) - sizes,
        sizes=sizes,
        offset_at=np.array([tail.index(_OFFSET_MARK.to_bytes(8, "big")) for tail in tails], np.int64),
        time_at=np.array([tail.index(_TIME_MARK.to_bytes(8, "big")) for tail in tails], np.int64),
    )


def _tail(key: CommitKey) -> bytes:
    value = OffsetCommitValue(
        offset=_OFFSET_MARK,
        leader_epoch=0,
        metadata="",
        commit_timestamp=_TIME_MARK,
        topic_id=key.topic_id,
    )
    record = CoordinatorRecord(
        OffsetCommitKey(group=key.group_id, topic=key.topic, partition=key.partition), value
    )
    encoded_key, encoded_value = encode_record(record)
    assert encoded_value is not None
    no_headers = VARINTS[0]
    return b"".join(
        (VARINTS[len(encoded_key)], encoded_key, VARINTS[len(encoded_value)], encoded_value, no_headers)
    )


def encode_commits(
    templates: Templates, partitions: Ints, lanes: Ints, times_ms: Ints, offsets: Ints, turn_ms: int
) -> Iterator[Batch]:
    """Batches of the commits, by partition, then by time; a partition's commits within a turn share a batch.

    `partitions` are those of `__consumer_offsets`, one entry per commit as in all arrays.
    """
    if not len(lanes):
        return
    assert turn_ms < TWO_BYTES, "a delta of time has two bytes at most"
    order = np.lexsort((lanes, times_ms, partitions))
    partitions, lanes, times_ms, offsets = (
        partitions[order], lanes[order], times_ms[order], offsets[order]
    )  # fmt: skip
    firsts = _first_of_batches(partitions, times_ms // turn_ms)
    cuts = np.unique(firsts[np.searchsorted(firsts, np.arange(0, len(lanes), CHUNK_RECORDS), "right") - 1])
    for begin, end in pairwise([*cuts.tolist(), len(lanes)]):
        first, last = np.searchsorted(firsts, [begin, end])
        chunk = slice(begin, end)
        columns = (partitions[chunk], lanes[chunk], times_ms[chunk], offsets[chunk])
        yield from _encode_batches(templates, *columns, firsts[first:last] - begin)


def _encode_batches(
    templates: Templates, partitions: Ints, lanes: Ints, times_ms: Ints, offsets: Ints, firsts: Ints
) -> Iterator[Batch]:
    """Yield whole batches; `firsts` has the index of each batch's first record."""
    counts = np.diff(np.append(firsts, len(lanes)))
    places = _places(templates, lanes, times_ms, firsts, counts)
    out = _payload(templates, lanes, times_ms, offsets, places)
    view = memoryview(out.data)
    ends = np.append(places.begins[firsts[1:]] - BATCH_OVERHEAD, len(out)).tolist()
    begin = 0
    lasts = firsts + counts - 1
    columns = (partitions[firsts], times_ms[firsts], times_ms[lasts], counts)
    for end, partition, base_ms, max_ms, count in zip(ends, *(c.tolist() for c in columns), strict=True):
        batch = view[begin:end]
        _write_header(batch, base_ms, max_ms, count)
        yield Batch(partition, max_ms, batch, count)
        begin = end


def _first_of_batches(partitions: Ints, turns: Ints) -> Ints:
    """Indexes of records that begin a batch: at a change of partition or turn, and when a batch is full."""
    is_first = np.ones(len(partitions), bool)
    is_first[1:] = (partitions[1:] != partitions[:-1]) | (turns[1:] != turns[:-1])
    firsts = np.flatnonzero(is_first)
    within = np.arange(len(partitions)) - np.repeat(firsts, np.diff(np.append(firsts, len(partitions))))
    return np.flatnonzero(within % RECORDS_PER_BATCH_MAX == 0)


@dataclass(frozen=True, slots=True)
class _Places:
    """For each record its position in the payload, and the varints that come before its template."""

    begins: Ints
    bodies: Ints  # The record's length field.
    time_deltas: Ints
    offset_deltas: Ints
    total: int


def _places(templates: Templates, lanes: Ints, times_ms: Ints, firsts: Ints, counts: Ints) -> _Places:
    first = np.repeat(firsts, counts)
    time_deltas = times_ms - times_ms[first]
    offset_deltas = np.arange(len(lanes)) - first
    bodies = 1 + _width(time_deltas) + _width(offset_deltas) + templates.sizes[lanes]
    sizes = _width(bodies) + bodies
    headers = BATCH_OVERHEAD * (1 + np.repeat(np.arange(len(firsts)), counts))
    ends = np.cumsum(sizes)
    total = int(ends[-1]) + BATCH_OVERHEAD * len(firsts)
    return _Places(ends - sizes + headers, bodies, time_deltas, offset_deltas, total)


def _payload(templates: Templates, lanes: Ints, times_ms: Ints, offsets: Ints, places: _Places) -> Bytes:
    out = np.zeros(places.total, np.uint8)
    at = _put_varints(out, places.begins, places.bodies) + 1  # Attributes, which are 0.
    at = _put_varints(out, at, places.time_deltas)
    at = _put_varints(out, at, places.offset_deltas)
    sizes = templates.sizes[lanes]
    ends = np.cumsum(sizes)
    before = ends - sizes
    steps = np.arange(int(ends[-1]))
    sources = np.repeat(templates.starts[lanes] - before, sizes) + steps
    steps += np.repeat(at - before, sizes)
    out[steps] = templates.pool[sources]
    _put_longs(out, at + templates.offset_at[lanes], offsets)
    _put_longs(out, at + templates.time_at[lanes], times_ms)
    return out


def _width(numbers: Ints) -> Ints:
    """The size in bytes of each number as a zigzag varint; the numbers are small and not negative."""
    return np.where(numbers < ONE_BYTE, 1, 2)


def _put_varints(out: Bytes, at: Ints, numbers: Ints) -> Ints:
    """Write the numbers as varints at the positions `at`; return the position behind each."""
    assert int(numbers.max()) < TWO_BYTES
    zigzag = numbers << 1
    is_long = numbers >= ONE_BYTE
    out[at] = np.where(is_long, zigzag & 0x7F | 0x80, zigzag)
    out[at[is_long] + 1] = zigzag[is_long] >> 7
    return at + 1 + is_long


def _put_longs(out: Bytes, at: Ints, numbers: Ints) -> None:
    out[at[:, None] + _EIGHT] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def _write_header(batch: memoryview, base_ms: int, max_ms: int, count: int) -> None:
    HEADER.pack_into(batch, 0, 0, len(batch) - LOG_OVERHEAD, 0, MAGIC, 0, 0, count - 1,
                     base_ms, max_ms, NO_PRODUCER_ID, -1, NO_SEQUENCE, count)  # fmt: skip
    CRC.pack_into(batch, CRC_POSITION, checksum(batch))
