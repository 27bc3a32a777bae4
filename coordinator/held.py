"""What waits for the disk: replies and completions, each for the log to be durable up to its position.

Positions and deadlines both rise in the order of arrival, so whatever is due is at the front. Nothing waits
longer than `offsets.commit.timeout.ms` (KAFKA.md 3.88): a disk that hangs is told to clients as an error they
retry. What was appended stays appended, and may yet become durable. This knows no shard and no timer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coordinator.groups.failures import error_response
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, kept while it is unanswered: an error reply has the shape of its request."""

    reply_to: Any
    request: Any
    api_version: int

    def fail(self, error: ErrorCode) -> None:
        self.reply_to.reply(error_response(self.request, error, self.api_version))


@dataclass(frozen=True, slots=True)
class Held:
    """A reply to `asked`, or a completion, that waits for the log to be durable up to `position`."""

    position: int
    deadline_ms: int
    asked: Asked | None
    response: Any
    then: Any


class HeldQueue:
    """First in, first out. Used from the event loop's thread alone."""

    def __init__(self) -> None:
        self._held: deque[Held] = deque()

    def add(self, held: Held) -> None:
        self._held.append(held)

    def durable(self, durable_offset: int) -> Iterator[Held]:
        """Take out, one by one, what waited for the log to be durable this far."""
        held = self._held
        while held and held[0].position <= durable_offset:
            yield held.popleft()

    def overdue(self, now_ms: int) -> Iterator[Held]:
        """Take out, one by one, what has waited too long."""
        held = self._held
        while held and held[0].deadline_ms <= now_ms:
            yield held.popleft()

    @property
    def next_deadline_ms(self) -> int | None:
        """When the first of them will have waited too long; None if nothing waits."""
        return self._held[0].deadline_ms if self._held else None

    def clear(self) -> list[Asked]:
        """Drop everything; the requests that are now without an answer."""
        waiting = [held.asked for held in self._held if held.asked is not None]
        self._held.clear()
        return waiting
