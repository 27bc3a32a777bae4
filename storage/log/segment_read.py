"""Reading a segment: find an offset or a time, and cut out whole batches.

A look-up asks the sparse index for a place at or before what is sought and walks headers from there, about
one `index.interval.bytes` on average; the batches themselves are then one read. `Read` is how bytes are
fetched: `File.read_at`, or `nowait` on the event loop, which gives up (`WouldBlock`) rather than wait for the
disk. Only published bytes are looked at, so nothing here takes a lock.

An index that points to the wrong batch is noticed by the offset it promised: `WrongIndex` asks the owner of
the segment to build it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import TypeVar

from protocol.records.batch import NO_TIMESTAMP, Batch, CorruptBatch
from protocol.records.records import Record, read_records
from storage.files import Chunk, CorruptSegment, File
from storage.log.batch_walk import Read, walk_checked, walk_headers, walk_spans
from storage.log.file_range import FileRange
from storage.log.segment import Segment

T = TypeVar("T")


class WouldBlock(Exception):
    """A read that must not wait would have to wait for the disk. No failure: a thread repeats the read."""


class WrongIndex(Exception):
    """An index entry of `segment` does not lead to the batch it names: build it again and repeat."""

    def __init__(self, segment: Segment) -> None:
        super().__init__(str(segment.path))
        self.segment = segment


def repairing(disk: Lock, operation: Callable[[], T]) -> T:
    """Return the result of `operation`; after a WrongIndex, rebuild that index under the disk lock and repeat."""
    while True:
        try:
            return operation()
        except WrongIndex as wrong:
            with disk:
                wrong.segment.build_indexes()


def nowait(file: File) -> Read:
    """Return a `Read` of `file` that raises WouldBlock where it would have to wait for the disk."""

    def read(length: int, position: int) -> Chunk:
        data = file.read_at_nowait(length, position)
        if data is None:
            raise WouldBlock
        return data

    return read


def find_batches(
    segment: Segment, offset: int, max_bytes: int, at_least_one: bool, up_to: int, may_wait: bool
) -> FileRange | None:
    """Return the range of whole batches from the one that holds `offset`, below `up_to`, within `max_bytes`.

    With `at_least_one` the first batch is included even if it is larger. None if all batches of the segment end
    before `offset`: compaction took the rest, look in the next segment. Raises WouldBlock, unless it may wait.
    """
    if not (may_wait or segment.is_warm):
        raise WouldBlock
    file = segment.file
    read = file.read_at if may_wait else nowait(file)
    limit = segment.size_bytes
    start = seek(segment, offset, limit, read)
    if start == limit:
        return None
    end = limit if up_to >= segment.next_offset else seek(segment, up_to, limit, read)
    if end - start > max_bytes:
        end = boundary_below(segment, start, end, max_bytes, at_least_one, read)
    return FileRange(file, start, max(end - start, 0))


def end_offset_of(found: FileRange, may_wait: bool) -> int:
    """Return the offset after the last batch of the range `found`. Raises WouldBlock, unless it may wait."""
    read = found.file.read_at if may_wait else nowait(found.file)
    end_offset = 0
    for _, _, last_offset in walk_spans(found.file.path, read, found.position, found.position + found.length):
        end_offset = last_offset + 1
    return end_offset


def seek(segment: Segment, offset: int, limit: int, read: Read) -> int:
    """Return the byte of the first batch that ends at or after `offset`, else `limit`. Raises WrongIndex."""
    position, promised = segment.indexes.offsets.floor(offset)
    try:
        for begin, _, last_offset in walk_spans(segment.path, read, position, limit):
            if promised is not None and last_offset != promised:
                raise WrongIndex(segment)
            if last_offset >= offset:
                return begin
            promised = None
    except CorruptSegment as error:
        if promised is not None:
            raise WrongIndex(segment) from error
        raise
    return limit


def first_position(segment: Segment, offset: int) -> int:
    """Return the file position of the first batch that ends at or after `offset`, else the segment's size.

    Blocks on the disk. Raises CorruptSegment, or WrongIndex if the offset index is to blame.
    """
    return seek(segment, offset, segment.size_bytes, segment.file.read_at)


def boundary_below(
    segment: Segment, start: int, end: int, max_bytes: int, at_least_one: bool, read: Read
) -> int:
    """Return the byte where the last batch of [start, end) ends that fits into `max_bytes` from `start` on."""
    target = start + max_bytes
    boundary = max(segment.indexes.offsets.floor_position(target), start)
    for begin, boundary_after, _ in walk_spans(segment.path, read, boundary, end):
        if boundary_after > target and not (at_least_one and begin == start):
            break
        boundary = boundary_after
    return boundary


def walk_headers_from(segment: Segment, offset: int) -> Iterator[Batch]:
    """Yield batch headers from the one that holds `offset` on; their `position` is the byte in the file."""
    start = first_position(segment, offset)
    return walk_headers(segment.path, segment.file.read_at, start, segment.size_bytes)


def first_record_at(
    segment: Segment, timestamp_ms: int, start_offset: int, up_to: int
) -> tuple[int, int] | None:
    """Return offset and timestamp of the first record at or after `timestamp_ms`, in [start_offset, up_to).


    Raises WrongIndex.
    """
    promised_ms, promised = segment.indexes.times.floor(timestamp_ms)
    is_promised = promised_ms >= 0 and promised >= start_offset
    for batch in walk_headers_from(segment, max(promised, start_offset)):
        if is_promised and (batch.max_timestamp_ms, batch.last_offset) != (promised_ms, promised):
            raise WrongIndex(segment)
        is_promised = False
        if batch.base_offset >= up_to:
            break
        if batch.max_timestamp_ms >= timestamp_ms:
            for record in records_of(segment, batch):
                if record.timestamp_ms >= timestamp_ms and start_offset <= record.offset < up_to:
                    return record.offset, record.timestamp_ms
    return None


def first_record_of(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, up_to: int
) -> tuple[int, int] | None:
    """Return `first_record_at` of the first segment that has such a record; None if no segment has."""
    for segment in segments:
        if segment.max_timestamp()[0] >= timestamp_ms:
            found = first_record_at(segment, timestamp_ms, start_offset, up_to)
            if found is not None:
                return found
    return None


def newest_record_of(segments: Sequence[Segment]) -> tuple[int, int] | None:
    """Offset and timestamp of the first record that has the largest timestamp of all. Raises WrongIndex."""
    newest: tuple[int, int] | None = None
    for segment in segments:
        # Compaction may have taken the very record, so a segment is only believed once it was looked at.
        if segment.max_timestamp()[0] > (newest[1] if newest else NO_TIMESTAMP):
            found = newest_record(segment)
            if found is not None and (newest is None or found[1] > newest[1]):
                newest = found
    return newest


def newest_record(segment: Segment) -> tuple[int, int] | None:
    """Offset and timestamp of the first record that has the largest timestamp of the segment's records."""
    timestamp_ms, last_offset = segment.max_timestamp()
    for batch in walk_headers_from(segment, last_offset):
        if batch.max_timestamp_ms == timestamp_ms and batch.record_count:
            return first_record_with(segment, batch, timestamp_ms)
    return newest_of_the_rest(segment)


