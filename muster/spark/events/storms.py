"""Finds windows of time in which one group spends more than a given share rebalancing.

A rebalance counts in every window that it touches, with the part of it that lies there: at its end, and for one
that is still on when a window is over, at the window's end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

RUNNING_MAX_MS: Final = 3_600_000
"""How long after its last event a rebalance counts as running. Its end has most likely been lost by then."""

WINDOWS_MAX: Final = 2_000
"""The most windows that one rebalance counts in, a week of five-minute ones: of a longer one the last."""


class Storm(NamedTuple):
    """A row of the table `storms`; times in ms since 1970."""

    window_start: int
    window_end: int
    group_id: str
    rebalances: int
    rebalancing_ms: int
    share: float


@dataclass(frozen=True, slots=True)
class StormRule:
    """The length of a window, and the share of it that a storm exceeds."""

    window_ms: int
    share: float

    def windows(self, start_ms: int, end_ms: int, closed_ms: int) -> range:
        """The starts of the windows that [start_ms, end_ms] touches and that end after `closed_ms`."""
        begin_ms = max(start_ms, closed_ms)
        first = begin_ms - begin_ms % self.window_ms
        # A rebalance that ends with a window does not touch the next one; one of no length touches its own.
        last = (max(end_ms - 1, start_ms) // self.window_ms) * self.window_ms
        first = max(first, last - (WINDOWS_MAX - 1) * self.window_ms)
        return range(first, last + self.window_ms, self.window_ms)


@dataclass(slots=True)
class StormWindows:
    """The rebalances and the ms that one group spent on them, by start of each window that is not over."""

    open: dict[int, list[int]] = field(default_factory=dict)
    closed_ms: int = 0  # Windows that end by then have their rows.

    def add(self, start_ms: int, end_ms: int, rule: StormRule) -> None:
        """Count a rebalance that lasted from `start_ms` to `end_ms`."""
        for start in rule.windows(start_ms, end_ms, self.closed_ms):
            found = self.open.setdefault(start, [0, 0])
            found[0] += 1
            found[1] += max(min(end_ms, start + rule.window_ms) - max(start_ms, start), 0)

    def close(
        self, group_id: str, until_ms: int, running: tuple[int, int] | None, rule: StormRule
    ) -> list[Storm]:
        """Remove windows that end by `until_ms`, and return the storms among them; `running` is a live rebalance,
        as its begin and the time until which it counts as running."""
        until_ms -= until_ms % rule.window_ms
        over = {start: spent for start, spent in self.open.items() if start + rule.window_ms <= until_ms}
        if running is not None and running[0] < until_ms:
            still_on = StormWindows(over, self.closed_ms)
            still_on.add(running[0], min(until_ms, max(running)), rule)
            over = still_on.open
        self.open = {start: spent for start, spent in self.open.items() if start not in over}
        self.closed_ms = max(self.closed_ms, until_ms)
        found = (Storm(start, start + rule.window_ms, group_id, count, ms, ms / rule.window_ms)
                 for start, (count, ms) in sorted(over.items()))  # fmt: skip
        return [storm for storm in found if storm.share > rule.share]

    def due_ms(self, running: tuple[int, int] | None, rule: StormRule) -> int | None:
        """When the next window with a rebalance ends; None if there is no such window."""
        ends = [start + rule.window_ms for start in self.open]
        if running is not None and max(running) > self.closed_ms:
            begin_ms = max(running[0], self.closed_ms)
            ends.append(begin_ms - begin_ms % rule.window_ms + rule.window_ms)
        return min(ends, default=None)

    def dump(self) -> list[Any]:
        """The windows for `load`, as values that fit into JSON."""
        return [list(self.open.items()), self.closed_ms]

    @classmethod
    def load(cls, dumped: list[Any]) -> StormWindows:
        return cls({start: list(spent) for start, spent in dumped[0]}, dumped[1])
