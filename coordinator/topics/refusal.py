"""For handlers of requests with several items: refusing one item, and answering after the last has ended."""

from __future__ import annotations

from collections.abc import Callable

from protocol.errors import ErrorCode


class Refused(Exception):
    """Raised to refuse a part of a request: the error, and its message for the client.

    For Produce: `record_errors` are (index in the batch, message), and `has_seen_log` says whether the
    partition's log was consulted for that.
    """

    def __init__(
        self,
        error: ErrorCode,
        message: str | None = None,
        record_errors: tuple[tuple[int, str], ...] = (),
        *,
        has_seen_log: bool = True,
    ) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
        self.record_errors = record_errors
        self.has_seen_log = has_seen_log


class Countdown:
    """Runs `then` once, when `end` was called as often as `begin`, and `seal` was called."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then: Callable[[], None] | None = then
        self._open = 1

    def begin(self) -> None:
        self._open += 1

    def end(self) -> None:
        self._open -= 1
        if not self._open:
            then, self._then = self._then, None  # It refers to this countdown, as a rule.
            assert then is not None, "ended more often than it was begun"
            then()

    def seal(self) -> None:
        """Run `then` when all that was begun has ended; `begin` must not be called any more."""
        self.end()
