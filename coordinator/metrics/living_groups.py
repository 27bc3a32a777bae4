"""What is read of a living group, of either kind: state, members, generation, and partitions without a member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from coordinator.groups.classic.group import Group
from coordinator.groups.classic.states import STABLE as CLASSIC_STABLE
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.states import GroupState
from coordinator.groups.consumer.waited_for import held_by
from coordinator.metrics.lag import Topics
from coordinator.metrics.rebalance_counts import CLASSIC, CONSUMER
from coordinator.shard.shard import Shard
from protocol.consumer import decode_assignment
from protocol.errors import DecodeError

EMPTY: Final = "Empty"

ASSIGNED_MEMBERS_MAX: Final = 500
"""Members of a classic group whose assignments are decoded; of a larger one it is not known who has what."""


class LivingGroup(NamedTuple):
    """What a group is now."""

    protocol: str
    state: str
    members: int
    generation: int
    changes: int = 0  # Of a consumer group: its records so far.


def living_group(shard: Shard, group_id: str) -> LivingGroup | None:
    """Return what a group is now; None if there is none."""
    classic = shard.groups.get(group_id)
    if classic is not None:
        return LivingGroup(CLASSIC, classic.state.value, len(classic.members), classic.generation_id)
    group = shard.consumer_groups.get(group_id)
    if group is None:
        return None
    return LivingGroup(CONSUMER, group.state.value, len(group.members), group.epoch, group.changes)


def group_ids(shard: Shard) -> list[str]:
    """The ids of all groups, each once."""
    return [*shard.groups, *(each for each in shard.consumer_groups if each not in shard.groups)]


def unassigned_partitions(shard: Shard, group_id: str, topics: Topics) -> int | None:
    """Number of partitions of what the group subscribes to that no member has.

    None: that is not known, as while it rebalances, or of clients that are no consumers.
    """
    classic = shard.groups.get(group_id)
    if classic is not None:
        return _unassigned_classic(classic, topics)
    group = shard.consumer_groups.get(group_id)
    return None if group is None else _unassigned_consumer(group, topics)


def _unassigned_classic(group: Group, topics: Topics) -> int | None:
    if (
        group.state is not CLASSIC_STABLE
        or group.subscribed_topics is None
        or len(group.members) > ASSIGNED_MEMBERS_MAX
    ):
        return None
    try:
        assigned = set(_assigned(group))
    except DecodeError:  # Of an assignor that has a format of its own.
        return None
    counts = ((name, topics.get(name)) for name in group.subscribed_topics)
    return sum(
        (name, index) not in assigned
        for name, topic in counts
        if topic is not None
        for index in range(len(topic.partitions))
    )


def _assigned(group: Group) -> Iterator[tuple[str, int]]:
    for member in group.members.values():
        if member.assignment:
            for topic in decode_assignment(member.assignment).assigned_partitions:
                for partition in topic.partitions:
                    yield topic.topic, partition


def empty_members(shard: Shard, group_id: str) -> int | None:
    """Number of members that have no partition; None where `unassigned_partitions` knows nothing either."""
    classic = shard.groups.get(group_id)
    if classic is None:
        group = shard.consumer_groups.get(group_id)
        if group is None or group.state is not GroupState.STABLE:
            return None
        return sum(not held_by(group.currents[member_id]) for member_id in group.members)
    if classic.state is not CLASSIC_STABLE or len(classic.members) > ASSIGNED_MEMBERS_MAX:
        return None
    try:
        return sum(not any(_partitions_of(member.assignment)) for member in classic.members.values())
    except DecodeError:
        return None


def _partitions_of(assignment: bytes) -> Iterator[list[int]]:
    if assignment:
        for topic in decode_assignment(assignment).assigned_partitions:
            yield topic.partitions


def _unassigned_consumer(group: ConsumerGroup, topics: Topics) -> int | None:
    if group.state is not GroupState.STABLE:
        return None
    names = {*group.subscriptions.by_name, *group.subscriptions.by_match}
    found = (topics.get(name) for name in names)
    return sum(
        group.held.epoch_of(topic.topic_id, index) < 0
        for topic in found
        if topic is not None
        for index in range(len(topic.partitions))
    )
