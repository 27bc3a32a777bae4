"""The names of all deadlines, as keys for `SetTimer`: setting one again replaces what it was.

A fired timer comes back as an event with its key, and only then decides whether anything is due: what it
was for may be gone, or its deadline may have moved on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.effects import SetTimer
from coordinator.groups.classic.member import Member


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """The end of a member's session, or of a new member's wait in JoinGroup (3.27, 3.54)."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class PendingMemberTimer:
    """The end of the time to use an id that was handed out with MEMBER_ID_REQUIRED (3.4)."""

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
    """The next sweep over the offsets of one partition's groups, or its next slice (O17)."""

    partition: int


def expect_heartbeat(
    group_id: str, member: Member, now_ms: int, timeout_ms: int | None = None
) -> tuple[SetTimer, ...]:
    """Give `member` until `timeout_ms` from now (default: its session timeout) for its next request.

    Where the timer is armed no later than that already, it is left alone: it will find out when it fires.
    """
    member.session_deadline_ms = now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
    if member.session_timer_ms is not None and member.session_timer_ms <= member.session_deadline_ms:
        return ()
    member.session_timer_ms = member.session_deadline_ms
    return (SetTimer(SessionTimer(group_id, member.member_id), member.session_deadline_ms),)


def expect_heartbeats(group_id: str, members: Iterable[Member], now_ms: int) -> tuple[SetTimer, ...]:
    """Give each of `members` a full session from now on."""
    return tuple(timer for member in members for timer in expect_heartbeat(group_id, member, now_ms))


def stop_expecting(group_id: str, member: Member) -> tuple[SetTimer, ...]:
    """Cancel the member's session timer, if it has one."""
    if member.session_timer_ms is None:
        return ()
    member.session_timer_ms = None
    return (SetTimer(SessionTimer(group_id, member.member_id), None),)
