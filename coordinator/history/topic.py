"""The settings of the topic `__group_events`: its retention and segments.

Knows no events: those are in `events`, and `writer` writes them.
"""

from __future__ import annotations

from typing import Final

BATCH_BYTES: Final = 1 << 20
"""Largest batch of events, whatever limit clients' batches have: twice the size at which the writer cuts."""

SEGMENTS_KEPT: Final = 8
"""About how many segments the topic has: retention deletes whole segments, so it keeps one too many at most."""

SEGMENT_BYTES_MIN: Final = 1 << 20
SEGMENT_BYTES_MAX: Final = 1 << 24
SEGMENT_MS_MIN: Final = 60_000
SEGMENT_MS_MAX: Final = 24 * 3_600_000


def history_topic_config(retention_ms: int, retention_bytes: int) -> dict[str, str]:
    """Return the topic's settings by Kafka's names; -1 means no limit of time, or of size."""
    return {
        "cleanup.policy": "delete",
        "max.message.bytes": str(BATCH_BYTES),
        "retention.ms": str(retention_ms),
        "retention.bytes": str(retention_bytes),
        "segment.bytes": str(_segment(retention_bytes, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)),
        "segment.ms": str(_segment(retention_ms, SEGMENT_MS_MIN, SEGMENT_MS_MAX)),
    }


def _segment(retention: int, least: int, most: int) -> int:
    return most if retention < 0 else min(max(retention // SEGMENTS_KEPT, least), most)
