"""A rebalance, from the first change of membership until every JoinGroup is answered.

PreparingRebalance waits for members to join again: until all have, or the longest rebalance timeout is over, or
(for a group that was Empty) until the initial delay and its extensions are. CompletingRebalance begins a new
generation: members that did not join are removed, leader and protocol are chosen, every parked JoinGroup is
answered, and the sync timer waits for the SyncGroups. Storing the assignment is in `sync_group`.
Nothing here knows a request: handlers pass the cause of the change, for people to read.
"""

from __future__ import annotations

from typing import Final

from coordinator.effects import Effects, Moment
from coordinator.groups.causes import Cause, CauseKind, counted
from coordinator.groups.classic.answers import join_answer
from coordinator.groups.classic.events import new_row
from coordinator.groups.classic.group import Group, InitialDelay
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.records import new_group_metadata_record
from coordinator.groups.classic.states import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
    Trigger,
)
from coordinator.groups.classic.timers import JoinTimer, SyncTimer, arm_session_timer, cancel_session_timer
from coordinator.groups.classic.transition import transition
from protocol.error_responses import response_with_error
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

ALL_JOINED: Final = Cause(CauseKind.ALL_MEMBERS_JOINED)


def start_initial_rebalance(group: Group, delay_ms: int, at: Moment, cause: Cause, effects: Effects) -> None:
    """Begin the first rebalance of an Empty group: wait `delay_ms` for more members to join."""
    remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    group.initial_delay = InitialDelay(delay_ms, delay_ms, remaining_ms)
    transition(group, Trigger.MEMBERSHIP_CHANGED, at, cause, effects)
    _arm_join_timer(group, at.now_ms + delay_ms, effects)


def prepare_rebalance(
    group: Group,
    at: Moment,
    cause: Cause,
    effects: Effects,
    trigger: Trigger = Trigger.MEMBERSHIP_CHANGED,
) -> None:
    """Begin a rebalance: all members are to join again; parked SyncGroups get REBALANCE_IN_PROGRESS."""
    _cancel_syncs(group, at, ErrorCode.REBALANCE_IN_PROGRESS, effects)
    group.initial_delay = None
    group.storing = None
    if not group.joined_count:
        group.last_arrival = None  # It belongs to the sync phase that is cancelled here.
    transition(group, trigger, at, cause, effects)
    if group.all_joined:
        complete_join(group, at, ALL_JOINED, effects)
    else:
        _arm_join_timer(group, at.now_ms + group.rebalance_timeout_ms, effects)


def maybe_prepare_rebalance_or_complete_join(
    group: Group, at: Moment, cause: Cause, effects: Effects
) -> None:
    """After a change of membership: begin a rebalance, or complete the join phase if it now can."""
    if group.state in (STABLE, COMPLETING_REBALANCE):
        prepare_rebalance(group, at, cause, effects)
    elif group.state is PREPARING_REBALANCE:
        effects.history.append(new_row(group, at, cause))
        maybe_complete_join(group, at, effects)


def maybe_complete_join(group: Group, at: Moment, effects: Effects, *, ignore_delay: bool = False) -> None:
    """Complete the join phase if every member has joined again and every id that was handed out was used.

    The initial delay is waited out as in Kafka (3.13, 3.14), except with `ignore_delay`: the last member or id
    that was waited for has just expired.
    """
    if group.state is not PREPARING_REBALANCE or not group.all_joined:
        return
    if group.initial_delay is not None and not ignore_delay:
        return
    complete_join(group, at, ALL_JOINED, effects)


def on_join_timer(group: Group, at: Moment, effects: Effects) -> None:
    """Handle the end of the join phase's time, or of one slice of the initial delay."""
    if group.state is not PREPARING_REBALANCE:
        return
    if at.now_ms < group.join_deadline_ms:
        effects.set_timer(JoinTimer(group.group_id), group.join_deadline_ms)
    elif group.initial_delay is None:
        complete_join(group, at, Cause(CauseKind.REBALANCE_TIMEOUT), effects)
    else:
        _extend_initial_delay(group, group.initial_delay, at, effects)


def _extend_initial_delay(group: Group, delay: InitialDelay, at: Moment, effects: Effects) -> None:
    """Wait another slice if a member joined during this one and time is left; else complete the join (3.12)."""
    if not delay.member_came or delay.remaining_ms == 0:
        complete_join(group, at, Cause(CauseKind.INITIAL_DELAY_OVER), effects)
        return
    slice_ms = min(delay.first_slice_ms, delay.remaining_ms)
    remaining_ms = max(delay.remaining_ms - delay.slice_ms, 0)
    group.initial_delay = InitialDelay(delay.first_slice_ms, slice_ms, remaining_ms)
    _arm_join_timer(group, at.now_ms + slice_ms, effects)


def complete_join(group: Group, at: Moment, cause: Cause, effects: Effects) -> None:
    """End the join phase: begin a new generation of the members that joined, or go Empty if none remain."""
    missing = [member for member in group.members.values() if member.awaiting_join is None]
    cause = _with_dropped_members(missing, len(group.pending_members), at, cause)
    _drop(group, [member for member in missing if not member.is_static], effects)
    effects.set_timer(JoinTimer(group.group_id), None)
    if group.members and not group.elect_joined_leader():
        _extend_join(group, at, cause, effects)
        return
    group.generation_id += 1
    group.initial_delay = None
    group.pending_sync.clear()
    if group.members:
        _begin_generation(group, at, cause, effects)
    else:
        _become_empty(group, at, cause, effects)


