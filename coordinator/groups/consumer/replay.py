"""What the records of consumer groups mean: the only code that changes a `ConsumerGroup` (A53).

Tombstones of what is not there are skipped, as compaction may have removed what came before. What cannot follow
from what came before is corruption: it raises, and the shard fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from coordinator.groups.consumer.group import LEFT_EPOCH, ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember, member_from_record
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
)
from coordinator.groups.consumer.states import MemberState
from coordinator.groups.consumer.subscriptions import ResolvedRegex
from protocol.errors import DecodeError

NEW_MEMBER = CurrentAssignment(member_epoch=0, previous_epoch=-1)
"""What a member has of which only its description was read."""

GONE = CurrentAssignment(LEFT_EPOCH, LEFT_EPOCH)
"""What a member has whose assignment was removed."""


class BadSequence(DecodeError):
    """A record that cannot come after those before it: the log is not what a coordinator wrote."""


def replay_record(groups: dict[str, ConsumerGroup], key: Any, value: Any | None) -> None:
    """Apply one record of a consumer group to `groups`. Raises BadSequence, PartitionHeldTwice."""
    group = groups.get(key.group_id)
    if group is None:
        if value is None:
            return
        group = groups[key.group_id] = ConsumerGroup(key.group_id)
    group.changes += 1
    if type(key) is ConsumerGroupMetadataKey and value is None:
        _check_is_empty(group)
        del groups[key.group_id]
    else:
        REPLAYS[type(key)](group, key, value)


def _replay_member(
    group: ConsumerGroup,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue | None,
) -> None:
    member_id = key.member_id
    if value is not None:
        current = group.currents.get(member_id, NEW_MEMBER)
        group.put_member(member_from_record(member_id, value), current)
        return
    if member_id not in group.members:
        return
    if group.currents[member_id].member_epoch != LEFT_EPOCH:
        raise BadSequence(f"member {member_id} of {group.group_id} is removed before its assignment")
    if member_id in group.targets:
        raise BadSequence(f"member {member_id} of {group.group_id} is removed before its target")
    group.remove_member(member_id)


def _replay_epoch(
    group: ConsumerGroup, _: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue
) -> None:
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _check_is_empty(group: ConsumerGroup) -> None:
    if group.members:
        raise BadSequence(f"group {group.group_id} is removed before its {len(group.members)} members")
    if group.targets:
        raise BadSequence(f"group {group.group_id} is removed before its {len(group.targets)} targets")
    if group.assignment_epoch != LEFT_EPOCH:
        raise BadSequence(f"group {group.group_id} is removed before the epoch of its target")


def _replay_partition_metadata(
    group: ConsumerGroup, _: ConsumerGroupPartitionMetadataKey, value: Any
) -> None:
    group.has_partition_metadata = value is not None


def _replay_target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = {
            each.topic_id: tuple(each.partitions) for each in value.topic_partitions
        }


def _replay_target_epoch(
    group: ConsumerGroup,
    _: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is not None:
        group.assignment_epoch, group.assignment_wall_ms = value.assignment_epoch, value.assignment_timestamp
        return
    if group.targets:
        raise BadSequence(
            f"the epoch of {group.group_id}'s target is removed before {len(group.targets)} targets"
        )
    group.assignment_epoch, group.assignment_wall_ms = LEFT_EPOCH, 0


def _replay_current(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member_id = key.member_id
    member = group.members.get(member_id)
    if value is None:
        if member is not None:
            state = group.currents[member_id].state
            group.put_member(member, replace(GONE, state=state))
        return
    current = CurrentAssignment(
        member_epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState.of_byte(value.state),
        assigned=_partitions(value.assigned_partitions, value.member_epoch),
        pending_revocation=_partitions(value.partitions_pending_revocation, value.member_epoch),
    )
    group.put_member(member or ConsumerMember(member_id), current)


def _partitions(topics: list[CurrentTopicPartitions], member_epoch: int) -> dict[bytes, dict[int, int]]:
    """Partitions with the epochs of their assignment; where those are not known, all with the member's epoch."""
    return {
        topic.topic_id: dict(zip(topic.partitions, _assignment_epochs(topic, member_epoch), strict=True))
        for topic in topics
    }


def _assignment_epochs(topic: CurrentTopicPartitions, member_epoch: int) -> list[int]:
    epochs = topic.assignment_epochs
    if epochs is not None and len(epochs) == len(topic.partitions):
        return epochs
    return [max(member_epoch, 0)] * len(topic.partitions)


def _replay_regex(
    group: ConsumerGroup,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
) -> None:
    resolved = None if value is None else ResolvedRegex(tuple(value.topics), value.version, value.timestamp)
    group.subscriptions.resolve(key.regular_expression, resolved)


REPLAYS: Final[dict[type, Callable[[ConsumerGroup, Any, Any], None]]] = {
    ConsumerGroupMemberMetadataKey: _replay_member,
    ConsumerGroupMetadataKey: _replay_epoch,
    ConsumerGroupPartitionMetadataKey: _replay_partition_metadata,
    ConsumerGroupTargetAssignmentMemberKey: _replay_target,
    ConsumerGroupTargetAssignmentMetadataKey: _replay_target_epoch,
    ConsumerGroupCurrentMemberAssignmentKey: _replay_current,
    ConsumerGroupRegularExpressionKey: _replay_regex,
}
"""What each kind of record does to its group, but for the tombstone that removes it."""
