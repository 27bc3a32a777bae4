"""Which part of a log may be cleaned, and how much it is worth: as Kafka's cleaner reckons it.

Behind the first dirty offset a log has not been cleaned yet. Of that, whole segments are taken: never the one
that is written, none with a record that is younger than `min.compaction.lag.ms`. Plain functions of what the
segments are; nothing is read but, where a lag is set, a segment's indexes or its first batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from storage.log.batch_walk import walk_headers
from storage.log.config import INT64_MAX
from storage.log.partition_log import PartitionLog
from storage.log.retention import newest_ms
from storage.log.segment import Segment


class Cleanable(NamedTuple):
    """The part of a log that may be cleaned: offsets [first_dirty_offset, end_offset)."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool  # Dirty for longer than max.compaction.lag.ms.

    @property
    def ratio(self) -> float:
        """The share, 0 to 1, of dirty bytes in what a cleaning would read."""
        return self.dirty_bytes / ((self.clean_bytes + self.dirty_bytes) or 1)


def cleanable(log: PartitionLog, checkpoint: int, wall_ms: int) -> Cleanable:
    """Return what may be cleaned now; the log was cleaned up to `checkpoint` before. Raises StorageError."""
    segments = log.segments
    sealed = segments[:-1]
    active_base = segments[-1].base_offset if segments else 0
    first = checkpoint if log.log_start_offset <= checkpoint <= active_base else log.log_start_offset
    dirty = old_enough([each for each in sealed if each.next_offset > first], log, wall_ms)
    return Cleanable(
        first_dirty_offset=first,
        end_offset=dirty[-1].next_offset if dirty else first,
        clean_bytes=sum(segment.size_bytes for segment in sealed if segment.next_offset <= first),
        dirty_bytes=sum(segment.size_bytes for segment in dirty),
        is_overdue=is_overdue(dirty, log, wall_ms),
    )


def old_enough(dirty: Sequence[Segment], log: PartitionLog, wall_ms: int) -> Sequence[Segment]:
    """Return the segments before the first that holds a record younger than `min.compaction.lag.ms`."""
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for count, segment in enumerate(dirty):
            if newest_ms(segment) > wall_ms - lag_ms:
                return dirty[:count]
    return dirty


def is_overdue(dirty: Sequence[Segment], log: PartitionLog, wall_ms: int) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == INT64_MAX:
        return False
    return any(0 < oldest_ms(segment) < wall_ms - lag_ms for segment in dirty if segment.size_bytes)


def oldest_ms(segment: Segment) -> int:
    """Return the largest timestamp of the segment's first batch."""
    if segment.first_timestamp_ms is None:
        first = next(walk_headers(segment.path, segment.file.read_at, 0, segment.size_bytes))
        segment.first_timestamp_ms = first.max_timestamp_ms
    return segment.first_timestamp_ms
