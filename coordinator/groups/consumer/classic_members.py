"""Classic members of a consumer group: their JoinGroup, SyncGroup, Heartbeat and LeaveGroup (docs/kafka.md 9.9).

To such a member its epoch is the generation, and each of its JoinGroups is a step like a heartbeat: it says what
it owns in its subscription. It is asked to rejoin (REBALANCE_IN_PROGRESS) where another would just get its next
partitions.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from coordinator.effects import Effects, Moment, RequestContext
from coordinator.groups.causes import Cause, CauseKind, combined
from coordinator.groups.classic.join_request import rebalance_timeout_ms_of
from coordinator.groups.classic.leave_group import admin
from coordinator.groups.consumer.classic_checks import (
    check_classic,
    check_generation,
    check_may_join,
    check_protocol,
)
from coordinator.groups.consumer.computing import ComputedTarget, ComputeTarget
from coordinator.groups.consumer.downgrade import (
    Replacement,
    classic_group_with,
    downgrade_with,
    is_downgrade_due_for,
)
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.heartbeat import check_capacity
from coordinator.groups.consumer.leave import remove_members
from coordinator.groups.consumer.member import ClassicMember, ConsumerMember, OfferedProtocol
from coordinator.groups.consumer.member_ids import member_id_of
from coordinator.groups.consumer.member_step import MemberStep
from coordinator.groups.consumer.membership import Found, check_instance, known_member, take_over
from coordinator.groups.consumer.reconciliation import FREE, CurrentAssignment, PartitionEpochs, Partitions
from coordinator.groups.consumer.refusal import Refused
from coordinator.groups.consumer.replay import NEW_MEMBER
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.groups.consumer.states import MemberState
from coordinator.groups.consumer.timers import ClassicJoinTimer, ClassicSyncTimer
from protocol.consumer import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_subscription,
    encode_assignment,
    subscription_version,
)
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.shared import TopicPartitions
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

IDS_ARE_HANDED_OUT_SINCE = 4
NO_EPOCHS: PartitionEpochs = {}


def join(
    shard: ConsumerGroups,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    context: RequestContext,
    at: Moment,
    effects: Effects,
) -> Generator[ComputeTarget, tuple[ComputedTarget, Moment], JoinGroupResponse]:
    """Let a classic member join, or join again; returns the answer. Raises Refused.

    Errors: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID.
    """
    member_id = request.member_id or member_id_of(context.new_uuid)
    check_may_join(shard.settings.migration_policy, group)
    check_capacity(group, member_id, shard.settings.max_size)
    check_protocol_support(group, member_id, request)
    is_static = request.group_instance_id is not None
    if not (request.member_id or is_static) and context.api_version >= IDS_ARE_HANDED_OUT_SINCE:
        return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    found = _find(group, member_id, request, effects)
    subscription = _subscription(request)
    member = _described(found.member, request, subscription, context)
    owned = _owned(shard, subscription)
    step = MemberStep(shard, group, found, member, owned, at, effects, context.describes)
    step.describe()
    current = _downgrade(step, request.group_instance_id)
    if current is None:
        current = yield from step.advance()
        step.record(current)
        _set_timers(shard, group, member, rebalance_timeout_ms_of(request, context), step.at, effects)
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=current.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )


def _downgrade(step: MemberStep, instance_id: str | None) -> CurrentAssignment | None:
    """Make a classic group of the step's if its member is the static one that this is due for, else return None.

    What is returned is what the member has, at the epoch that is its generation. Where a rebalance follows, it is
    not brought nearer to a target that is old.
    """
    group = step.group
    replaced = group.static_member(instance_id)
    if replaced is None or not is_downgrade_due_for(step.shard, group, replaced):
        return None
    is_settled = group.assignment_epoch >= step.epoch
    replacement = Replacement(replaced, step.member, is_settled)
    classic = classic_group_with(step.shard, group, replacement, step.at)
    if classic is None:
        return None
    current = step.found.current
    if is_settled:
        current = step.maybe_reconcile(group.assignment_epoch, group.targets.get(replaced.member_id, {}))
    downgrade_with(step.shard, classic, replacement, step.at, step.effects)
    return current


def check_protocol_support(group: ConsumerGroup, member_id: str, request: JoinGroupRequest) -> None:
    """Raise Refused unless one of the protocols is one that all classic members of the group have."""
    names = [each.name for each in request.protocols]
    if request.protocol_type != PROTOCOL_TYPE or not group.supports_classic_protocols(names):
        message = f"Member {member_id}'s protocols are not supported."
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)


def _find(group: ConsumerGroup, member_id: str, request: JoinGroupRequest, effects: Effects) -> Found:
    instance_id = request.group_instance_id
    if instance_id is not None:
        holder = group.static_member(instance_id)
        if holder is not None and not request.member_id:
            return take_over(group, holder, member_id, effects)
        if request.member_id:
            return known_member(group, check_instance(holder, member_id, instance_id).member_id)
    if member_id in group.members:
        return known_member(group, member_id)
    return Found(ConsumerMember(member_id), NEW_MEMBER)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """What the member subscribes to and owns: all its protocols say the same, so that of the first one."""
    try:
        return decode_subscription(request.protocols[0].metadata)
    except DecodeError:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR) from None


def _owned(shard: ConsumerGroups, subscription: ConsumerProtocolSubscription) -> Partitions:
    images = ((shard.topics.image(each.topic), each.partitions) for each in subscription.owned_partitions)
    return {image.topic_id: partitions for image, partitions in images if image is not None}


def _described(
    found: ConsumerMember,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    context: RequestContext,
) -> ConsumerMember:
    names = tuple(dict.fromkeys(subscription.topics))
    offered = (OfferedProtocol(each.name, bytes(each.metadata)) for each in request.protocols)
    timeout_ms = rebalance_timeout_ms_of(request, context)
    return replace(
        found,
        instance_id=found.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or found.rack_id,
        rebalance_timeout_ms=found.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topic_names=found.topic_names if set(names) == set(found.topic_names) else names,
        topic_regex="",
        client_id=context.client_id,
        client_host=context.client_host,
        classic=ClassicMember(request.session_timeout_ms, tuple(offered)),
    )


def _set_timers(
    shard: ConsumerGroups,
    group: ConsumerGroup,
    member: ConsumerMember,
    sync_timeout_ms: int,
    at: Moment,
    effects: Effects,
) -> None:
    """From its answer on a member's session runs, and the time to fetch its assignment (A59)."""
    soft = shard.soft(group.group_id)
    soft.end_join(member.member_id, effects)
    assert member.classic is not None
    soft.begin_session(member.member_id, at.now_ms, member.classic.session_timeout_ms, effects)
    soft.await_sync(member.member_id, at.now_ms + sync_timeout_ms, effects)


