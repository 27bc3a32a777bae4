"""OffsetCommit: what is stored, and who may store it (docs/kafka.md 4, O1 to O8, and the table of 2.3)."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.groups.classic.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE
from coordinator.groups.group_settings import GroupSettings
from coordinator.offsets.committed import NO_EXPIRY, CommittedOffset
from harness.doubles.topics import topic_id_of
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.groups.consumer import Consumer, form_group
from tests.groups.driver import Driver

ORDERS = topic_id_of(1)
MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def driver() -> Driver:
    return Driver(GroupSettings(offset_metadata_max_bytes=10))


def request(
    *partitions: tuple[str, int, int], metadata: str | None = "", epoch: int = -1, **kwargs: Any
) -> OffsetCommitRequest:
    """A commit of (topic, partition, offset)s for group g by no member."""
    asked: dict[str, list[OffsetCommitRequestPartition]] = {}
    for topic, partition, offset in partitions:
        asked.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_metadata=metadata,
                committed_leader_epoch=epoch,
            )
        )
    topics = [OffsetCommitRequestTopic(name=name, partitions=entries) for name, entries in asked.items()]
    return OffsetCommitRequest(**{"group_id": "g", "topics": topics, **kwargs})


def outcomes(reply: OffsetCommitResponse) -> dict[tuple[str, int], int]:
    return {(t.name, p.partition_index): p.error_code for t in reply.topics for p in t.partitions}


def stored(driver: Driver, partition: int = 0, topic: str = "orders") -> CommittedOffset | None:
    return driver.shard.offsets.get("g", topic, partition)


def named_twice(*more: tuple[str, int, int]) -> OffsetCommitRequest:
    """A commit in which two entries are about one topic."""
    twice = request(("orders", 0, 1))
    twice.topics += [*request(("orders", 1, 2)).topics, *request(*more).topics]
    return twice


def shape(reply: OffsetCommitResponse) -> list[tuple[str, list[int]]]:
    return [(topic.name, [p.partition_index for p in topic.partitions]) for topic in reply.topics]


def test_a_topic_named_twice_is_answered_twice_unless_something_is_refused(driver: Driver) -> None:
    assert shape(driver.call(named_twice(), 9)) == [("orders", [0]), ("orders", [1])]
    with_refusal = driver.call(named_twice(("orders", 9, 3)), 9)
    assert shape(with_refusal) == [("orders", [9, 0, 1])]
    elsewhere = driver.call(named_twice(("nowhere", 0, 3)), 9)
    assert shape(elsewhere) == [("nowhere", [0]), ("orders", [0, 1])]
    assert stored(driver) is not None


def test_o1_everything_a_commit_says_is_kept(driver: Driver) -> None:
    driver.call(request(("orders", 2, 41), metadata="note", epoch=7), 9)
    assert stored(driver, 2) == CommittedOffset(
        offset=41,
        leader_epoch=7,
        metadata="note",
        commit_wall_ms=driver.wall_ms,
        expire_wall_ms=NO_EXPIRY,
        topic_id=ORDERS,
        log_offset=0,
    )
    driver.assert_replay_agrees()


def test_o1_null_metadata_is_kept_as_an_empty_string(driver: Driver) -> None:
    driver.call(request(("orders", 0, 1), metadata=None), 9)
    found = stored(driver)
    assert found is not None
    assert found.metadata == ""


def test_o1_an_old_client_may_ask_for_a_retention_of_its_own(driver: Driver) -> None:
    driver.call(request(("orders", 0, 1), retention_time_ms=500), 2)
    found = stored(driver)
    assert found is not None
    assert (found.expire_wall_ms, found.topic_id) == (driver.wall_ms + 500, ZERO_UUID)
    driver.assert_replay_agrees()


def test_o2_the_last_record_wins(driver: Driver) -> None:
    driver.call(request(("orders", 0, 10)), 9)
    driver.call(request(("orders", 0, 3)), 9)
    found = stored(driver)
    assert found is not None
    assert (found.offset, found.log_offset) == (3, 1)


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 10, ErrorCode.NONE),
        ("x" * 11, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("é" * 10, ErrorCode.NONE),
        ("😀" * 5, ErrorCode.NONE),
        ("😀" * 6, ErrorCode.OFFSET_METADATA_TOO_LARGE),  # Twelve units to Java.
    ],
)
def test_o3_metadata_is_measured_as_java_measures_it(driver: Driver, metadata: str, error: ErrorCode) -> None:
    reply = driver.call(request(("orders", 0, 1), metadata=metadata), 9)
    assert outcomes(reply) == {("orders", 0): error}
    assert (stored(driver) is None) == (error is not ErrorCode.NONE)


def test_o3_one_partition_too_long_keeps_none_of_the_others_out(driver: Driver) -> None:
    mixed = request(("orders", 0, 1), ("orders", 1, 2))
    mixed.topics[0].partitions[0].committed_metadata = "x" * 11
    reply = driver.call(mixed, 9)
    assert outcomes(reply) == {("orders", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE, ("orders", 1): 0}
    assert stored(driver, 1) is not None


@pytest.mark.parametrize("offset", [0, -1, -(2**63), 2**63 - 1])
def test_o4_any_offset_is_stored(driver: Driver, offset: int) -> None:
    driver.call(request(("orders", 0, offset)), 9)
    found = stored(driver)
    assert found is not None
    assert found.offset == offset


def test_o5_a_consumer_without_a_group_makes_a_simple_one(driver: Driver) -> None:
    reply = driver.call(request(("orders", 0, 1), member_id="whatever"), 9)
    assert outcomes(reply) == {("orders", 0): 0}
    assert (driver.group().state, driver.group().protocol_type) == (EMPTY, None)
    driver.restart()
    assert driver.group().protocol_type is None


def test_o5_an_empty_group_takes_commits_of_outsiders(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    consumer.leave()
    assert outcomes(driver.call(request(("orders", 0, 1)), 9)) == {("orders", 0): 0}


def test_o6_membership_and_generation_must_be_right(driver: Driver) -> None:
    consumer = Consumer(driver, instance_id="i")
    form_group(driver, consumer)

    def error(member_id: str, generation_id: int, instance_id: str | None = None) -> int:
        commit = request(
            ("orders", 0, 1),
            member_id=member_id,
            generation_id_or_member_epoch=generation_id,
            group_instance_id=instance_id,
        )
        return outcomes(driver.call(commit, 9))["orders", 0]

    member_id = consumer.member_id
    assert error(member_id, 1, "i") == ErrorCode.NONE
    assert error(member_id, 1) == ErrorCode.NONE
    assert error("unknown", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error("unknown", 1, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert error(member_id, 1, "x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(member_id, 0) == ErrorCode.ILLEGAL_GENERATION
    assert error(member_id, -1) == ErrorCode.ILLEGAL_GENERATION
    assert error("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error("", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_o7_completing_refuses_and_preparing_takes_the_old_generation(driver: Driver) -> None:
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, leader, follower)
    leader.send_join()
    assert driver.group().state is PREPARING_REBALANCE
    assert follower.commit(5) is ErrorCode.NONE
    follower.join()
    assert driver.group().state is COMPLETING_REBALANCE
    assert follower.commit(6) is ErrorCode.REBALANCE_IN_PROGRESS


def test_o8_the_reply_waits_for_the_disk(driver: Driver) -> None:
    driver.hold_disk()
    token = driver.send(request(("orders", 0, 1)), 9)
    assert not driver.answered(token)
    driver.flush()
    assert driver.answered(token)


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_generation_of_a_group_that_is_not_there(driver: Driver, version: int, error: ErrorCode) -> None:
    commit = request(("orders", 0, 1), member_id="m", generation_id_or_member_epoch=3)
    assert outcomes(driver.call(commit, version)) == {("orders", 0): error}
    assert driver.shard.groups == {}


def test_o27_what_does_not_exist_is_refused_by_itself_and_answered_first(driver: Driver) -> None:
    commit = request(
        ("orders", 0, 1), ("nowhere", 0, 1), ("orders", 4, 1), ("clicks", -1, 1), ("clicks", 1, 1)
    )
    reply = driver.call(commit, 9)
    assert [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in reply.topics] == [
        ("orders", [(4, MISSING), (0, 0)]),
        ("nowhere", [(0, MISSING)]),
        ("clicks", [(-1, MISSING), (1, 0)]),
    ]
    assert driver.shard.offsets.count() == 2


def test_with_nothing_left_to_store_the_group_is_not_even_looked_at(driver: Driver) -> None:
    commit = request(("nowhere", 0, 1), member_id="m", generation_id_or_member_epoch=3)
    assert outcomes(driver.call(commit, 9)) == {("nowhere", 0): MISSING}


def test_version_10_names_topics_by_id(driver: Driver) -> None:
    unknown = topic_id_of(99)
    topics = [
        OffsetCommitRequestTopic(
            topic_id=topic_id,
            partitions=[OffsetCommitRequestPartition(partition_index=i, committed_offset=5) for i in (0, 9)],
        )
        for topic_id in (ORDERS, unknown)
    ]
    reply = driver.call(OffsetCommitRequest(group_id="g", topics=topics), 10)

    def answered(topic_id: bytes, name: str, *errors: tuple[int, int]) -> OffsetCommitResponseTopic:
        partitions = [OffsetCommitResponsePartition(partition_index=i, error_code=e) for i, e in errors]
        return OffsetCommitResponseTopic(topic_id=topic_id, name=name, partitions=partitions)

    lost = ErrorCode.UNKNOWN_TOPIC_ID
    assert reply.topics == [
        answered(ORDERS, "orders", (9, MISSING), (0, 0)),
        answered(unknown, "", (0, lost), (9, lost)),
    ]
    assert stored(driver) is not None


def test_the_empty_group_id_is_a_group_like_any_other(driver: Driver) -> None:
    assert outcomes(driver.call(request(("orders", 0, 1), group_id=""), 9)) == {("orders", 0): 0}


def test_a_commit_that_the_log_refuses_leaves_nothing_behind(driver: Driver) -> None:
    with driver.refusing_records():
        reply = driver.call(request(("orders", 0, 1)), 9)
    assert outcomes(reply) == {("orders", 0): ErrorCode.UNKNOWN_SERVER_ERROR}
    assert driver.shard.groups == {}
    assert driver.shard.offsets.count() == 0
