"""ConsumerGroupHeartbeat (key 68): the one request of a member of the new protocol (KIP-848).

Its checks, and its answer; what it does between is a step of its member (`member_step`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Any

from coordinator.effects import Effects, Moment, RequestContext
from coordinator.groups.classic.group import Group
from coordinator.groups.consumer.computing import Compute, Computed, Course
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.leave import leave
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.member_ids import member_id_of
from coordinator.groups.consumer.member_step import MemberStep
from coordinator.groups.consumer.membership import find_member
from coordinator.groups.consumer.reconciliation import PartitionEpochs, Partitions
from coordinator.groups.consumer.refusal import Refused
from coordinator.groups.consumer.request_checks import JOIN_EPOCH, UNCHANGED_TIMEOUT, check_request
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.groups.consumer.upgrade import leave_classic, upgrade
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)


def consumer_group_heartbeat(
    shard: ConsumerGroups,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    at: Moment,
    effects: Effects,
) -> None:
    """Answer a member, and bring it a step nearer to its target. A refusal leaves no trace (A4).

    A classic group that it joins is upgraded. Errors: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, FENCED_MEMBER_EPOCH;
    those of `upgrade`.
    """
    course = partial(_course, shard, request, context, at)
    shard.follow(request.group_id, course, context.reply_to, at, effects)


def _course(
    shard: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, context: RequestContext, at: Moment
) -> Course:
    effects = Effects()
    try:
        check_request(request, context.api_version, shard.settings.assignors)
        if request.member_epoch < JOIN_EPOCH:
            response = leave(shard, request, at, effects)
        else:
            response = yield from _handle(shard, request, context, at, effects)
    except Refused as refused:
        effects = Effects()
        response = ConsumerGroupHeartbeatResponse(error_code=refused.error, error_message=refused.message)
    effects.reply(context.reply_to, response)
    return effects


def _handle(
    shard: ConsumerGroups,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    at: Moment,
    effects: Effects,
) -> Generator[Compute[Computed], Any, ConsumerGroupHeartbeatResponse]:
    classic = shard.classic_groups.get(request.group_id)
    group, at = yield from _find_group(shard, request, classic, at, effects)
    check_capacity(group, request.member_id, shard.settings.max_size)
    found = find_member(group, request.member_id or member_id_of(context.new_uuid), request, effects)
    member = _described(found.member, request, context)
    step = MemberStep(shard, group, found, member, _owned(request), at, effects, context.describes)
    step.describe()
    current = yield from step.advance()
    step.record(current, classic)
    if classic is not None:
        leave_classic(shard, classic, step.at, effects)
    settings = shard.settings.of(group.group_id)
    shard.soft(group.group_id).begin_session(
        member.member_id, step.at.now_ms, settings.session_timeout_ms, effects
    )
    is_told = is_whole(request) or current.assigned != found.current.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=current.member_epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        assignment=_assignment(current.assigned) if is_told else None,
    )


def is_whole(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member says all of itself, as it does when it joins, and after an error (A1)."""
    names_topics = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.member_epoch == JOIN_EPOCH or (
        request.rebalance_timeout_ms != UNCHANGED_TIMEOUT
        and names_topics
        and request.topic_partitions is not None
    )


def _find_group(
    shard: ConsumerGroups,
    request: ConsumerGroupHeartbeatRequest,
    classic: Group | None,
    at: Moment,
    effects: Effects,
) -> Generator[Compute[Computed], Any, tuple[ConsumerGroup, Moment]]:
    """The request's group, and the time by when it is there."""
    group = shard.groups.get(request.group_id)
    if group is not None:
        return group, at
    if request.member_epoch != JOIN_EPOCH:
        message = f"Consumer group {request.group_id} not found."
        if classic is not None:
            message = f"Group {request.group_id} is not a consumer group."
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)
    if classic is not None:
        return (yield from upgrade(shard, classic, at, effects))
    return ConsumerGroup(request.group_id), at


def check_capacity(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    """Raise Refused if a group is full and has not this member: GROUP_MAX_SIZE_REACHED."""
    if len(group.members) >= max_size and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {max_size} members."
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def _described(
    found: ConsumerMember, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerMember:
    """The member as it is from now on; what the request leaves out stays."""
    origin = (context.client_id, context.client_host)
    if found.classic is None and found.origin == origin and says_nothing_new(request, found):
        return found
    changes: dict[str, Any] = {"client_id": context.client_id, "client_host": context.client_host}
    optional = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "topic_regex": request.subscribed_topic_regex,
        "server_assignor": request.server_assignor,
    }
    changes |= {name: value for name, value in optional.items() if value is not None}
    if request.rebalance_timeout_ms != UNCHANGED_TIMEOUT:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    names = request.subscribed_topic_names
    if names is not None and set(names) != set(found.topic_names):
        changes["topic_names"] = tuple(dict.fromkeys(names))
    return replace(found, classic=None, **changes)


def says_nothing_new(request: ConsumerGroupHeartbeatRequest, member: ConsumerMember) -> bool:
    """Whether the request leaves out all that describes its member, or repeats it."""
    timeout_ms, names = request.rebalance_timeout_ms, request.subscribed_topic_names
    return (
        (timeout_ms == UNCHANGED_TIMEOUT or timeout_ms == member.rebalance_timeout_ms)
        and (names is None or set(names) == set(member.topic_names))
        and _is_unsaid_or(member.topic_regex, request.subscribed_topic_regex)
        and _is_unsaid_or(member.instance_id, request.instance_id)
        and _is_unsaid_or(member.rack_id, request.rack_id)
        and _is_unsaid_or(member.server_assignor, request.server_assignor)
    )


def _is_unsaid_or(known: str | None, said: str | None) -> bool:
    return said is None or said == known


def _owned(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    owned: dict[bytes, list[int]] = {}
    for each in request.topic_partitions:
        owned.setdefault(each.topic_id, []).extend(each.partitions)
    return owned


def _assignment(assigned: PartitionEpochs) -> ConsumerGroupHeartbeatAssignment:
    topics = [
        ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=list(epochs))
        for topic_id, epochs in assigned.items()
    ]
    return ConsumerGroupHeartbeatAssignment(topic_partitions=topics)
