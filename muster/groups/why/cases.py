"""A case: one event that is to be explained, with what happened before and around it, as rules ask about it.

All comes from the group's own events. The same client is known by its instance id, else by client id and host: one
that comes back has a new member id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.history.rebalances import ASSIGNING, RECONCILING, is_whole
from muster.groups.why.client_texts import Said, meaning
from muster.groups.why.kinds import ARRIVALS, DEPARTURES, KINDS
from muster.groups.why.namesakes import NONE, Namesakes

RECENT_MS: Final = 3_600_000
"""How long a departure is held to have to do with a return, and returns to make a flapping member."""
ROLLING_MS: Final = 600_000
"""Within this time a rolling restart takes the next member."""
FLAPPING_MIN: Final = 3
"""So many times within RECENT_MS a client joins that is called flapping."""

Identity: TypeAlias = tuple[str | None, str | None]


def identity(event: GroupEvent) -> Identity | None:
    """Which client the event is about, the same after a restart; None if the event names no client."""
    if event.group_instance_id is not None:
        return (event.group_instance_id, None)
    return None if event.client_id is None else (event.client_id, event.client_host)


def is_inferred(event: GroupEvent) -> bool:
    """Whether the cause was inferred from records of another cluster: such events are marked."""
    return event.observed is not None


@dataclass(frozen=True, slots=True)
class Case:
    """One event, those before it, and the rest of its rebalance, each oldest first."""

    event: GroupEvent
    earlier: Sequence[GroupEvent] = ()
    rest: Sequence[GroupEvent] = ()
    namesakes: Namesakes = NONE

    @property
    def kind(self) -> CauseKind | None:
        """The kind of cause; None for one that is not known here, as that of a later version."""
        return KINDS.get(self.event.cause)

    @property
    def said(self) -> Said | None:
        return meaning(self.event.client_reason)

    @property
    def is_static(self) -> bool:
        return self.event.group_instance_id is not None

    @property
    def is_of_consumer_group(self) -> bool:
        """Whether the group was one of the consumer protocol then, as its states show."""
        events = (self.event, *self.rest)
        states = {state for event in events for state in (event.from_state, event.to_state)}
        return is_whole(self.event) or not states.isdisjoint((ASSIGNING, RECONCILING))

    @property
    def who(self) -> str:
        return self.name_of(self.event)

    @property
    def joined(self) -> list[GroupEvent]:
        """The events of members that joined within this rebalance, this one included."""
        return self._with_cause(CauseKind.MEMBER_JOINED)

    @property
    def left(self) -> list[GroupEvent]:
        return self._with_cause(CauseKind.MEMBER_LEFT)

    @property
    def expired(self) -> list[GroupEvent]:
        return self._with_cause(CauseKind.SESSION_EXPIRED)

    @property
    def departure(self) -> GroupEvent | None:
        """How the same client went before, if that was lately and it has not come back meanwhile."""
        newest = next(reversed(self._recent(DEPARTURES | ARRIVALS, RECENT_MS)), None)
        return newest if newest is not None and newest.cause in DEPARTURES else None

    @property
    def arrival_count(self) -> int:
        """How often the same client joined lately, this time included."""
        return len(self._recent(ARRIVALS, RECENT_MS)) + (self.event.cause in ARRIVALS)

    @property
    def is_flapping(self) -> bool:
        """Whether the same client has come and gone again and again lately."""
        gone = len(self._recent(DEPARTURES, RECENT_MS)) + (self.event.cause in DEPARTURES)
        came = self.arrival_count
        return min(gone, came) >= FLAPPING_MIN - 1 and gone + came >= 2 * FLAPPING_MIN - 1

    @property
    def alike_count(self) -> int:
        """The most members at once that looked like the same client, as far as events show it."""
        mine = identity(self.event)
        if mine is None or self.is_static:  # An instance id is of one member at a time.
            return 0
        there: set[str | None] = set()
        most = 0
        for event in (*self.earlier, self.event):
            if identity(event) == mine and event.cause in ARRIVALS | DEPARTURES:
                there.add(event.member_id)  # Who goes was there.
                most = max(most, len(there))
            if event.cause in DEPARTURES:
                there -= {event.member_id, *event.removed_member_ids}
            if event.to_state in ("Empty", "Dead"):
                there.clear()
        return most

    @property
    def rolled(self) -> list[str]:
        """The clients that went and then came back lately, each once, if there are several: a rolling restart."""
        since_ms = self.event.wall_ms - ROLLING_MS
        lately = [event for event in (*self.earlier, self.event, *self.rest) if event.wall_ms >= since_ms]
        went = Counter(identity(event) for event in _of(lately, DEPARTURES))
        back: list[GroupEvent] = []
        come: set[Identity] = set()
        for event in reversed(lately):  # One that had joined before it went is not back.
            client = identity(event)
            if client is not None and event.cause in ARRIVALS:
                come.add(client)
            elif event.cause in DEPARTURES and client in come and went[client] == 1:
                back.append(event)
        return [self.name_of(event) for event in reversed(back)] if len(back) > 1 else []

    def name_of(self, event: GroupEvent) -> str:
        """The member behind one of the events, as people know it."""
        return self.namesakes.of_event(event)

    def _with_cause(self, kind: CauseKind) -> list[GroupEvent]:
        return _of((self.event, *self.rest), {kind.slug})

    def _recent(self, causes: Iterable[str], within_ms: int) -> list[GroupEvent]:
        """The earlier events with these causes that are of the same client."""
        mine, since_ms = identity(self.event), self.event.wall_ms - within_ms
        if mine is None:
            return []
        return [
            event
            for event in self.earlier
            if event.wall_ms >= since_ms and event.cause in causes and identity(event) == mine
        ]


def _of(events: Iterable[GroupEvent], causes: Iterable[str]) -> list[GroupEvent]:
    return [event for event in events if event.cause in causes]
