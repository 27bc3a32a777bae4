"""Which segments a log may drop: by age and by size, oldest first, as Kafka does it.

A plain function of what the segments are: it deletes nothing. A segment is as old as its newest timestamp, or
as its file where no record has one. The active segment may be named too, when all of it has count_expired: the log
then begins a new one first, so that a log always has a segment that can be written.
"""

from __future__ import annotations

from collections.abc import Sequence

from storage.log.config import LogConfig
from storage.log.segment import Segment


def count_below(segments: Sequence[Segment], log_start_offset: int) -> int:
    """Return how many segments lie wholly below the log's start; the active one never counts."""
    return sum(1 for segment in segments[:-1] if segment.next_offset <= log_start_offset)


def count_expired(segments: Sequence[Segment], config: LogConfig, wall_ms: int) -> int:
    """Return how many segments, counted from the oldest, have count_expired at `wall_ms`, by size or by time."""
    return max(count_expired_by_size(segments, config), count_expired_by_time(segments, config, wall_ms))


def count_expired_by_size(segments: Sequence[Segment], config: LogConfig) -> int:
    """Return how many of the oldest segments the log can lose and still have `retention.bytes` or more."""
    if config.retention_bytes < 0:
        return 0
    excess = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    count = 0
    for segment in segments:
        excess -= segment.size_bytes
        if excess < 0 or is_empty_last(segment, segments):
            break
        count += 1
    return count


def count_expired_by_time(segments: Sequence[Segment], config: LogConfig, wall_ms: int) -> int:
    """Return how many of the oldest segments have no record as young as `retention.ms`."""
    if config.retention_ms < 0:
        return 0
    count = 0
    for segment in segments:
        if wall_ms - newest_ms(segment) <= config.retention_ms or is_empty_last(segment, segments):
            break
        count += 1
    return count


def newest_ms(segment: Segment) -> int:
    timestamp_ms, _ = segment.max_timestamp()
    return timestamp_ms if timestamp_ms >= 0 else segment.created_ms


def is_empty_last(segment: Segment, segments: Sequence[Segment]) -> bool:
    return segment is segments[-1] and not segment.size_bytes
