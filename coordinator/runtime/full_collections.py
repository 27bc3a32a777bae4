"""When Python's full garbage collection runs: not while clients connect.

With 10,000 members a full collection stops the loop for some 150 ms, in which no connection is accepted; if
thousands of clients connect, they overflow the system's accept queue meanwhile. It frees next to nothing:
requests, members, connections and topics leave no cycles behind. `muster serve` turns off Python's automatic full
collections; where they are on, no collection is ever due here.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

from coordinator.purgatory.delayed import TimerOwner

CHECK_EVERY_MS: Final = 60_000
"""Interval of the check whether a collection is due: long, as an idle daemon should seldom wake up."""

DUE: Final = 100
"""Number of younger collections since the last full one after which another is due."""

OVERDUE: Final = 1_000
"""Number after which it runs even while clients connect, so that uncollected cycles have a bound."""

QUIET_MS: Final = 1_000
"""Time without a new connection after which no more of them are expected."""

SHARE: Final = 100
"""At most 1/SHARE of the time goes to full collections, however many objects there are."""


class FullCollections:
    """Runs full collections by a timer: `set_timer(self, None, deadline_ms)` has `timer_fired` called."""

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
        self._gc_counts = count
        self._not_before_ms = 0

    def start(self) -> None:
        self._arm(self._now_ms())

    def timer_fired(self, key: None) -> None:
        now_ms = self._now_ms()
        if now_ms >= self._not_before_ms and self._may_collect(now_ms):
            start_s = time.monotonic()
            self._collect()
            collection_ms = int((time.monotonic() - start_s) * 1000)
            self._not_before_ms = now_ms + collection_ms * SHARE
        self._arm(now_ms)

    def _arm(self, now_ms: int) -> None:
        is_due = self._gc_counts()[2] >= DUE
        next_ms = max(now_ms + QUIET_MS, self._not_before_ms) if is_due else now_ms + CHECK_EVERY_MS
        self._set_timer(self, None, next_ms)

    def _may_collect(self, now_ms: int) -> bool:
        since_last = self._gc_counts()[2]
        is_quiet = now_ms - self._last_connected_ms() >= QUIET_MS
        return since_last >= OVERDUE or (since_last >= DUE and is_quiet)
