"""Timers whose deadline has passed, fired a slice in each turn of the loop.

Thousands of sessions may expire at the same moment. Fired in one turn, they would hold up all requests for half a
second; those that then arrive together would be answered together, and a group that forms meanwhile would do so
in waves. Between two slices sockets are read. What waits here has let all go first that was received before it
was due, and stands in no other queue again: a busy loop would never catch up. A timer that a request cancels or
sets again before its slice does nothing, as if the request had come first. Knows no clock and no groups.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from coordinator.purgatory.timing_wheel import TimerEntry

TIMERS_PER_TURN: Final = 100
"""Timers fired in one turn: some 6 ms if each is a session that expires."""

log = structlog.get_logger("muster.runtime")


class DueTimers:
    """Entries that have left the wheel and were not fired yet, by deadline."""

    def __init__(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """`is_over` says whether the turn has used up its share: then what is left waits for the next."""
        self._is_over = is_over
        self._due: deque[TimerEntry] = deque()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, advanced: Iterable[TimerEntry]) -> None:
        """Add entries behind those that wait."""
        self._due.extend(advanced)

    def fire_slice(self, now_ms: int) -> None:
        """Fire the oldest TIMERS_PER_TURN, or what the turn has room for."""
        due = self._due
        for _ in range(min(TIMERS_PER_TURN, len(due))):
            entry = due.popleft()
            try:
                entry.fire(now_ms)
            except Exception:  # A bug of ours; the others that are due left the wheel with this one.
                log.exception("a timer failed")
            if self._is_over():
                return
