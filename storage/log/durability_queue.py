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
"""A position, a deadline in ms, and what is called when the log is durable up to there, or with an error. A plain
tuple: every answer of a commit comes by here, and one with names takes 0.4 us longer to make."""


class DurabilityQueue:
    """First in, first out. Used from the event loop's thread alone."""

    def __init__(self, timeout_ms: int | None, set_timer: Callable[[int], None]) -> None:
        """`set_timer` is asked to have `give_up_overdue` called at a time; once, and then again when it was.

        Without `timeout_ms` a wait has no end but the log's.
        """
        self._waiting: deque[Waiting] = deque()
        self._timeout_ms = timeout_ms
        self._set_timer = set_timer
        self._timer_is_set = False

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def add(self, position: int, now_ms: int, done: OnDone) -> None:
        """Call `done` when the log is durable up to `position`, or when that takes too long."""
        timeout_ms = self._timeout_ms
        deadline_ms = NEVER_MS if timeout_ms is None else now_ms + timeout_ms
        self._waiting.append((position, deadline_ms, done))
        if not self._timer_is_set and timeout_ms is not None:
            self._expect(deadline_ms)

    def release(self, durable_offset: int) -> None:
        """The log is durable this far."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= durable_offset:
            _, _, done = waiting.popleft()
            done(ErrorCode.NONE)

    def give_up_overdue(self, now_ms: int) -> None:
        """The disk hangs: answer REQUEST_TIMED_OUT to all that have waited too long."""
        waiting = self._waiting
        while waiting and waiting[0][1] <= now_ms:
            _, _, done = waiting.popleft()
            done(ErrorCode.REQUEST_TIMED_OUT)  # It may wait again, behind the others.
        self._timer_is_set = False
        if waiting:
            self._expect(waiting[0][1])

    def _expect(self, deadline_ms: int) -> None:
        self._timer_is_set = True
        self._set_timer(deadline_ms)

    def fail(self, error: ErrorCode) -> None:
        """Nothing that is waited for will come; timers that were set mean nothing any more."""
        self._timer_is_set = False
        waiting = self._waiting
        for _ in range(len(waiting)):  # What begins to wait because of it waits for the next epoch.
            if waiting:
                _, _, done = waiting.popleft()
                done(error)
