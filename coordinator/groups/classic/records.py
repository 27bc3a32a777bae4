"""Builders of the records of classic groups and of offsets.

A record holds the whole state of its key; a tombstone (no value) removes it. What a record
means is decided in one place, `Shard.replay`; its bytes are the matter of `groups.record_codec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.effects import CoordinatorRecord
from coordinator.groups.classic.group import Group
from coordinator.groups.record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
)

_NO_TIMESTAMP: Final = -1


def new_group_metadata_record(group: Group, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """Return the record of the group's present generation, with each member's assignment (default b"")."""
    return CoordinatorRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation_id,
            protocol=group.protocol_name,
            leader=group.leader,
            current_state_timestamp=_NO_TIMESTAMP if group.state_wall_ms is None else group.state_wall_ms,
            members=_member_metadata(group, assignments),
        ),
    )


def new_empty_group_metadata_record(group_id: str, wall_ms: int) -> CoordinatorRecord:
    """Return the record of a group just created by its first join, without members or protocol (3.64)."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=wall_ms,
        members=[],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value)


def new_group_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of a group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


def new_offset_commit_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Return the tombstone of the group's offset in this partition."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def _member_metadata(group: Group, assignments: Mapping[str, bytes]) -> list[MemberMetadata]:
    if not group.members:
        return []
    assert group.protocol_name is not None, "a generation with members has a protocol"
    return [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
