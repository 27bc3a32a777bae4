"""What waits for the disk: replies and completions, each for the log to be durable up to its position.

Positions and deadlines both rise in the order of arrival, so whatever is due is at the front. Nothing waits
longer than `offsets.commit.timeout.ms` (docs/kafka.md 3.88): a disk that hangs is told to clients as an error they
retry. What was appended stays appended, and may yet become durable. This knows no shard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from protocol.errors import ErrorCode

Done: TypeAlias = Callable[[ErrorCode], None]
"""Told how the wait ended: NONE when the log is durable this far, REQUEST_TIMED_OUT, or why it never will be."""


class Held(NamedTuple):
    """Whoever waits for the log to be durable up to `position`."""

    position: int
    deadline_ms: int
    done: Done


class HeldQueue:
    """First in, first out. Used from the event loop's thread alone."""

    def __init__(self, timeout_ms: int, set_timer: Callable[[int], None]) -> None:
        """`set_timer` is asked to have `give_up_overdue` called at a time; once, and then again when it was."""
        self._held: deque[Held] = deque()
        self._timeout_ms = timeout_ms
        self._set_timer = set_timer
        self._timer_is_set = False

    def add(self, position: int, now_ms: int, done: Done) -> None:
        """Tell `done` when the log is durable up to `position`, or that it took too long."""
        deadline_ms = now_ms + self._timeout_ms
        self._held.append(Held(position, deadline_ms, done))
        self._expect(deadline_ms)

    def release(self, durable_offset: int) -> None:
        """The log is durable this far."""
        held = self._held
        while held and held[0].position <= durable_offset:
            held.popleft().done(ErrorCode.NONE)

    def give_up_overdue(self, now_ms: int) -> None:
        """The disk hangs: tell whoever has waited too long."""
        held = self._held
        while held and held[0].deadline_ms <= now_ms:
            held.popleft().done(ErrorCode.REQUEST_TIMED_OUT)  # It may wait again, behind the others.
        self._timer_is_set = False
        if held:
            self._expect(held[0].deadline_ms)

    def _expect(self, deadline_ms: int) -> None:
        if not self._timer_is_set:
            self._timer_is_set = True
            self._set_timer(deadline_ms)

    def fail(self, error: ErrorCode) -> None:
        """Nothing that is waited for will come; timers that were set mean nothing any more."""
        self._timer_is_set = False
        held, self._held = self._held, deque()
        for each in held:
            each.done(error)
