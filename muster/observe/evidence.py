"""What an observed event rests on, and how it becomes a `GroupEvent` of the very kind that the daemon writes.

The log of a coordinator shows what was stored, not why. So a cause is either shown by a record or inferred, and
each event says which, with the record's place. Plain values; nothing is read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from typing import Any, Final, NamedTuple

from coordinator.effects import GroupEvent, HistoryRow, Observed
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.states import DEAD
from coordinator.history.events import bounded, worded
from muster.groups.event_records import WALL_MS_MAX

REMOVED_IDS_MAX: Final = 10
"""The members that are gone by one event, which names them all; more take further events."""

MISSING_FIRST: Final = 1
"""The number of a group's first generation."""


@unique
class Evidence(Enum):
    """A kind of evidence, by the slug that is on the topic: a slug never changes its meaning."""

    RECORD = "record"  # The record itself says it: nothing is inferred.
    TOMBSTONE = "tombstone"  # A tombstone shows that it is gone, and not why.
    MEMBERS = "members_compared"  # The members of two generations were compared.
    SUBSCRIPTIONS = "subscriptions_compared"  # And what they subscribe to, or their assignor.
    ASSIGNMENTS = "assignments_compared"  # And how many partitions of a topic are assigned.
    NUMBERS = "numbers_compared"  # The numbers of two generations.
    NOTHING = "nothing"  # It is the first record of the group that is known, or none tells.


@dataclass(frozen=True, slots=True)
class At:
    """The place and time of a record. `hole_at` is where the log goes on behind the last missing offset.

    `is_behind_unread`: since its group's last known generation there was a record that could not be decoded.
    """

    partition: int
    offset: int
    wall_ms: int
    hole_at: int = -1
    is_behind_unread: bool = False


class Member(NamedTuple):
    """A member as its record names it, and a digest of what it subscribes to; "" where that cannot be read."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    subscribed: str = ""
    rebalance_timeout_ms: int = -1
    session_timeout_ms: int = -1  # Of a classic member.

    @property
    def origin(self) -> tuple[str, str]:
        return self.client_id, self.client_host

    def shown(self) -> dict[str, str | None]:
        """The member as the event of a generation lists it."""
        return {name: getattr(self, name) for name in self._fields[:4]}


class Change(NamedTuple):
    """One reason for a new generation, or one thing that happened within one."""

    kind: CauseKind
    evidence: Evidence
    detail: str | None = None
    member: Member | None = None  # Whose doing it was.
    removed: tuple[str, ...] = ()

    @property
    def gain(self) -> int:
        """By how many members the group is larger after it."""
        if self.kind is CauseKind.MEMBER_GONE:
            return -len(self.removed)
        is_new = self.member is not None and not self.removed
        return int(is_new and self.kind in (CauseKind.MEMBER_JOINED, CauseKind.GROUP_UPGRADED))

    @property
    def cause(self) -> Cause:
        if self.member is None:
            return Cause(self.kind, self.detail, removed=self.removed)
        cause = Cause.by(self.member, self.kind, self.detail, removed=self.removed)
        if self.kind is CauseKind.MEMBER_GONE and self.member.session_timeout_ms > 0:
            return cause.in_session(self.member.session_timeout_ms, None)
        return cause


class Step(NamedTuple):
    """From which state a group went to which, its generation and its number of members after that."""

    from_state: str
    to_state: str
    generation_id: int
    member_count: int


FIRST_KNOWN: Final = Change(
    CauseKind.CAUSE_UNKNOWN, Evidence.NOTHING, "the first record that is known of the group"
)
NOTHING_KNOWN: Final = Step(DEAD.value, DEAD.value, 0, 0)
"""How a group stood of which nothing is known."""


def observed_event(
    group_id: str, step: Step, change: Change, at: At, phase: dict[str, Any] | None = None, **shown: Any
) -> GroupEvent:
    """The event of a change at the time of `at`. `phase` are fields of the event, `shown` those of `Observed`."""
    row = HistoryRow(
        group_id,
        max(step.generation_id, -1),
        step.from_state,
        step.to_state,
        change.cause,
        min(max(at.wall_ms, 0), WALL_MS_MAX),
        step.member_count,
        len(change.removed),
        phase,
    )
    event = worded(bounded(row))
    event.observed = Observed(change.evidence.value, at.partition, at.offset, **shown)
    return event


def joined(member: Member, detail: str | None, evidence: Evidence) -> Change:
    return Change(CauseKind.MEMBER_JOINED, evidence, detail, member)


def gone(members: Sequence[Member], detail: str, evidence: Evidence) -> list[Change]:
    """One change for every ten members that are gone, so that each is named."""
    parts = (members[start : start + REMOVED_IDS_MAX] for start in range(0, len(members), REMOVED_IDS_MAX))
    return [
        Change(CauseKind.MEMBER_GONE, evidence, detail, part[0], tuple(each.member_id for each in part))
        for part in parts
    ]


def replaced(old: Member, new: Member, evidence: Evidence) -> Change:
    return Change(CauseKind.STATIC_MEMBER_REPLACED, evidence, None, new, (old.member_id,))


class Difference(NamedTuple):
    """How the members of two generations differ. A static member under a new id is neither joined nor gone."""

    gone: list[Member]
    joined: list[Member]
    replaced: list[tuple[Member, Member]]

    def changes(self, detail_of_gone: str, detail_of_joined: str, evidence: Evidence) -> list[Change]:
        return [
            *gone(self.gone, detail_of_gone, evidence),
            *(replaced(old, new, evidence) for old, new in self.replaced),
            *(joined(member, detail_of_joined, evidence) for member in self.joined),
        ]


def difference(before: Iterable[Member], after: Iterable[Member]) -> Difference:
    """Compare the members of two generations by their ids."""
    old = {member.member_id: member for member in before}
    new = {member.member_id: member for member in after}
    left = {member_id: member for member_id, member in old.items() if member_id not in new}
    came = [member for member_id, member in new.items() if member_id not in old]
    away = {each.group_instance_id: each for each in left.values() if each.group_instance_id is not None}
    pairs = [
        (away.pop(each.group_instance_id), each)
        for each in came
        if each.group_instance_id is not None and each.group_instance_id in away
    ]
    back = {new_member.member_id for _, new_member in pairs}
    taken_over = {old_member.member_id for old_member, _ in pairs}
    return Difference(
        [member for member in left.values() if member.member_id not in taken_over],
        [member for member in came if member.member_id not in back],
        pairs,
    )


def gap_event(
    group_id: str, step: Step, missing: tuple[int, int], known_at: int | None, at: At
) -> GroupEvent:
    """The event that says which generations are missing before the one at `at`; `step` is where the group stood.

    `known_at` is the offset of the group's record before that, None if there is none. Where the log left out no
    offset in between, they were never stored: no assignment came before the next rebalance.
    """
    first, last = missing
    numbers = str(first) if first == last else f"{first} to {last}"
    if at.is_behind_unread:
        why = "not readable, or never stored"
    elif known_at is not None and at.hole_at <= known_at:
        why = "never stored, as no assignment of them came"
    else:
        why = "not on the log, compacted or never stored"
    change = Change(CauseKind.GENERATIONS_MISSING, Evidence.NUMBERS, f"{numbers}, {why}")
    return observed_event(
        group_id, step._replace(generation_id=last), change, at, missing_generations=missing
    )
