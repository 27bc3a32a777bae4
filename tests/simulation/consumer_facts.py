"""What the durable log says of consumer groups, read a second way: the newest value of each key, and no more.

Shares the record schemas with the daemon, but no line of its replay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from coordinator.effects import CoordinatorRecord
from coordinator.groups.consumer.group import FIRST_EPOCH, ConsumerGroup
from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from coordinator.shard.shard import Shard

Said = dict[tuple[str, str], Any]
"""What is said of one group: of the group itself under "", of a member or an expression under its name."""


class ConsumerFacts:
    """Fed with every record of a consumer group that has become durable."""

    def __init__(self) -> None:
        self._newest: dict[str, dict[tuple[type, str], Any]] = defaultdict(dict)

    def take(self, record: CoordinatorRecord) -> None:
        key = record.key
        name = getattr(key, "member_id", getattr(key, "regular_expression", ""))
        if record.value is None:
            self._newest[key.group_id].pop((type(key), name), None)
        else:
            self._newest[key.group_id][type(key), name] = record.value

    def differences(self, shard: Shard, owns: set[str]) -> Iterator[str]:
        """Where `shard`, of which nothing is on its way to the disk, says otherwise. It owns the groups `owns`."""
        for group_id in sorted(owns):
            said, group = self._said(group_id), shard.consumer_groups.get(group_id)
            stored = {} if group is None else _stored(group)
            if said != stored:
                where = sorted(key for key in said.keys() | stored.keys() if said.get(key) != stored.get(key))
                pairs = [(key, stored.get(key), said.get(key)) for key in where[:3]]
                yield f"consumer group {group_id}: (what, stored, on the log): {pairs}"

    def _said(self, group_id: str) -> Said:
        newest = self._newest[group_id]
        if not newest:
            return {}
        said: Said = {("epoch", ""): FIRST_EPOCH, ("target epoch", ""): FIRST_EPOCH}
        for (kind, name), value in newest.items():
            what, content = _read(kind, value)
            said[what, name] = content
        return said


def _read(kind: type, value: Any) -> tuple[str, Any]:
    if kind is ConsumerGroupMetadataKey:
        return "epoch", value.epoch
    if kind is ConsumerGroupTargetAssignmentMetadataKey:
        return "target epoch", value.assignment_epoch
    if kind is ConsumerGroupMemberMetadataKey:
        is_classic = value.classic_member_metadata is not None
        names = set(value.subscribed_topic_names)
        return "member", (value.instance_id, names, value.subscribed_topic_regex or "", is_classic)
    if kind is ConsumerGroupTargetAssignmentMemberKey:
        return "target", _sets({each.topic_id: each.partitions for each in value.topic_partitions})
    if kind is ConsumerGroupCurrentMemberAssignmentKey:
        assigned = _sets({each.topic_id: each.partitions for each in value.assigned_partitions})
        pending = _sets({each.topic_id: each.partitions for each in value.partitions_pending_revocation})
        return "current", (value.member_epoch, value.state, assigned, pending)
    assert kind is ConsumerGroupRegularExpressionKey, kind
    return "expression", set(value.topics)


def _stored(group: ConsumerGroup) -> Said:
    said: Said = {("epoch", ""): group.epoch, ("target epoch", ""): group.assignment_epoch}
    for member_id, member in group.members.items():
        is_classic = member.classic is not None
        described = (member.instance_id, set(member.topic_names), member.topic_regex, is_classic)
        said["member", member_id] = described
    for member_id, target in group.targets.items():
        said["target", member_id] = _sets(target)
    for member_id, current in group.currents.items():
        held = _sets(current.assigned), _sets(current.pending_revocation)
        said["current", member_id] = (current.member_epoch, current.state, *held)
    for regex, resolved in group.subscriptions.resolved.items():
        said["expression", regex] = set(resolved.topics)
    return said


def _sets(partitions: Mapping[bytes, Any]) -> dict[bytes, set[int]]:
    return {topic_id: set(each) for topic_id, each in partitions.items() if each}
