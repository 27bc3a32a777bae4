"""Consumer groups in a shard: beside classic ones, over restarts, and as all other requests see them."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.groups.classic.timers import OffsetExpiryTimer, SessionTimer
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from coordinator.groups.consumer.timers import MemberSessionTimer, RevocationTimer
from coordinator.offsets.transactional_commit import TransactionalCommit
from coordinator.shard.bulk_replay import NO_OFFSET
from coordinator.shard.shard import Shard
from coordinator.shard.snapshot import decode_state, encode_state
from protocol.consumer import ConsumerProtocolAssignment, decode_assignment, encode_assignment
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
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
from protocol.messages.shared import TopicPartitions
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.groups.consumer import Consumer, form_group
from tests.groups.consumer_groups.new_member import ORDERS, NewMember, settle
from tests.groups.driver import Driver

DAY_MS = 86_400_000


@pytest.fixture
def driver() -> Driver:
    return Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=0))


def listed(driver: Driver, **filters: Any) -> list[tuple[str, str, str, str]]:
    groups = driver.call(ListGroupsRequest(**filters), 5).groups
    return [(each.group_id, each.group_type, each.group_state, each.protocol_type) for each in groups]


def described(driver: Driver, group_id: str = "g") -> Any:
    (group,) = driver.call(ConsumerGroupDescribeRequest(group_ids=[group_id]), 1).groups
    return group


def fetched(driver: Driver, member_id: str | None, epoch: int) -> tuple[ErrorCode, int | None]:
    """The group's error, and the offset of partition 0."""
    asked = OffsetFetchRequestGroup(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])],
    )
    (group,) = driver.call(OffsetFetchRequest(groups=[asked]), 9).groups
    found = group.topics[0].partitions[0].committed_offset if group.topics else None
    return ErrorCode(group.error_code), found


def test_a_member_is_told_its_partitions_when_they_are_durable(driver: Driver) -> None:
    member = NewMember(driver, "m")
    driver.hold_disk()
    token = member.send()
    assert not driver.answered(token), "an answer shows what a crash would undo"
    driver.flush()
    member.take(driver.replies.pop(token))
    assert (member.epoch, member.assigned) == (2, {ORDERS: [0, 1, 2, 3]})
    driver.assert_replay_agrees()


def test_partitions_move_once_they_are_given_up(driver: Driver) -> None:
    first, second = NewMember(driver, "a"), NewMember(driver, "b")
    first.beat()
    second.beat()
    assert second.assigned == {ORDERS: []} or second.assigned == {}
    assert driver.shard.consumer_groups["g"].state.value == "Reconciling"
    settle(first, second)
    assert sorted(first.assigned[ORDERS] + second.assigned[ORDERS]) == [0, 1, 2, 3]
    assert len(first.assigned[ORDERS]) == 2
    assert first.epoch == second.epoch == 3
    driver.assert_replay_agrees()


def test_a_restart_keeps_epochs_and_partitions_and_begins_sessions_anew(driver: Driver) -> None:
    first, second = NewMember(driver, "a"), NewMember(driver, "b")
    first.beat()
    settle(first)
    second.beat()
    first.beat()  # It is told to give up two of them, and has not said yet that it did.
    assert driver.shard.consumer_groups["g"].currents["a"].pending_revocation
    driver.advance(30_000)
    driver.restart()
    at = driver.now_ms
    assert driver.timers[MemberSessionTimer("g", "a")] == at + 45_000
    assert driver.timers[RevocationTimer("g", "a")] == at + 60_000
    settle(first, second)
    assert sorted(first.assigned[ORDERS] + second.assigned[ORDERS]) == [0, 1, 2, 3]


