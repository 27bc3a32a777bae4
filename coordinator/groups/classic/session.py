"""Session expiry: a member without a heartbeat within its session timeout is removed from the group.

Heartbeats and commits only move the deadline, so the timer may fire early and is then armed again.
A member parked in JoinGroup or SyncGroup waits for the coordinator and does not expire - except one that was
never in a generation: its client may be gone (3.27, 3.55).
"""

from __future__ import annotations

from coordinator.effects import NOTHING, Moment, Result, SetTimer
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.events import new_event
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.rebalance import (
    maybe_complete_join,
    maybe_prepare_rebalance_or_complete_join,
    remove_member,
)
from coordinator.groups.classic.states import PREPARING_REBALANCE
from coordinator.groups.classic.timers import SessionTimer


def on_session_timer(group: Group, member_id: str, at: Moment) -> Result:
    """Expire a member whose session deadline has passed, or set the timer again."""
    member = group.members.get(member_id)
    if member is None:
        return NOTHING  # Left, or was replaced, while the timer was in flight.
    member.session_timer_ms = None
    if at.now_ms < member.session_deadline_ms:
        member.session_timer_ms = member.session_deadline_ms
        key = SessionTimer(group.group_id, member_id)
        return Result(timers=(SetTimer(key, member.session_deadline_ms),))
    if member.is_parked and not member.is_new:
        return NOTHING  # Its session begins again when the request it waits in is answered.
    return _expire(group, member, at)


def _expire(group: Group, member: Member, at: Moment) -> Result:
    kind = CauseKind.NEW_MEMBER_JOIN_TIMEOUT if member.is_new else CauseKind.SESSION_EXPIRED
    cause = Cause.by(member, kind, removed=(member.member_id,))
    result = remove_member(group, member)
    if group.state is PREPARING_REBALANCE:
        result += Result(history=(new_event(group, at, cause),))
        return result + maybe_complete_join(group, at, ignore_delay=True)
    return result + maybe_prepare_rebalance_or_complete_join(group, at, cause)
