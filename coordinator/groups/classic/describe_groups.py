"""DescribeGroups (key 15): classic groups with all their members. Others are shown as Dead.

The metadata of members is shown only while the group is Stable: in other states no protocol is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.shard_groups import ShardGroups
from coordinator.groups.classic.states import DEAD, PROTOCOL_DESCRIBED
from coordinator.groups.group_operations import GROUP_OPERATIONS
from protocol.codec.primitives import MAX_STRING_BYTES
from protocol.errors import ErrorCode
from protocol.messages.authorized_operations import OPERATIONS_NOT_ASKED_FOR
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_SINCE: Final = 6  # KIP-1043; in earlier versions an absent group is not an error.


def describe_groups(
    shard: ShardGroups, request: DescribeGroupsRequest, context: RequestContext, at: Moment
) -> Result:
    """Describe each group that the request names. Errors, per group: GROUP_ID_NOT_FOUND."""
    described = [
        _describe(shard, group_id, request.include_authorized_operations, context.api_version)
        for group_id in request.groups
    ]
    return Result(replies=(Reply(context.reply_to, DescribeGroupsResponse(groups=described)),))


def _describe(shard: ShardGroups, group_id: str, with_operations: bool, api_version: int) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if group is None:
        described = _absent(group_id, api_version, is_other_kind=group_id in shard.other_kinds)
    else:
        described = describe_group(group)
    if with_operations and described.error_code == ErrorCode.NONE:
        described.authorized_operations = GROUP_OPERATIONS
    return described


def _absent(group_id: str, api_version: int, *, is_other_kind: bool) -> DescribedGroup:
    if api_version < NOT_FOUND_SINCE:
        return DescribedGroup(group_id=group_id, group_state=DEAD.value)
    message = f"Group {group_id} {'is not a classic group' if is_other_kind else 'not found'}."
    return DescribedGroup(
        group_id=group_id,
        group_state=DEAD.value,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=message if len(message.encode()) <= MAX_STRING_BYTES else None,
    )


def describe_group(group: Group, members: Iterable[Member] | None = None) -> DescribedGroup:
    """The group as it is now, with these of its members; all of them by default."""
    protocol_name = group.protocol_name if PROTOCOL_DESCRIBED[group.state] else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=[
            describe_member(member, protocol_name)
            for member in (group.members.values() if members is None else members)
        ],
        authorized_operations=OPERATIONS_NOT_ASKED_FOR,
    )


def describe_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    """The member, with its metadata of the protocol that was chosen, if one was."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
        member_assignment=member.assignment,
    )
