"""A rebalance, from the first change of membership until every JoinGroup is answered.

PreparingRebalance waits for members to join again: until all have, or the longest rebalance timeout is over, or
(for a group that was Empty) until the initial delay and its extensions are. CompletingRebalance begins a new
generation: members that did not join are removed, leader and protocol are chosen, every parked JoinGroup is
answered, and the sync timer waits for the SyncGroups. Storing the assignment is in `sync_group`.
Nothing here knows a request: handlers pass the cause of the change, for people to read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from coordinator.effects import NOTHING, Moment, Reply, Result, SetTimer
from coordinator.groups.causes import Cause, CauseKind, counted
from coordinator.groups.classic.answers import join_answer
from coordinator.groups.classic.events import new_event
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


def start_initial_rebalance(group: Group, delay_ms: int, at: Moment, cause: Cause) -> Result:
    """Begin the first rebalance of an Empty group: wait `delay_ms` for more members to join."""
    remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    group.initial_delay = InitialDelay(delay_ms, delay_ms, remaining_ms)
    event = transition(group, Trigger.MEMBERSHIP_CHANGED, at, cause)
    return Result(timers=(_arm_join_timer(group, at.now_ms + delay_ms),), history=(event,))


def prepare_rebalance(
    group: Group, at: Moment, cause: Cause, trigger: Trigger = Trigger.MEMBERSHIP_CHANGED
) -> Result:
    """Begin a rebalance: all members are to join again; parked SyncGroups get REBALANCE_IN_PROGRESS."""
    result = _cancel_syncs(group, at, ErrorCode.REBALANCE_IN_PROGRESS)
    group.initial_delay = None
    group.storing = None
    if not group.joined_count:
        group.last_arrival = None  # It belongs to the sync phase that is cancelled here.
    event = transition(group, trigger, at, cause)
    result += Result(history=(event,))
    if group.all_joined:
        return result + complete_join(group, at, ALL_JOINED)
    return result + Result(timers=(_arm_join_timer(group, at.now_ms + group.rebalance_timeout_ms),))


def maybe_prepare_rebalance_or_complete_join(group: Group, at: Moment, cause: Cause) -> Result:
    """After a change of membership: begin a rebalance, or complete the join phase if it now can."""
    if group.state in (STABLE, COMPLETING_REBALANCE):
        return prepare_rebalance(group, at, cause)
    if group.state is not PREPARING_REBALANCE:
        return NOTHING
    return Result(history=(new_event(group, at, cause),)) + maybe_complete_join(group, at)


def maybe_complete_join(group: Group, at: Moment, *, ignore_delay: bool = False) -> Result:
    """Complete the join phase if every member has joined again and every id that was handed out was used.

    The initial delay is waited out as in Kafka (3.13, 3.14), except with `ignore_delay`: the last member or id
    that was waited for has just expired.
    """
    if group.state is not PREPARING_REBALANCE or not group.all_joined:
        return NOTHING
    if group.initial_delay is not None and not ignore_delay:
        return NOTHING
    return complete_join(group, at, ALL_JOINED)


def on_join_timer(group: Group, at: Moment) -> Result:
    """Handle the end of the join phase's time, or of one slice of the initial delay."""
    if group.state is not PREPARING_REBALANCE:
        return NOTHING
    if at.now_ms < group.join_deadline_ms:
        return Result(timers=(SetTimer(JoinTimer(group.group_id), group.join_deadline_ms),))
    if group.initial_delay is None:
        return complete_join(group, at, Cause(CauseKind.REBALANCE_TIMEOUT))
    return _extend_initial_delay(group, group.initial_delay, at)


def _extend_initial_delay(group: Group, delay: InitialDelay, at: Moment) -> Result:
    """Wait another slice if a member joined during this one and time is left; else complete the join (3.12)."""
    if not delay.member_came or delay.remaining_ms == 0:
        return complete_join(group, at, Cause(CauseKind.INITIAL_DELAY_OVER))
    slice_ms = min(delay.first_slice_ms, delay.remaining_ms)
    remaining_ms = max(delay.remaining_ms - delay.slice_ms, 0)
    group.initial_delay = InitialDelay(delay.first_slice_ms, slice_ms, remaining_ms)
    return Result(timers=(_arm_join_timer(group, at.now_ms + slice_ms),))


def complete_join(group: Group, at: Moment, cause: Cause) -> Result:
    """End the join phase: begin a new generation of the members that joined, or go Empty if none remain."""
    missing = [member for member in group.members.values() if member.awaiting_join is None]
    cause = _with_dropped_members(missing, len(group.pending_members), cause)
    result = _drop(group, [member for member in missing if not member.is_static])
    result += Result(timers=(SetTimer(JoinTimer(group.group_id), None),))
    if group.members and not group.elect_joined_leader():
        return result + _extend_join(group, at, cause)
    group.generation_id += 1
    group.initial_delay = None
    group.pending_sync.clear()
    if not group.members:
        return result + _become_empty(group, at, cause)
    return result + _begin_generation(group, at, cause)


