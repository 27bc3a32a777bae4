"""Session expiry: a member that was not heard of within its session timeout is out of the group.

Heartbeats and commits only move the deadline, so the timer may fire early and is then armed again.
A member parked in JoinGroup or SyncGroup waits on our account and cannot be late - except one that was
never in a generation: nobody knows whether its client is still there (3.27, 3.55).
"""

from __future__ import annotations

from coordinator.effects import NOTHING, Moment, Result, SetTimer
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.rebalance import complete_if_nobody_is_missing, dismiss, rebalance_or_complete
from coordinator.groups.classic.states import PREPARING_REBALANCE, note
from coordinator.groups.classic.timers import SessionTimer


def on_session_timer(group: Group, member_id: str, at: Moment) -> Result:
    """Expire a silent member, or look again later."""
    member = group.members.get(member_id)
    if member is None:
        return NOTHING  # Left, or was replaced, while the timer was in flight.
    member.session_timer_ms = None
    if at.now_ms < member.session_deadline_ms:
        member.session_timer_ms = member.session_deadline_ms
        key = SessionTimer(group.group_id, member_id)
        return Result(timers=(SetTimer(key, member.session_deadline_ms),))
    if member.is_parked and not member.is_new:
        return NOTHING  # Its session starts anew when the request it waits in is answered.
    return _expire(group, member, at)


def _expire(group: Group, member: Member, at: Moment) -> Result:
    kind = CauseKind.NEW_MEMBER_JOIN_TIMEOUT if member.is_new else CauseKind.SESSION_EXPIRED
    cause = Cause.by(member, kind, removed=(member.member_id,))
    result = dismiss(group, member)
    if group.state is PREPARING_REBALANCE:
        result += Result(history=(note(group, at, cause),))
        return result + complete_if_nobody_is_missing(group, at)
    return result + rebalance_or_complete(group, at, cause)
