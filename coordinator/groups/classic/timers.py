"""The timers of groups, as keys for `SetTimer`: setting a key again replaces its deadline.

A timer that fires comes back as an event with its key, and its handler then checks whether anything is due: the
member may be gone, or its deadline may be later by now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.effects import Effects
from coordinator.groups.classic.member import Member


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """The end of a member's session, or of a new member's wait in JoinGroup (3.27, 3.54).

    Before there is a member: the end of the time to use an id that was handed out with MEMBER_ID_REQUIRED (3.4).
    One timer for both, as each newcomer goes from the one to the other, and setting a timer is a tenth of a join.
    """

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """The end of a join phase, with or without all members, or of a slice of the initial delay."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """The end of the time in which members of a new generation send their SyncGroup (KAFKA-12890)."""

    group_id: str


@dataclass(frozen=True, slots=True)
class OffsetExpiryTimer:
    """The start of the next sweep that expires offsets in one partition, or of its next slice (O17)."""

    partition: int


def arm_session_timer(
    group_id: str, member: Member, now_ms: int, effects: Effects, timeout_ms: int | None = None
) -> None:
    """Set the member's session deadline `timeout_ms` from now (default: its session timeout), and its timer.

    A timer that is armed no later than that is left alone: when it fires, `on_session_timer` sets it again. So
    that of a longer wait is armed for a session's length: as a rule the wait is over by then, and a session runs.
    """
    member.session_deadline_ms = session_end_ms = now_ms + member.session_timeout_ms
    if timeout_ms is not None:
        member.session_deadline_ms = now_ms + timeout_ms
        session_end_ms = min(session_end_ms, member.session_deadline_ms)
    if member.session_timer_ms is None or member.session_timer_ms > session_end_ms:
        member.session_timer_ms = session_end_ms
        effects.set_timer(SessionTimer(group_id, member.member_id), session_end_ms)


def arm_session_timers(group_id: str, members: Iterable[Member], now_ms: int, effects: Effects) -> None:
    """Set the session deadline of each of `members` to a full session timeout from now."""
    for member in members:
        arm_session_timer(group_id, member, now_ms, effects)


def cancel_session_timer(group_id: str, member: Member, effects: Effects) -> None:
    """Cancel the member's session timer, if it has one."""
    if member.session_timer_ms is not None:
        member.session_timer_ms = None
        effects.set_timer(SessionTimer(group_id, member.member_id), None)
