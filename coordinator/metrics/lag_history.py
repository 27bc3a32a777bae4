"""The lag of groups over the last hour, a point for each walk, and its trend. Bounded in groups and points."""

from __future__ import annotations

from array import array
from collections.abc import Container
from math import isnan, nan
from typing import Final

from coordinator.metrics.figures import LagHistory, Trend

GROUPS_MAX: Final = 2000
"""Groups with a history: 6 KB each."""

POINTS_MAX: Final = 240
"""Points of a group: an hour, of one each 15 s."""

TREND_MS: Final = 300_000
"""The time over which a trend is looked for."""

TREND_SHARE: Final = 0.05
"""A lag that changed by less than this share of what it was is steady; and by less than"""

TREND_RECORDS: Final = 10
"""so many records, which are a batch under way."""


class _Columns:
    """The points of one group."""

    __slots__ = ("records", "seconds", "times_ms")

    def __init__(self) -> None:
        self.times_ms: array[int] = array("q")
        self.records: array[int] = array("q")
        self.seconds: array[float] = array("d")

    def add(self, wall_ms: int, records: int, seconds: float | None) -> None:
        self.times_ms.append(wall_ms)
        self.records.append(records)
        self.seconds.append(nan if seconds is None else seconds)
        if len(self.times_ms) > POINTS_MAX:
            del self.times_ms[0], self.records[0], self.seconds[0]


class LagHistories:
    """The histories of the groups that have series of their own."""

    def __init__(self) -> None:
        self._by_group: dict[str, _Columns] = {}

    def add(self, group_id: str, wall_ms: int, records: int, seconds: float | None) -> None:
        """Add a point; beyond GROUPS_MAX groups a new one gets none."""
        columns = self._by_group.get(group_id)
        if columns is None:
            if len(self._by_group) >= GROUPS_MAX:
                return
            columns = self._by_group[group_id] = _Columns()
        columns.add(wall_ms, records, seconds)

    def keep(self, group_ids: Container[str]) -> None:
        """Forget the groups that are not among these."""
        for group_id in [each for each in self._by_group if each not in group_ids]:
            del self._by_group[group_id]

    def since(self, group_id: str, wall_ms: int) -> LagHistory:
        """The points from a time on; none if the group has no history."""
        columns = self._by_group.get(group_id)
        if columns is None:
            return LagHistory()
        first = next((at for at, time_ms in enumerate(columns.times_ms) if time_ms >= wall_ms), POINTS_MAX)
        return LagHistory(
            tuple(columns.times_ms[first:]),
            tuple(columns.records[first:]),
            tuple(None if isnan(each) else each for each in columns.seconds[first:]),
        )

    def trend(self, group_id: str, wall_ms: int) -> Trend | None:
        """Whether the lag in records grew or shrank over the last TREND_MS; None before there are two points."""
        records = self.since(group_id, wall_ms - TREND_MS).records
        if len(records) < 2:
            return None
        change = records[-1] - records[0]
        if abs(change) <= max(TREND_RECORDS, TREND_SHARE * records[0]):
            return "steady"
        return "growing" if change > 0 else "shrinking"
