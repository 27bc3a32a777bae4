"""Batches made of templates are, byte for byte, those of the encoder that the daemon uses."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator.groups.record_codec import decode_record
from coordinator.groups.record_schemas import OffsetCommitKey
from protocol.records.records import Record, check_crc, encode_batch, parse_header, read_records
from tools.simulate.commit_batches import (
    RECORDS_PER_BATCH_MAX,
    Batch,
    CommitKey,
    encode_commits,
    new_templates,
)

START_MS = 1_767_225_600_000
KEYS = [
    CommitKey(
        f"group-{number % 7}{'é' * (number % 5)}", "x" * (number % 90 + 1), number, bytes([number]) * 16
    )
    for number in range(100)
]


def batches_of(
    count: int, span_ms: int, turn_ms: int, partitions: int
) -> tuple[list[Batch], list[tuple[int, ...]]]:
    """Random commits, and what they are: (partition, time, lane, offset)."""
    chance = np.random.default_rng(count)
    lanes = chance.integers(0, len(KEYS), count)
    times_ms = START_MS + chance.integers(0, span_ms, count)
    offsets = chance.integers(0, 2**62, count)
    made = encode_commits(new_templates(KEYS), lanes % partitions, lanes, times_ms, offsets, turn_ms)
    columns = (lanes % partitions, times_ms, lanes, offsets)
    return list(made), sorted(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("count", "span_ms", "turn_ms", "partitions"),
    [
        (1, 1, 10, 1),
        (63, 1, 10, 1),
        (65, 1, 10, 1),
        (700, 5, 5, 1),
        (5_000, 8_000, 5_000, 3),
        (9_000, 40, 10, 50),
    ],
)
def test_a_batch_is_what_the_encoder_makes(count: int, span_ms: int, turn_ms: int, partitions: int) -> None:
    made, expected = batches_of(count, span_ms, turn_ms, partitions)
    found = []
    for batch in made:
        header = parse_header(batch.data)
        check_crc(batch.data, header)
        records = read_records(batch.data, header)
        plain = [Record(record.key, record.value, record.timestamp_ms) for record in records]
        assert encode_batch(plain, leader_epoch=0) == batch.data
        assert len(records) == batch.records <= RECORDS_PER_BATCH_MAX
        assert batch.max_timestamp_ms == header.max_timestamp_ms
        assert header.max_timestamp_ms // turn_ms == header.base_timestamp_ms // turn_ms
        found += [(batch.partition, record.timestamp_ms, *_lane_and_offset(record)) for record in records]
    assert sorted(found) == expected


def _lane_and_offset(record: Record) -> tuple[int, int]:
    """The lane of a record and the offset; everything else is as it was asked for."""
    decoded = decode_record(record.key, record.value)
    assert decoded is not None
    assert decoded.value is not None
    assert decoded.value.commit_timestamp == record.timestamp_ms
    lane = decoded.key.partition
    key = KEYS[lane]
    assert decoded.key == OffsetCommitKey(group=key.group_id, topic=key.topic, partition=key.partition)
    assert decoded.value.topic_id == key.topic_id
    return lane, decoded.value.offset
