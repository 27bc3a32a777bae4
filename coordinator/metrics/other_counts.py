"""What groups did while they had no series of their own: counts that only grow, whichever groups come and go.

Whether a group has series is known at the end of a walk. Until then what it did is kept by group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import Final

from coordinator.history.rebalances import Rebalance

AT_ONCE: Final = 500
"""Groups that are settled between two yields."""


class _Deeds:
    """What one group did since the last walk ended."""

    __slots__ = ("by_cause", "commits", "join_ms", "sync_ms")

    def __init__(self) -> None:
        self.by_cause: dict[str, int] = {}
        self.commits = self.join_ms = self.sync_ms = 0


class OtherCounts:
    """The counts of `__other__`."""

    def __init__(self) -> None:
        self.by_cause: Counter[str] = Counter()  # Rebalances.
        self.join_ms = self.sync_ms = 0
        self.commits = 0
        self._undecided: dict[str, _Deeds] = {}

    def _of(self, group_id: str) -> _Deeds:
        deeds = self._undecided.get(group_id)
        if deeds is None:
            deeds = self._undecided[group_id] = _Deeds()
        return deeds

    def add_rebalance(self, ended: Rebalance, cause: str) -> None:
        """Note a rebalance that has ended."""
        deeds = self._of(ended.group_id)
        deeds.by_cause[cause] = deeds.by_cause.get(cause, 0) + 1
        deeds.join_ms += ended.join_ms or 0  # Never None of events that this daemon records.
        deeds.sync_ms += ended.sync_ms or 0

    def add_commits(self, group_id: str, count: int) -> None:
        """Note offsets that a group committed."""
        self._of(group_id).commits += count

    def settle(self, groups: Container[str]) -> Iterator[None]:
        """Count what was done by groups that are not among those with series; yields now and then."""
        undecided, self._undecided = self._undecided, {}
        for number, (group_id, deeds) in enumerate(undecided.items()):
            if number % AT_ONCE == AT_ONCE - 1:
                yield
            if group_id not in groups:
                self.by_cause.update(deeds.by_cause)
                self.join_ms += deeds.join_ms
                self.sync_ms += deeds.sync_ms
                self.commits += deeds.commits
