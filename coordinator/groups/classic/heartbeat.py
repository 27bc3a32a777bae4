"""Heartbeat (key 12): a member is alive, and learns whether it has to join again.

The one request that comes all the time: two look-ups, one integer stored. No timer is touched: the
session timer finds the deadline moved on when it fires, and is armed again (`session`). Members send the same
request again and again, so it is prepared: made into a function of the time, which is called each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.shard_groups import ShardGroups
from coordinator.groups.classic.states import HEARTBEAT_ANSWER
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

Heartbeat: TypeAlias = Callable[[int], ErrorCode]
"""One heartbeat at `now_ms`: moves the member's session deadline, and says what to answer."""


def heartbeat(shard: ShardGroups, request: HeartbeatRequest, context: RequestContext, at: Moment) -> Result:
    """Answer one heartbeat at once: it shows nothing that is stored. Errors: as below."""
    error = prepare_heartbeat(shard.groups, request)(at.now_ms)
    reply = Reply(context.reply_to, HeartbeatResponse(error_code=error), reveals_stored=False)
    return Result(replies=(reply,))


def prepare_heartbeat(groups: dict[str, Group], request: HeartbeatRequest) -> Heartbeat:
    """The heartbeat that `request` is, to be sent any number of times; what it finds is looked up each time.

    Errors: INVALID_GROUP_ID, FENCED_INSTANCE_ID (KIP-345), UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS (the session is refreshed all the same), COORDINATOR_NOT_AVAILABLE.
    """
    group_id, member_id, generation_id = request.group_id, request.member_id, request.generation_id
    instance_id = request.group_instance_id

    def at_time(now_ms: int) -> ErrorCode:
        group = groups.get(group_id)
        if not group_id:  # Offsets may be kept under it, members may not.
            return ErrorCode.INVALID_GROUP_ID
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member = group.members.get(member_id)
        if member is None or (instance_id is not None and instance_id != member.group_instance_id):
            return group.membership_error(member_id, instance_id)
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        member.session_deadline_ms = now_ms + member.session_timeout_ms
        return HEARTBEAT_ANSWER[group.state]

    return at_time
