"""The downgrade of a consumer group, as the last member of the new protocol goes (KIP-848; docs/kafka.md 9.9).

What is left are classic members: their group becomes a classic one, of which the generation is the group's epoch
and the assignment is the target. It rebalances at once, unless a static member was replaced and has that already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.effects import Effects, HistoryRow, Moment, RequestContext
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.join_group import join_group
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.member import OfferedProtocol as ClassicProtocol
from coordinator.groups.classic.rebalance import prepare_rebalance
from coordinator.groups.classic.records import new_group_metadata_record
from coordinator.groups.classic.shard_groups import ShardGroups
from coordinator.groups.classic.states import STABLE
from coordinator.groups.classic.timers import JoinTimer, arm_session_timers, cancel_session_timer
from coordinator.groups.consumer.assignors.specs import Target
from coordinator.groups.consumer.events import Course, Standing
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.records import group_tombstones
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.groups.consumer.states import GroupState, MemberState
from coordinator.groups.consumer.upgrade import IN_FORCE, send_back
from coordinator.groups.consumer.waited_for import GivenUp
from protocol.consumer import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    encode_assignment,
    subscription_version,
)
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.shared import TopicPartitions


@dataclass(frozen=True, slots=True)
class GroupDowngraded:
    """`Result.then` of storing a downgrade, with the course that the group goes on with if it was refused."""

    group_id: str
    course: Course = field(compare=False)


class Remaining(NamedTuple):
    """A classic member that stays, and what it is to have."""

    member: ConsumerMember
    target: Target


def is_downgrade_due(
    shard: ConsumerGroups, group: ConsumerGroup, leaving: Collection[ConsumerMember]
) -> bool:
    """Whether a group becomes a classic one without these of its members."""
    remaining = len(group.members) - len(leaving)
    classic_leaving = sum(member.classic is not None for member in leaving)
    return group.classic_count - classic_leaving == remaining > 0 and _is_allowed(shard, remaining)


def is_downgrade_due_for(shard: ConsumerGroups, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    """Whether a group becomes a classic one as this static member of it becomes a classic one."""
    count = len(group.members)
    is_last = replaced.classic is None and group.classic_count == count - 1
    return is_last and _is_allowed(shard, count)


def _is_allowed(shard: ConsumerGroups, count: int) -> bool:
    settings = shard.settings
    return settings.migration_policy.allows_downgrade and count <= settings.classic_max_size


def downgrade_without(
    shard: ConsumerGroups,
    group: ConsumerGroup,
    leaving: Collection[ConsumerMember],
    cause: Cause,
    at: Moment,
    effects: Effects,
) -> bool:
    """Make a classic group of a group's members, but for those that leave, as `cause` says; it rebalances.

    Return whether it was made: where the subscription of one cannot be read nothing is done (A62). To the history
    that they leave is an event of its own: who counts them by its cause knows of no downgrade.
    """
    member_ids = list(group.table)
    gone = {member.member_id for member in leaving}
    staying = [_remaining(group, each) for each in member_ids if each not in gone]
    classic = _classic_group(shard, group, staying, at)
    if classic is None:
        return False
    _write_tombstones(group, member_ids, effects)
    course = shard.soft(group.group_id).course
    course.begin_event(group)
    course.record(group, Standing(group.epoch, group.state, len(staying)), cause, at, effects)
    _become_classic(shard, classic, course, at, effects)
    why = cause._replace(kind=CauseKind.GROUP_DOWNGRADED, detail=cause.kind.text, removed=())
    _rebalance(classic, group, course, why, at, effects)
    return True


def _rebalance(
    classic: Group, group: ConsumerGroup, course: Course, cause: Cause, at: Moment, effects: Effects
) -> None:
    """Begin the rebalance of what is a classic group now, or go on with the one that is on in the former group.

    To the history it is in that one's state until then.
    """
    state, number = group.state.value, len(effects.history)
    prepare_rebalance(classic, at, cause, effects)
    course.hand_over(state, classic, at)
    phase = {"phase_ms": {state: course.spent_ms(at.now_ms)}}
    row = effects.history[number]
    effects.history[number] = row._replace(from_state=state, phase=phase, is_by_records=True)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member that is a classic one from now on, in the place of `replaced`, as the records say already.

    `is_settled`: the target is of the group's epoch, so there is nothing to rebalance for.
    """

    replaced: ConsumerMember
    member: ConsumerMember
    is_settled: bool


