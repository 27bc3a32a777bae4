"""How the topic `__group_events` is kept on the disk: its settings.

Knows no events: those are in `events`, and `writer` writes them.
"""

from __future__ import annotations

from typing import Final

BATCH_BYTES: Final = 1 << 20
"""The largest batch of events, whatever clients' may be: twice of where their writer cuts."""

SEGMENTS_KEPT: Final = 8
"""Retention goes by whole segments, so the topic is cut into about this many, and holds one too many at most."""

SEGMENT_BYTES_MIN: Final = 1 << 20
SEGMENT_BYTES_MAX: Final = 1 << 24
SEGMENT_MS_MIN: Final = 60_000
SEGMENT_MS_MAX: Final = 24 * 3_600_000


def history_topic_config(retention_ms: int, retention_bytes: int) -> dict[str, str]:
    """The topic's settings under Kafka's names; -1 keeps events for ever, or without a limit."""
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
