"""A group of either kind as it was when an event came, and which of its members the event leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from coordinator.effects import CoordinatorRecord, Result
from coordinator.groups.consumer.downgrade import GroupDowngraded
from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
)
from coordinator.groups.consumer.upgrade import GroupUpgraded
from coordinator.groups.record_schemas import GroupMetadataKey
from coordinator.shard.shard import Shard


@dataclass(frozen=True, slots=True)
class ConsumerBefore:
    """A consumer group as it was when an event came: its members with their instance ids."""

    epoch: int
    members: dict[str, str | None]
    epochs: dict[str, tuple[int, int]]  # By member: its epoch, and the one before.


def members_of(before: Any) -> dict[str, str | None]:
    """The members of a group of either kind, with their instance ids."""
    if before is None:
        return {}
    if isinstance(before, ConsumerBefore):
        return before.members
    instances = {member_id: instance_id for instance_id, member_id in before.static_members.items()}
    return {member_id: instances.get(member_id) for member_id in before.members}


def staying(shard: Shard, group_id: str, members: Iterable[str], result: Result) -> set[str]:
    """The members that a group has once the records of an event are replayed."""
    if group_id in shard.groups:
        return set(shard.groups[group_id].members)
    left = set(members)
    for record in result.records:
        if isinstance(record, CoordinatorRecord) and isinstance(record.key, ConsumerGroupMemberMetadataKey):
            change: Callable[[str], None] = left.discard if record.value is None else left.add
            change(record.key.member_id)
    return left


def ended(result: Result) -> Iterator[str]:
    """The groups whose epochs begin anew."""
    then = result.then
    if isinstance(then, GroupDowngraded) or (isinstance(then, GroupUpgraded) and then.classic.members):
        return
    for record in result.records:
        if isinstance(record, CoordinatorRecord) and record.value is None:
            if isinstance(record.key, ConsumerGroupMetadataKey):
                yield record.key.group_id
            elif isinstance(record.key, GroupMetadataKey):
                yield record.key.group
