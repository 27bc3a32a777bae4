"""Heartbeat (key 12): a member shows that it is alive, and learns whether it has to join again.

It is the most frequent request, so it costs two look-ups and one stored integer. No timer is touched: when the
session timer fires it finds a later deadline, and is armed again (`session`). Members send the same
request again and again, so it is prepared: made into a function of the time, which is called for each one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.shard_groups import ShardGroups
from coordinator.groups.classic.states import HEARTBEAT_ANSWER
from coordinator.groups.margins import note_left
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

Heartbeat: TypeAlias = Callable[[int], ErrorCode]
"""Handles one heartbeat at `now_ms`: moves the member's session deadline, and returns the error to answer."""


def heartbeat(shard: ShardGroups, request: HeartbeatRequest, context: RequestContext, at: Moment) -> Result:
    """Answer one heartbeat, without waiting for the disk. Errors: those of `prepare_heartbeat`."""
    error = prepare_heartbeat(shard.groups, request)(at.now_ms)
    reply = Reply(context.reply_to, HeartbeatResponse(error_code=error), reveals_stored=False)
    return Result(replies=(reply,))


def prepare_heartbeat(groups: dict[str, Group], request: HeartbeatRequest) -> Heartbeat:
    """Return the function that handles each repetition of `request`; group and member are looked up each time.

    Errors: INVALID_GROUP_ID, FENCED_INSTANCE_ID (KIP-345), UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS (the session is refreshed all the same), COORDINATOR_NOT_AVAILABLE.
    """
    group_id, member_id, generation_id = request.group_id, request.member_id, request.generation_id
    instance_id = request.group_instance_id

    def at_time(now_ms: int) -> ErrorCode:
        group = groups.get(group_id)
        if not group_id:  # A group with an empty id may have offsets, but no members.
            return ErrorCode.INVALID_GROUP_ID
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member = group.members.get(member_id)
        if member is None or (instance_id is not None and instance_id != member.group_instance_id):
            return group.membership_error(member_id, instance_id)
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if (left_ms := member.session_deadline_ms - now_ms) < member.least_left_ms and not member.is_parked:
            note_left(member, left_ms)
        member.session_deadline_ms = now_ms + member.session_timeout_ms
        return HEARTBEAT_ANSWER[group.state]

    return at_time
