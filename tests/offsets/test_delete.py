"""OffsetDelete, and topics that go (docs/kafka.md O21, O23, O24)."""

from __future__ import annotations

import pytest

from coordinator.effects import CoordinatorRecord, Result, TopicDeleted
from coordinator.offsets.delete import DELETED_AT_ONCE
from harness.doubles.topics import topic_id_of
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.groups.consumer import Consumer, form_group
from tests.groups.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def delete(driver: Driver, *partitions: tuple[str, int], group_id: str = "g") -> OffsetDeleteResponse:
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for topic, partition in partitions:
        entry = topics.setdefault(topic, OffsetDeleteRequestTopic(name=topic, partitions=[]))
        entry.partitions.append(OffsetDeleteRequestPartition(partition_index=partition))
    reply = driver.call(OffsetDeleteRequest(group_id=group_id, topics=list(topics.values())), 0)
    assert isinstance(reply, OffsetDeleteResponse)
    return reply


def outcomes(reply: OffsetDeleteResponse) -> list[tuple[str, int, int]]:
    return [(t.name, p.partition_index, p.error_code) for t in reply.topics for p in t.partitions]


def left(driver: Driver, group_id: str = "g") -> set[tuple[str, int]]:
    return {(topic, partition) for topic, partition, _ in driver.shard.offsets.of_group(group_id)}


def test_o24_offsets_of_topics_that_are_not_read_are_deleted_others_are_not(driver: Driver) -> None:
    consumer = Consumer(driver)  # Reads orders.
    form_group(driver, consumer)
    consumer.commit(1, "orders", 0), consumer.commit(1, "clicks", 0), consumer.commit(1, "clicks", 1)
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    reply = delete(driver, ("orders", 0), ("clicks", 0))
    assert outcomes(reply) == [("orders", 0, subscribed), ("clicks", 0, 0)]
    assert left(driver) == {("orders", 0), ("clicks", 1)}
    driver.assert_replay_agrees()


def test_o24_deleting_what_is_not_there_succeeds_and_writes_nothing(driver: Driver) -> None:
    Consumer(driver).commit(1, "orders", 0)
    log_end = len(driver.log)
    assert outcomes(delete(driver, ("orders", 1))) == [("orders", 1, 0)]
    assert len(driver.log) == log_end


def test_partitions_that_do_not_exist_are_answered_first(driver: Driver) -> None:
    Consumer(driver).commit(1, "orders", 0)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    reply = delete(driver, ("orders", 0), ("nowhere", 0), ("orders", 9))
    assert outcomes(reply) == [("orders", 9, missing), ("orders", 0, 0), ("nowhere", 0, missing)]
    assert left(driver) == set()


