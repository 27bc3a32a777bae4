"""ListOffsets and OffsetForLeaderEpoch: where things begin and end (answers as Kafka 4.3.1 gives them)."""

from __future__ import annotations

import pytest

from harness.doubles.runtime_world import WALL_MS
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.topics.requests import list_offset, produce
from tests.topics.world import World, batch

NOTHING = (-1, -1, -1)


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.topic("t", partitions=2)
    produce(world, batch(b"a", b"b", at_ms=WALL_MS - 1000))  # Offsets 0 and 1.
    produce(world, batch(b"c", b"d", at_ms=WALL_MS))  # 2 and 3.
    produce(world, batch(b"e", at_ms=WALL_MS - 500))  # 4: late.


def answer(world: World, timestamp: int, partition: int = 0) -> tuple[int, int, int]:
    found = list_offset(world, timestamp, partition=partition)
    assert found.error_code == 0
    return found.offset, found.timestamp, found.leader_epoch


@pytest.mark.parametrize(
    ("timestamp", "full", "empty"),
    [
        (LATEST, (5, -1, 0), (0, -1, 0)),
        (EARLIEST, (0, -1, 0), (0, -1, 0)),
        (MAX_TIMESTAMP, (3, WALL_MS + 1, 0), NOTHING),
        (EARLIEST_LOCAL, (0, -1, 0), (0, -1, 0)),
        (LATEST_TIERED, NOTHING, NOTHING),
        (EARLIEST_PENDING_UPLOAD, NOTHING, NOTHING),
        (0, (0, WALL_MS - 1000, 0), NOTHING),
        (WALL_MS - 999, (1, WALL_MS - 999, 0), NOTHING),
        (WALL_MS - 998, (2, WALL_MS, 0), NOTHING),
        (WALL_MS + 2, NOTHING, NOTHING),
    ],
)
def test_what_each_timestamp_finds(
    world: World, timestamp: int, full: tuple[int, int, int], empty: tuple[int, int, int]
) -> None:
    assert answer(world, timestamp) == full
    assert answer(world, timestamp, partition=1) == empty


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (EARLIEST_PENDING_UPLOAD, 10), (-7, 11)],
)
def test_special_timestamps_need_their_version(world: World, timestamp: int, version: int) -> None:
    assert list_offset(world, timestamp, version=version).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_unknown_partitions_and_other_epochs(world: World) -> None:
    assert list_offset(world, LATEST, topic="nope").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offset(world, LATEST, partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offset(world, LATEST, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert list_offset(world, LATEST, epoch=-5).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert list_offset(world, LATEST, epoch=0).offset == 5


def test_a_partition_named_twice_is_refused_once(world: World) -> None:
    twice = [ListOffsetsPartition(partition_index=0, timestamp=LATEST)] * 2
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=twice)])
    (only,) = world.ask(request, 5).topics[0].partitions
    assert (only.error_code, only.offset) == (ErrorCode.INVALID_REQUEST, -1)


def test_a_search_in_the_log_waits_off_the_loop(world: World) -> None:
    asked = ListOffsetsPartition(partition_index=0, timestamp=0)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    waiting = world.start(request, 5)
    assert not waiting.is_answered
    world.settle()
    assert waiting.answer.topics[0].partitions[0].offset == 0


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_is_answered(world: World, version: int) -> None:
    found = list_offset(world, LATEST, version=version)
    assert (found.offset, found.leader_epoch) == (5, 0 if version >= 4 else -1)


@pytest.mark.parametrize(
    ("name", "partition", "epoch", "current", "expected"),
    [
        ("t", 0, 0, -1, (0, 0, 5)),
        ("t", 0, 0, 0, (0, 0, 5)),
        ("t", 1, 0, -1, (0, 0, 0)),
        ("t", 0, 1, -1, (0, -1, -1)),
        ("t", 0, 0, 1, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
        ("t", 0, 0, -3, (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)),
        ("t", 9, 0, -1, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
        ("nope", 0, 0, -1, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
    ],
)
@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_only_leader_epoch_ends_where_the_log_ends(
    world: World,
    version: int,
    name: str,
    partition: int,
    epoch: int,
    current: int,
    expected: tuple[int, int, int],
) -> None:
    asked = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=[asked])])
    found = world.ask(request, version).topics[0].partitions[0]
    assert (found.error_code, found.leader_epoch, found.end_offset) == expected
