"""Follows the members of one group, from its events one by one, and gives each session when it has ended.

A session begins with the event by which a member joins, and ends with the one that names it as a member no longer.
An event names the first ten that it removes and counts all. The unnamed ones are found out as soon as it can be:
when there are no more members that it may have removed than it counted. They then end with that event. In the
same way, members that are missing without an event (events were dropped, or a crash took the last of them) end
with the first event that shows it, by `events_dropped` or `coordinator_restarted`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from typing import Any, Final, NamedTuple

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind, current_slug
from coordinator.groups.classic.states import DEAD

JOINS: Final = frozenset(
    kind.slug
    for kind in (
        CauseKind.MEMBER_JOINED,
        CauseKind.STATIC_MEMBER_REPLACED,
        CauseKind.STATIC_MEMBER_NOT_STORED,  # The member continues under its old id.
        CauseKind.GROUP_UPGRADED,  # The first member of the consumer protocol joined with it.
        CauseKind.GROUP_DOWNGRADED,  # If it removed one: a classic member took the place of the last other one.
    )
)
ACTS: Final = frozenset(
    kind.slug
    for kind in (
        CauseKind.MEMBER_METADATA_CHANGED,
        CauseKind.LEADER_REJOINED,
        CauseKind.PARTITION_COUNTS_CHANGED,
        CauseKind.ASSIGNMENT_STORED,
        CauseKind.ASSIGNMENT_NOT_STORED,
        CauseKind.TOPICS_CHANGED,
        CauseKind.ASSIGNMENT_COMPUTED,
        CauseKind.MEMBERS_RECONCILED,
        CauseKind.STATIC_MEMBER_AWAY,  # Its place is kept, and counted.
    )
)
"""Causes whose member is in the group after the event. With any other cause, also later ones, it may not be."""

MISSING: Final = (CauseKind.EVENTS_DROPPED.slug, CauseKind.COORDINATOR_RESTARTED.slug)
"""Causes given to members that are gone without an event; the second if that shows after a restart."""

MEMBERS_MAX: Final = 10_000
"""The number of members of one group that are known at a time; sessions of other members have no begin."""

UNNAMED_MAX: Final = 100
"""The number of a group's events with unnamed members that are kept; beyond it the oldest is dropped."""

LATE_MAX_MS: Final = 60_000
"""An event that is older than the one before it by up to this is late, and counts the members of its own time. If
it is older than that, the coordinator's clock was set back."""


class Session(NamedTuple):
    """A row of the table `members`; times in ms since 1970."""

    group_id: str
    member_id: str
    client_id: str | None
    client_host: str | None
    group_instance_id: str | None
    started_at: int | None
    ended_at: int
    duration_ms: int | None
    joined_by: str | None
    ended_by: str


@dataclass(slots=True)
class KnownMember:
    """What is known of one member that is in the group."""

    client_id: str | None
    client_host: str | None
    group_instance_id: str | None
    started_ms: int | None
    joined_by: str | None
    alive_ms: int  # When it was last known to be a member.


@dataclass(slots=True)
class Unnamed:
    """A number of members that are gone since `ended_ms`, without being known by id."""

    ended_ms: int
    cause: str
    count: int


