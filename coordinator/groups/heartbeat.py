"""Heartbeat (key 12): a member is alive, and hears whether it has to join again.

The one request that comes all the time: one look-up, one integer stored. No timer is touched: the
session timer finds the deadline moved on when it fires, and is armed again (`session`).
"""

from __future__ import annotations

from coordinator.groups.group import Group
from coordinator.groups.states import HEARTBEAT_ANSWER
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest


def heartbeat(groups: dict[str, Group], request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    """Move the member's session deadline and return what to answer.

    Errors: INVALID_GROUP_ID, FENCED_INSTANCE_ID (KIP-345), UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS (the session is refreshed all the same), COORDINATOR_NOT_AVAILABLE.
    """
    group = groups.get(request.group_id)
    if not request.group_id:  # Offsets may be kept under it, members may not.
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member = group.members.get(request.member_id)
    if member is None or request.group_instance_id not in (None, member.group_instance_id):
        return group.membership_error(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    member.session_deadline_ms = now_ms + member.session_timeout_ms
    return HEARTBEAT_ANSWER[group.state]
