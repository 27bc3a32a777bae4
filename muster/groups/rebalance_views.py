"""A group's history for people: rebalances with what began each, and the events outside of rebalances.

`rebalances` decides which events make a rebalance, and its outcome; here its events are kept beside that, since
people want the reasons in the clients' own words. Nothing is read or shown here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from coordinator.effects import GroupEvent
from coordinator.history.rebalances import (
    ENDS_OF_A_PHASE,
    FIRST_PHASES,
    REBALANCING,
    EventRole,
    Rebalance,
    RebalanceFold,
)

Phases: TypeAlias = tuple[str, str]
"""FIRST_PHASES or LAST_PHASES."""

CAUSES_MAX: Final = 5
"""The number of different reasons shown for one rebalance."""


@dataclass(slots=True)
class RebalanceView:
    """One rebalance with all its events, or one event outside of rebalances. `events` has at least one."""

    events: list[GroupEvent]
    rebalance: Rebalance | None = None  # None for an event outside of rebalances.
    is_over: bool = True

    @property
    def first(self) -> GroupEvent:
        return self.events[0]

    @property
    def last(self) -> GroupEvent:
        return self.events[-1]

    @property
    def is_rebalance(self) -> bool:
        """Whether this is a rebalance; otherwise one event, as a static member's replacement or a restart."""
        return self.rebalance is not None

    @property
    def has_begin(self) -> bool:
        """Whether its first event began the rebalance; false if that event is missing or older than the topic."""
        return self.first.from_state not in REBALANCING

    @property
    def causes(self) -> list[str]:
        """The different reasons in order, each with its count; the first reason began the rebalance."""
        if self.rebalance is None:
            return [self.first.reason]
        reasons = [self.rebalance.reason] if self.rebalance.reason else []
        later = self.events[1:] if self.has_begin else self.events
        reasons += [event.reason for event in later if event.cause not in ENDS_OF_A_PHASE]
        counts = Counter(reasons)
        shown = [reason if count == 1 else f"{reason} ({count} times)" for reason, count in counts.items()]
        more = len(shown) - CAUSES_MAX
        return shown if more <= 0 else [*shown[:CAUSES_MAX], f"{more} other causes"]

    def spent_ms(self, phases: Phases) -> int | None:
        """The time in FIRST_PHASES or LAST_PHASES, summed over all attempts; None if none was completed."""
        if self.rebalance is None:
            return None
        spent = self.rebalance.join_ms if phases is FIRST_PHASES else self.rebalance.sync_ms
        return spent if spent or self._completed(phases) else None

    def only_phase(self, phases: Phases) -> str | None:
        """The one of these phases that it went through; None if there were both, or neither is known."""
        states = {state for event in self.events for state in (event.from_state, event.to_state)}
        found = self._completed(phases) | states.intersection(phases)
        return found.pop() if len(found) == 1 else None

    def _completed(self, phases: Phases) -> set[str]:
        return {
            each for event in self.events for each in (*event.phase_ms, *event.rebalance_ms) if each in phases
        }


def rebalance_views(events: Iterable[GroupEvent]) -> list[RebalanceView]:
    """The views of one group's events, which are given in the order in which they happened.

    Records that mark a gap in the events may be among them: each is a view by itself, and ends no rebalance.
    """
    fold = RebalanceFold()
    found: list[RebalanceView] = []
    running: deque[RebalanceView] = deque()  # Two for a moment, when a begin cuts the one before it off.
    for event in events:
        if event.dropped_count:
            found.append(RebalanceView([event]))
            continue
        role = fold.role_of(event)
        if role is EventRole.CONTINUES:
            running[-1].events.append(event)
        elif role is EventRole.BEGINS:
            running.append(RebalanceView([event], is_over=False))
            found.append(running[-1])
        elif REBALANCING.isdisjoint((event.from_state, event.to_state)):
            found.append(RebalanceView([event]))  # Late or not. A late event of a rebalance has its row.
        for rebalance in fold.add(event):
            view = running.popleft()
            view.rebalance, view.is_over = rebalance, True
    if fold.running is not None:
        running[-1].rebalance = fold.running.so_far(running[-1].first.group_id)
    return found