def _with_dropped_members(missing: list[Member], pending_count: int, cause: Cause) -> Cause:
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
        return replace(cause, detail=detail)
    return Cause.by(missing[0], cause.kind, detail, removed=dropped)


def _drop(group: Group, members: list[Member]) -> Result:
    timers: list[SetTimer] = []
    for member in members:
        group.remove(member.member_id)
        timers += cancel_session_timer(group.group_id, member)
    return Result(timers=tuple(timers))


def _extend_join(group: Group, at: Moment, cause: Cause) -> Result:
    """Extend the join phase by a rebalance timeout: only static members remain, and none rejoined (3.18)."""
    if group.initial_delay is not None:
        group.initial_delay = replace(group.initial_delay, remaining_ms=0)
    event = new_event(group, at, replace(cause, kind=CauseKind.JOIN_PHASE_EXTENDED))
    timer = _arm_join_timer(group, at.now_ms + group.rebalance_timeout_ms)
    return Result(timers=(timer,), history=(event,))


def _become_empty(group: Group, at: Moment, cause: Cause) -> Result:
    group.protocol_name = None
    group.compute_subscribed_topics()
    event = transition(group, Trigger.GROUP_EMPTIED, at, replace(cause, kind=CauseKind.GROUP_EMPTIED))
    return Result(records=(new_group_metadata_record(group, {}),), history=(event,))


def _begin_generation(group: Group, at: Moment, cause: Cause) -> Result:
    """Choose the protocol, answer every parked JoinGroup, and set the sync timer."""
    group.protocol_name = group.vote()
    group.compute_subscribed_topics()
    event = transition(group, Trigger.JOIN_COMPLETED, at, cause)
    replies: list[Reply] = []
    timers: list[SetTimer] = []
    for member in group.members.values():
        member.is_new = False
        group.pending_sync.add(member.member_id)
        timers += arm_session_timer(group.group_id, member, at.now_ms)
        if parked := group.take_join(member):
            replies.append(Reply(parked.reply_to, join_answer(group, member, parked.api_version)))
    group.sync_deadline_ms = at.now_ms + group.rebalance_timeout_ms
    timers.append(SetTimer(SyncTimer(group.group_id), group.sync_deadline_ms))
    return Result(replies=tuple(replies), timers=tuple(timers), history=(event,))


def on_sync_timer(group: Group, at: Moment) -> Result:
    """Remove the members that sent no SyncGroup in time, be it the leader, and rebalance (3.48)."""
    if group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_sync:
        return NOTHING
    if at.now_ms < group.sync_deadline_ms:
        return Result(timers=(SetTimer(SyncTimer(group.group_id), group.sync_deadline_ms),))
    late = [group.members[member_id] for member_id in sorted(group.pending_sync)]
    removed = tuple(member.member_id for member in late)
    detail = f"{counted(len(late), 'member')} sent no SyncGroup"
    cause = Cause.by(late[0], CauseKind.SYNC_TIMEOUT, detail, removed=removed)
    return _drop(group, late) + prepare_rebalance(group, at, cause)


def refuse_syncs(group: Group, at: Moment, error: ErrorCode) -> Result:
    """Answer every parked SyncGroup with `error`; the sessions of these members start again (3.56).

    The answers do not wait for the disk: they show nothing that is stored, and the disk may be the cause.
    """
    replies: list[Reply] = []
    timers: list[SetTimer] = []
    for member in group.members.values():
        parked, member.awaiting_sync = member.awaiting_sync, None
        if parked is not None:
            refusal = response_with_error(SyncGroupResponse, error, parked.api_version)
            replies.append(Reply(parked.reply_to, refusal, reveals_stored=False))
            timers += arm_session_timer(group.group_id, member, at.now_ms)
    return Result(replies=tuple(replies), timers=tuple(timers))


def _cancel_syncs(group: Group, at: Moment, error: ErrorCode) -> Result:
    """Cancel the sync timer and, in CompletingRebalance, clear assignments and refuse parked SyncGroups."""
    result = Result(timers=(SetTimer(SyncTimer(group.group_id), None),))
    if group.state is COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        result += refuse_syncs(group, at, error)
    group.pending_sync.clear()
    return result


def remove_member(group: Group, member: Member) -> Result:
    """Remove `member`; its parked requests get UNKNOWN_MEMBER_ID (3.62). Starts no rebalance."""
    replies: tuple[Reply, ...] = ()
    if join := group.take_join(member):
        refusal = response_with_error(JoinGroupResponse, ErrorCode.UNKNOWN_MEMBER_ID, join.api_version)
        replies += (Reply(join.reply_to, refusal),)
    if sync := member.awaiting_sync:
        # Kafka forgets this request; without an answer it would block its connection for good.
        unknown = response_with_error(SyncGroupResponse, ErrorCode.UNKNOWN_MEMBER_ID, sync.api_version)
        replies += (Reply(sync.reply_to, unknown),)
    group.remove(member.member_id)
    return Result(replies=replies, timers=cancel_session_timer(group.group_id, member))


def _arm_join_timer(group: Group, deadline_ms: int) -> SetTimer:
    group.join_deadline_ms = deadline_ms
    return SetTimer(JoinTimer(group.group_id), deadline_ms)
