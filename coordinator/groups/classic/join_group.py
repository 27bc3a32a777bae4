"""JoinGroup (key 11): who may join, and whether that calls for a rebalance.

The checks run in Kafka's order (docs/kafka.md 2.2). A newcomer is handed an id first and comes back with it;
a known member is answered at once if nothing changed, and otherwise is parked until the join phase ends.
Static members that come back without their member id are handled in `static_membership`, ids that were handed
out and not used yet in `pending_members`.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from coordinator.effects import Effects, Moment, RequestContext
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.answers import join_answer
from coordinator.groups.classic.events import new_row
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.join_request import Join, join_request_error, new_join
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.partition_counts import partition_changes, subscribes_as_before
from coordinator.groups.classic.pending_members import forget_pending_member, hand_out_member_id
from coordinator.groups.classic.rebalance import (
    maybe_complete_join,
    maybe_prepare_rebalance_or_complete_join,
    start_initial_rebalance,
)
from coordinator.groups.classic.records import new_empty_group_metadata_record
from coordinator.groups.classic.shard_groups import ShardGroups
from coordinator.groups.classic.states import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    Trigger,
)
from coordinator.groups.classic.static_membership import replace_static_member
from coordinator.groups.classic.timers import arm_session_timer, cancel_session_timer
from coordinator.groups.classic.transition import transition
from coordinator.groups.group_settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from protocol.error_responses import append_answer, response_with_error
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_REQUIRED_SINCE: Final = 4


@dataclass(frozen=True, slots=True)
class GroupCreated:
    """`Result.then` of storing the record that creates a group."""

    group_id: str


def join_group(
    shard: ShardGroups, request: JoinGroupRequest, context: RequestContext, at: Moment, effects: Effects
) -> None:
    """Let a member join; a new member's join creates the group if there is none.

    Errors: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID, GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED (KIP-394), FENCED_INSTANCE_ID (KIP-345).
    """
    join = new_join(shard, request, context, at, effects)
    if error := join_request_error(request, shard.settings):
        join.refuse(error, request.member_id)
    elif group := shard.groups.get(request.group_id):
        _join_existing_group(group, join)
    elif request.member_id:
        join.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
    else:
        _join_new_group(shard.groups, join)


def on_group_created(
    groups: dict[str, Group],
    stored: Container[str],
    created: GroupCreated,
    error: ErrorCode,
    at: Moment,
    effects: Effects,
) -> None:
    """Remove a new group whose record could not be stored; answer each JoinGroup parked in it with the error."""
    if error is ErrorCode.NONE or created.group_id in stored or created.group_id not in groups:
        return
    group = groups.pop(created.group_id)
    for member in group.members.values():
        if parked := group.take_join(member):
            failed = response_with_error(JoinGroupResponse, append_answer(error), parked.api_version)
            effects.reply(parked.reply_to, failed)
    transition(group, Trigger.GROUP_REMOVED, at, Cause(CauseKind.GROUP_NOT_STORED, error.name), effects)


def _join_new_group(groups: dict[str, Group], join: Join) -> None:
    """Create the group, with a record of it, and join it; it stays even if the join is refused (3.1, 3.64)."""
    group = Group(join.request.group_id, state_since_ms=join.at.now_ms, state_wall_ms=join.at.wall_ms)
    groups[group.group_id] = group
    join.effects.records.append(new_empty_group_metadata_record(group.group_id, join.at.wall_ms))
    join.effects.hand_back(GroupCreated(group.group_id))
    _join_existing_group(group, join)


def _join_existing_group(group: Group, join: Join) -> None:
    member_id = join.request.member_id
    if not group.has_room_for(member_id, join.settings.group_max_size):
        _reject_full_group(group, join)
    elif not group.accepts_protocols(join.request.protocol_type, [p.name for p in join.protocols]):
        join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif not member_id:
        _join_newcomer(group, join)
    elif member_id in group.pending_members:
        _join_pending_member(group, join)
    elif error := group.membership_error(member_id, join.request.group_instance_id):
        join.refuse(error, member_id)
    else:
        _rejoin(group, group.members[member_id], join)


def _reject_full_group(group: Group, join: Join) -> None:
    """Refuse a join because the group is full, and remove the member or the pending id that asked (3.31).

    Kafka then waits for the rebalance timeout although all members have joined; here that completes the phase.
    """
    member_id, effects = join.request.member_id, join.effects
    join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if member_id in group.pending_members:
        forget_pending_member(group, member_id, effects)
    elif member := group.members.get(member_id):
        group.remove(member_id)
        cause = join.new_cause(member, CauseKind.GROUP_MAX_SIZE_REACHED)
        effects.history.append(new_row(group, join.at, cause._replace(removed=(member_id,))))
        cancel_session_timer(group.group_id, member, effects)
    maybe_complete_join(group, join.at, effects)


def _join_newcomer(group: Group, join: Join) -> None:
    """Let a new member join; a dynamic one is first handed an id to come back with (version 4 and later)."""
    if not join.new_member_id_fits:  # Kafka adds some of these, and can then answer no member of the group.
        join.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        return
    instance_id = join.request.group_instance_id
    if instance_id in group.static_members:
        replace_static_member(group, group.members[group.static_members[instance_id]], join)
    elif instance_id is None and join.context.api_version >= MEMBER_ID_REQUIRED_SINCE:
        hand_out_member_id(group, join)
    else:
        _add_member(group, _new_member(join.new_member_id(), join), join)


def _join_pending_member(group: Group, join: Join) -> None:
    if join.request.group_instance_id is not None:
        join.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)  # Static members are never pending (3.8).
        return
    member_id = join.request.member_id
    pending = group.pending_members.pop(member_id)
    _add_member(group, _new_member(member_id, join, pending.timer_ms), join)


def _add_member(group: Group, member: Member, join: Join) -> None:
    """Add a member that is new to the group, parked until the join phase ends."""
    if group.initial_delay is not None and not group.initial_delay.member_came:
        group.initial_delay = group.initial_delay._replace(member_came=True)
    group.add(member, join.request.protocol_type)
    group.park_join(member, join.parked, join.at.now_ms)
    effects = join.effects
    arm_session_timer(group.group_id, member, join.at.now_ms, effects, NEW_MEMBER_JOIN_TIMEOUT_MS)
    cause = join.new_cause(member, CauseKind.MEMBER_JOINED)
    if group.state is EMPTY:
        delay_ms = join.settings.group_initial_rebalance_delay_ms
        start_initial_rebalance(group, delay_ms, join.at, cause, effects)
    else:
        maybe_prepare_rebalance_or_complete_join(group, join.at, cause, effects)


def _new_member(member_id: str, join: Join, session_timer_ms: int | None = None) -> Member:
    return Member(
        member_id=member_id,
        group_instance_id=join.request.group_instance_id,
        client_id=join.context.client_id,
        client_host=join.context.client_host,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        session_timeout_ms=join.request.session_timeout_ms,
        protocols=join.protocols,
        is_new=True,
        session_timer_ms=session_timer_ms,
    )


def _rejoin(group: Group, member: Member, join: Join) -> None:
    """Handle a join of a known member; only what may change the assignment costs a rebalance (3.24, 3.25)."""
    unchanged = member.protocols == join.protocols
    leads = member.member_id == group.leader
    if unchanged and (group.state is COMPLETING_REBALANCE or (group.state is STABLE and not leads)):
        answer = join_answer(group, member, join.context.api_version)
        join.effects.reply(join.context.reply_to, answer)
    else:
        _park_again(group, member, join, _rejoin_cause(group, member, join, unchanged))


def _rejoin_cause(group: Group, member: Member, join: Join, unchanged: bool) -> Cause:
    """Return why a member rejoins: changed metadata, changed partition counts, or neither (only a leader)."""
    changes = partition_changes(group, join.topics) if unchanged or member.member_id == group.leader else ""
    if changes and (unchanged or subscribes_as_before(group, member, join.protocols)):
        return join.new_cause(member, CauseKind.PARTITION_COUNTS_CHANGED, changes)
    kind = CauseKind.LEADER_REJOINED if unchanged else CauseKind.MEMBER_METADATA_CHANGED
    return join.new_cause(member, kind)


def _park_again(group: Group, member: Member, join: Join, cause: Cause) -> None:
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    member.session_timeout_ms = join.request.session_timeout_ms
    group.update_protocols(member, join.protocols)
    join.effects.superseded += group.park_join(member, join.parked, join.at.now_ms)
    if group.state is PREPARING_REBALANCE:  # A rejoin is expected in this state: no new cause.
        maybe_complete_join(group, join.at, join.effects)
    else:
        maybe_prepare_rebalance_or_complete_join(group, join.at, cause, join.effects)