def classic_group_with(
    shard: ConsumerGroups, group: ConsumerGroup, replacement: Replacement, at: Moment
) -> Group | None:
    """A group's members, with one that was replaced, as a classic group; None where one cannot be read (A62)."""
    replaced, member = replacement.replaced, replacement.member
    staying = [_remaining(group, each) for each in group.table if each != replaced.member_id]
    staying.append(Remaining(member, group.targets.get(replaced.member_id, {})))
    return _classic_group(shard, group, staying, at)


def downgrade_with(
    shard: ConsumerGroups, classic: Group, replacement: Replacement, at: Moment, effects: Effects
) -> None:
    """Let `classic_group_with` this replacement take the place of its consumer group."""
    group = shard.groups[classic.group_id]
    replaced, member = replacement.replaced, replacement.member
    tombstones = [member.member_id if each == replaced.member_id else each for each in group.table]
    _write_tombstones(group, tombstones, effects)
    course = shard.soft(group.group_id).course
    course.begin_event(group)
    _become_classic(shard, classic, course, at, effects)
    cause = Cause.by(member, CauseKind.GROUP_DOWNGRADED, removed=(replaced.member_id,))
    if replacement.is_settled:
        came = GivenUp(member, (), course.rebalancing_ms(group.state.value, at.now_ms))
        last = came.fields(came.named(shard.topics))
        after = Standing(group.epoch, GroupState.STABLE, len(classic.members), last)
        course.record(group, after, cause, at, effects)
    else:
        _rebalance(classic, group, course, cause, at, effects)


def join_instead(
    shard: ConsumerGroups,
    classic: ShardGroups,
    request: JoinGroupRequest,
    context: RequestContext,
    at: Moment,
    effects: Effects,
) -> None:
    """JoinGroup (key 11) at a consumer group without members: it gives way to that join's classic group (A64).

    Whatever the policy. A join that makes no group, as it is refused or names a member id, leaves this one.
    `classic` has the classic groups of the same shard. Errors: those of `join_group`.
    """
    group = shard.groups[request.group_id]
    assert not group.members, "classic_members.join is for a group that has some"
    joined = Effects()
    join_group(classic, request, context, at, joined)
    if group.group_id in classic.groups:
        _write_tombstones(group, [], effects)
        effects.history.append(_giving_way_row(shard, group, context, at))
        shard.forget(group.group_id, effects)
    effects.add(joined.result())


def _giving_way_row(
    shard: ConsumerGroups, group: ConsumerGroup, context: RequestContext, at: Moment
) -> HistoryRow:
    """The row of a group without members that is classic from now on; generations begin anew."""
    empty = group.state.value
    cause = Cause(
        CauseKind.GROUP_DOWNGRADED,
        "a classic member joins where there is none",
        client_id=context.client_id,
        client_host=context.client_host,
    )
    phase = {"phase_ms": {empty: shard.soft(group.group_id).course.spent_ms(at.now_ms)}}
    return HistoryRow(group.group_id, 0, empty, empty, cause, at.wall_ms, 0, 0, phase, is_by_records=True)


def _remaining(group: ConsumerGroup, member_id: str) -> Remaining:
    return Remaining(group.members[member_id], group.targets.get(member_id, {}))


def _write_tombstones(group: ConsumerGroup, member_ids: list[str], effects: Effects) -> None:
    effects.records += group_tombstones(group.group_id, member_ids, list(group.subscriptions.resolved))


