"""One cleaning of one log: find the newest record of each key, write the segments again without the others.

Runs on a thread of its own beside appends, flushes and reads, which see nothing of it until a new segment takes
the place of old ones (`PartitionLog.replace`). The dirty part is read for its keys, as many as the memory bound
allows; then all segments from the log's start up to there are filtered (`batch_filter`), neighbours joined while
they fit into `segment.bytes`. Oldest first: what a tombstone deletes is gone before the tombstone is.

Knows no thread and no clock: `pace` is called with every step and may sleep, or raise to stop the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from protocol.records.batch import MAX_TIMESTAMP, MAX_TIMESTAMP_POSITION, Batch, CorruptBatch
from protocol.records.records import payload_of
from protocol.records.spans import record_spans
from storage.cleaning.batch_filter import BatchFilter
from storage.cleaning.cleanable import Cleanable
from storage.cleaning.key_map import KeyMap
from storage.files import Buffer, CorruptSegment, Files
from storage.index.indexes import MAX_RELATIVE_OFFSET
from storage.log.config import MAX_SEGMENT_BYTES
from storage.log.partition_log import PartitionLog
from storage.log.segment import Segment, StagedBatch
from storage.log.segment_read import checked_batches, first_position
from storage.log.transaction_scan import SLICE_BYTES, Pace, TransactionScan, marker_kind, scan_transactions

WRITE_BYTES: Final = 256 << 10  # Gathered before they are written, about.


class LogChanged(Exception):
    """The log was cut, deleted or failed during a cleaning: its result is dropped, which is no failure."""


@dataclass(slots=True)
class Cleaned:
    """What a cleaning did; everything below `end_offset` is clean now."""

    end_offset: int
    bytes_before: int = 0
    bytes_after: int = 0
    keys: int = 0


class CompactionLimits(NamedTuple):
    """What bounds a cleaning, by the settings of the daemon."""

    buffer_bytes: int  # Memory for keys.
    producer_expiration_ms: (
        int  # How long a producer may be silent and yet come back (producer.id.expiration.ms).
    )


class Compaction:
    """One cleaning of `part` of a log, made for one run."""

    def __init__(
        self,
        log: PartitionLog,
        files: Files,
        part: Cleanable,
        *,
        wall_ms: int,
        limits: CompactionLimits,
        pace: Pace,
    ) -> None:
        self._log = log
        self._config = log.config
        self._files = files
        self._part = part
        self._wall_ms = wall_ms
        self._limits = limits
        self._pace = pace
        self._path, self._position = log.directory, 0  # The place of the batch being read.

    def run(self) -> Cleaned:
        """Clean what can be cleaned. Raises StorageError, LogChanged, and what `pace` raises.

        After StuckSwap the log is not to be cleaned again before it was opened again; it serves as before.
        """
        try:
            return self._run()
        except CorruptBatch as error:
            raise CorruptSegment(self._path, self._position, str(error)) from error

    def _run(self) -> Cleaned:
        segments = self._log.segments
        found = scan_transactions(segments, self._pace)
        stable_offset = found.stable_offset(self._part.end_offset)
        first = self._part.first_dirty_offset
        dirty = [each for each in segments[:-1] if first < each.next_offset <= stable_offset]
        keys = self._map_keys(dirty, found)
        cleaned = Cleaned(keys.end_offset, keys=len(keys.newest))
        if keys.end_offset > first:
            expiration_ms = self._limits.producer_expiration_ms
            kept = BatchFilter(keys, found, self._wall_ms, self._config.delete_retention_ms, expiration_ms)
            for group in self._groups([each for each in segments[:-1] if each.base_offset < keys.end_offset]):
                self._clean(group, kept, cleaned)
        return cleaned

    def _map_keys(self, dirty: Sequence[Segment], found: TransactionScan) -> KeyMap:
        first = self._part.first_dirty_offset
        keys = KeyMap(first, self._limits.buffer_bytes)
        for segment in dirty:
            position = first_position(segment, first) if first > segment.base_offset else 0
            for batch, data in self._batches(segment, position):
                if batch.last_offset < first:
                    continue
                if keys.is_full:
                    return keys
                if not batch.is_control and not found.is_aborted(batch):
                    spans = record_spans(payload_of(data, batch), batch.record_count)
                    keys.add(batch.base_offset, spans)
                keys.end_offset = batch.last_offset + 1
            keys.end_offset = segment.next_offset
        return keys

    def _batches(self, segment: Segment, position: int) -> Iterator[tuple[Batch, memoryview]]:
        """Yield the batches from byte `position` on; `_position` is the byte of the one just yielded."""
        self._path, self._position = segment.path, position
        for batch, data in checked_batches(segment, position, SLICE_BYTES):
            yield batch, data
            self._position += batch.size_bytes
            self._pace(batch.size_bytes)

    def _groups(self, segments: Sequence[Segment]) -> Iterator[list[Segment]]:
        """Yield runs of neighbouring segments that fit into one segment at their present sizes."""
        group: list[Segment] = []
        for segment in segments:
            size_bytes = sum(each.size_bytes for each in group) + segment.size_bytes
            if group and (
                size_bytes > self._config.segment_bytes
                or segment.next_offset - 1 - group[0].base_offset > MAX_RELATIVE_OFFSET
            ):
                yield group
                group = []
            group.append(segment)
        if group:
            yield group

    def _clean(self, group: Sequence[Segment], kept: BatchFilter, cleaned: Cleaned) -> None:
        draft = Segment.draft(
            self._files,
            self._log.directory,
            group[0].base_offset,
            self._config.index_interval_bytes,
            group[-1].created_ms,
        )
        is_changed = self._fill(draft, group, kept) or len(group) > 1
        draft.finish_draft(group[-1].next_offset)
        cleaned.bytes_before += sum(segment.size_bytes for segment in group)
        cleaned.bytes_after += draft.size_bytes
        if is_changed and not self._log.replace(group, draft):
            raise LogChanged

    def _fill(self, draft: Segment, group: Sequence[Segment], kept: BatchFilter) -> bool:
        """Write what stays of `group` into `draft`; return whether that differs from what was there."""
        last = next((segment for segment in reversed(group) if segment.size_bytes), None)
        gathered: list[StagedBatch] = []
        gathered_bytes, is_changed = 0, False
        for segment in group:
            for batch, data in self._batches(segment, 0):
                marker = marker_kind(segment, self._position, batch, data) if batch.is_control else None
                is_last = segment is last and self._position + batch.size_bytes == segment.size_bytes
                stays = kept.kept(batch, data, keeps_place=is_last, marker=marker)
                is_changed = is_changed or stays is not data
                if stays is not None:
                    gathered.append(_staged(stays, batch))
                    gathered_bytes += len(stays)
                if gathered_bytes >= WRITE_BYTES:
                    self._write(draft, gathered, gathered_bytes)
                    gathered, gathered_bytes = [], 0
        self._write(draft, gathered, gathered_bytes)
        return is_changed

    def _write(self, draft: Segment, gathered: list[StagedBatch], size_bytes: int) -> None:
        if draft.size_bytes + size_bytes > MAX_SEGMENT_BYTES:
            raise CorruptSegment(draft.path, draft.size_bytes, "grows beyond what a segment may hold")
        if gathered:
            draft.write(gathered)
            draft.publish(gathered)
            self._pace(size_bytes)


def _staged(stays: Buffer, batch: Batch) -> StagedBatch:
    """Return the batch to write for `batch`, of which the bytes `stays` are left."""
    (newest_ms,) = MAX_TIMESTAMP.unpack_from(stays, MAX_TIMESTAMP_POSITION)
    return StagedBatch(stays, batch.base_offset, batch.last_offset, newest_ms, newest_ms)
