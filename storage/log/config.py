"""How one partition's log is kept: Kafka's topic options that concern the disk, checked elsewhere.

Plain values, no parsing and no defaults of a topic's own: those live with the settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INT64_MAX: Final = 2**63 - 1
MAX_SEGMENT_BYTES: Final = 2**31 - 1  # Positions in the offset index are signed 32-bit numbers.


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Options of one log; -1 switches a retention off, as in Kafka."""

    segment_bytes: int = 1 << 30  # segment.bytes: a segment that would grow beyond it is rolled.
    segment_ms: int = 7 * 24 * 3600 * 1000  # segment.ms: how far timestamps in one segment may lie apart.
    segment_jitter_ms: int = (
        0  # segment.jitter.ms: each segment's segment_ms is less by a random part of this.
    )
    index_max_bytes: int = 10_485_760  # segment.index.bytes: a segment whose index is so full is rolled.
    index_interval_bytes: int = 4096  # index.interval.bytes: log bytes between two index entries, about.
    retention_ms: int = -1  # retention.ms: age of a segment's newest record at which the segment goes.
    retention_bytes: int = -1  # retention.bytes: oldest segments go while the rest is at least this large.
    max_batch_bytes: int = 1_048_588  # max.message.bytes: the largest batch taken, 12-byte overhead included.
    flush_messages: int = INT64_MAX  # flush.messages: a sync once so many records are unsynced.
    flush_ms: int = INT64_MAX  # flush.ms: the age of the last sync at which a periodic check syncs.
    is_compacted: bool = False  # cleanup.policy: whether the newest record of each key is all that is kept.
    min_cleanable_ratio: float = (
        0.5  # min.cleanable.dirty.ratio: share of dirty bytes that is worth a cleaning.
    )
    delete_retention_ms: int = 86_400_000  # delete.retention.ms: how long a tombstone outlives a cleaning.
    min_compaction_lag_ms: int = 0  # min.compaction.lag.ms: younger records are left alone.
    max_compaction_lag_ms: int = (
        INT64_MAX  # max.compaction.lag.ms: older records are cleaned whatever the ratio.
    )

    def __post_init__(self) -> None:
        if not 0 < self.segment_bytes <= MAX_SEGMENT_BYTES:
            raise ValueError(f"segment_bytes {self.segment_bytes} is not in 1..{MAX_SEGMENT_BYTES}")
