"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup at whichever kind of group they name (docs/kafka.md 9.9).

A consumer group with members answers classic members itself; one without gives way to the classic group that a
JoinGroup makes. All that is no consumer group is the matter of the classic handlers.
"""

from __future__ import annotations

from functools import partial

from coordinator.effects import Effects, Moment, RequestContext
from coordinator.groups.classic.heartbeat import prepare_heartbeat
from coordinator.groups.classic.join_group import join_group
from coordinator.groups.classic.join_request import join_request_error
from coordinator.groups.classic.leave_group import leave_group, leave_response, members_of
from coordinator.groups.classic.sync_group import sync_group, sync_request_error
from coordinator.groups.consumer import classic_members
from coordinator.groups.consumer.computing import Course
from coordinator.groups.consumer.downgrade import join_instead
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.refusal import Refused
from coordinator.offsets.shard_offsets import ShardOffsets
from protocol.error_responses import response_with_error
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import NULL_PROTOCOL_SINCE, JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def join(
    shard: ShardOffsets, request: JoinGroupRequest, context: RequestContext, at: Moment, effects: Effects
) -> None:
    """JoinGroup (key 11). Errors: those of `join_group` and of `classic_members.join`."""
    group = shard.consumers.groups.get(request.group_id)
    if group is None or join_request_error(request, shard.settings):
        join_group(shard, request, context, at, effects)
    elif not group.members:
        join_instead(shard.consumers, shard, request, context, at, effects)
    else:
        course = partial(_join_consumer_group, shard, group, request, context, at)
        shard.consumers.follow(request.group_id, course, context.reply_to, at, effects)


def _join_consumer_group(
    shard: ShardOffsets, group: ConsumerGroup, request: JoinGroupRequest, context: RequestContext, at: Moment
) -> Course:
    effects = Effects()
    try:
        response = yield from classic_members.join(shard.consumers, group, request, context, at, effects)
    except Refused as refused:
        effects = Effects()  # A refusal leaves no trace.
        response = response_with_error(JoinGroupResponse, refused.error, context.api_version)
    if context.api_version >= NULL_PROTOCOL_SINCE:
        response.protocol_name = response.protocol_name or None
    effects.reply(context.reply_to, response)
    return effects


def sync(
    shard: ShardOffsets, request: SyncGroupRequest, context: RequestContext, at: Moment, effects: Effects
) -> None:
    """SyncGroup (key 14). Errors: those of `sync_group` and of `classic_members.sync`."""
    group = shard.consumers.groups.get(request.group_id)
    if group is None or sync_request_error(request, context.api_version):
        sync_group(shard, request, context, at, effects)
        return
    try:
        response = classic_members.sync(shard.consumers, group, request, at, effects)
    except Refused as refused:
        response = response_with_error(SyncGroupResponse, refused.error, context.api_version)
    effects.reply(context.reply_to, response)


def heartbeat(
    shard: ShardOffsets, request: HeartbeatRequest, context: RequestContext, at: Moment, effects: Effects
) -> None:
    """Heartbeat (key 12). In a consumer group it shows what is stored, so its answer waits for the disk.

    Errors: those of `prepare_heartbeat` and of `classic_members.heartbeat`.
    """
    group = shard.consumers.groups.get(request.group_id)
    if group is None:
        error = prepare_heartbeat(shard.groups, request)(at.now_ms)
        effects.reply(context.reply_to, HeartbeatResponse(error_code=error), reveals_stored=False)
        return
    try:
        error = classic_members.heartbeat(shard.consumers, group, request, at, effects)
    except Refused as refused:
        error = refused.error
    effects.reply(context.reply_to, HeartbeatResponse(error_code=error))


def leave(
    shard: ShardOffsets, request: LeaveGroupRequest, context: RequestContext, at: Moment, effects: Effects
) -> None:
    """LeaveGroup (key 13). Errors: those of `leave_group` and of `classic_members.leave`."""
    group = shard.consumers.groups.get(request.group_id)
    if group is None:
        leave_group(shard, request, context, at, effects)
        return
    leaving = members_of(request, context.api_version)
    errors: list[ErrorCode] = classic_members.leave(shard.consumers, group, leaving, context, at, effects)
    effects.reply(context.reply_to, leave_response(context, leaving, errors))