def test_a_silent_member_goes_and_its_partitions_with_it(driver: Driver) -> None:
    first, second = NewMember(driver, "a"), NewMember(driver, "b")
    first.beat()
    second.beat()
    settle(first, second)
    for _ in range(5):
        driver.advance(10_000)
        second.own()
    settle(second)
    assert second.assigned == {ORDERS: [0, 1, 2, 3]}
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_answer_of_a_crash_shows_no_epoch_that_is_undone(driver: Driver) -> None:
    first = NewMember(driver, "a")
    first.beat()
    driver.hold_disk()
    second = NewMember(driver, "b")
    second.send()
    driver.crash()
    assert driver.shard.consumer_groups["g"].epoch == 2
    assert first.own().member_epoch == 2


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (ConsumerGroupDescribeRequest(group_ids=["g"]), 1),
        (ListGroupsRequest(), 5),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 9),
    ],
)
def test_a74_what_is_read_waits_until_it_is_durable(driver: Driver, request_: Any, version: int) -> None:
    first = NewMember(driver, "a")
    first.beat()
    first.commit(1)
    driver.hold_disk()
    NewMember(driver, "b").send()
    asked = driver.send(request_, version)
    assert not driver.answered(asked), "it would show a member, a state or a subscription that may be lost"
    driver.flush()
    assert driver.answered(asked)


# Classic members.


def assignments_of(leader: Consumer, *partitions: tuple[int, ...]) -> dict[str, bytes]:
    return {
        member_id: encode_assignment(
            ConsumerProtocolAssignment(
                assigned_partitions=[TopicPartitions(topic="orders", partitions=list(each))]
            )
        )
        for member_id, each in zip(leader.members, partitions, strict=True)
    }


def classic_group(driver: Driver, size: int = 2) -> list[Consumer]:
    """A Stable classic group, whose members have the partitions of "orders" between them."""
    members = [Consumer(driver, f"c{number}") for number in range(size)]
    for member in members:
        member.join()
    driver.advance(6_000)  # The initial delay, begun anew by the second member.
    for member in members:
        member.collect_join()
    leader = next(member for member in members if member.leads)
    shares = [tuple(range(4))[start::size] for start in range(size)]
    token = leader.send_sync(assignments_of(leader, *shares))
    driver.replies.pop(token)
    for member in members:
        if member is not leader:
            member.sync()
    return members


def test_a_classic_group_is_upgraded_while_its_members_live_on(driver: Driver) -> None:
    first, second = classic_group(driver)
    assert first.commit(17) == ErrorCode.NONE
    new = NewMember(driver, "new")
    assert new.beat().error_code == ErrorCode.NONE
    assert "g" not in driver.shard.groups
    assert listed(driver) == [("g", "consumer", "Reconciling", "consumer")]
    assert fetched(driver, None, -1) == (ErrorCode.NONE, 17)
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    for member in (first, second):
        reply = member.join()
        assert (reply.error_code, reply.leader, reply.members) == (ErrorCode.NONE, "", [])
        assert member.sync({}).error_code == ErrorCode.NONE
    driver.assert_replay_agrees()
    driver.restart()
    assert listed(driver)[0][:2] == ("g", "consumer")
    assert len(driver.shard.consumer_groups["g"].members) == 3


def test_members_parked_in_a_join_are_sent_back_by_an_upgrade(driver: Driver) -> None:
    _, second = classic_group(driver)
    third = Consumer(driver, "c3")
    assert third.join() is None
    assert not driver.answered(third.parked)
    NewMember(driver, "new").beat()
    assert driver.replies.pop(third.parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_that_an_upgrade_meets_goes_on_with_its_cause_and_its_time(driver: Driver) -> None:
    staying, leaving = classic_group(driver)
    driver.advance(4_000)
    leaving.leave()
    driver.advance(250)
    NewMember(driver, "new").beat()
    upgraded = driver.history[-1]
    assert (upgraded.from_state, upgraded.phase_ms) == ("PreparingRebalance", {"PreparingRebalance": 250})
    driver.advance(400)
    staying.join()
    over = driver.history[-1]
    assert (over.to_state, over.cause, over.rebalance_cause) == (
        "Stable",
        "members_reconciled",
        "member_left",
    )
    assert over.rebalance_ms == {"PreparingRebalance": 250, "Reconciling": 400}


def test_the_last_new_member_leaves_a_classic_group_behind(driver: Driver) -> None:
    first, second = classic_group(driver)
    new = NewMember(driver, "new")
    new.beat()
    for member in (first, second):
        member.join()
        member.sync({})
    assert new.leave().error_code == ErrorCode.NONE
    assert listed(driver) == [("g", "classic", "PreparingRebalance", "consumer")]
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    driver.assert_replay_agrees()
    first.send_join()
    second.send_join()
    assert first.collect_join().generation_id > 1
    driver.restart()
    assert driver.shard.consumer_groups == {}
    assert set(driver.group().members) == {first.member_id, second.member_id}


def test_a_classic_member_in_a_consumer_group_has_an_id_of_22_characters(driver: Driver) -> None:
    NewMember(driver, "new").beat()
    member = Consumer(driver, "c1")
    member.join()
    assert len(member.member_id) == 22
    assert "c1" not in member.member_id
    synced = member.sync({})
    assert synced.error_code == ErrorCode.NONE
    assert member.heartbeat() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.leave().members[0].error_code == ErrorCode.NONE
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    decode_assignment(synced.assignment)


def test_a_refused_classic_join_has_no_protocol_and_leaves_no_trace(driver: Driver) -> None:
    NewMember(driver, "new").beat()
    records = len(driver.log)
    member = Consumer(driver, "c1", protocol_type="connect")
    reply = member.join()
    assert (reply.error_code, reply.protocol_name) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None)
    assert len(driver.log) == records


