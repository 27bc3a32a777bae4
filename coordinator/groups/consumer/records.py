"""Builders of the records of consumer groups, in the forms that a broker writes (A50 to A52)."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.effects import CoordinatorRecord
from coordinator.groups.consumer.assignors.specs import Target
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.java_order import java_sorted
from coordinator.groups.consumer.member import ConsumerMember, member_to_record
from coordinator.groups.consumer.reconciliation import CurrentAssignment, PartitionEpochs
from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)
from coordinator.groups.consumer.subscriptions import ResolvedRegex


def new_member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member as it described itself (type 5)."""
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, member_to_record(member))


def new_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of a group's epoch (type 3)."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def new_partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of what a broker before 4.1 kept of the group's topics (type 4)."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def new_target_record(group_id: str, member_id: str, target: Target) -> CoordinatorRecord:
    """Return the record of a member's target (type 7)."""
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    topics = [
        TargetTopicPartitions(topic_id=topic_id, partitions=list(partitions))
        for topic_id, partitions in target.items()
    ]
    return CoordinatorRecord(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def new_target_epoch_record(group_id: str, epoch: int, wall_ms: int) -> CoordinatorRecord:
    """Return the record of a target's epoch (type 6), computed at `wall_ms`; 0 for at no time that is known."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=wall_ms)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def new_current_record(group_id: str, member_id: str, current: CurrentAssignment) -> CoordinatorRecord:
    """Return the record of what a member has (type 8)."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.member_epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        assigned_partitions=_topics(current.assigned),
        partitions_pending_revocation=_topics(current.pending_revocation),
    )
    return CoordinatorRecord(key, value)


def _topics(epochs: PartitionEpochs) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id, partitions=list(of_topic), assignment_epochs=list(of_topic.values())
        )
        for topic_id, of_topic in epochs.items()
    ]


def new_regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """Return the record of what a regular expression matched (type 16)."""
    value = ConsumerGroupRegularExpressionValue(
        topics=java_sorted(resolved.topics), version=resolved.version, timestamp=resolved.wall_ms
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return CoordinatorRecord(key, value)


def new_regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Return the tombstone of a regular expression that no member subscribes by any more."""
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones that remove a member, in the one order that replay takes: 8, 7, 5."""
    current = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    target = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    member = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return [CoordinatorRecord(key, None) for key in (current, target, member)]


def group_records(group: ConsumerGroup, member_ids: Iterable[str] | None = None) -> list[CoordinatorRecord]:
    """Return the records of a whole group, in Kafka's order for one made at once: 5s, 3, 7s, 6, 8s; then 16s.

    Replayed they make the same group, with its members in the order of `member_ids`, which is that of its table if
    none are given.
    """
    group_id, member_ids = group.group_id, list(group.table if member_ids is None else member_ids)
    # A log may have the target of a member whose own record comes later.
    targets = dict.fromkeys((*member_ids, *sorted(group.targets)))
    resolved = group.subscriptions.resolved.items()
    return [
        *(new_member_record(group_id, group.members[each]) for each in member_ids),
        new_epoch_record(group_id, group.epoch, group.metadata_hash),
        *(
            new_target_record(group_id, each, group.targets[each])
            for each in targets
            if each in group.targets
        ),
        new_target_epoch_record(group_id, group.assignment_epoch, group.assignment_wall_ms),
        *(new_current_record(group_id, each, group.currents[each]) for each in member_ids),
        *(new_regex_record(group_id, regex, each) for regex, each in resolved),
        *((_old_partition_metadata(group_id),) if group.has_partition_metadata else ()),
    ]


def _old_partition_metadata(group_id: str) -> CoordinatorRecord:
    """A record of type 4 stands for the one that was read: that there is one is all that is known of it."""
    value = ConsumerGroupPartitionMetadataValue(topics=[])
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), value)


def group_tombstones(group_id: str, member_ids: list[str], regexes: list[str]) -> list[CoordinatorRecord]:
    """Return the tombstones that remove a whole group, in Kafka's order: 8s, 7s, 6, 5s, 16s, 4, 3."""
    keys = [
        *(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each) for each in member_ids),
        *(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each) for each in member_ids),
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        *(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=each) for each in member_ids),
        *(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=each) for each in regexes),
        ConsumerGroupPartitionMetadataKey(group_id=group_id),
        ConsumerGroupMetadataKey(group_id=group_id),
    ]
    return [CoordinatorRecord(key, None) for key in keys]