def sync(
    shard: ConsumerGroups, group: ConsumerGroup, request: SyncGroupRequest, at: Moment, effects: Effects
) -> SyncGroupResponse:
    """Answer with what the member has. Raises Refused.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
    REBALANCE_IN_PROGRESS.
    """
    member = _member(group, request.member_id, request.group_instance_id)
    classic, current = check_classic(member), group.currents[member.member_id]
    check_generation(member, current, request.generation_id)
    check_protocol(member, classic, request)
    if (
        group.assignment_epoch > current.member_epoch
        and current.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        _await_join(shard, group, member, at, effects)
        raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
    soft = shard.soft(group.group_id)
    soft.end_sync(member.member_id, effects)
    soft.begin_session(member.member_id, at.now_ms, classic.session_timeout_ms, effects)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=_assignment(shard, classic, current),
    )


def _assignment(shard: ConsumerGroups, classic: ClassicMember, current: CurrentAssignment) -> bytes:
    """What the member has, in the version of the protocol that its subscription has."""
    named = ((shard.topics.topic_name(topic_id), epochs) for topic_id, epochs in current.assigned.items())
    topics = [
        TopicPartitions(topic=name, partitions=list(epochs)) for name, epochs in named if name is not None
    ]
    assignment = ConsumerProtocolAssignment(assigned_partitions=topics)
    return encode_assignment(assignment, subscription_version(classic.protocols[0].metadata))