def test_no_timer_of_the_classic_group_is_left_behind_an_upgrade(driver: Driver) -> None:
    classic_group(driver)
    assert any(isinstance(key, SessionTimer) for key in driver.timers)
    NewMember(driver, "new").beat()
    kinds = {type(key) for key in driver.timers}
    assert kinds == {MemberSessionTimer, OffsetExpiryTimer}


def test_a_classic_join_takes_over_a_group_without_members(driver: Driver) -> None:
    new = NewMember(driver, "new")
    new.beat()
    new.leave()
    assert listed(driver) == [("g", "consumer", "Empty", "consumer")]
    form_group(driver, Consumer(driver, "c1"))
    assert listed(driver) == [("g", "classic", "Stable", "consumer")]
    driver.assert_replay_agrees()


def test_an_upgrade_that_is_not_stored_leaves_the_classic_group(driver: Driver) -> None:
    first, _ = classic_group(driver)
    with driver.refusing_records(ErrorCode.COORDINATOR_NOT_AVAILABLE):
        reply = NewMember(driver, "new").beat()
    assert reply.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert listed(driver) == [("g", "classic", "Stable", "consumer")]
    assert first.heartbeat() == ErrorCode.NONE


def test_a_classic_heartbeat_of_a_consumer_group_waits_for_the_disk(driver: Driver) -> None:
    new = NewMember(driver, "new")
    new.beat()
    member = Consumer(driver, "c1")
    member.join()
    member.sync({})
    settle(new)
    driver.hold_disk()
    NewMember(driver, "other").send()
    request = HeartbeatRequest(group_id="g", generation_id=member.generation_id, member_id=member.member_id)
    assert not driver.answered(driver.send(request, 4))


# Offsets (A66 to A69).


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(2, ErrorCode.NONE), (3, ErrorCode.STALE_MEMBER_EPOCH), (1, ErrorCode.STALE_MEMBER_EPOCH)],
)
def test_a66_a_commit_is_of_the_members_epoch(driver: Driver, epoch: int, error: ErrorCode) -> None:
    member = NewMember(driver, "m")
    member.beat()
    assert member.commit(5, epoch=epoch) == error


def test_a66_a_commit_of_an_older_epoch_is_taken_for_what_the_member_had_then(driver: Driver) -> None:
    first, second = NewMember(driver, "a"), NewMember(driver, "b")
    first.beat()
    second.beat()
    settle(first, second)
    kept = first.assigned[ORDERS][0]
    (lost, *_) = (each for each in range(4) if each not in first.assigned[ORDERS])
    gained = second.assigned[ORDERS][0]
    assert first.commit(1, partition=kept, epoch=2) == ErrorCode.NONE
    assert first.commit(1, partition=lost, epoch=2) == ErrorCode.STALE_MEMBER_EPOCH
    assert second.commit(1, partition=gained, epoch=2) == ErrorCode.STALE_MEMBER_EPOCH


