"""A group's history as people read it: rebalances, each with what began it, and what happened beside them.

A rebalance lasts from the first change until the group is Stable or Empty again, however often it begins anew.
Plain functions of events; nothing is asked or shown here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.groups.classic.states import COMPLETING_REBALANCE, PREPARING_REBALANCE

JOINING: Final = PREPARING_REBALANCE.value
ASSIGNING: Final = COMPLETING_REBALANCE.value
_REBALANCING: Final = (JOINING, ASSIGNING)
ENDS_OF_A_PHASE: Final = frozenset(
    kind.slug
    for kind in (
        CauseKind.ALL_MEMBERS_JOINED,
        CauseKind.INITIAL_DELAY_OVER,
        CauseKind.ASSIGNMENT_STORED,
    )
)
"""What belongs to every rebalance and is no reason for it; that a time ran out is told."""

CAUSES_MAX: Final = 5
"""Different causes that are told of one rebalance."""


@dataclass(slots=True)
class Chapter:
    """One rebalance with all its events, or one event beside them. `events` has at least one."""

    events: list[GroupEvent]

    @property
    def first(self) -> GroupEvent:
        return self.events[0]

    @property
    def last(self) -> GroupEvent:
        return self.events[-1]

    @property
    def is_rebalance(self) -> bool:
        """Not a member replaced in its place, a restart, or the like."""
        return bool({self.first.from_state, self.first.to_state} & {*_REBALANCING})

    @property
    def is_over(self) -> bool:
        return self.last.to_state not in _REBALANCING

    @property
    def causes(self) -> list[str]:
        """The reasons, each once and in order, with how often it was given; the first began it."""
        reasons = [self.first.reason]
        reasons += [event.reason for event in self.events[1:] if event.cause not in ENDS_OF_A_PHASE]
        counts = Counter(reasons)
        told = [reason if count == 1 else f"{reason} ({count} times)" for reason, count in counts.items()]
        more = len(told) - CAUSES_MAX
        return told if more <= 0 else [*told[:CAUSES_MAX], f"{more} other causes"]

    def spent_ms(self, phase: str) -> int | None:
        """The time in a phase, over all attempts; None if none has come to its end."""
        spent = [event.phase_ms[phase] for event in self.events if phase in event.phase_ms]
        return sum(spent) if spent else None

    @property
    def last_to_join(self) -> GroupEvent | None:
        """The event that tells who came last to the last join phase; None while nobody has."""
        told = (event for event in reversed(self.events) if event.from_state == JOINING)
        return next((event for event in told if event.last_member_id is not None), None)


def chapters(events: Iterable[GroupEvent]) -> list[Chapter]:
    """The events of one group, oldest first, as rebalances and what happened beside them."""
    found: list[Chapter] = []
    for event in events:
        if event.from_state in _REBALANCING and found and not found[-1].is_over:
            found[-1].events.append(event)
        else:
            found.append(Chapter([event]))
    return found
