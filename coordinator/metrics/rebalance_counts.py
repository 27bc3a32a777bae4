"""Counts rebalances, joins and expiries from the events of the history, as they are written to the topic.

Rebalances are found by `RebalanceFold`, as `why`, `muster groups history` and the Spark jobs find them, from the
same events in the same order: so all count the same. Counts are since the daemon started. A group that was removed
takes its own counts with it; the totals keep them. Knows no text format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from coordinator.effects import GroupEvent
from coordinator.groups.causes import EXPIRIES as KINDS_OF_EXPIRY
from coordinator.groups.causes import ONLY_OBSERVED, CauseKind
from coordinator.groups.classic.states import DEAD
from coordinator.history.rebalances import (
    ASSIGNING,
    ENDS_OF_A_PHASE,
    JOINING,
    REBALANCING,
    RECONCILING,
    SYNCING,
    Rebalance,
    RebalanceFold,
)
from storage.latencies import Latencies

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"

UNKNOWN_CAUSE: Final = "unknown"
"""The label of rebalances whose first event is missing."""

PHASES: Final = ("join", "sync", "all")
REBALANCE_BOUNDS_S: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
"""5 ms to 10 min."""

STORM_REBALANCES: Final = 5
STORM_MS: Final = 300_000
"""So many rebalances of one group that ended within so long are a storm."""

JOINS: Final = frozenset(
    kind.slug
    for kind in (CauseKind.MEMBER_JOINED, CauseKind.STATIC_MEMBER_REPLACED, CauseKind.GROUP_UPGRADED)
)
LEAVES: Final = frozenset(kind.slug for kind in (CauseKind.MEMBER_LEFT, CauseKind.REMOVED_BY_ADMIN))
EXPIRIES: Final = frozenset(kind.slug for kind in KINDS_OF_EXPIRY)
"""Causes by which members are removed that did not ask for it."""

_BEGIN_NOTHING: Final = ENDS_OF_A_PHASE | {
    kind.slug
    for kind in (
        *ONLY_OBSERVED,
        CauseKind.GROUP_DELETED,
        CauseKind.OFFSETS_EXPIRED,
        CauseKind.EVENTS_DROPPED,
        CauseKind.GROUP_MAX_SIZE_REACHED,
        CauseKind.JOIN_PHASE_EXTENDED,
    )
}

BEGINNINGS: Final = frozenset(
    (protocol, cause)
    for protocol in (CLASSIC, CONSUMER)
    for cause in ({kind.slug for kind in CauseKind} - _BEGIN_NOTHING | {UNKNOWN_CAUSE})
)
"""What rebalances are counted by that may come, so that a counter can be 0 before the first: rather too many."""

_KIND_OF_PHASE: Final = {JOINING: CLASSIC, SYNCING: CLASSIC, ASSIGNING: CONSUMER, RECONCILING: CONSUMER}


class GroupCounts:
    """What is counted of one group."""

    __slots__ = (
        "_ends_ms",
        "by_cause",
        "fold",
        "join_ms",
        "last_cause",
        "last_ended_ms",
        "protocol",
        "storm_until_ms",
        "sync_ms",
        "total",
    )

    def __init__(self) -> None:
        self.fold = RebalanceFold()
        self.protocol = CLASSIC
        self.by_cause: dict[str, int] = {}
        self.total = 0
        self.join_ms = self.sync_ms = 0  # Time in rebalances that have ended, by phase.
        self.last_ended_ms: int | None = None  # Since 1970.
        self.last_cause: str | None = None
        self.storm_until_ms = 0  # No storm is reported before.
        self._ends_ms: tuple[int, ...] = ()  # When the last few rebalances ended.

    def add(self, rebalance: Rebalance) -> str:
        """Count a rebalance; return its cause as labels have it."""
        cause = rebalance.cause or UNKNOWN_CAUSE
        self.by_cause[cause] = self.by_cause.get(cause, 0) + 1
        self.total += 1
        self.join_ms += rebalance.join_ms or 0  # Never None of events that this daemon records.
        self.sync_ms += rebalance.sync_ms or 0
        self.last_ended_ms, self.last_cause = rebalance.ended_at, cause
        self._ends_ms = (*self._ends_ms[1 - STORM_REBALANCES :], rebalance.ended_at)
        return cause

    def takes_storm(self) -> bool:
        """Whether the group's last rebalances are a storm to be reported now; then not again for a while."""
        if len(self._ends_ms) < STORM_REBALANCES:
            return False
        first, last = self._ends_ms[0], self._ends_ms[-1]
        if last - first > STORM_MS or last < self.storm_until_ms:
            return False
        self.storm_until_ms = last + STORM_MS
        return True


class RebalanceCounts:
    """The counts of all groups. Event-loop thread only."""

    def __init__(
        self, on_ended: Callable[[Rebalance, GroupCounts], None] = lambda ended, counts: None
    ) -> None:
        """`on_ended` is called with each rebalance that has ended, once it is counted."""
        self._on_ended = on_ended
        self.groups: dict[str, GroupCounts] = {}
        self.by_cause: Counter[tuple[str, str]] = Counter()  # By protocol and cause.
        self.seconds = {phase: Latencies(REBALANCE_BOUNDS_S) for phase in PHASES}
        self.joins = self.leaves = 0
        self.expiries: Counter[str] = Counter()  # Members, by cause.

    def of_group(self, group_id: str) -> GroupCounts:
        """The counts of a group, made if there are none."""
        counts = self.groups.get(group_id)
        if counts is None:
            counts = self.groups[group_id] = GroupCounts()
        return counts

    def add(self, event: GroupEvent) -> None:
        """Count the next event of the topic."""
        if event.dropped_count:
            return  # A gap of any groups.
        if event.cause in JOINS:
            self.joins += 1
        elif event.removed_count:
            if event.cause in LEAVES:
                self.leaves += event.removed_count
            elif event.cause in EXPIRIES:
                self.expiries[event.cause] += event.removed_count
        counts = self.of_group(event.group_id)
        kind = _KIND_OF_PHASE.get(event.from_state) or _KIND_OF_PHASE.get(event.to_state)
        if kind is not None:
            counts.protocol = kind
        elif event.rebalance_cause is not None and event.from_state not in REBALANCING:
            counts.protocol = CONSUMER  # All of a rebalance in one event.
        for ended in counts.fold.add(event):
            self._count(ended, counts)
        if event.to_state == DEAD.value:
            del self.groups[event.group_id]

    def _count(self, ended: Rebalance, counts: GroupCounts) -> None:
        cause = counts.add(ended)
        self.by_cause[counts.protocol, cause] += 1
        for phase, took_ms in zip(PHASES, (ended.join_ms, ended.sync_ms, ended.duration_ms), strict=True):
            if took_ms is not None:
                self.seconds[phase].add(took_ms / 1000)
        self._on_ended(ended, counts)
