"""TxnOffsetCommit: who may commit, what is held until the marker, and what becomes of it (O2, O13 to O16, O20)."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.effects import TopicDeleted
from coordinator.groups.group_settings import GroupSettings
from coordinator.offsets.shard_offsets import CommitVerification
from coordinator.offsets.transactional_commit import (
    TransactionalCommit,
    verification_answer,
)
from harness.doubles.topics import topic_id_of
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.groups.consumer import Consumer, form_group
from tests.groups.driver import Driver

RETENTION_MS = 60_000
INTERVAL_MS = 10_000
PRODUCER, OTHER = 7, 8
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def driver() -> Driver:
    return Driver(
        GroupSettings(
            offset_metadata_max_bytes=10,
            offsets_retention_minutes=1,
            offsets_retention_check_interval_ms=INTERVAL_MS,
        )
    )


def in_transaction(
    offset: int = 5, partition: int = 0, topic: str = "orders", metadata: str = "", **kwargs: Any
) -> TxnOffsetCommitRequest:
    committed = TxnOffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=metadata
    )
    fields: dict[str, Any] = {
        "transactional_id": "t",
        "group_id": "g",
        "producer_id": PRODUCER,
        "producer_epoch": 0,
        "topics": [TxnOffsetCommitRequestTopic(name=topic, partitions=[committed])],
    }
    return TxnOffsetCommitRequest(**fields | kwargs)


def verified(driver: Driver, request: TxnOffsetCommitRequest) -> TransactionalCommit:
    """As it comes to the shard when the transaction's coordinator knows of it."""
    verification = CommitVerification(request.producer_id)
    driver.shard.verifications.add(verification)
    return TransactionalCommit(request, ErrorCode.NONE, verification)


def hold(driver: Driver, *args: Any, version: int = 5, **kwargs: Any) -> int:
    """Commit within a transaction; the first partition's error."""
    reply = driver.call(verified(driver, in_transaction(*args, **kwargs)), version)
    return int(reply.topics[0].partitions[0].error_code)


def commit(driver: Driver, offset: int, partition: int = 0) -> None:
    committed = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[committed])
    reply = driver.call(OffsetCommitRequest(group_id="g", topics=[topic]), 9)
    assert reply.topics[0].partitions[0].error_code == 0


def fetched(driver: Driver, stable: bool = False, partition: int = 0) -> int | ErrorCode:
    """The offset that a reader gets, or the error."""
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[partition])
    group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
    reply = driver.call(OffsetFetchRequest(groups=[group], require_stable=stable), 9)
    found = reply.groups[0].topics[0].partitions[0]
    assert not found.error_code or found.committed_offset == -1
    return ErrorCode(found.error_code) or int(found.committed_offset)


def agrees(driver: Driver) -> Driver:
    """Assert that a load gives the same state as the test left."""
    driver.assert_replay_agrees()
    return driver


# What counts, and from when on.


def test_o14_an_offset_counts_from_its_commit_marker_on(driver: Driver) -> None:
    commit(driver, 1)
    assert hold(driver, 5) == 0
    assert fetched(driver) == 1
    agrees(driver).end_transaction(PRODUCER)
    assert fetched(agrees(driver)) == 5


def test_o14_an_aborted_offset_never_counts(driver: Driver) -> None:
    commit(driver, 1)
    hold(driver, 5)
    driver.end_transaction(PRODUCER, is_commit=False)
    driver.end_transaction(PRODUCER)
    assert fetched(agrees(driver)) == 1


def test_o14_several_producers_hold_one_partition_and_each_counts_for_itself(driver: Driver) -> None:
    hold(driver, 5)
    hold(driver, 6, producer_id=OTHER)
    driver.end_transaction(OTHER, is_commit=False)
    assert fetched(driver) == -1
    assert fetched(driver, stable=True) is UNSTABLE, "the first is still open"
    driver.end_transaction(PRODUCER)
    assert fetched(agrees(driver), stable=True) == 5


def test_o2_the_later_record_counts_whichever_ends_later(driver: Driver) -> None:
    hold(driver, 5)
    hold(driver, 6, producer_id=OTHER)
    driver.end_transaction(OTHER)
    driver.end_transaction(PRODUCER)
    assert fetched(driver) == 6
    hold(driver, 7)
    commit(driver, 8)
    driver.end_transaction(PRODUCER)
    assert fetched(agrees(driver)) == 8


def test_an_open_transaction_outlives_a_restart(driver: Driver) -> None:
    hold(driver, 5)
    driver.restart()
    assert fetched(driver, stable=True) is UNSTABLE
    assert driver.shard.groups.keys() == {"g"}
    driver.end_transaction(PRODUCER)
    assert fetched(agrees(driver)) == 5


