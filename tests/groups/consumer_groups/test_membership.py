"""Who a heartbeat is taken from: one of the epoch before may be of a member that missed an answer (A31)."""

from __future__ import annotations

import pytest

from coordinator.effects import Effects
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.membership import find_member
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.refusal import Refused
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)

OWN, OTHER, FOREIGN = b"1" * 16, b"2" * 16, b"3" * 16

Owned = list[tuple[bytes, list[int]]]


@pytest.fixture
def group() -> ConsumerGroup:
    """A group of one member, in epoch 5 after 3, with partitions of two topics."""
    group = ConsumerGroup("g", 5, assignment_epoch=5)
    assigned = {OWN: {0: 3, 1: 5}, OTHER: {0: 5}}
    group.put_member(ConsumerMember("m"), CurrentAssignment(5, 3, assigned=assigned))
    return group


def heartbeat(epoch: int, owned: Owned | None) -> ConsumerGroupHeartbeatRequest:
    topics = None
    if owned is not None:
        topics = [ConsumerGroupHeartbeatTopicPartitions(topic_id=t, partitions=p) for t, p in owned]
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, topic_partitions=topics
    )


@pytest.mark.parametrize("owned", [[], [(OWN, [1])], [(OWN, [0, 1]), (OTHER, [0])]], ids=str)
def test_the_epoch_before_is_taken_with_nothing_but_what_the_member_has(
    group: ConsumerGroup, owned: Owned
) -> None:
    assert find_member(group, "m", heartbeat(3, owned), Effects()).member.member_id == "m"


@pytest.mark.parametrize(
    "owned",
    [None, [(FOREIGN, [0])], [(OWN, [0]), (FOREIGN, [0])], [(OWN, [0]), (OTHER, [0, 1])]],
    ids=str,
)
def test_the_epoch_before_is_fenced_with_anything_else(group: ConsumerGroup, owned: Owned | None) -> None:
    with pytest.raises(Refused) as refusal:
        find_member(group, "m", heartbeat(3, owned), Effects())
    assert refusal.value.error == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("epoch", [2, 4, 6])
def test_any_other_epoch_is_fenced(group: ConsumerGroup, epoch: int) -> None:
    with pytest.raises(Refused) as refusal:
        find_member(group, "m", heartbeat(epoch, []), Effects())
    assert refusal.value.error == ErrorCode.FENCED_MEMBER_EPOCH
