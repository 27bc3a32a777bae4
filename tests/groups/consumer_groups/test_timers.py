"""Timers beside requests that wait for a target, and beside records that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from coordinator.groups.consumer.timers import MemberSessionTimer
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatTopicPartitions
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.groups.consumer import Consumer
from tests.groups.consumer_groups.new_member import ORDERS, NewMember
from tests.groups.driver import Driver

TIMEOUT_MS = 10_000


@pytest.fixture
def slow() -> Driver:
    """Every target is too large to be computed at once."""
    return Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=0, most_weight=0))


def new_member(driver: Driver, member_id: str, **joins: Any) -> NewMember:
    """A member that has joined, and its target was computed."""
    member = NewMember(driver, member_id, **joins)
    token = member.send()
    driver.finish_work()
    member.take(driver.replies.pop(token))
    return member


def classic_member(driver: Driver) -> Consumer:
    """A classic member beside one of the new protocol."""
    new_member(driver, "n")
    classic = Consumer(driver, "c", version=3, session_ms=45_000, rebalance_ms=TIMEOUT_MS)
    joined(classic)
    return classic


def joined(classic: Consumer) -> None:
    classic.send_join()
    classic.driver.finish_work()
    assert classic.collect_join().error_code == ErrorCode.NONE


def test_a_classic_member_that_joins_again_in_time_stays(slow: Driver) -> None:
    classic = classic_member(slow)
    assert classic.sync().error_code == ErrorCode.NONE
    new_member(slow, "n2")
    assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    slow.advance(TIMEOUT_MS - 1)
    NewMember(slow, "n3").send()
    rejoining = classic.send_join()
    slow.advance(1)
    slow.finish_work()
    assert slow.replies[rejoining].error_code == ErrorCode.NONE
    assert classic.member_id in slow.shard.consumer_groups["g"].members


def test_a_classic_member_that_joins_again_has_as_long_as_before_to_fetch_its_assignment(
    slow: Driver,
) -> None:
    """The timer of its former JoinGroup waits behind the new one, which sets it anew."""
    classic = classic_member(slow)
    slow.advance(TIMEOUT_MS - 1)
    NewMember(slow, "n2").send()
    classic.send_join()
    slow.advance(1)
    slow.finish_work()
    classic.collect_join()
    assert classic.member_id in slow.shard.consumer_groups["g"].members
    slow.advance(TIMEOUT_MS)
    assert classic.member_id not in slow.shard.consumer_groups["g"].members


def test_a_member_that_gave_up_in_time_and_is_to_give_up_more_has_as_long_again(slow: Driver) -> None:
    """It stays in its epoch meanwhile."""
    member = new_member(slow, "m", rebalance_timeout_ms=TIMEOUT_MS)
    new_member(slow, "n1")
    member.beat()
    assert member.assigned == {ORDERS: [0, 1]}
    slow.advance(TIMEOUT_MS - 1)
    NewMember(slow, "n2").send()
    confirming = member.send(topic_partitions=owned(member))
    slow.advance(1)
    slow.finish_work()
    member.take(slow.replies.pop(confirming))
    assert (member.epoch, member.assigned) == (2, {ORDERS: [0]})
    assert "m" in slow.shard.consumer_groups["g"].members
    slow.advance(TIMEOUT_MS)
    assert "m" not in slow.shard.consumer_groups["g"].members


def test_members_whose_removal_is_refused_have_a_session_again() -> None:
    """A LeaveGroup of more members than a batch can have; one of them is to give something up."""
    driver = Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=0))
    first, second = (NewMember(driver, each, rebalance_timeout_ms=TIMEOUT_MS) for each in "ab")
    for each in (first, second, first):
        each.beat()
    identities = [MemberIdentity(member_id=each) for each in "ab"]
    with driver.refusing_records(ErrorCode.RECORD_LIST_TOO_LARGE):
        answer = driver.call(LeaveGroupRequest(group_id="g", members=identities), 5)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    driver.advance(TIMEOUT_MS - 1)
    assert driver.shard.consumer_groups["g"].members.keys() == {"a", "b"}
    driver.advance(1)
    assert driver.shard.consumer_groups["g"].members.keys() == {"b"}
    driver.advance(35_000)
    assert not driver.shard.consumer_groups["g"].members
    assert not [each for each in driver.timers if isinstance(each, MemberSessionTimer)]


def test_members_that_were_removed_together_have_no_timers() -> None:
    driver = Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=0))
    for each in "ab":
        NewMember(driver, each).beat()
    identities = [MemberIdentity(member_id=each) for each in "ab"]
    driver.call(LeaveGroupRequest(group_id="g", members=identities), 5)
    assert not driver.shard.consumer_groups["g"].members
    assert not [each for each in driver.timers if isinstance(each, MemberSessionTimer)]


def owned(member: NewMember) -> list[ConsumerGroupHeartbeatTopicPartitions]:
    return [
        ConsumerGroupHeartbeatTopicPartitions(topic_id=t, partitions=p) for t, p in member.assigned.items()
    ]
