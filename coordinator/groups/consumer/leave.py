"""A member that goes: for good, for now (a static one), or since it was silent (A7 to A11, A29, A30)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from coordinator.effects import Effects, Moment
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.consumer.downgrade import begin_sessions, downgrade_without, is_downgrade_due
from coordinator.groups.consumer.events import Standing
from coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH, ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.membership import check_instance
from coordinator.groups.consumer.records import (
    member_tombstones,
    new_current_record,
    new_epoch_record,
    new_regex_tombstone,
)
from coordinator.groups.consumer.refusal import Refused
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.groups.consumer.states import GroupState, group_state
from coordinator.groups.consumer.timers import MemberSessionTimer, RevocationTimer
from coordinator.groups.consumer.upgrade import IN_FORCE
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@dataclass(frozen=True, slots=True)
class MembersRemoved:
    """`Result.then` of storing the removal of several members at once, which may be more than a batch can have."""

    group_id: str
    member_ids: tuple[str, ...]


def leave(
    shard: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, at: Moment, effects: Effects
) -> ConsumerGroupHeartbeatResponse:
    """Let a member go. Raises Refused: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    group = shard.groups.get(request.group_id)
    if group is None:
        is_classic = request.group_id in shard.classic_groups
        what = "is not a consumer group" if is_classic else "not found"
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")
    if request.instance_id is not None:
        holder = group.static_member(request.instance_id)
        member = check_instance(holder, request.member_id, request.instance_id)
        if request.member_epoch == LEFT_FOR_NOW_EPOCH:
            _leave_for_now(shard, group, member, at, effects)
            return _answer(request)
    elif request.member_id not in group.members:
        message = f"Member {request.member_id} is not a member of group {group.group_id}."
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
    else:
        member = group.members[request.member_id]
    remove_members(shard, group, [member], Cause.by(member, CauseKind.MEMBER_LEFT), at, effects)
    return _answer(request)


def _answer(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


def _leave_for_now(
    shard: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, at: Moment, effects: Effects
) -> None:
    """Keep a static member's place and partitions, as if assigned in no epoch, until its session is over (A9)."""
    current = group.currents[member.member_id]
    assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in current.assigned.items()}
    left = replace(current, member_epoch=LEFT_FOR_NOW_EPOCH, assigned=assigned, pending_revocation={})
    effects.records.append(new_current_record(group.group_id, member.member_id, left))
    standings = {*group.standings, left.standing}  # Another one in its place may be there or not.
    after = Standing(
        group.epoch, group_state(group.epoch, group.assignment_epoch, standings), len(group.members)
    )
    cause = _in_session(shard, group, member, Cause.by(member, CauseKind.STATIC_MEMBER_AWAY), at)
    course = shard.soft(group.group_id).course
    course.begin_event(group)
    course.record(group, after, cause, at, effects)


def remove_members(
    shard: ConsumerGroups,
    group: ConsumerGroup,
    members: list[ConsumerMember],
    cause: Cause,
    at: Moment,
    effects: Effects,
) -> None:
    """Remove members, with one new epoch for all of them (A10); if only classic ones are left, downgrade."""
    cause = cause._replace(removed=tuple(each.member_id for each in members))
    cause = _in_session(shard, group, members[0], cause, at)
    is_due = is_downgrade_due(shard, group, members)
    if is_due and downgrade_without(shard, group, members, cause, at, effects):
        return
    for member in members:
        effects.records += member_tombstones(group.group_id, member.member_id)
    unused, names = _subscribed_without(group, members)
    effects.records += [new_regex_tombstone(group.group_id, regex) for regex in sorted(unused)]
    metadata_hash = shard.hash_of(names)
    effects.records.append(new_epoch_record(group.group_id, group.epoch + 1, metadata_hash))
    soft = shard.soft(group.group_id)
    if metadata_hash != soft.topics.metadata_hash:
        soft.topics.watch(metadata_hash, shard.images(sorted(names)))
    for member in members:
        soft.forget(member.member_id, effects)
    if len(members) > 1:  # The records of one always fit into a batch.
        effects.hand_back(MembersRemoved(group.group_id, cause.removed))
    left = len(group.members) - len(members)
    after = Standing(group.epoch + 1, GroupState.ASSIGNING if left else GroupState.EMPTY, left)
    soft.course.begin_event(group)
    soft.course.removed(group, members, cause.kind, at.now_ms)
    soft.course.record(group, after, cause, at, effects)


def _in_session(
    shard: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, cause: Cause, at: Moment
) -> Cause:
    """The cause with the session of the member behind it, which is forgotten by now if it has expired."""
    timeout_ms = member.session_timeout_ms(shard.settings.of(group.group_id).session_timeout_ms)
    if cause.kind is CauseKind.SESSION_EXPIRED:
        return cause.in_session(timeout_ms, 0)
    session = shard.soft(group.group_id).sessions.get(member.member_id)
    return cause.in_session(timeout_ms, None if session is None else session.deadline_ms - at.now_ms)


def _subscribed_without(group: ConsumerGroup, members: list[ConsumerMember]) -> tuple[set[str], set[str]]:
    """The expressions that no member has without these, and the topics that the others subscribe to."""
    subscriptions = group.subscriptions
    for member in members:
        subscriptions.change(member, None)
    unused = {member.topic_regex for member in members if member.topic_regex} - subscriptions.by_regex.keys()
    names = set(subscriptions.by_name)
    for regex, resolved in subscriptions.resolved.items():
        names.update(() if regex in unused else resolved.topics)
    for member in members:
        subscriptions.change(None, member)
    return unused, names


def on_removal_stored(
    shard: ConsumerGroups, removed: MembersRemoved, error: ErrorCode, at: Moment, effects: Effects
) -> None:
    """If the removal was refused, its members are still there: their sessions begin anew.

    A classic one that was to join again learns that from its next heartbeat.
    """
    group = shard.groups.get(removed.group_id)
    if error in IN_FORCE or group is None:
        return
    staying = [member_id for member_id in removed.member_ids if member_id in group.members]
    begin_sessions(shard, group, staying, at, effects)


def on_session_timer(shard: ConsumerGroups, timer: MemberSessionTimer, at: Moment, effects: Effects) -> None:
    """Remove a member that was silent for its whole session."""
    soft = shard.known_soft(timer.group_id)
    if soft is None or not soft.is_session_over(timer.member_id, at.now_ms, effects):
        return
    group = shard.groups.get(timer.group_id)
    if group is not None and timer.member_id in group.members:
        member = group.members[timer.member_id]
        remove_members(shard, group, [member], Cause.by(member, CauseKind.SESSION_EXPIRED), at, effects)


def on_revocation_timer(shard: ConsumerGroups, timer: RevocationTimer, at: Moment, effects: Effects) -> None:
    """Remove a member that has not confirmed in time what it gave up, if it is still where it was then."""
    soft, group = shard.known_soft(timer.group_id), shard.groups.get(timer.group_id)
    current = None if group is None else group.currents.get(timer.member_id)
    if soft is None or group is None or current is None:
        return
    if soft.is_revocation_over(timer.member_id, current.member_epoch, at.now_ms):
        member = group.members[timer.member_id]
        remove_members(shard, group, [member], Cause.by(member, CauseKind.REVOCATION_TIMEOUT), at, effects)
