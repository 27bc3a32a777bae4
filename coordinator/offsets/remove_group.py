"""Removes a group with all its offsets: because a client asked for it, or because all of them have expired.

The tombstones may go to several batches, so that a group of any size can be deleted: a crash half-way leaves a
group with fewer offsets, and no client was answered that it is deleted. The group's own tombstone comes last.
"""

from __future__ import annotations

from coordinator.effects import Effects, Moment
from coordinator.groups.causes import Cause
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.records import new_group_tombstone, new_offset_commit_tombstone
from coordinator.groups.classic.states import Trigger
from coordinator.groups.classic.transition import transition
from coordinator.groups.consumer.events import removal_row
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.records import group_tombstones
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.offsets.committed import CommittedOffsets


def remove_group(
    groups: dict[str, Group],
    offsets: CommittedOffsets,
    group: Group,
    at: Moment,
    cause: Cause,
    effects: Effects,
) -> None:
    """Remove an empty group: write tombstones for its offsets, then for the group (3.74, O25)."""
    transition(group, Trigger.GROUP_REMOVED, at, cause, effects)
    del groups[group.group_id]
    _remove_offsets(offsets, group.group_id, effects)
    effects.records.append(new_group_tombstone(group.group_id))
    effects.atomic = False


def remove_consumer_group(
    shard: ConsumerGroups,
    offsets: CommittedOffsets,
    group: ConsumerGroup,
    at: Moment,
    cause: Cause,
    effects: Effects,
) -> None:
    """Remove a consumer group without members: tombstones for its offsets, then for the group (A69)."""
    effects.history.append(removal_row(group, at, cause))
    shard.forget(group.group_id, effects)
    _remove_offsets(offsets, group.group_id, effects)
    effects.records += group_tombstones(group.group_id, [], list(group.subscriptions.resolved))
    effects.atomic = False


def _remove_offsets(offsets: CommittedOffsets, group_id: str, effects: Effects) -> None:
    effects.records += [
        new_offset_commit_tombstone(group_id, topic, partition)
        for topic, partition, _ in offsets.of_group(group_id)
    ]
    effects.records += [
        new_offset_commit_tombstone(group_id, topic, partition)
        for topic, partition in offsets.undecided(group_id)
    ]
