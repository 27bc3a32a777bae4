"""Descriptions of large groups: of the group as it was, and made where their answer is encoded."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from coordinator.effects import RequestContext
from coordinator.groups.consumer.describe import MOST_DESCRIBED_AT_ONCE, consumer_group_describe
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.server.group_apis import LARGE_AT_ONCE
from protocol.framing import response_frame
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tests.groups.consumer_groups.migrating import NOW, TOPIC, TOPIC_ID, World

LONGEST_S = 0.020


def with_members(count: int, *topics: str) -> World:
    """A group whose first four members have a partition each."""
    world = World()
    group = world.shard.groups["g"] = ConsumerGroup("g")
    for number in range(count):
        partitions = (number,) if number < 4 else ()
        assigned = {TOPIC_ID: dict.fromkeys(partitions, 1)} if partitions else {}
        member = ConsumerMember(f"{number:036d}", client_id="c", topic_names=topics or (TOPIC,))
        group.put_member(member, CurrentAssignment(1, 1, assigned=assigned))
        group.targets[member.member_id] = {TOPIC_ID: partitions} if partitions else {}
    return world


def described(world: World, group_count: int = 1) -> ConsumerGroupDescribeResponse:
    request = ConsumerGroupDescribeRequest(group_ids=["g"] * group_count)
    context = RequestContext("me", 1, "c", "/h")
    (reply,) = consumer_group_describe(world.shard, request, context, NOW).replies
    response: ConsumerGroupDescribeResponse = reply.response
    return response


def at_once(group: ConsumerGroupDescribeGroup) -> ConsumerGroupDescribeGroup:
    return replace(group, members=list(group.members))


@pytest.mark.measured
@pytest.mark.parametrize(
    ("groups", "count", "topics"),
    [(1, 10_000, 1), (1, 400, 590), (LARGE_AT_ONCE, 10_000, 1)],
    ids=["many members", "members of many topics", "as many groups as are asked about at once"],
)
def test_large_groups_hold_the_loop_but_for_a_moment(groups: int, count: int, topics: int) -> None:
    world = with_members(count, TOPIC, *map(str, range(topics - 1)))
    took = []
    for _ in range(3):
        began = time.thread_time()
        described(world, groups)
        took.append(time.thread_time() - began)
    assert min(took) < LONGEST_S


@pytest.mark.parametrize("count", [4, MOST_DESCRIBED_AT_ONCE // 2, MOST_DESCRIBED_AT_ONCE])
def test_what_is_described_later_is_the_group_as_it_was(count: int) -> None:
    world = with_members(count)
    response = described(world)
    (group,) = response.groups
    expected, frame = at_once(group), response_frame(1, response, 1)
    assert len(group.members) == count
    assert [each.member_id for each in group.members] == list(world.shard.groups["g"].table)
    shown = {each.member_id: each for each in group.members}
    (own,) = shown[f"{3:036d}"].assignment.topic_partitions
    (target,) = shown[f"{3:036d}"].target_assignment.topic_partitions
    assert (own.topic_name, own.partitions, target.partitions) == (TOPIC, [3], [3])
    stored = world.shard.groups["g"]
    stored.put_member(replace(stored.members[f"{3:036d}"], client_id="other"), CurrentAssignment(2, 1))
    stored.targets.clear()
    stored.remove_member(f"{1:036d}")
    assert at_once(group) == expected
    assert group.members[-1] == expected.members[-1]
    assert group.members[1:3] == expected.members[1:3]
    assert response_frame(1, response, 1) == frame
