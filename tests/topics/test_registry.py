"""Topics on the disk: what a restart, a crash and a failing disk leave of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from coordinator.topics.catalogue import FILE_NAME
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.partition import Partition
from coordinator.topics.registry import PartitionCountMismatch
from coordinator.topics.settings import TopicSettings
from coordinator.topics.topic import Topic
from harness.doubles.faulty_files import FaultyFiles
from harness.doubles.runtime_world import WALL_MS
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.records.records import Record, encode_batch
from storage.files import StorageError
from storage.log.log_producers import LogProducers
from storage.log.partition_log import PartitionLog
from storage.log.segment import Segment
from tests.topics.requests import fetch, fetch_request, partitions_of, produce, produce_request
from tests.topics.world import World, batch

PARTS: Final = (Topic, Partition, PartitionLog, LogProducers, Segment)


def create_request(name: str = "t", partitions: int = 2) -> CreateTopicsRequest:
    configs = [CreatableTopicConfig(name="retention.ms", value="77")]
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)]
    )


def delete_request(name: str = "t") -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1)


def crashed(world: World) -> World:
    """The world after a loss of power: what was not synced is gone."""
    assert isinstance(world.files, FaultyFiles)
    world.files.crash()
    return World(world.directory, world.settings, world.files)


@pytest.fixture
def faulty(tmp_path: Path) -> World:
    directory = tmp_path / "data"
    directory.mkdir()
    settings = TopicSettings(log_flush_interval_messages=1)
    return World(directory, settings, FaultyFiles(directory))


def test_a_restart_has_the_same_topics(world: World) -> None:
    world.ask(create_request(), 7)
    produce(world, batch(b"a", b"b"), partition=1)
    topic_id = world.registry.topic_id("t")
    after = world.restart()
    topic = after.registry.get("t")
    assert topic is not None
    assert (topic.topic_id, len(topic.partitions), topic.config.text("retention.ms")) == (topic_id, 2, "77")
    assert [fetch(after, partition=index).high_watermark for index in range(2)] == [0, 2]


def test_a_topic_that_was_answered_for_survives_a_crash(faulty: World) -> None:
    faulty.ask(create_request(), 7)
    produce(faulty, batch(b"a"))
    after = crashed(faulty)
    assert after.registry.partition_count("t") == 2
    assert fetch(after).high_watermark == 1


def test_a_topic_is_visible_only_when_it_is_durable(faulty: World) -> None:
    waiting = faulty.start(create_request(), 7)
    assert faulty.registry.get("t") is None
    faulty.settle()
    assert waiting.answer.topics[0].error_code == 0
    assert isinstance(faulty.files, FaultyFiles)
    assert faulty.files.history(FILE_NAME)[-1] == f"rename {FILE_NAME}"


def test_a_deletion_that_was_answered_for_survives_a_crash(faulty: World) -> None:
    faulty.ask(create_request(), 7)
    produce(faulty, batch(b"old"))
    faulty.ask(delete_request(), 6)
    after = crashed(faulty)
    assert after.registry.all() == []
    after.ask(create_request(), 7)
    assert fetch(after).high_watermark == 0


@pytest.mark.parametrize("nth", range(12))
def test_a_crash_anywhere_in_a_deletion_leaves_the_topic_whole_or_gone(faulty: World, nth: int) -> None:
    faulty.ask(create_request(), 7)
    produce(faulty, batch(b"old"))
    assert isinstance(faulty.files, FaultyFiles)
    faulty.files.fail(nth)
    faulty.ask(delete_request(), 6)
    faulty.files.fault = None
    after = crashed(faulty)
    is_there = after.registry.get("t") is not None
    if not is_there:
        after.ask(create_request(), 7)
    assert fetch(after).high_watermark == (1 if is_there else 0)


def test_what_the_disk_refuses_is_not_made_and_can_be_tried_again(faulty: World) -> None:
    assert isinstance(faulty.files, FaultyFiles)
    faulty.files.fail_always("rename")
    (result,) = faulty.ask(create_request(), 7).topics
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert faulty.registry.get("t") is None
    faulty.files.fault = None
    (result,) = faulty.ask(create_request(), 7).topics
    assert result.error_code == 0
    assert produce(faulty, batch(b"a"), partition=1).base_offset == 0


def test_a_deletion_that_the_disk_refuses_leaves_the_topic_in_use(faulty: World) -> None:
    faulty.ask(create_request(), 7)
    assert isinstance(faulty.files, FaultyFiles)
    faulty.files.fail_always("rename")
    assert faulty.ask(delete_request(), 6).responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    faulty.files.fault = None
    assert produce(faulty, batch(b"a")).base_offset == 0


def test_what_was_sent_before_a_deletion_that_fails_is_still_written_and_answered(faulty: World) -> None:
    faulty.ask(create_request(), 7)
    produce(faulty, batch(b"before"))
    assert isinstance(faulty.files, FaultyFiles)
    first = faulty.start(produce_request(batch(b"a")), 9)
    faulty.queue.popleft()()  # The flush of the first, which the second has to come after.
    second = faulty.start(produce_request(batch(b"b")), 9)
    faulty.files.fail_always("rename")
    deletion = faulty.start(delete_request(), 6)
    faulty.settle()
    assert deletion.answer.responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (first.is_answered, second.is_answered) == (True, True)
    assert second.answer.responses[0].partition_responses[0].error_code == 0
    assert fetch(crashed(faulty)).high_watermark == 3


def test_directories_that_were_never_ours_are_left_alone(world: World) -> None:
    (world.directory / "photos-2024").mkdir()
    (world.directory / "photos-2024" / "beach").write_text("sand")
    after = world.restart()
    assert (after.directory / "photos-2024" / "beach").read_text() == "sand"
    (result,) = after.ask(create_request("photos", 2025), 7).topics
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (after.directory / "photos-2024" / "beach").read_text() == "sand"


def test_the_partitions_of_another_broker_are_never_taken_for_leftovers(world: World) -> None:
    """Kafka keeps its topics elsewhere: a directory of its own has partitions, but no catalogue."""
    world.topic("t")
    produce(world, batch(b"precious"))
    (world.directory / FILE_NAME).unlink()
    (segment,) = (world.directory / "t-0").glob("*.log")
    before = segment.read_bytes()
    with pytest.raises(StorageError, match=f"t-0 is here, but no {FILE_NAME}"):
        world.restart()
    assert segment.read_bytes() == before != b""


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 2, "topics": []}', '{"format": 1, "topics": [{}]}']
)
def test_a_catalogue_that_cannot_be_read_is_not_taken_for_an_empty_one(world: World, text: str) -> None:
    world.topic("t")
    (world.directory / FILE_NAME).write_text(text)
    with pytest.raises(StorageError, match=FILE_NAME):
        world.restart()


def test_an_internal_topic_is_made_once_and_keeps_its_number_of_partitions(world: World) -> None:
    made = world.registry.internal(GROUP_METADATA_TOPIC, 3, {"cleanup.policy": "compact"})
    after = world.restart()
    found = after.registry.internal(GROUP_METADATA_TOPIC, 3, {"cleanup.policy": "compact"})
    assert found.topic_id == made.topic_id
    with pytest.raises(PartitionCountMismatch, match="has 3 partitions on the disk, the settings ask for 4"):
        after.registry.internal(GROUP_METADATA_TOPIC, 4, {})


def test_an_internal_topic_follows_settings_that_were_changed(world: World) -> None:
    small = {"segment.bytes": str(1 << 20), "retention.ms": "1000"}
    world.registry.internal("__group_events", 1, small)
    after = world.restart()
    topic = after.registry.internal("__group_events", 1, {})
    larger = {"segment.bytes": str(2 << 20), "retention.ms": "2000"}
    after.registry.configure(topic, larger)
    log = topic.partitions[0].log
    assert (log.config.segment_bytes, log.config.retention_ms) == (2 << 20, 2000)
    found = after.restart().registry.get("__group_events")
    assert found is not None
    assert found.config.overrides == larger


def test_groups_find_topics_by_name_and_id(world: World) -> None:
    world.topic("t", partitions=2)
    topic_id = world.registry.topic_id("t")
    assert topic_id is not None
    assert world.registry.partition_count("t") == 2
    assert world.registry.topic_name(topic_id) == "t"
    assert world.registry.partition_count("nope") is None
    assert world.registry.topic_id("nope") is None
    assert world.registry.topic_name(b"\7" * 16) is None


# Appends of the daemon's own, and a failing disk.


def test_the_daemon_appends_for_itself_and_is_called_when_it_is_durable(world: World) -> None:
    partition = world.registry.internal("__group_events", 1, {}).partitions[0]
    outcomes: list[ErrorCode] = []
    partition.append_local(encode_batch([Record(b"k", b"v", WALL_MS)]), outcomes.append)
    assert outcomes == []
    world.settle()
    assert outcomes == [ErrorCode.NONE]
    assert fetch(world, topic="__group_events").high_watermark == 1


def test_a_failed_flush_refuses_what_waited_and_then_the_partition_serves_again(faulty: World) -> None:
    faulty.ask(create_request(), 7)
    produce(faulty, batch(b"kept", producer_id=5, producer_epoch=0, base_sequence=0))
    assert isinstance(faulty.files, FaultyFiles)
    faulty.files.fail(0)
    lost = [
        faulty.start(
            produce_request(batch(b"lost", producer_id=5, producer_epoch=0, base_sequence=number)), 9
        )
        for number in (1, 2)
    ]
    faulty.settle()
    errors = [each.answer.responses[0].partition_responses[0].error_code for each in lost]
    assert errors == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert fetch(faulty).high_watermark == 1
    again = batch(b"again", producer_id=5, producer_epoch=0, base_sequence=1)
    assert produce(faulty, again).base_offset == 1  # What was lost is forgotten by idempotence, too.
    assert fetch(crashed(faulty)).high_watermark == 2


def test_bytes_that_were_lost_are_none_that_a_parked_fetch_waits_for(faulty: World) -> None:
    faulty.ask(create_request(), 7)
    produce(faulty, batch(b"kept"))
    large = batch(b"x" * 1000)
    parked = faulty.start(fetch_request(("t", 0, 1), max_wait_ms=10_000, min_bytes=len(large)), 12)
    assert isinstance(faulty.files, FaultyFiles)
    faulty.files.fail(0)
    assert produce(faulty, large).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(faulty, batch(b"small")).base_offset == 1
    assert not parked.is_answered
    assert produce(faulty, large).base_offset == 2
    assert parked.is_answered


def test_a_partition_whose_disk_stays_broken_refuses_and_can_still_be_read(faulty: World) -> None:
    faulty.ask(create_request(), 7)
    produce(faulty, batch(b"kept"))
    assert isinstance(faulty.files, FaultyFiles)
    faulty.files.fail_always("sync")
    assert produce(faulty, batch(b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(faulty, batch(b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert partitions_of(faulty.ask(fetch_request(("t", 0, 0)), 12))[0].high_watermark == 1


def test_no_answer_leaves_before_its_sync(faulty: World) -> None:
    faulty.ask(create_request(), 7)
    assert isinstance(faulty.files, FaultyFiles)
    faulty.files.operations.clear()
    waiting = faulty.start(produce_request(batch(b"a")), 9)
    while not waiting.is_answered:
        faulty.queue.popleft()()
    synced = [
        operation for operation in faulty.files.history(".log") if operation.startswith(("write", "sync"))
    ]
    assert [operation.split()[0] for operation in synced][-2:] == ["write", "sync"]


def test_ids_of_deleted_topics_are_remembered_through_a_crash(faulty: World) -> None:
    """Offsets that groups committed for them may still be in the log; those of topics never here are not ours."""
    faulty.ask(create_request(), 7)
    topic_id = faulty.registry.topic_id("t") or b""
    assert not faulty.registry.was_deleted(topic_id)
    faulty.ask(delete_request(), 6)
    faulty.ask(create_request(), 7)
    after = crashed(faulty)
    assert after.registry.was_deleted(topic_id)
    assert not after.registry.was_deleted(after.registry.topic_id("t") or b"")


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
def test_a_deleted_topic_is_freed_at_once(world: World) -> None:
    """Its partitions and their logs: one whose producers were read again, one that is waited for, an empty one."""
    world.ask(create_request(partitions=3), 7)
    produce(world, batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0))
    world = world.restart()
    produce(world, batch(b"b", producer_id=7, producer_epoch=0, base_sequence=1))
    produce(world, batch(b"c"), partition=1)
    waiting = world.start(fetch_request(("t", 1, 1), max_wait_ms=1000), 12)
    ids = {id(each) for each in parts_of(world.registry.get("t"))}
    assert len(ids) == 1 + 3 * 3 + 2
    assert world.ask(delete_request(), 6).responses[0].error_code == 0
    assert waiting.is_answered
    assert [each for each in gc.get_objects() if id(each) in ids and isinstance(each, PARTS)] == []


def parts_of(topic: Topic | None) -> list[object]:
    """What of a topic takes memory."""
    assert topic is not None
    logs = [each.log for each in topic.partitions]
    segments = [segment for each in logs for segment in each.segments]
    return [topic, *topic.partitions, *logs, *(each.producers for each in logs), *segments]
