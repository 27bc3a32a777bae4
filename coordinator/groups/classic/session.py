"""Session expiry: a member without a heartbeat within its session timeout is removed from the group.

Heartbeats and commits only move the deadline, so the timer may fire early and is then armed again.
A member parked in JoinGroup or SyncGroup waits for the coordinator and does not expire - except one that was
never in a generation: its client may be gone (3.27, 3.55).
"""

from __future__ import annotations

from coordinator.effects import Effects, Moment
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.events import new_row
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.rebalance import (
    maybe_complete_join,
    maybe_prepare_rebalance_or_complete_join,
    remove_member,
)
from coordinator.groups.classic.states import PREPARING_REBALANCE
from coordinator.groups.classic.timers import SessionTimer


def on_session_timer(group: Group, member_id: str, at: Moment, effects: Effects) -> None:
    """Expire a member whose session deadline has passed, or set the timer again."""
    member = group.members.get(member_id)
    if member is None:
        return  # Left, or was replaced, while the timer was in flight.
    member.session_timer_ms = None
    if at.now_ms < member.session_deadline_ms:
        member.session_timer_ms = member.session_deadline_ms
        effects.set_timer(SessionTimer(group.group_id, member_id), member.session_deadline_ms)
    elif member.is_new or not member.is_parked:
        _expire(group, member, at, effects)
    # Else its session begins again when the request it waits in is answered.


def _expire(group: Group, member: Member, at: Moment, effects: Effects) -> None:
    kind = CauseKind.NEW_MEMBER_JOIN_TIMEOUT if member.is_new else CauseKind.SESSION_EXPIRED
    cause = Cause.by(member, kind, removed=(member.member_id,))
    if not member.is_new:
        cause = member.in_session(cause, at.now_ms)
    remove_member(group, member, effects)
    if group.state is PREPARING_REBALANCE:
        effects.history.append(new_row(group, at, cause))
        maybe_complete_join(group, at, effects, ignore_delay=True)
    else:
        maybe_prepare_rebalance_or_complete_join(group, at, cause, effects)
