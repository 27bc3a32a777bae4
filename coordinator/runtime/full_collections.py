"""When Python looks for cycles among all that lives: not while clients connect.

With 10,000 members that is some 150 ms of the loop, in which nothing is accepted; clients that come in thousands
overflow the system's queue meanwhile, and find nothing answered. It finds next to nothing: what requests, members,
connections and topics leave behind is no cycle. `muster serve` turns off what Python does by itself; where it has
not, nothing is due here.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

from coordinator.purgatory.delayed import TimerOwner

CHECK_EVERY_MS: Final = 60_000
"""While nothing is due: what does nothing is seldom woken."""

DUE: Final = 100
"""Collections of what is younger since the last of all: after so many another is worth it."""

OVERDUE: Final = 1_000
"""After so many it comes, whatever connects: what is kept without need has a bound."""

QUIET_MS: Final = 1_000
"""Without a new connection, before it is believed that no more of them come."""

SHARE: Final = 100
"""Of the time, at most one part in so many: what lives may be much."""


class FullCollections:
    """Collects when its timer fires: `set_timer(self, None, deadline_ms)` has `timer_fired` called."""

    def __init__(
        self,
        set_timer: Callable[[TimerOwner[None], None, int], None],
        now_ms: Callable[[], int],
        last_connected_ms: Callable[[], int],
        collect: Callable[[], object] = gc.collect,
        count: Callable[[], tuple[int, int, int]] = gc.get_count,
    ) -> None:
        self._set_timer = set_timer
        self._now_ms = now_ms
        self._last_connected_ms = last_connected_ms
        self._collect = collect
        self._count = count
        self._not_before_ms = 0

    def start(self) -> None:
        self._arm(self._now_ms())

    def timer_fired(self, key: None) -> None:
        now_ms = self._now_ms()
        if now_ms >= self._not_before_ms and self._is_time(now_ms):
            start_s = time.monotonic()
            self._collect()
            took_ms = int((time.monotonic() - start_s) * 1000)
            self._not_before_ms = now_ms + took_ms * SHARE
        self._arm(now_ms)

    def _arm(self, now_ms: int) -> None:
        is_due = self._count()[2] >= DUE
        next_ms = max(now_ms + QUIET_MS, self._not_before_ms) if is_due else now_ms + CHECK_EVERY_MS
        self._set_timer(self, None, next_ms)

    def _is_time(self, now_ms: int) -> bool:
        since_last = self._count()[2]
        is_quiet = now_ms - self._last_connected_ms() >= QUIET_MS
        return since_last >= OVERDUE or (since_last >= DUE and is_quiet)