def heartbeat(
    shard: ConsumerGroups, group: ConsumerGroup, request: HeartbeatRequest, at: Moment, effects: Effects
) -> ErrorCode:
    """Let a session begin anew; return whether the member has to join again. Raises Refused.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION; REBALANCE_IN_PROGRESS is returned.
    """
    member = _member(group, request.member_id, request.group_instance_id)
    classic, current = check_classic(member), group.currents[member.member_id]
    check_generation(member, current, request.generation_id)
    soft = shard.soft(group.group_id)
    soft.begin_session(member.member_id, at.now_ms, classic.session_timeout_ms, effects)
    if not _has_to_rejoin(group, member, current):
        return ErrorCode.NONE
    _await_join(shard, group, member, at, effects)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _has_to_rejoin(group: ConsumerGroup, member: ConsumerMember, current: CurrentAssignment) -> bool:
    """Whether there is a newer target, something to give up, or free by now all that it waited for."""
    if current.member_epoch < group.assignment_epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    return not any(
        partition not in current.assigned.get(topic_id, NO_EPOCHS)
        and group.held.epoch_of(topic_id, partition) != FREE
        for topic_id, partitions in group.targets[member.member_id].items()
        for partition in partitions
    )


def _await_join(
    shard: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, at: Moment, effects: Effects
) -> None:
    deadline_ms = at.now_ms + member.rebalance_timeout_ms
    shard.soft(group.group_id).await_join(member.member_id, deadline_ms, effects)


def leave(
    shard: ConsumerGroups,
    group: ConsumerGroup,
    identities: list[MemberIdentity],
    context: RequestContext,
    at: Moment,
    effects: Effects,
) -> list[ErrorCode]:
    """Remove members, whatever protocol they use, with one new epoch; return an error for each.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    leaving: dict[str, ConsumerMember] = {}
    causes: dict[str, Cause] = {}  # By member id: one that is named twice leaves once.
    errors = []
    for identity in identities:
        try:
            member = _leaving(group, identity)
            leaving[member.member_id] = member
            causes.setdefault(member.member_id, _cause_of(member, identity, context))
            errors.append(ErrorCode.NONE)
        except Refused as refused:
            errors.append(refused.error)
    if leaving:
        remove_members(shard, group, list(leaving.values()), combined([*causes.values()]), at, effects)
    return errors


def _cause_of(member: ConsumerMember, identity: MemberIdentity, context: RequestContext) -> Cause:
    if identity.member_id:
        return Cause.by(member, CauseKind.MEMBER_LEFT, None, identity.reason)
    return Cause.by(member, CauseKind.REMOVED_BY_ADMIN, admin(context), identity.reason)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """The member that a LeaveGroup names; an admin names a static one by its instance id alone."""
    if identity.group_instance_id is not None and not identity.member_id:
        holder = group.static_member(identity.group_instance_id)
        return check_instance(holder, "" if holder is None else holder.member_id, identity.group_instance_id)
    return _member(group, identity.member_id, identity.group_instance_id)


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is not None:
        return check_instance(group.static_member(instance_id), member_id, instance_id)
    if member_id not in group.members:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return group.members[member_id]


def on_classic_timer(
    shard: ConsumerGroups, timer: ClassicJoinTimer | ClassicSyncTimer, at: Moment, effects: Effects
) -> None:
    """Remove a classic member whose JoinGroup or SyncGroup has not come in time (A59)."""
    soft, group = shard.known_soft(timer.group_id), shard.groups.get(timer.group_id)
    if soft is None or not soft.is_late(timer, at.now_ms):
        return
    if group is not None and timer.member_id in group.members:
        is_join = isinstance(timer, ClassicJoinTimer)
        kind = CauseKind.REJOIN_TIMEOUT if is_join else CauseKind.SYNC_TIMEOUT
        member = group.members[timer.member_id]
        remove_members(shard, group, [member], Cause.by(member, kind), at, effects)
