"""Reading one log, on any thread: whole batches by offset and by time, as far as they are durable.

Readers hold nothing: the segments are a tuple that is replaced, never changed, a segment shows only what is
durable, and a deleted one stays readable until its last reader is done. A wrong index is built again under the
log's disk lock. Knows neither appends nor flushes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Lock

from protocol.records.batch import Batch
from storage.files import Chunk
from storage.log.batch_walk import WINDOW_BYTES
from storage.log.file_range import FileRange
from storage.log.lifecycle import Lifecycle
from storage.log.segment import Segment
from storage.log.segment_read import (
    WouldBlock,
    WrongIndex,
    checked_batches,
    find_batches,
    first_position,
    first_record_of,
    newest_record_of,
    repairing,
)
from storage.log.writer import LogWriter


class OffsetOutOfRange(LookupError):
    """An offset below the log's start or beyond its end."""


class LogReader:
    """The reading half of a log; `PartitionLog` adds what changes it."""

    def __init__(self, directory: Path, writer: LogWriter) -> None:
        self.directory = directory
        self.log_start_offset = 0
        self.next_offset = 0  # The offset of the next appended batch: counts what is staged.
        self.life = Lifecycle(directory)
        self._writer = writer
        self._disk = Lock()

    @property
    def durable_offset(self) -> int:
        """The offset below which records may be acknowledged."""
        return self._writer.durable_offset

    @property
    def written_offset(self) -> int:
        """The offset below which records are in the segments, and so may be read."""
        return self._writer.durable_offset

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first; the last is the active one, which is written to."""
        return self._writer.segments

    @property
    def size_bytes(self) -> int:
        """The size in bytes of what all segments show to readers."""
        return sum(segment.size_bytes for segment in self.segments)

    def await_written(self) -> None:
        """Have records in the segments soon after they count, until `end_wait` is called as often as this.

        So they are always, but for a `StagedLog`. Event loop.
        """

    def end_wait(self) -> None:
        """End what `await_written` began. Event loop."""

    # Any thread.

    def find_nowait(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, up_to: int | None = None
    ) -> FileRange | None:
        """`find` without waiting for the disk. Raises WouldBlock where it would have to."""
        try:
            return self._find(offset, max_bytes, at_least_one, up_to, wait=False)
        except WrongIndex:
            raise WouldBlock from None

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, up_to: int | None = None
    ) -> Chunk:
        """Read the bytes of the range that `find` returns; none at the end of the log. Blocks."""
        found = self.find(offset, max_bytes, at_least_one=at_least_one, up_to=up_to)
        return found.whole() if found else b""

    def find(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, up_to: int | None = None
    ) -> FileRange | None:
        """Return the range of whole batches from the one that holds `offset` to `up_to` or the durable offset.

        At most `max_bytes`, but with `at_least_one` never less than one batch. The range ends with its segment
        at the latest. None at the end of the log. Blocks. Raises OffsetOutOfRange.
        """
        return repairing(self._disk, lambda: self._find(offset, max_bytes, at_least_one, up_to, wait=True))

    def _find(
        self, offset: int, max_bytes: int, at_least_one: bool, up_to: int | None, wait: bool
    ) -> FileRange | None:
        self.life.refuse_unless_opened()
        written = self.written_offset
        end = written if up_to is None else min(up_to, written)
        segments = self.segments_from(offset)  # Before the check: the start moves before segments go.
        if not self.log_start_offset <= offset <= self.next_offset:
            raise OffsetOutOfRange(f"{self.directory.name}: {offset}")
        for segment in segments if offset < end else ():
            found = find_batches(segment, offset, max_bytes, at_least_one, end, wait)
            if found is not None:
                return found
        return None

    def segments_from(self, offset: int) -> tuple[Segment, ...]:
        """The segments from the one that holds `offset` on."""
        segments = self.segments
        first = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
        return segments[max(first, 0) :]

    def batches(
        self, start_offset: int, window_bytes: int = WINDOW_BYTES
    ) -> Iterator[tuple[Batch, memoryview]]:
        """Yield every durable batch from the one that holds `start_offset` on, CRC checked, for replay.

        The disk is asked for `window_bytes` at a time, or for one batch if that is larger.

        The memory view holds only the batch, so `batch.position` is 0 in it. Blocks. Raises CorruptSegment,
        which names file and byte, at the first batch that is not valid.
        """
        self.life.refuse_unless_opened()
        end = self.written_offset
        for segment in self.segments_from(start_offset):
            start = repairing(self._disk, partial(first_position, segment, start_offset))
            for batch, data in checked_batches(segment, start, window_bytes):
                if batch.base_offset >= end:
                    return
                yield batch, data

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record whose timestamp is at least `timestamp_ms`. Blocks."""
        self.life.refuse_unless_opened()
        start, end = self.log_start_offset, self.written_offset
        return repairing(self._disk, lambda: first_record_of(self.segments, timestamp_ms, start, end))

    def max_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the first record that has the largest timestamp of all. Blocks."""
        self.life.refuse_unless_opened()
        return repairing(self._disk, lambda: newest_record_of(self.segments))
