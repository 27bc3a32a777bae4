"""The members of one group, from its events one by one: sessions as they end, and how many came and went.

A session begins with the event by which a member joins, and ends with the one that names it as a member no longer.
An event names the first ten that it removes and counts all. Who the others are is found out as soon as it can be:
when no more members are left of those it may have been than are missing. They then end with that event. In the
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
        CauseKind.STATIC_MEMBER_NOT_STORED,  # The old id is as good as before.
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
    )
)
"""What only a member can do that stays one. Of other causes, and later ones, the event's member may be none."""

MISSING: Final = (CauseKind.EVENTS_DROPPED.slug, CauseKind.COORDINATOR_RESTARTED.slug)
"""The causes under which members end that no event names: the second if it shows after a restart."""

MEMBERS_MAX: Final = 10_000
"""Members of one group that are known at a time; the sessions of others have no begin when they end."""

UNNAMED_MAX: Final = 100
"""Events of one group whose removed members are not all known yet; then the oldest is given up."""

LATE_MAX_MS: Final = 60_000
"""An event that is so much older than the one before is late, and counts members as they were then. If it is
older still, the coordinator's clock was set back."""


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
    """What is known of one present member."""

    client_id: str | None
    client_host: str | None
    group_instance_id: str | None
    started_ms: int | None
    joined_by: str | None
    alive_ms: int  # When it was last known to be a member.


@dataclass(slots=True)
class Unnamed:
    """A number of members that are gone since a time, and it is not known which they are."""

    ended_ms: int
    cause: str
    count: int


@dataclass(slots=True)
class SessionFold:
    """The members of one group, and those that have just left it."""

    members: dict[str, KnownMember] = field(default_factory=dict)
    unnamed: list[Unnamed] = field(default_factory=list)
    gone: dict[str, int] = field(default_factory=dict)  # When those that ended lately did, by member id.
    heard_ms: int = 0

    def add(self, event: GroupEvent) -> list[Session]:
        """Take the group's next event; the sessions that ended with it, or are now known to have ended."""
        removed = (self._end(member_id, event) for member_id in event.removed_member_ids)
        ended = [session for session in removed if session is not None]
        if event.cause in JOINS:
            self._join(event)
        self._learn(event)
        if event.to_state == DEAD.value:
            ended += self._end_all(event)
        elif not self.heard_ms - LATE_MAX_MS <= event.wall_ms < self.heard_ms:
            ended += self._settle(event)
            self.heard_ms = event.wall_ms
        return ended

    def forget_gone(self, until_ms: int) -> None:
        """Forget the members whose sessions ended until then: no event will name them again."""
        self.gone = {member_id: ended for member_id, ended in self.gone.items() if ended > until_ms}

    def _join(self, event: GroupEvent) -> None:
        member_id = event.member_id
        if member_id is None or event.wall_ms <= self.gone.get(member_id, -1):
            return  # Its end came first, out of order.
        if member_id in self.members or len(self.members) < MEMBERS_MAX:
            who = (event.client_id, event.client_host, event.group_instance_id)
            self.members[member_id] = KnownMember(*who, event.wall_ms, event.cause, event.wall_ms)

    def _learn(self, event: GroupEvent) -> None:
        """A member that joined before the topic begins, or by a dropped event, is met by what it does."""
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
            return None  # Its session has its row.
        member = self.members.pop(member_id, None)
        if member is None:
            is_named = member_id == event.member_id
            who = (event.client_id, event.client_host, event.group_instance_id) if is_named else (None,) * 3
            member = KnownMember(*who, None, None, 0)
        return self._ended(event.group_id, member_id, member, event.wall_ms, event.cause)

    def _ended(
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
            self._ended(event.group_id, each, member, event.wall_ms, event.cause) for each, member in ended
        ]

    def _settle(self, event: GroupEvent) -> list[Session]:
        """Compare the members that are known with their number, and end those that can only be gone."""
        unnamed = event.removed_count - len(event.removed_member_ids)
        if unnamed > 0:
            self.unnamed.append(Unnamed(event.wall_ms, event.cause, unnamed))
        missing = len(self.members) - sum(each.count for each in self.unnamed) - event.member_count
        if missing > 0:
            self.unnamed.append(Unnamed(event.wall_ms, MISSING[event.from_state == DEAD.value], missing))
        del self.unnamed[:-UNNAMED_MAX]
        if missing < 0 < event.member_count:
            return []  # There are members that are not known, and they may be the ones that are gone.
        return [session for each in list(self.unnamed) for session in self._resolve(each, event)]

    def _resolve(self, unnamed: Unnamed, event: GroupEvent) -> Iterable[Session]:
        """End those that an event may have meant, once they are no more than it counted; of an empty group all."""
        # Missing members went before the event that shows it, so none of them takes part in that one.
        until_ms = unnamed.ended_ms - (unnamed.cause in MISSING)
        meant = [name for name, member in self.members.items() if member.alive_ms <= until_ms]
        if event.member_count == 0:
            meant = list(self.members) if unnamed is self.unnamed[-1] else meant[: unnamed.count]
        elif len(meant) > unnamed.count:
            return
        for member_id in meant:
            member = self.members.pop(member_id)
            yield self._ended(event.group_id, member_id, member, unnamed.ended_ms, unnamed.cause)
        self.unnamed.remove(unnamed)

    def dump(self) -> list[Any]:
        """The state as `load` takes it; fits into JSON."""
        members = [[member_id, *astuple(member)] for member_id, member in self.members.items()]
        return [members, [astuple(each) for each in self.unnamed], list(self.gone.items()), self.heard_ms]

    @classmethod
    def load(cls, dumped: list[Any]) -> SessionFold:
        members, unnamed, gone, heard_ms = dumped
        known = {member_id: KnownMember(*rest) for member_id, *rest in members}
        uncertain = [Unnamed(ended_ms, current_slug(cause), count) for ended_ms, cause, count in unnamed]
        return cls(known, uncertain, dict(gone), heard_ms)
