"""How one partition's log is kept: Kafka's topic options that concern the disk, checked elsewhere.

Plain values, no parsing and no defaults of a topic's own: those live with the settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

MAX_SEGMENT_BYTES: Final = 2**31 - 1  # Positions in the offset index are signed 32-bit numbers.


class FlushPolicy(Enum):
    """When bytes count as durable, and so may be read and acknowledged."""

    FSYNC = "fsync"  # When fdatasync has returned: they survive a loss of power.
    OS = "os"  # When the system has them: they survive the death of this process.


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Options of one log; -1 switches a retention off, as in Kafka."""

    segment_bytes: int = 1 << 30  # segment.bytes: a segment that would grow beyond it is rolled.
    segment_ms: int = 7 * 24 * 3600 * 1000  # segment.ms: how far timestamps in one segment may lie apart.
    index_interval_bytes: int = 4096  # index.interval.bytes: log bytes between two index entries, about.
    retention_ms: int = -1  # retention.ms: age of a segment's newest record at which the segment goes.
    retention_bytes: int = -1  # retention.bytes: oldest segments go while the rest is at least this large.
    max_batch_bytes: int = 1_048_588  # max.message.bytes: the largest batch taken, 12-byte overhead included.
    flush: FlushPolicy = FlushPolicy.FSYNC

    def __post_init__(self) -> None:
        if not 0 < self.segment_bytes <= MAX_SEGMENT_BYTES:
            raise ValueError(f"segment_bytes {self.segment_bytes} is not in 1..{MAX_SEGMENT_BYTES}")
