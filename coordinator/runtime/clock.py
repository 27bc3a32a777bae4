"""The daemon's monotonic and wall time, read here and nowhere else.

`now_ms()` is monotonic and drives every deadline. It leaves out the time in which this process did
not run (a paused VM, SIGSTOP, a long collection), so every deadline moves with it and no member
expires because the daemon was stopped. The loop sets the time at which it will be awake again (`wake_by`); the
first reading long after that, be it for a request or a timer, detects the stall. `elapsed_ms()` leaves out
nothing, for what must not last longer because this process or the machine stood still: sessions of clients that
have logged in. `wall_ms()` is the time of day, for stored times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

STALL_MS = 250
"""Lateness in ms from which the loop counts as stopped, not just busy: a turn of it takes far less."""

NEVER_MS = 1 << 62


_SINCE_BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_ns() -> int:
    """Return nanoseconds since the machine was booted, also those of its sleep, where the system counts them."""
    return time.clock_gettime_ns(_SINCE_BOOT)


def boot_ms() -> int:
    """Return `boot_ns` in whole milliseconds: what leases go by, as nobody sets it."""
    return boot_ns() // 1_000_000


class Clock:
    """Monotonic milliseconds without stalls of this process, and wall milliseconds. May be read on any thread.

    After a stall `now_ms` continues from when the loop was to be awake: it goes back by less than `STALL_MS`.
    """

    __slots__ = (
        "_elapsed_ns",
        "_forgiven_ms",
        "_lock",
        "_monotonic_ns",
        "_stall_ms",
        "_stalled_at_ms",
        "_wake_ms",
        "_wall_ns",
        "stalled_ms",
    )

    def __init__(
        self,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
        elapsed_ns: Callable[[], int] | None = None,
    ) -> None:
        """Take the functions that read the system's clocks; a simulation passes its own.

        `elapsed_ns` also counts while the machine sleeps; None for as `monotonic_ns`.
        """
        self._monotonic_ns, self._wall_ns = monotonic_ns, wall_ns
        self._elapsed_ns = elapsed_ns or monotonic_ns
        self._forgiven_ms = 0
        self._wake_ms = self._stalled_at_ms = NEVER_MS
        self._stall_ms = 0
        self.stalled_ms = 0
        """For how many ms the process was stopped since the start."""
        self._lock = Lock()  # Shards are loaded on threads, which read the clock as well.

    def now_ms(self) -> int:
        now_ms = self._monotonic_ns() // 1_000_000 - self._forgiven_ms
        return now_ms if now_ms < self._stalled_at_ms else self._skip_stall()

    def elapsed_ms(self) -> int:
        """Return monotonic milliseconds, those among them in which this process, or the machine, stood still."""
        return self._elapsed_ns() // 1_000_000

    def wall_ms(self) -> int:
        return self._wall_ns() // 1_000_000

    def wake_by(self, wake_ms: int = NEVER_MS) -> None:
        """Set the time at which the loop will be awake; by default it has nothing to wake up for."""
        with self._lock:
            self._wake_ms, self._stalled_at_ms = wake_ms, wake_ms + STALL_MS

    def take_stall_ms(self) -> int:
        """Return for how many ms the process was stopped since the last call; 0 for ordinary lateness."""
        stall_ms, self._stall_ms = self._stall_ms, 0
        return stall_ms

    def _skip_stall(self) -> int:
        with self._lock:
            now_ms = self._monotonic_ns() // 1_000_000 - self._forgiven_ms
            if now_ms < self._stalled_at_ms:
                return now_ms  # Another thread was first.
            self._stall_ms += now_ms - self._wake_ms
            self.stalled_ms += now_ms - self._wake_ms
            self._forgiven_ms += now_ms - self._wake_ms
            return self._wake_ms
