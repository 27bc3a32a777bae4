"""A group's history as people read it: rebalances, each with what began it, and what happened beside them.

Which events make a rebalance, and what it came to, `rebalances` says; here its events are kept beside that, since
people want the reasons in the clients' own words. Nothing is read or shown here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from coordinator.effects import GroupEvent
from muster.groups.rebalances import (
    ASSIGNING,
    ENDS_OF_A_PHASE,
    JOINING,
    REBALANCING,
    EventRole,
    Rebalance,
    RebalanceFold,
)

CAUSES_MAX: Final = 5
"""Different reasons that are shown of one rebalance."""


@dataclass(slots=True)
class RebalanceView:
    """One rebalance with all its events, or one event beside them. `events` has at least one."""

    events: list[GroupEvent]
    rebalance: Rebalance | None = None  # None beside rebalances.
    is_over: bool = True

    @property
    def first(self) -> GroupEvent:
        return self.events[0]

    @property
    def last(self) -> GroupEvent:
        return self.events[-1]

    @property
    def is_rebalance(self) -> bool:
        """Whether this is a rebalance, and not a static member's replacement, a restart or the like."""
        return self.rebalance is not None

    @property
    def has_begin(self) -> bool:
        """Whether its first event began it: the begin is neither missing nor older than the topic."""
        return self.first.from_state not in REBALANCING

    @property
    def causes(self) -> list[str]:
        """The reasons, each once and in order, with how often it was given; the first began it."""
        if self.rebalance is None:
            return [self.first.reason]
        reasons = [self.rebalance.reason] if self.rebalance.reason else []
        later = self.events[1:] if self.has_begin else self.events
        reasons += [event.reason for event in later if event.cause not in ENDS_OF_A_PHASE]
        counts = Counter(reasons)
        shown = [reason if count == 1 else f"{reason} ({count} times)" for reason, count in counts.items()]
        more = len(shown) - CAUSES_MAX
        return shown if more <= 0 else [*shown[:CAUSES_MAX], f"{more} other causes"]

    def spent_ms(self, phase: str) -> int | None:
        """The time in a phase, over all attempts; None if none has come to its end."""
        if self.rebalance is None:
            return None
        spent = {JOINING: self.rebalance.join_ms, ASSIGNING: self.rebalance.sync_ms}[phase]
        is_known = any(phase in event.phase_ms or phase in event.rebalance_ms for event in self.events)
        return spent if spent or is_known else None


def rebalance_views(events: Iterable[GroupEvent]) -> list[RebalanceView]:
    """The events of one group, each after those before it, as rebalances and what happened beside them.

    Events of missing ones may be among them: they stand beside, and end nothing.
    """
    fold = RebalanceFold()
    found: list[RebalanceView] = []
    running: deque[RebalanceView] = deque()  # Two for a moment: one cut off by the begin of the next.
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
            found.append(RebalanceView([event]))  # Late or not: what is of a rebalance has its row.
        for rebalance in fold.add(event):
            view = running.popleft()
            view.rebalance, view.is_over = rebalance, True
    if fold.running is not None:
        running[-1].rebalance = fold.running.so_far(running[-1].first.group_id)
    return found
