"""How `__group_events` is kept: by time and size, in segments small enough for that to mean something."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.history.topic import history_topic_config
from coordinator.topics.settings import TopicSettings
from coordinator.topics.topic_config import topic_config
from protocol.records.records import Record, encode_batch
from storage.files import Files
from storage.log.partition_log import PartitionLog

DAY_MS = 24 * 3_600_000
MIB = 1 << 20


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes", "segment_ms", "segment_bytes"),
    [
        (7 * DAY_MS, 100 * MIB, 7 * DAY_MS // 8, 100 * MIB // 8),
        (-1, -1, DAY_MS, 16 * MIB),
        (0, 0, 60_000, MIB),
        (3_600_000, 1 << 40, 450_000, 16 * MIB),
    ],
)
def test_segments_are_an_eighth_of_what_is_kept_within_reason(
    retention_ms: int, retention_bytes: int, segment_ms: int, segment_bytes: int
) -> None:
    config = topic_config(history_topic_config(retention_ms, retention_bytes), TopicSettings())
    assert (config.log.retention_ms, config.log.retention_bytes) == (retention_ms, retention_bytes)
    assert (config.log.segment_ms, config.log.segment_bytes) == (segment_ms, segment_bytes)
    assert config.is_deleting


def test_retention_by_size_holds_one_segment_too_much_at_most(tmp_path: Path) -> None:
    config = topic_config(history_topic_config(-1, 2 * MIB), TopicSettings())
    log = PartitionLog.open(tmp_path / "__group_events-0", config.log, Files())
    for number in range(100):
        log.append(encode_batch([Record(b"group", bytes(100_000), number)]), wall_ms=number)
        log.flush()
        log.apply_retention(number)
    kept_bytes = sum(segment.size_bytes for segment in log.segments)
    assert 2 * MIB <= kept_bytes <= 3 * MIB
