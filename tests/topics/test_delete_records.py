"""DeleteRecords: where a partition begins, what is refused, and that a start lasts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.doubles.faulty_files import FaultyFiles
from protocol.errors import ErrorCode
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.list_offsets import EARLIEST, EARLIEST_LOCAL
from storage.files import StorageError
from tests.topics.requests import fetch, list_offset, produce
from tests.topics.world import World, batch, topic_of

VERSIONS = range(3)


def delete_records(
    world: World, *offsets: tuple[int, int], topic: str = "t", version: int = 2
) -> dict[int, tuple[int, int]]:
    """By partition: the error and where it begins."""
    asked = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in offsets]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=asked)], timeout_ms=1000)
    (answer,) = world.ask(request, version).topics
    assert answer.name == topic
    return {each.partition_index: (each.error_code, each.low_watermark) for each in answer.partitions}


def filled(world: World, batches: int = 4, **overrides: str) -> World:
    """Topic t with two records in each batch of its first partition."""
    world.topic("t", 2, **overrides)
    for _ in range(batches):
        assert produce(world, batch(b"a", b"b", at_ms=world.wall)).error_code == 0
    return world


@pytest.mark.parametrize("version", VERSIONS)
def test_records_below_the_offset_are_gone(world: World, version: int) -> None:
    filled(world)
    assert delete_records(world, (0, 3), version=version) == {0: (0, 3)}
    assert fetch(world, offset=2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    kept = fetch(world, offset=3)
    assert (kept.error_code, kept.log_start_offset, kept.high_watermark) == (0, 3, 8)
    assert [list_offset(world, at).offset for at in (EARLIEST, EARLIEST_LOCAL)] == [3, 3]


def test_a_start_never_goes_back(world: World) -> None:
    filled(world)
    delete_records(world, (0, 5))
    assert delete_records(world, (0, 1)) == {0: (0, 5)}


def test_minus_one_is_all_there_is(world: World) -> None:
    filled(world)
    assert delete_records(world, (0, -1), (1, -1)) == {0: (0, 8), 1: (0, 0)}
    assert produce(world, batch(b"c", at_ms=world.wall)).base_offset == 8
    assert fetch(world, offset=8).log_start_offset == 8


def test_of_a_partition_named_twice_the_last_offset_counts(world: World) -> None:
    filled(world)
    assert delete_records(world, (0, 7), (0, 2)) == {0: (0, 2)}


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "error"),
    [
        ("t", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 0, 9, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 7, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nope", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("compacted", 0, 0, ErrorCode.POLICY_VIOLATION),
        ("__group_events", 0, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_refusals(world: World, topic: str, partition: int, offset: int, error: int) -> None:
    filled(world)
    world.topic("compacted", cleanup_policy="compact")
    world.topic("__group_events")
    assert delete_records(world, (partition, offset), topic=topic) == {partition: (error, -1)}
    assert fetch(world).log_start_offset == 0


@pytest.mark.parametrize("policy", ["compact,delete", ""])
def test_policies_that_allow_it(world: World, policy: str) -> None:
    filled(world, cleanup_policy=policy)
    assert delete_records(world, (0, 1)) == {0: (0, 1)}


def test_whole_segments_below_go_from_the_disk(world: World) -> None:
    world.topic("t", 1, segment_bytes=str(1 << 20), retention_ms="-1")
    for _ in range(3):
        produce(world, batch(b"x" * 600_000, at_ms=world.wall))
    log = topic_of(world, "t").partitions[0].log
    assert len(log.segments) == 3
    delete_records(world, (0, 2))
    assert [path.name for path in sorted(log.directory.glob("*.log"))] == ["00000000000000000002.log"]


def test_what_is_old_goes_with_the_retention_and_not_before(world: World) -> None:
    world.topic("t", retention_ms="1000")
    produce(world, batch(b"a", b"b", at_ms=world.wall))
    world.pass_time(100_000)
    assert delete_records(world, (0, 1)) == {0: (0, 1)}
    assert fetch(world, offset=1).error_code == 0


@pytest.mark.parametrize("offset", [3, 8])
def test_a_start_lasts_over_a_restart(world: World, offset: int) -> None:
    filled(world)
    delete_records(world, (0, offset))
    again = world.restart()
    assert fetch(again, offset=8).log_start_offset == offset
    assert fetch(again, offset=offset - 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert produce(again, batch(b"c", at_ms=again.wall)).base_offset == 8


def test_a_start_that_was_answered_lasts_over_a_loss_of_power(tmp_path: Path) -> None:
    """Kafka writes it down once a minute; records that were said to be gone would come back."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    files = FaultyFiles(before)
    world = filled(World(before, files=files))
    topic_of(world, "t").partitions[0].log.roll(world.wall)
    assert delete_records(world, (0, 5)) == {0: (0, 5)}
    files.put_image(after)
    again = World(after)
    assert fetch(again, offset=8).log_start_offset == 5


def test_a_start_that_cannot_be_written_does_not_move(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(world)

    def refuse(*arguments: Any, **options: Any) -> None:
        raise StorageError("write", world.directory, "no")

    monkeypatch.setattr(world.files, "write_atomically", refuse)
    assert delete_records(world, (0, 5)) == {0: (ErrorCode.KAFKA_STORAGE_ERROR, -1)}
    assert fetch(world).log_start_offset == 0


def test_a_topic_that_is_deleted_meanwhile_is_unknown(world: World) -> None:
    """Nor does the one that is created again under its name lose anything."""
    filled(world)
    topic = world.registry.get("t")
    assert topic is not None
    errors: list[int] = []
    world.registry.delete(topic, errors.append)
    world.registry.delete_records(topic.partitions[0], 4, errors.append)
    world.settle()
    assert errors == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    filled(world)
    assert fetch(world).log_start_offset == 0


def test_a_log_that_a_crash_left_shorter_than_what_was_deleted_begins_there_all_the_same(
    world: World,
) -> None:
    """Under the policy `os` a loss of power may take records, and never brings deleted ones back."""
    filled(world)
    delete_records(world, (0, 8))
    world.logs._lock_file.close()  # As a process does that is killed.
    (segment,) = (world.directory / "t-0").glob("*.log")
    os.truncate(segment, segment.stat().st_size - 1)
    after = World(world.directory, world.settings)
    assert fetch(after, offset=7).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert produce(after, batch(b"c", at_ms=world.wall)).base_offset == 8
    assert fetch(after, offset=8).log_start_offset == 8