def test_o13_only_stable_readers_see_an_open_transaction(driver: Driver) -> None:
    commit(driver, 1)
    commit(driver, 2, partition=1)
    hold(driver, 5)
    assert fetched(driver) == 1
    assert fetched(driver, stable=True) is UNSTABLE
    assert fetched(driver, stable=True, partition=1) == 2
    everything = OffsetFetchRequest(group_id="g", topics=None, require_stable=True)
    (topic,) = driver.call(everything, 7).topics
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(0, UNSTABLE), (1, 0)]


# Tombstones.


def delete_offset(driver: Driver) -> None:
    topic = OffsetDeleteRequestTopic(
        name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    reply = driver.call(OffsetDeleteRequest(group_id="g", topics=[topic]), 0)
    assert (reply.error_code, reply.topics[0].partitions[0].error_code) == (0, 0)


def delete_group(driver: Driver) -> None:
    reply = driver.call(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert reply.results[0].error_code == 0
    assert driver.shard.groups == {}


def delete_topic(driver: Driver) -> None:
    topic_id = driver.topics.topic_id("orders")
    assert topic_id is not None
    driver.handle(TopicDeleted("orders", topic_id, driver.wall_ms))


def delete_topic_by_its_id(driver: Driver) -> None:
    topic_id = driver.topics.topic_id("orders")
    assert topic_id is not None
    driver.handle(TopicDeleted("", topic_id, driver.wall_ms))


@pytest.mark.parametrize("was_committed", [True, False])
@pytest.mark.parametrize("delete", [delete_offset, delete_group, delete_topic, delete_topic_by_its_id])
def test_o16_a_tombstone_takes_along_what_is_held(driver: Driver, delete: Any, was_committed: bool) -> None:
    """O23 to O25: a tombstone is written for an offset that is only held, too."""
    if was_committed:
        commit(driver, 1)
    hold(driver, 5)
    hold(driver, 6, producer_id=OTHER)
    delete(driver)
    assert fetched(agrees(driver), stable=True) == -1
    driver.end_transaction(PRODUCER)
    driver.end_transaction(OTHER)
    assert fetched(agrees(driver)) == -1


@pytest.mark.parametrize("was_committed", [True, False])
def test_o16_a_load_takes_along_what_is_held_of_a_topic_that_went_meanwhile(
    driver: Driver, was_committed: bool
) -> None:
    """The marker may come after the load: then no later deletion would find the offset."""
    if was_committed:
        commit(driver, 1)
    hold(driver, 5)
    driver.topics.recreate("orders", topic_id_of(50))
    driver.restart()
    driver.end_transaction(PRODUCER)
    assert fetched(agrees(driver)) == -1


def test_o16_what_comes_behind_the_tombstone_is_held_again(driver: Driver) -> None:
    hold(driver, 5)
    delete_offset(driver)
    hold(driver, 6)
    driver.end_transaction(PRODUCER)
    assert fetched(agrees(driver)) == 6


def test_o23_what_is_held_of_a_topic_that_went_in_a_crash_goes_at_the_next_load(driver: Driver) -> None:
    """No shard heard of the deletion. Else the marker would bring the offset back, for a new topic of the name."""
    hold(driver, 5)
    driver.topics.recreate("orders", topic_id_of(9))
    driver.restart()
    driver.end_transaction(PRODUCER)
    assert fetched(agrees(driver)) == -1


def test_o23_what_is_held_of_a_former_topic_takes_nothing_of_the_new_one_along(driver: Driver) -> None:
    hold(driver, 5)
    driver.topics.recreate("orders", topic_id_of(9))
    commit(driver, 6)
    driver.restart()
    assert fetched(driver) == 6
    driver.end_transaction(PRODUCER)
    assert fetched(agrees(driver)) == 6


# Expiry.


def test_o20_nothing_expires_under_an_open_transaction(driver: Driver) -> None:
    commit(driver, 1)
    commit(driver, 2, partition=1)
    hold(driver, 5)
    driver.advance(RETENTION_MS + 2 * INTERVAL_MS)
    assert (fetched(driver), fetched(driver, partition=1)) == (1, -1)
    driver.end_transaction(PRODUCER, is_commit=False)
    driver.advance(INTERVAL_MS)
    assert fetched(agrees(driver)) == -1
    assert driver.shard.groups == {}


def test_o20_a_group_that_has_but_an_open_transaction_stays(driver: Driver) -> None:
    hold(driver, 5)
    driver.advance(2 * INTERVAL_MS)
    assert driver.shard.groups.keys() == {"g"}
    agrees(driver).end_transaction(PRODUCER, is_commit=False)
    driver.advance(INTERVAL_MS)
    assert driver.shard.groups == {}


# Who may commit.


def test_a_producer_that_speaks_for_no_member_may_whatever_the_group_does(driver: Driver) -> None:
    form_group(driver, Consumer(driver))
    assert hold(driver, 5) == 0
    driver.end_transaction(PRODUCER)
    assert fetched(agrees(driver)) == 5


def test_a_producer_that_speaks_for_a_member_must_know_it(driver: Driver) -> None:
    member = Consumer(driver)
    form_group(driver, member)
    generation = driver.group().generation_id
    assert hold(driver, generation_id=generation, member_id=member.member_id) == 0
    assert (
        hold(driver, generation_id=generation + 1, member_id=member.member_id) == ErrorCode.ILLEGAL_GENERATION
    )
    assert hold(driver, generation_id=generation, member_id="else") == ErrorCode.UNKNOWN_MEMBER_ID
    assert hold(driver, generation_id=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    static = hold(driver, generation_id=generation, member_id="else", group_instance_id="unknown")
    assert static == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_not_there_has_no_generation(driver: Driver) -> None:
    assert hold(driver, generation_id=1, member_id="one") == ErrorCode.ILLEGAL_GENERATION
    assert driver.shard.groups == {}


def test_partitions_are_refused_one_by_one(driver: Driver) -> None:
    assert hold(driver, partition=9) == MISSING
    assert hold(driver, topic="nowhere") == MISSING
    assert hold(driver, metadata="x" * 11) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert hold(driver, group_id="") == ErrorCode.INVALID_GROUP_ID
    assert driver.log == []


# Producers.


def test_a_producer_of_an_older_epoch_is_fenced(driver: Driver) -> None:
    hold(driver, 5, producer_epoch=1)
    assert hold(driver, 6, producer_epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert not asks(driver, in_transaction(producer_epoch=0)), "nor is its coordinator asked"
    driver.end_transaction(PRODUCER, epoch=2)
    assert hold(driver, 7, producer_epoch=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert hold(driver, 8, producer_epoch=2) == 0
    assert fetched(agrees(driver)) == 5


def asks(driver: Driver, request: TxnOffsetCommitRequest) -> bool:
    begun = driver.shard.begin_verification(request)
    if begun is not None:
        driver.shard.verifications.remove(begun)
    return begun is not None


def test_the_coordinator_is_asked_only_before_a_transaction_is_open_here(driver: Driver) -> None:
    assert asks(driver, in_transaction())
    assert not asks(driver, in_transaction(partition=9)), "nothing would be stored"
    assert not asks(driver, in_transaction(group_id=""))
    hold(driver, 5)
    assert not asks(driver, in_transaction(partition=1))
    assert asks(driver, in_transaction(producer_epoch=1))
    driver.end_transaction(PRODUCER)
    assert asks(driver, in_transaction())


def test_what_the_coordinator_refuses_is_not_stored(driver: Driver) -> None:
    refused = TransactionalCommit(in_transaction(), ErrorCode.CONCURRENT_TRANSACTIONS)
    reply = driver.call(refused, 5)
    assert reply.topics[0].partitions[0].error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.log == []


def test_a_marker_outdates_the_question_that_was_asked_before_it(driver: Driver) -> None:
    """KIP-890: or the batch would open a transaction that is never ended."""
    asked = verified(driver, in_transaction())
    driver.end_transaction(PRODUCER, is_commit=False)
    reply = driver.call(asked, 5)
    assert reply.topics[0].partitions[0].error_code == ErrorCode.INVALID_TXN_STATE
    assert driver.shard.verifications == set()
    other = verified(driver, in_transaction())
    driver.end_transaction(OTHER)
    assert driver.call(other, 5).topics[0].partitions[0].error_code == 0


def test_a_question_of_an_earlier_life_is_asked_again(driver: Driver) -> None:
    asked = verified(driver, in_transaction())
    driver.restart()
    reply = driver.call(asked, 5)
    assert reply.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("said", "version", "answered"),
    [
        (ErrorCode.NONE, 5, ErrorCode.NONE),
        (ErrorCode.PRODUCER_FENCED, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_TXN_STATE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_TXN_STATE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_TXN_STATE, 5, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_what_the_coordinator_says_is_answered_as_the_version_knows_it(
    said: ErrorCode, version: int, answered: ErrorCode
) -> None:
    assert verification_answer(said, version) is answered