def _classic_group(
    shard: ConsumerGroups, group: ConsumerGroup, staying: list[Remaining], at: Moment
) -> Group | None:
    """The classic group of these members; None if a subscription to its protocol has no version.

    A JoinGroup at a consumer group reads that of its first protocol alone.
    """
    classic = Group(
        group.group_id,
        state=STABLE,
        generation_id=group.epoch,
        state_since_ms=at.now_ms,
        state_wall_ms=at.wall_ms,
    )
    for member, _ in staying:
        classic.add(_classic_member(member), PROTOCOL_TYPE)
    classic.protocol_name = classic.vote()
    classic.compute_subscribed_topics()
    for member, target in staying:
        offered = classic.members[member.member_id]
        try:
            version = subscription_version(offered.metadata(classic.protocol_name))
        except DecodeError:
            return None
        offered.assignment = encode_assignment(_assignment(shard, target), version)
    return classic


def _become_classic(
    shard: ConsumerGroups, classic: Group, course: Course, at: Moment, effects: Effects
) -> None:
    """Add the classic group to the shard's, and its record to the effects; cancel the timers of the other one.

    `course` is that of the other one.
    """
    assignments = {each.member_id: each.assignment for each in classic.members.values()}
    effects.records.append(new_group_metadata_record(classic, assignments))
    shard.forget(classic.group_id, effects)
    arm_session_timers(classic.group_id, classic.members.values(), at.now_ms, effects)
    shard.classic_groups[classic.group_id] = classic
    effects.hand_back(GroupDowngraded(classic.group_id, course))


def _classic_member(member: ConsumerMember) -> Member:
    assert member.classic is not None, "only classic members are left"
    return Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=tuple(ClassicProtocol(*offered) for offered in member.classic.protocols),
    )


def _assignment(shard: ConsumerGroups, target: Target) -> ConsumerProtocolAssignment:
    """A target as a classic member reads it: topics by name, of those that exist."""
    named = ((shard.topics.topic_name(topic_id), partitions) for topic_id, partitions in target.items())
    topics = [
        TopicPartitions(topic=name, partitions=list(partitions))
        for name, partitions in named
        if name is not None
    ]
    return ConsumerProtocolAssignment(assigned_partitions=topics)


def on_downgrade_stored(
    shard: ConsumerGroups, downgraded: GroupDowngraded, error: ErrorCode, at: Moment, effects: Effects
) -> None:
    """If a downgrade was refused, drop the classic group: all members of the other begin a session anew.

    One that the disk takes long to store is in force all the same.
    """
    classic = shard.classic_groups.get(downgraded.group_id)
    if error in IN_FORCE or classic is None:
        return
    del shard.classic_groups[downgraded.group_id]
    for member in classic.members.values():
        send_back(classic, member, effects)
        cancel_session_timer(classic.group_id, member, effects)
    effects.set_timer(JoinTimer(downgraded.group_id), None)
    group = shard.groups[downgraded.group_id]
    shard.soft(downgraded.group_id).course = downgraded.course
    begin_sessions(shard, group, group.members, at, effects)


def begin_sessions(
    shard: ConsumerGroups, group: ConsumerGroup, member_ids: Iterable[str], at: Moment, effects: Effects
) -> None:
    """Begin the sessions anew of members whose timers were cancelled, with what was not stored."""
    soft, default_ms = shard.soft(group.group_id), shard.settings.of(group.group_id).session_timeout_ms
    for member_id in member_ids:
        member, current = group.members[member_id], group.currents[member_id]
        soft.begin_session(member_id, at.now_ms, member.session_timeout_ms(default_ms), effects)
        if member.classic is None and current.state is MemberState.UNREVOKED_PARTITIONS:
            deadline_ms = at.now_ms + member.rebalance_timeout_ms
            soft.await_revocation(member_id, current.member_epoch, deadline_ms, effects)
