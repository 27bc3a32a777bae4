"""The timers of consumer groups, as keys for `SetTimer` (A29, A30)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemberSessionTimer:
    """The end of a member's session: it has not sent a heartbeat for as long as the session is."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RevocationTimer:
    """The end of the time in which a member confirms what it has to give up."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ClassicJoinTimer:
    """The end of the time in which a classic member that was asked to joins again."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ClassicSyncTimer:
    """The end of the time in which a classic member fetches its assignment after its JoinGroup."""

    group_id: str
    member_id: str
