"""What waits for a log to be durable: replies and completions, each up to a position of its own.

Positions and deadlines both rise in the order of arrival, so what is due is at the front. With a timeout nothing
waits longer: a disk that hangs is an error to the client, which retries (`offsets.commit.timeout.ms`,
docs/kafka.md 3.88). What was appended stays appended, and may yet become durable. This knows no log and no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from protocol.errors import ErrorCode, OnDone

NEVER_MS: Final = 1 << 62


Waiting: TypeAlias = tuple[int, int, OnDone]
"""One waiter: a log position, a deadline in ms, and the callback for when the log is durable up to the position,
or has failed. A plain tuple, since each commit makes one: a named tuple takes 0.4 us longer to make."""


class DurabilityQueue:
    """The callbacks that wait for a log to be durable, first in, first out. For the event loop's thread alone."""

    def __init__(self, timeout_ms: int | None, set_timer: Callable[[int], None]) -> None:
        """`set_timer(deadline_ms)` has to have `give_up_overdue` called at that time; one timer is set at a time.

        With `timeout_ms` None nothing times out: a callback waits until `release` or `fail`.
        """
        self._waiting: deque[Waiting] = deque()
        self._timeout_ms = timeout_ms
        self._set_timer = set_timer
        self._timer_is_set = False

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def oldest_ms(self) -> int | None:
        """Since when the first callback waits; None if there is none, or if nothing times out."""
        if not self._waiting or self._timeout_ms is None:
            return None
        return self._waiting[0][1] - self._timeout_ms

    def add(self, position: int, now_ms: int, done: OnDone) -> None:
        """Have `done` called once the log is durable up to `position`; with an error on failure or timeout."""
        timeout_ms = self._timeout_ms
        deadline_ms = NEVER_MS if timeout_ms is None else now_ms + timeout_ms
        self._waiting.append((position, deadline_ms, done))
        if not self._timer_is_set and timeout_ms is not None:
            self._arm_timer(deadline_ms)

    def release(self, durable_offset: int) -> None:
        """Call, with NONE, every callback that waits for a position up to `durable_offset`."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= durable_offset:
            _, _, done = waiting.popleft()
            done(ErrorCode.NONE)

    def give_up_overdue(self, now_ms: int) -> None:
        """Call, with REQUEST_TIMED_OUT, every callback whose deadline has passed: the disk hangs."""
        waiting = self._waiting
        while waiting and waiting[0][1] <= now_ms:
            _, _, done = waiting.popleft()
            done(ErrorCode.REQUEST_TIMED_OUT)  # The callback may wait again, at the back.
        self._timer_is_set = False
        if waiting:
            self._arm_timer(waiting[0][1])

    def _arm_timer(self, deadline_ms: int) -> None:
        self._timer_is_set = True
        self._set_timer(deadline_ms)

    def fail(self, error: ErrorCode) -> None:
        """Call every waiting callback with `error`; a timer that was set before is ignored."""
        self._timer_is_set = False
        waiting = self._waiting
        for _ in range(len(waiting)):  # A callback may wait again: that is for the next epoch.
            if waiting:
                _, _, done = waiting.popleft()
                done(error)
