"""The JoinGroup and SyncGroup responses to a member of the group, in the form of each API version.

Who gets which answer is decided elsewhere.
"""

from __future__ import annotations

from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member
from protocol.messages.join_group import NULL_PROTOCOL_SINCE, JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.sync_group import SyncGroupResponse


def join_answer(
    group: Group,
    member: Member,
    api_version: int,
    *,
    leader: str | None = None,
    with_members: bool | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """Return the JoinGroup response that shows `member` the present generation.

    The list of members goes to the leader alone unless `with_members` says otherwise (docs/kafka.md 3.19).
    """
    if with_members is None:
        with_members = member.member_id == group.leader
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=_protocol_name(group.protocol_name, api_version),
        leader=(group.leader if leader is None else leader) or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=_members_for_leader(group) if with_members else [],
    )


def sync_answer(group: Group, member: Member) -> SyncGroupResponse:
    """Return the SyncGroup response: the member's assignment, and the protocol it is written in (3.46)."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


def _members_for_leader(group: Group) -> list[JoinGroupResponseMember]:
    protocol_name = group.protocol_name
    assert protocol_name is not None, "only a generation with a protocol has a leader"
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(protocol_name),
        )
        for member in group.members.values()
    ]


def _protocol_name(name: str | None, api_version: int) -> str | None:
    """Return the name as the API version shows it: without a protocol, or with an empty name, null or ""."""
    return name or ("" if api_version < NULL_PROTOCOL_SINCE else None)
