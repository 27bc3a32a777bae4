"""What a restart may forget of a consumer group: sessions, timers, and when its topics are looked at again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coordinator.effects import Effects
from coordinator.groups.consumer.events import Course
from coordinator.groups.consumer.timers import (
    ClassicJoinTimer,
    ClassicSyncTimer,
    MemberSessionTimer,
    RevocationTimer,
)
from coordinator.groups.consumer.watched_topics import WatchedTopics
from coordinator.groups.margins import NOT_HEARD, note_left

REFRESH_MS: Final = 2**31 - 1
"""After so long a group's topics are looked at anew even if no change was reported, as in Kafka."""


@dataclass(slots=True)
class Session:
    """A member's session; monotonic ms."""

    deadline_ms: int
    timer_ms: int  # When its timer fires, no later than the deadline.
    least_left_ms: int = NOT_HEARD  # When its member was heard: see `margins`.
    least_left_before_ms: int = NOT_HEARD


class Revocation(NamedTuple):
    """Until when a member has to confirm what it gave up, and in which epoch it is; monotonic ms."""

    epoch: int
    deadline_ms: int


@dataclass(slots=True)
class SoftState:
    """The soft state of one group.

    A timer that fired may have waited for a target, behind the request that ends it or sets it anew: so each is
    asked whether it is over.
    """

    group_id: str
    refresh_at_ms: int | None = None  # None: with the next heartbeat.
    refresh_epoch: int = (
        0  # The group's epoch when that was set; it failed to be stored if the group is below.
    )
    seen_version: int = 0  # Of the topics, when they were last looked at.
    course: Course = field(default_factory=Course)
    topics: WatchedTopics = field(default_factory=WatchedTopics)
    is_resolving: bool = False  # A run for its regular expressions is under way.
    sessions: dict[str, Session] = field(default_factory=dict)
    # By member id; deadlines in monotonic ms.
    joins: dict[str, int] = field(default_factory=dict)  # Until when classic members are to join again.
    syncs: dict[str, int] = field(default_factory=dict)  # Until when they are to fetch their assignment.
    revocations: dict[str, Revocation] = field(default_factory=dict)

    def is_stale(self, now_ms: int, epoch: int, version: int) -> bool:
        """Whether the group's topics have to be looked at again; `version` is that of all topics.

        Kafka looks again if one of the group's own topics changed. Another one's change leaves the hash as it is.
        """
        if self.refresh_at_ms is None or version != self.seen_version:
            return True
        return now_ms >= self.refresh_at_ms or epoch < self.refresh_epoch

    def refreshed(self, now_ms: int, epoch: int, version: int) -> None:
        self.refresh_at_ms, self.refresh_epoch = now_ms + REFRESH_MS, epoch
        self.seen_version = version

    def begin_session(self, member_id: str, now_ms: int, timeout_ms: int, effects: Effects) -> None:
        """Let a session begin now. A timer that fires no later is left alone: it is armed again when it fires."""
        deadline_ms = now_ms + timeout_ms
        session = self.sessions.get(member_id)
        if session is not None and (left_ms := session.deadline_ms - now_ms) < session.least_left_ms:
            note_left(session, left_ms)
        if self.move_session(member_id, deadline_ms):
            return
        least_left_ms = NOT_HEARD if session is None else session.least_left_ms
        self.sessions[member_id] = Session(deadline_ms, deadline_ms, least_left_ms)
        effects.set_timer(MemberSessionTimer(self.group_id, member_id), deadline_ms)

    def move_session(self, member_id: str, deadline_ms: int) -> bool:
        """Let a session end later, if that takes no timer to be set; return whether."""
        if not self.can_move_session(member_id, deadline_ms):
            return False
        self.sessions[member_id].deadline_ms = deadline_ms
        return True

    def can_move_session(self, member_id: str, deadline_ms: int) -> bool:
        """Whether a session can end then and take no timer to be set: its own fires no later."""
        session = self.sessions.get(member_id)
        return session is not None and session.timer_ms <= deadline_ms

    def is_session_over(self, member_id: str, now_ms: int, effects: Effects) -> bool:
        """Whether the session is over as its timer fires, and so forgotten; else the timer is armed again."""
        session = self.sessions.get(member_id)
        if session is None:
            return False
        if now_ms >= session.deadline_ms:
            del self.sessions[member_id]
            return True
        session.timer_ms = session.deadline_ms
        effects.set_timer(MemberSessionTimer(self.group_id, member_id), session.deadline_ms)
        return False

    def await_revocation(self, member_id: str, epoch: int, deadline_ms: int, effects: Effects) -> None:
        self.revocations[member_id] = Revocation(epoch, deadline_ms)
        effects.set_timer(RevocationTimer(self.group_id, member_id), deadline_ms)

    def is_revocation_over(self, member_id: str, epoch: int, now_ms: int) -> bool:
        """Whether a member in this epoch has not confirmed in time, as the timer for that fires."""
        revocation = self.revocations.get(member_id)
        if revocation is None or now_ms < revocation.deadline_ms:
            return False
        del self.revocations[member_id]
        return revocation.epoch == epoch

    def end_revocation(self, member_id: str, effects: Effects) -> None:
        if self.revocations.pop(member_id, None) is not None:
            effects.set_timer(RevocationTimer(self.group_id, member_id), None)

    def await_join(self, member_id: str, deadline_ms: int, effects: Effects) -> None:
        """Set the timer for a classic member's next JoinGroup, unless it runs already."""
        if member_id not in self.joins:
            self.joins[member_id] = deadline_ms
            effects.set_timer(ClassicJoinTimer(self.group_id, member_id), deadline_ms)

    def end_join(self, member_id: str, effects: Effects) -> None:
        if self.joins.pop(member_id, None) is not None:
            effects.set_timer(ClassicJoinTimer(self.group_id, member_id), None)

    def await_sync(self, member_id: str, deadline_ms: int, effects: Effects) -> None:
        self.syncs[member_id] = deadline_ms
        effects.set_timer(ClassicSyncTimer(self.group_id, member_id), deadline_ms)

    def end_sync(self, member_id: str, effects: Effects) -> None:
        if self.syncs.pop(member_id, None) is not None:
            effects.set_timer(ClassicSyncTimer(self.group_id, member_id), None)

    def is_late(self, timer: ClassicJoinTimer | ClassicSyncTimer, now_ms: int) -> bool:
        """Whether what a classic member was to do has not come in time, as the timer for that fires."""
        deadlines = self.joins if isinstance(timer, ClassicJoinTimer) else self.syncs
        deadline_ms = deadlines.get(timer.member_id)
        if deadline_ms is None or now_ms < deadline_ms:
            return False
        del deadlines[timer.member_id]
        return True

    def forget(self, member_id: str, effects: Effects) -> None:
        """Cancel the timers of a member that is gone."""
        self.end_revocation(member_id, effects)
        self.end_join(member_id, effects)
        self.end_sync(member_id, effects)
        if self.sessions.pop(member_id, None) is not None:
            effects.set_timer(MemberSessionTimer(self.group_id, member_id), None)

    def forget_all(self, effects: Effects) -> None:
        """Cancel the timers of all members."""
        for member_id in dict.fromkeys((*self.sessions, *self.joins, *self.syncs, *self.revocations)):
            self.forget(member_id, effects)
