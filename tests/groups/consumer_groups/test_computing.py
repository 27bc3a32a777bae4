"""Large targets, which another thread computes: what concerns their group waits behind them, in its order."""

from __future__ import annotations

import pytest

from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.groups.consumer import Consumer
from tests.groups.consumer_groups.new_member import ORDERS, NewMember
from tests.groups.driver import Driver


@pytest.fixture
def slow() -> Driver:
    """Every target is too large to be computed at once."""
    return Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=0, most_weight=0))


def test_a_request_waits_for_a_target_that_is_computed_aside(slow: Driver) -> None:
    member = NewMember(slow, "m")
    token = member.send()
    assert not slow.answered(token)
    assert slow.log == []
    slow.finish_work()
    member.take(slow.replies.pop(token))
    assert (member.epoch, member.assigned) == (2, {ORDERS: [0, 1, 2, 3]})
    slow.assert_replay_agrees()


def test_what_concerns_the_group_waits_behind_it_in_its_order(slow: Driver) -> None:
    first, second = NewMember(slow, "a"), NewMember(slow, "b")
    asking = [first.send(), second.send()]
    commit = slow.send(
        OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=2,
            member_id="a",
            topics=[
                OffsetCommitRequestTopic(
                    name="orders",
                    partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=4)],
                )
            ],
        ),
        9,
    )
    describing = slow.send(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
    other = Consumer(slow, "c1", group_id="other")
    other.join()
    assert not any(map(slow.answered, (*asking, commit, describing)))
    assert other.parked is not None, "other groups do not wait"
    slow.finish_work()
    assert slow.answered(asking[0])
    assert not slow.answered(commit), "the second member's target is computed now"
    slow.finish_work()
    assert all(map(slow.answered, (*asking, commit, describing)))
    assert slow.replies[commit].topics[0].partitions[0].error_code == ErrorCode.NONE
    (group,) = slow.replies[describing].groups
    assert (group.group_epoch, len(group.members)) == (3, 2)
    slow.assert_replay_agrees()


def test_a_timer_waits_as_well(slow: Driver) -> None:
    first, second = NewMember(slow, "a"), NewMember(slow, "b")
    first.send()
    slow.finish_work()
    asking = second.send()
    slow.advance(46_000)
    assert "a" in slow.shard.consumer_groups["g"].members
    slow.finish_work()
    assert slow.answered(asking)
    assert set(slow.shard.consumer_groups["g"].members) == {"b"}


def test_a_member_that_is_refused_behind_its_target_leaves_no_trace(slow: Driver) -> None:
    """The target is computed before the member's own state is looked at."""
    member = NewMember(slow, "m")
    with slow.refusing_records(ErrorCode.COORDINATOR_NOT_AVAILABLE):
        token = member.send()
        slow.finish_work()
    assert slow.replies.pop(token).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert slow.log == []
    member.send()
    slow.finish_work()
    assert slow.shard.consumer_groups["g"].epoch == 2


def test_a_prepared_commit_waits_too(slow: Driver) -> None:
    """It is decoded then, and handled behind what it came behind."""
    member = NewMember(slow, "m")
    member.send()
    slow.finish_work()
    member.epoch = 2
    topic = OffsetCommitRequestTopic(
        name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    )
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=2, member_id="m", topics=[topic]
    )
    prepared = slow.shard.prepare_commit(request, 9)
    assert prepared is not None
    assert prepared.is_current()
    NewMember(slow, "other").send()
    assert not prepared.is_current()
    slow.finish_work()
    assert prepared.is_current(), "an older epoch, in which the partition was its own"
