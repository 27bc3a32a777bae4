"""LeaveGroup (key 13): members leave, or an admin removes them by their instance ids.

A request costs one rebalance, however many members leave (3.61). Up to version 2 it names one member and the
response has one error; from version 3 on each member has its own error, beside the one for the whole request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator.effects import Effects, Moment, RequestContext
from coordinator.groups.causes import Cause, CauseKind, combined
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.pending_members import forget_pending_member
from coordinator.groups.classic.rebalance import maybe_prepare_rebalance_or_complete_join, remove_member
from coordinator.groups.classic.shard_groups import ShardGroups
from protocol.errors import ErrorCode
from protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

BATCH_SINCE: Final = 3


@dataclass(frozen=True, slots=True)
class _Departure:
    """The outcome for one member that is to leave."""

    error: ErrorCode
    cause: Cause | None = None


def leave_group(
    shard: ShardGroups, request: LeaveGroupRequest, context: RequestContext, at: Moment, effects: Effects
) -> None:
    """Remove the members that the request names; if any was removed, the group rebalances.

    Errors: INVALID_GROUP_ID; per member UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID (KIP-345).
    """
    if not request.group_id:
        effects.reply(context.reply_to, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    leaving = members_of(request, context.api_version)
    group = shard.groups.get(request.group_id)
    if group is None:
        errors = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        effects.reply(context.reply_to, leave_response(context, leaving, errors))
        return
    of_members = Effects()  # Behind the answer, which is known once all have left.
    departures = [_depart(group, identity, context, at, of_members) for identity in leaving]
    effects.reply(context.reply_to, leave_response(context, leaving, [each.error for each in departures]))
    effects.add(of_members.result())
    if any(departure.error is ErrorCode.NONE for departure in departures):
        causes = [departure.cause for departure in departures if departure.cause is not None]
        maybe_prepare_rebalance_or_complete_join(group, at, combined(causes), effects)


def members_of(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    return request.members if api_version >= BATCH_SINCE else [MemberIdentity(member_id=request.member_id)]


def _depart(
    group: Group, identity: MemberIdentity, context: RequestContext, at: Moment, effects: Effects
) -> _Departure:
    if not identity.member_id:
        return _remove_by_instance_id(group, identity, context, at, effects)
    if identity.member_id in group.pending_members:
        cause = Cause(CauseKind.PENDING_MEMBER_LEFT, member_id=identity.member_id)
        forget_pending_member(group, identity.member_id, effects)
        return _Departure(ErrorCode.NONE, cause)
    if error := group.membership_error(identity.member_id, identity.group_instance_id):
        return _Departure(error)
    member = group.members[identity.member_id]
    cause = Cause.by(member, CauseKind.MEMBER_LEFT, None, identity.reason, (member.member_id,))
    cause = member.in_session(cause, at.now_ms)
    remove_member(group, member, effects)
    return _Departure(ErrorCode.NONE, cause)


def _remove_by_instance_id(
    group: Group, identity: MemberIdentity, context: RequestContext, at: Moment, effects: Effects
) -> _Departure:
    """Remove the static member with this instance id: an admin does not know its present member id (3.41)."""
    member_id = group.static_members.get(identity.group_instance_id or "")
    if identity.group_instance_id is None or member_id is None:
        return _Departure(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.members[member_id]
    cause = Cause.by(member, CauseKind.REMOVED_BY_ADMIN, admin(context), identity.reason, (member_id,))
    cause = member.in_session(cause, at.now_ms)
    remove_member(group, member, effects)
    return _Departure(ErrorCode.NONE, cause)


def admin(context: RequestContext) -> str:
    """The client that removes a member, in words."""
    return f"{context.client_id} at {context.client_host}"


def leave_response(
    context: RequestContext, leaving: list[MemberIdentity], errors: list[ErrorCode]
) -> LeaveGroupResponse:
    if context.api_version < BATCH_SINCE:
        return LeaveGroupResponse(error_code=errors[0])
    members = [
        MemberResponse(
            member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
        )
        for identity, error in zip(leaving, errors, strict=True)
    ]
    return LeaveGroupResponse(members=members)