def test_a66_what_is_to_be_given_up_may_still_be_committed(driver: Driver) -> None:
    first, second = NewMember(driver, "a"), NewMember(driver, "b")
    first.beat()
    settle(first)
    second.beat()
    first.beat()
    pending = driver.shard.consumer_groups["g"].currents["a"].pending_revocation
    (partition, *_) = pending[ORDERS]
    assert first.commit(9, partition=partition) == ErrorCode.NONE


def test_a66_a_commit_of_what_is_to_be_given_up_in_an_older_epoch(driver: Driver) -> None:
    """It was sent before the member heard that a partition is another's."""
    first = NewMember(driver, "a")
    first.beat()
    settle(first)
    first.beat(subscribed_topic_names=["orders", "clicks"])  # Epoch 3, in which it gains "clicks".
    settle(first)
    NewMember(driver, "b").beat()
    first.beat()
    current = driver.shard.consumer_groups["g"].currents["a"]
    (partition, *_) = current.pending_revocation[ORDERS]
    assert first.commit(9, partition=partition, epoch=current.member_epoch - 1) == ErrorCode.NONE


def test_a66_who_else_may_commit(driver: Driver) -> None:
    member = NewMember(driver, "m")
    member.beat()
    stranger = NewMember(driver, "")
    assert stranger.commit(1, epoch=-1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert NewMember(driver, "x").commit(1, epoch=2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.commit(1, version=8) == ErrorCode.UNSUPPORTED_VERSION
    member.leave()
    assert stranger.commit(1, epoch=-1) == ErrorCode.NONE
    assert listed(driver) == [("g", "consumer", "Empty", "consumer")], "no classic group was made of it"


def test_a66_one_partition_that_is_refused_refuses_all(driver: Driver) -> None:
    first, second = NewMember(driver, "a"), NewMember(driver, "b")
    first.beat()
    second.beat()
    settle(first, second)
    topic = OffsetCommitRequestTopic(
        name="orders",
        partitions=[
            OffsetCommitRequestPartition(partition_index=each, committed_offset=3) for each in range(4)
        ],
    )
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=2, member_id="a", topics=[topic]
    )
    (answered,) = driver.call(request, 9).topics
    assert {each.error_code for each in answered.partitions} == {ErrorCode.STALE_MEMBER_EPOCH}


def test_a66_a_classic_member_is_told_of_its_generation(driver: Driver) -> None:
    NewMember(driver, "new").beat()
    member = Consumer(driver, "c1")
    member.join()
    member.sync({})
    member.generation_id += 1
    assert member.commit(1, version=8) == ErrorCode.ILLEGAL_GENERATION


def test_a67_a_transaction_hears_of_no_epochs(driver: Driver) -> None:
    NewMember(driver, "m").beat()

    def commit(member_id: str, epoch: int, producer_id: int) -> int:
        topic = TxnOffsetCommitRequestTopic(
            name="orders",
            partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=4)],
        )
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            producer_id=producer_id,
            producer_epoch=0,
            generation_id=epoch,
            member_id=member_id,
            topics=[topic],
        )
        verified = TransactionalCommit(request, ErrorCode.NONE, driver.shard.begin_verification(request))
        return int(driver.call(verified, 3).topics[0].partitions[0].error_code)

    assert commit("", -1, 1) == ErrorCode.NONE
    assert commit("m", 2, 2) == ErrorCode.NONE
    assert commit("m", 3, 3) == ErrorCode.ILLEGAL_GENERATION
    assert commit("x", 2, 4) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a68_a_member_fetches_in_its_epoch(driver: Driver) -> None:
    member = NewMember(driver, "m")
    member.beat()
    member.commit(12)
    assert fetched(driver, None, -1) == (ErrorCode.NONE, 12)
    assert fetched(driver, "m", 2) == (ErrorCode.NONE, 12)
    assert fetched(driver, "m", 1) == (ErrorCode.STALE_MEMBER_EPOCH, None)
    assert fetched(driver, "x", 2) == (ErrorCode.UNKNOWN_MEMBER_ID, None)
    assert fetched(driver, "", -1) == (ErrorCode.UNKNOWN_MEMBER_ID, None)
    assert fetched(driver, None, 2) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