@dataclass(slots=True)
class SessionFold:
    """The members of one group, and the members whose sessions ended lately."""

    members: dict[str, KnownMember] = field(default_factory=dict)
    unnamed: list[Unnamed] = field(default_factory=list)
    gone: dict[str, int] = field(default_factory=dict)  # When sessions of lately ended members ended.
    heard_ms: int = 0

    def add(self, event: GroupEvent) -> list[Session]:
        """Take in the group's next event; return the sessions that it ends, or now shows to have ended."""
        removed_any = bool(event.removed_member_ids)
        removed = (self._end(member_id, event) for member_id in event.removed_member_ids)
        ended = [session for session in removed if session is not None]
        if event.cause in JOINS and (removed_any or event.cause != CauseKind.GROUP_DOWNGRADED.slug):
            self._join(event)
        self._record_activity(event)
        if event.to_state == DEAD.value:
            ended += self._end_all(event)
        elif not self.heard_ms - LATE_MAX_MS <= event.wall_ms < self.heard_ms:
            ended += self._end_missing(event)
            self.heard_ms = event.wall_ms
        return ended

    def forget_gone(self, until_ms: int) -> None:
        """Forget members whose sessions ended by `until_ms`: no later event can name them."""
        self.gone = {member_id: ended for member_id, ended in self.gone.items() if ended > until_ms}

    def _join(self, event: GroupEvent) -> None:
        member_id = event.member_id
        if member_id is None or event.wall_ms <= self.gone.get(member_id, -1):
            return  # The event of its end came before this one, out of order.
        if member_id in self.members or len(self.members) < MEMBERS_MAX:
            who = (event.client_id, event.client_host, event.group_instance_id)
            self.members[member_id] = KnownMember(*who, event.wall_ms, event.cause, event.wall_ms)

    def _record_activity(self, event: GroupEvent) -> None:
        """Record that the event's member is present; it may have joined before the topic begins, or unrecorded."""
        member_id = event.member_id
        if event.cause not in ACTS or member_id is None or event.wall_ms <= self.gone.get(member_id, -1):
            return
        if member := self.members.get(member_id):
            member.alive_ms = max(member.alive_ms, event.wall_ms)
        elif len(self.members) < MEMBERS_MAX:
            who = (event.client_id, event.client_host, event.group_instance_id)
            self.members[member_id] = KnownMember(*who, None, None, event.wall_ms)

    def _end(self, member_id: str, event: GroupEvent) -> Session | None:
        if member_id in self.gone and member_id not in self.members:
            return None  # Its session has its row already.
        member = self.members.pop(member_id, None)
        if member is None:
            is_named = member_id == event.member_id
            who = (event.client_id, event.client_host, event.group_instance_id) if is_named else (None,) * 3
            member = KnownMember(*who, None, None, 0)
        return self._new_session(event.group_id, member_id, member, event.wall_ms, event.cause)

    def _new_session(
        self, group_id: str, member_id: str, member: KnownMember, ended_ms: int, cause: str
    ) -> Session:
        self.gone[member_id] = max(ended_ms, self.gone.get(member_id, 0))
        started = member.started_ms
        return Session(
            group_id,
            member_id,
            member.client_id,
            member.client_host,
            member.group_instance_id,
            started,
            ended_ms,
            None if started is None else max(ended_ms - started, 0),
            member.joined_by,
            cause,
        )

    def _end_all(self, event: GroupEvent) -> list[Session]:
        self.unnamed.clear()
        ended = list(self.members.items())
        self.members.clear()
        return [
            self._new_session(event.group_id, each, member, event.wall_ms, event.cause)
            for each, member in ended
        ]

    def _end_missing(self, event: GroupEvent) -> list[Session]:
        """Compare the known members with the group's number of members; end the sessions that must be over."""
        unnamed = event.removed_count - len(event.removed_member_ids)
        if unnamed > 0:
            self.unnamed.append(Unnamed(event.wall_ms, event.cause, unnamed))
        missing = len(self.members) - sum(each.count for each in self.unnamed) - event.member_count
        if missing > 0:
            self.unnamed.append(Unnamed(event.wall_ms, MISSING[event.from_state == DEAD.value], missing))
        del self.unnamed[:-UNNAMED_MAX]
        if missing < 0 < event.member_count:
            return []  # The members that are gone may be among those that are not known.
        return [session for each in list(self.unnamed) for session in self._resolve(each, event)]

    def _resolve(self, unnamed: Unnamed, event: GroupEvent) -> Iterable[Session]:
        """End the members that `unnamed` must mean: no more are left than it counts, or the group is empty."""
        # Missing members were gone before the event that shows it, so they are none of those that acted in it.
        until_ms = unnamed.ended_ms - (unnamed.cause in MISSING)
        meant = [name for name, member in self.members.items() if member.alive_ms <= until_ms]
        if event.member_count == 0:
            meant = list(self.members) if unnamed is self.unnamed[-1] else meant[: unnamed.count]
        elif len(meant) > unnamed.count:
            return
        for member_id in meant:
            member = self.members.pop(member_id)
            yield self._new_session(event.group_id, member_id, member, unnamed.ended_ms, unnamed.cause)
        self.unnamed.remove(unnamed)

    def dump(self) -> list[Any]:
        """The state for `load`, as values that fit into JSON."""
        members = [[member_id, *astuple(member)] for member_id, member in self.members.items()]
        return [members, [astuple(each) for each in self.unnamed], list(self.gone.items()), self.heard_ms]

    @classmethod
    def load(cls, dumped: list[Any]) -> SessionFold:
        members, unnamed, gone, heard_ms = dumped
        known = {member_id: KnownMember(*rest) for member_id, *rest in members}
        uncertain = [Unnamed(ended_ms, current_slug(cause), count) for ended_ms, cause, count in unnamed]
        return cls(known, uncertain, dict(gone), heard_ms)
