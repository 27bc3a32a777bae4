"""Strangers: connections whose clients have not shown who they are yet, and what they may take up together.

From the moment it is accepted, a connection on a listener with TLS or SASL has a deadline until which its client
must be known, whatever it sends meanwhile. Beyond a number of strangers further connections are closed at once,
before anything is made for them. What strangers have sent is counted over all of them. Knows no TLS and no SASL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Protocol

import structlog

from coordinator.purgatory.delayed import TimerOwner
from coordinator.runtime.clock import Clock
from coordinator.security.failed_logins import FailedLogins, delay_ms
from coordinator.security.sasl.login import Failure

HELD_BYTES_MAX: Final = 16 << 20
"""Bytes of unfinished frames of all strangers together; beyond it the one that holds the most is closed."""

LOG_EVERY: Final = 1000
"""Of the strangers that fail, and of those turned away, one in so many is logged, beginning with the first."""

SetTimer = Callable[[TimerOwner[Any], Any, int | None], None]

log = structlog.get_logger("muster.server")


class StrangerSettings(Protocol):
    """The settings that strangers go by."""

    @property
    def muster_handshake_timeout_ms(self) -> int: ...
    @property
    def muster_unauthenticated_connections_max(self) -> int: ...
    @property
    def connections_max_idle_ms(self) -> int: ...


class Stranger:
    """One of them. Who handles its bytes sets `end`, which closes it and is called at its deadline."""

    __slots__ = ("deadline_ms", "end", "held_bytes", "ip", "listener", "peer")

    def __init__(self, deadline_ms: int, listener: str = "") -> None:
        self.deadline_ms = deadline_ms
        self.listener = listener
        self.ip = ""
        self.peer = ""
        self.held_bytes = 0
        self.end: Callable[[str], None] | None = None
        """Called with the reason, for the log."""


class Strangers:
    """All strangers of the daemon."""

    def __init__(self, settings: StrangerSettings, clock: Clock, set_timer: SetTimer) -> None:
        self._clock = clock
        self._set_timer = set_timer
        self._most = settings.muster_unauthenticated_connections_max
        idle_ms, timeout_ms = settings.connections_max_idle_ms, settings.muster_handshake_timeout_ms
        self._timeout_ms = timeout_ms if idle_ms < 0 else min(idle_ms, timeout_ms)
        self._present: set[Stranger] = set()
        self._held_bytes = 0
        self.per_listener: Counter[str] = Counter()
        self._failed_logins = FailedLogins()
        self.failed = 0
        """Number of them whose login, or TLS handshake, has failed since the start."""
        self.turned_away = 0
        """Number of connections that were closed because there were too many strangers."""

    def __len__(self) -> int:
        return len(self._present)

    def __iter__(self) -> Any:
        return iter(tuple(self._present))

    def admit(self, others: int, max_connections: int, listener: str = "") -> Stranger | None:
        """Take in a connection just accepted, beside `others` that are known; None if there are too many."""
        count = len(self._present)
        most = min(self._most, max(1, max_connections // 2))
        if count >= most or count + others >= max_connections:
            self.turned_away += 1
            if self.turned_away % LOG_EVERY == 1:
                log.warning(
                    "too many connections whose clients have not logged in",
                    at_most=most,
                    max_connections=max_connections,
                    turned_away_so_far=self.turned_away,
                )
            return None
        stranger = Stranger(self._clock.now_ms() + self._timeout_ms, listener)
        self._present.add(stranger)
        self.per_listener[listener] += 1
        self._set_timer(self, stranger, stranger.deadline_ms)
        return stranger

    def leave(self, stranger: Stranger) -> None:
        """Forget one that is known now, or gone; harmless if it has left before."""
        if stranger in self._present:
            self._present.discard(stranger)
            self.per_listener[stranger.listener] -= 1
            self._held_bytes -= stranger.held_bytes
            stranger.held_bytes = 0
            self._set_timer(self, stranger, None)
            stranger.end = None  # It refers to a connection, which refers to the stranger.

    def hold(self, stranger: Stranger, held_bytes: int) -> None:
        """Count all that is kept for it; end the one that holds the most if all hold too many."""
        self._held_bytes += held_bytes - stranger.held_bytes
        stranger.held_bytes = held_bytes
        if self._held_bytes > HELD_BYTES_MAX:
            largest = max(self._present, key=lambda each: each.held_bytes)
            if largest.end is not None:
                largest.end("unfinished logins hold too many bytes, and this one the most")

    def delay(self, stranger: Stranger, delay_ms: int) -> None:
        """Have `stranger.end` called in `delay_ms`, or at its deadline if that is sooner."""
        self._set_timer(self, stranger, min(self._clock.now_ms() + delay_ms, stranger.deadline_ms))

    def failure_delay_ms(self, ip: str, failure: Failure, first_ms: int) -> int:
        """Count a wrong password; return how long the end of the failure is held back, the first being `first_ms`.

        As by Kafka, but twice as long for each that came from the same address within a minute (F3), also for one
        of a client that logs in again.
        """
        if failure.user:
            before = self._failed_logins.count(ip, failure.user, self._clock.now_ms())
            if (longer_ms := delay_ms(first_ms, before)) > first_ms:
                return longer_ms
        return first_ms if failure.is_delayed else 0

    def timer_fired(self, stranger: Stranger) -> None:
        """End one whose time is over."""
        if stranger.end is not None:
            stranger.end(f"not known within {self._timeout_ms} ms")

    def count_failure(self, stranger: Stranger, listener: str, reason: str) -> None:
        """Count one whose client has not shown who it is, and log some of them."""
        self.failed += 1
        if self.failed % LOG_EVERY == 1:
            log.warning(
                "login failed",
                peer=stranger.peer,
                listener=listener,
                reason=reason,
                failed_so_far=self.failed,
            )