def deleted_offset(driver: Driver, topic: str) -> int:
    named = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    reply = driver.call(OffsetDeleteRequest(group_id="g", topics=[named]), 0)
    assert reply.error_code == ErrorCode.NONE
    return int(reply.topics[0].partitions[0].error_code)


def test_a69_offsets_of_what_is_read_are_not_deleted(driver: Driver) -> None:
    by_name = NewMember(driver, "m", topics=("orders",))
    by_name.beat()
    by_name.commit(1)
    assert deleted_offset(driver, "orders") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert deleted_offset(driver, "clicks") == ErrorCode.NONE
    by_regex = NewMember(driver, "r", topics=(), subscribed_topic_regex="cl.*")
    by_regex.beat()
    driver.finish_work()
    assert deleted_offset(driver, "clicks") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    by_name.leave()
    by_regex.leave()
    assert deleted_offset(driver, "orders") == ErrorCode.NONE


def test_a69_a_group_is_deleted_once_it_has_no_members(driver: Driver) -> None:
    member = NewMember(driver, "m")
    member.beat()
    member.commit(1)
    assert driver.call(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == (
        ErrorCode.NON_EMPTY_GROUP
    )
    member.leave()
    assert driver.call(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == ErrorCode.NONE
    assert listed(driver) == []
    assert fetched(driver, None, -1) == (ErrorCode.NONE, -1)
    driver.assert_replay_agrees()
    driver.restart()
    assert listed(driver) == []
    assert driver.history[-1].cause == "group_deleted"


def test_a69_offsets_expire_by_their_commits_and_the_group_with_the_last(driver: Driver) -> None:
    member = NewMember(driver, "m")
    member.beat()
    member.commit(1)
    driver.advance(30_000)
    driver.timers.pop(MemberSessionTimer("g", "m"))
    driver.advance(8 * DAY_MS)
    assert fetched(driver, None, -1) == (ErrorCode.NONE, 1), "it is subscribed"
    member.leave()
    driver.advance(DAY_MS)
    assert listed(driver) == []
    assert driver.shard.offsets.get("g", "orders", 0) is None


# Describing (A70 to A73).


def test_a70_a_group_is_described_with_what_members_have_and_are_to_have(driver: Driver) -> None:
    first = NewMember(driver, "a", instance_id="i", rack_id="r", server_assignor="range")
    first.beat()
    settle(first)
    NewMember(driver, "b").beat()
    first.beat()
    group = described(driver)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "range"
    shown = {each.member_id: each for each in group.members}
    (assigned,) = shown["a"].assignment.topic_partitions
    assert (assigned.topic_name, sorted(assigned.partitions)) == ("orders", [0, 1, 2, 3]), "pending ones too"
    (target,) = shown["a"].target_assignment.topic_partitions
    assert len(target.partitions) == 2
    assert (shown["a"].instance_id, shown["a"].rack_id, shown["a"].member_epoch) == ("i", "r", 2)
    assert (shown["b"].subscribed_topic_names, shown["b"].subscribed_topic_regex) == (["orders"], "")
    assert shown["b"].member_type == 1
    Consumer(driver, "c1").join()
    assert sorted(each.member_type for each in described(driver).members) == [0, 1, 1]


def test_a70_partitions_of_a_deleted_topic_are_left_out(driver: Driver) -> None:
    NewMember(driver, "a").beat()
    driver.topics.forget("orders")
    (member,) = described(driver).members
    assert (member.assignment.topic_partitions, member.target_assignment.topic_partitions) == ([], [])


def test_a70_what_is_no_consumer_group_is_not_found(driver: Driver) -> None:
    form_group(driver, Consumer(driver, "c1"))
    classic, absent, blank = (described(driver, group_id) for group_id in ("g", "other", ""))
    assert classic.error_message == "Group g is not a consumer group."
    assert absent.error_message == "Group other not found."
    assert {each.error_code for each in (classic, absent)} == {ErrorCode.GROUP_ID_NOT_FOUND}
    assert (blank.error_code, blank.group_state) == (ErrorCode.INVALID_GROUP_ID, "")


def test_a72_it_is_no_classic_group_either(driver: Driver) -> None:
    NewMember(driver, "m").beat()
    (group,) = driver.call(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert group.error_message == "Group g is not a classic group."
    (group,) = driver.call(DescribeGroupsRequest(groups=["g"]), 5).groups
    assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Dead")


def test_a73_groups_are_listed_by_type_and_state(driver: Driver) -> None:
    NewMember(driver, "m").beat()
    form_group(driver, Consumer(driver, "c1", group_id="classic"))
    new, old = ("g", "consumer", "Stable", "consumer"), ("classic", "classic", "Stable", "consumer")
    assert sorted(listed(driver)) == sorted([new, old])
    assert listed(driver, types_filter=["Consumer"]) == [new]
    assert listed(driver, types_filter=["classic"]) == [old]
    assert listed(driver, types_filter=["share"]) == []
    assert sorted(listed(driver, states_filter=[" stable "])) == sorted([new, old])
    assert listed(driver, states_filter=["Assigning"]) == []


# What is stored.


def test_a_snapshot_of_a_shard_has_its_consumer_groups(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = NewMember(driver, "a"), NewMember(driver, "b", topics=(), subscribed_topic_regex="ord.*")
    first.beat()
    second.beat()
    driver.finish_work()
    settle(first)
    member = Consumer(driver, "c1")
    member.join()
    first.commit(3)
    state = encode_state(
        driver.shard.stored.values(), driver.shard.consumer_groups.values(), driver.shard.offsets
    )
    restored = Shard(0, driver.settings, driver.topics)
    for entry in decode_state(memoryview(b"".join(state))):
        restored.replay(entry, NO_OFFSET)
    monkeypatch.setattr(driver, "read_log", lambda: restored)  # What a start would have.
    driver.assert_replay_agrees()


def test_expressions_are_matched_aside_and_again_with_a_new_topic(driver: Driver) -> None:
    member = NewMember(driver, "m", topics=(), subscribed_topic_regex="ord.*")
    member.beat()
    assert member.assigned == {}
    driver.finish_work()
    member.own()
    assert member.assigned == {ORDERS: [0, 1, 2, 3]}
    driver.topics.grow("orders-2", 1)
    driver.advance(10_001)
    member.own()
    driver.finish_work()
    settle(member)
    assert len(member.assigned) == 2
    driver.assert_replay_agrees()


def test_a_topic_that_grows_is_assigned_with_the_next_heartbeat(driver: Driver) -> None:
    member = NewMember(driver, "m")
    member.beat()
    settle(member)
    driver.topics.grow("orders", 6)
    settle(member)
    assert member.assigned == {ORDERS: [0, 1, 2, 3, 4, 5]}


def test_a_heartbeat_of_a_classic_group_may_be_prepared_and_that_of_a_consumer_group_not(
    driver: Driver,
) -> None:
    form_group(driver, Consumer(driver, "c1", group_id="classic"))
    NewMember(driver, "m").beat()
    assert driver.shard.prepares_heartbeats("classic")
    assert driver.shard.prepares_heartbeats("absent")
    assert not driver.shard.prepares_heartbeats("g")


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (ErrorCode.UNSUPPORTED_ASSIGNOR, {"server_assignor": "x" * 32_750}),
        (ErrorCode.GROUP_ID_NOT_FOUND, {"group_id": "x" * 32_750, "member_epoch": 5}),
        (ErrorCode.UNKNOWN_MEMBER_ID, {"member_id": "é" * 16_380, "member_epoch": 5}),
        (ErrorCode.UNKNOWN_MEMBER_ID, {"instance_id": "x" * 32_750, "member_epoch": 5}),
        (
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            {"subscribed_topic_names": None, "subscribed_topic_regex": "(" + "x" * 32_750},
        ),
    ],
)
def test_a_refusal_that_repeats_too_long_a_text_is_an_answer(
    driver: Driver, error: ErrorCode, fields: dict[str, Any]
) -> None:
    """The driver encodes each answer, as a connection does."""
    NewMember(driver, "m").beat()
    reply = NewMember(driver, "other").beat(**fields)
    assert reply.error_code == error
    assert reply.error_message is not None
    assert 32_700 < len(reply.error_message.encode()) <= 32_767