def _with_dropped_members(missing: list[Member], pending_count: int, at: Moment, cause: Cause) -> Cause:
    """Return `cause` with the members that did not rejoin before the join phase ended.

    Dynamic members among them are removed; static ones stay until their session expires (3.17).
    """
    dropped = tuple(member.member_id for member in missing if not member.is_static)
    parts = (
        (len(dropped), f"{counted(len(dropped), 'member')} did not rejoin"),
        (kept := len(missing) - len(dropped), f"{counted(kept, 'static member')} stayed without rejoining"),
        (pending_count, f"{counted(pending_count, 'pending id')} not used yet"),
    )
    detail = ", ".join(text for count, text in parts if count) or None
    if not missing:
        return cause if detail is None else cause._replace(detail=detail)
    return missing[0].in_session(Cause.by(missing[0], cause.kind, detail, removed=dropped), at.now_ms)


def _drop(group: Group, members: list[Member], effects: Effects) -> None:
    for member in members:
        group.remove(member.member_id)
        cancel_session_timer(group.group_id, member, effects)


def _extend_join(group: Group, at: Moment, cause: Cause, effects: Effects) -> None:
    """Extend the join phase by a rebalance timeout: only static members remain, and none rejoined (3.18)."""
    if group.initial_delay is not None:
        group.initial_delay = group.initial_delay._replace(remaining_ms=0)
    timeout_ms = group.rebalance_timeout_ms
    cause = cause._replace(kind=CauseKind.JOIN_PHASE_EXTENDED)
    effects.history.append(new_row(group, at, cause, phase={"phase_timeout_ms": timeout_ms}))
    _arm_join_timer(group, at.now_ms + timeout_ms, effects)


def _become_empty(group: Group, at: Moment, cause: Cause, effects: Effects) -> None:
    group.protocol_name = None
    group.compute_subscribed_topics()
    transition(group, Trigger.GROUP_EMPTIED, at, cause._replace(kind=CauseKind.GROUP_EMPTIED), effects)
    effects.records.append(new_group_metadata_record(group, {}))


def _begin_generation(group: Group, at: Moment, cause: Cause, effects: Effects) -> None:
    """Choose the protocol, answer every parked JoinGroup, and set the sync timer.

    The answers reveal nothing that is stored, as a generation is with its assignment, so they do not wait for the
    disk. Those of static members do: their ids are stored.
    """
    group.protocol_name = group.vote()
    group.compute_subscribed_topics()
    transition(group, Trigger.JOIN_COMPLETED, at, cause, effects)
    for member in group.members.values():
        member.is_new = False
        arm_session_timer(group.group_id, member, at.now_ms, effects)
        if parked := group.take_join(member):
            answer = join_answer(group, member, parked.api_version)
            effects.reply(parked.reply_to, answer, reveals_stored=member.is_static)
    group.pending_sync.update(group.members)
    group.sync_deadline_ms = at.now_ms + group.rebalance_timeout_ms
    effects.set_timer(SyncTimer(group.group_id), group.sync_deadline_ms)


def on_sync_timer(group: Group, at: Moment, effects: Effects) -> None:
    """Remove the members that sent no SyncGroup in time, be it the leader, and rebalance (3.48)."""
    if group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_sync:
        return
    if at.now_ms < group.sync_deadline_ms:
        effects.set_timer(SyncTimer(group.group_id), group.sync_deadline_ms)
        return
    late = [group.members[member_id] for member_id in sorted(group.pending_sync)]
    removed = tuple(member.member_id for member in late)
    detail = f"{counted(len(late), 'member')} sent no SyncGroup"
    cause = Cause.by(late[0], CauseKind.SYNC_TIMEOUT, detail, removed=removed)
    cause = late[0].in_session(cause, at.now_ms)
    _drop(group, late, effects)
    prepare_rebalance(group, at, cause, effects)


def refuse_syncs(group: Group, at: Moment, error: ErrorCode, effects: Effects) -> None:
    """Answer every parked SyncGroup with `error`; the sessions of these members start again (3.56).

    The answers do not wait for the disk: they show nothing that is stored, and the disk may be the cause.
    """
    for member in group.members.values():
        parked, member.awaiting_sync = member.awaiting_sync, None
        if parked is not None:
            refusal = response_with_error(SyncGroupResponse, error, parked.api_version)
            effects.reply(parked.reply_to, refusal, reveals_stored=False)
            arm_session_timer(group.group_id, member, at.now_ms, effects)


def _cancel_syncs(group: Group, at: Moment, error: ErrorCode, effects: Effects) -> None:
    """Cancel the sync timer and, in CompletingRebalance, clear assignments and refuse parked SyncGroups."""
    effects.set_timer(SyncTimer(group.group_id), None)
    if group.state is COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        refuse_syncs(group, at, error, effects)
    group.pending_sync.clear()


def remove_member(group: Group, member: Member, effects: Effects) -> None:
    """Remove `member`; its parked requests get UNKNOWN_MEMBER_ID (3.62). Starts no rebalance."""
    if join := group.take_join(member):
        refusal = response_with_error(JoinGroupResponse, ErrorCode.UNKNOWN_MEMBER_ID, join.api_version)
        effects.reply(join.reply_to, refusal)
    if sync := member.awaiting_sync:
        # Kafka forgets this request; without an answer it would block its connection for good.
        unknown = response_with_error(SyncGroupResponse, ErrorCode.UNKNOWN_MEMBER_ID, sync.api_version)
        effects.reply(sync.reply_to, unknown)
    group.remove(member.member_id)
    cancel_session_timer(group.group_id, member, effects)


def _arm_join_timer(group: Group, deadline_ms: int, effects: Effects) -> None:
    group.join_deadline_ms = deadline_ms
    effects.set_timer(JoinTimer(group.group_id), deadline_ms)