@pytest.mark.parametrize(
    ("group_id", "error"), [("", ErrorCode.INVALID_GROUP_ID), ("absent", ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_group_that_is_not_there_is_one_error_for_all(
    driver: Driver, group_id: str, error: ErrorCode
) -> None:
    assert delete(driver, ("orders", 0), ("nowhere", 0), group_id=group_id) == OffsetDeleteResponse(
        error_code=error
    )


def test_3_78_a_group_that_is_not_of_consumers_must_be_empty(driver: Driver) -> None:
    worker = Consumer(driver, protocol_type="connect", protocols=(("compatible", b""),))
    form_group(driver, worker)
    worker.commit(1)
    assert delete(driver, ("orders", 0)).error_code == ErrorCode.NON_EMPTY_GROUP
    worker.leave()
    assert outcomes(delete(driver, ("orders", 0))) == [("orders", 0, 0)]


def test_o21_a_subscription_that_cannot_be_read_may_be_to_anything(driver: Driver) -> None:
    consumer = Consumer(driver, protocols=(("range", b"\x00\x00garbage"),))
    form_group(driver, consumer)
    consumer.commit(1, "clicks", 0)
    reply = delete(driver, ("clicks", 0))
    assert outcomes(reply) == [("clicks", 0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)]


@pytest.mark.parametrize("name", ["orders", ""], ids=["by its name", "by its id alone"])
def test_o23_a_topic_that_goes_takes_the_offsets_of_all_groups_along(driver: Driver, name: str) -> None:
    for group_id in ("g", "h"):
        Consumer(driver, group_id=group_id).commit(1, "orders", 0)
        Consumer(driver, group_id=group_id).commit(1, "clicks", 0)
    driver.handle(TopicDeleted(name, topic_id_of(1), driver.wall_ms))
    assert left(driver, "g") == left(driver, "h") == {("clicks", 0)}
    driver.assert_replay_agrees()


def test_o23_an_offset_whose_topic_had_no_id_goes_by_its_name_alone(driver: Driver) -> None:
    driver.topics.recreate("orders", ZERO_UUID)
    Consumer(driver).commit(1, "orders", 0)
    driver.handle(TopicDeleted("", topic_id_of(1), driver.wall_ms))
    assert left(driver) == {("orders", 0)}
    driver.handle(TopicDeleted("orders", topic_id_of(1), driver.wall_ms))
    assert left(driver) == set()


@pytest.mark.parametrize("name", ["orders", ""], ids=["by its name", "by its id alone"])
def test_o23_many_offsets_of_a_topic_go_some_in_each_event(driver: Driver, name: str) -> None:
    many = 2 * DELETED_AT_ONCE + 1
    for number in range(many):
        Consumer(driver, group_id=f"g{number}").commit(1, "orders", 0)
    Consumer(driver, group_id="g0").commit(1, "clicks", 0)
    deleted = TopicDeleted(name, topic_id_of(1), driver.wall_ms)
    assert len(driver.shard.handle(deleted, driver.now_ms).records) == DELETED_AT_ONCE
    driver.handle(deleted)
    assert left(driver, "g0") == {("clicks", 0)}
    assert not any(left(driver, f"g{number}") for number in range(1, many))
    driver.assert_replay_agrees()


@pytest.mark.parametrize("name", ["orders", ""], ids=["by its name", "by its id alone"])
def test_o23_offsets_of_a_newer_topic_of_the_same_name_stay(driver: Driver, name: str) -> None:
    driver.topics.recreate("orders", topic_id_of(50))
    Consumer(driver).commit(1, "orders", 0)
    driver.handle(TopicDeleted(name, topic_id_of(1), driver.wall_ms))
    assert left(driver) == {("orders", 0)}


def plain(result: Result) -> list[CoordinatorRecord]:
    """The records, of which none is a run of commits."""
    records = [each for each in result.records if isinstance(each, CoordinatorRecord)]
    assert len(records) == len(result.records)
    return records


def test_o23_a_load_drops_offsets_of_topics_that_went_unheard_of(driver: Driver) -> None:
    """The daemon died between the deletion and the tombstones; by now there may be a topic of the name again."""
    for topic in ("orders", "clicks"):
        Consumer(driver).commit(1, topic, 0)
    driver.topics.recreate("orders", topic_id_of(50))
    result = driver.shard.loaded(driver.now_ms, driver.wall_ms)
    assert [(each.key.topic, each.key.partition, each.value) for each in plain(result)] == [
        ("orders", 0, None)
    ]
    driver.topics.recreate("clicks", topic_id_of(51))
    result = driver.shard.loaded(driver.now_ms, driver.wall_ms)
    assert {each.key.topic for each in plain(result)} == {"orders", "clicks"}


def test_a_load_keeps_offsets_of_topics_that_were_never_here(driver: Driver) -> None:
    """The log may be another broker's, or older than the directory."""
    Consumer(driver).commit(1, "orders", 0)
    driver.topics.forget("orders")
    driver.topics.deleted_ids.clear()
    assert driver.shard.loaded(driver.now_ms, driver.wall_ms).records == ()


def test_a_load_keeps_offsets_that_name_no_topic_id(driver: Driver) -> None:
    """Imported offsets name no topic id, and their topics may be made later."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=9)
    topic = OffsetCommitRequestTopic(name="clicks", partitions=[partition])
    driver.call(OffsetCommitRequest(group_id="old", topics=[topic], retention_time_ms=10_000), 2)
    driver.topics.forget("clicks")
    assert driver.shard.loaded(driver.now_ms, driver.wall_ms).records == ()