def newest_of_the_rest(segment: Segment) -> tuple[int, int] | None:
    """Like `newest_record`, where compaction has left only the header of the batch with the largest timestamp."""
    newest: Batch | None = None
    for batch in walk_headers(segment.path, segment.file.read_at, 0, segment.size_bytes):
        if batch.record_count and (newest is None or batch.max_timestamp_ms > newest.max_timestamp_ms):
            newest = batch
    return first_record_with(segment, newest, newest.max_timestamp_ms) if newest is not None else None


def first_record_with(segment: Segment, batch: Batch, timestamp_ms: int) -> tuple[int, int] | None:
    for record in records_of(segment, batch):
        if record.timestamp_ms == timestamp_ms:
            return record.offset, timestamp_ms
    return None


def checked_batches(segment: Segment, position: int, window_bytes: int) -> Iterator[tuple[Batch, memoryview]]:
    """Yield the batches from the one at byte `position` to the end, CRC checked; raises CorruptSegment."""
    limit, end_offset = segment.size_bytes, segment.next_offset
    walk = walk_checked(
        segment.file, position, limit, min_offset=segment.base_offset, window_bytes=window_bytes
    )
    for found in walk:
        if found.batch.last_offset >= end_offset:
            break
        yield found.batch, found.data
        position = found.end
    if position < limit:
        raise CorruptSegment(segment.path, position, "a batch that does not check")


def records_of(segment: Segment, batch: Batch) -> Sequence[Record]:
    """Read the records of a batch that a header walk found; sets its `position` to 0. Raises CorruptSegment."""
    data = segment.file.read_at(batch.size_bytes, batch.position)
    position, batch.position = batch.position, 0
    try:
        return read_records(data, batch)
    except CorruptBatch as error:
        raise CorruptSegment(segment.path, position, str(error)) from error
