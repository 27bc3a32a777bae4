"""The daemon's two times, read here and nowhere else.

`now_ms()` is monotonic and drives every deadline. It leaves out the time in which this process did
not run (a paused VM, SIGSTOP, a long collection), so every deadline moves with it and no member is
expired for our own sleep. The loop says by when it means to be awake again; what reads the clock long after
that, be it for a request or a timer, is the first to see that there was a stall. `wall_ms()` is the time
of day, for what is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

STALL_MS = 250
"""Awake so much later than meant: held up by our own stop, not by load. A turn of the loop takes far less."""

NEVER_MS = 1 << 62


class Clock:
    """Monotonic milliseconds without our own stalls, and wall milliseconds. May be read on any thread.

    After a stall `now_ms` goes on from when the loop meant to be awake: back by less than `STALL_MS` at most.
    """

    __slots__ = (
        "_forgiven_ms",
        "_lock",
        "_monotonic_ns",
        "_stall_ms",
        "_stalled_at_ms",
        "_wake_ms",
        "_wall_ns",
    )

    def __init__(
        self,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Read those two; a simulation has its own."""
        self._monotonic_ns, self._wall_ns = monotonic_ns, wall_ns
        self._forgiven_ms = 0
        self._wake_ms = self._stalled_at_ms = NEVER_MS
        self._stall_ms = 0
        self._lock = Lock()  # Shards are loaded on threads, which read the clock as well.

    def now_ms(self) -> int:
        now_ms = self._monotonic_ns() // 1_000_000 - self._forgiven_ms
        return now_ms if now_ms < self._stalled_at_ms else self._forgive()

    def wall_ms(self) -> int:
        return self._wall_ns() // 1_000_000

    def wake_by(self, wake_ms: int = NEVER_MS) -> None:
        """The loop means to run by then; without a time it has nothing to wake up for."""
        with self._lock:
            self._wake_ms, self._stalled_at_ms = wake_ms, wake_ms + STALL_MS

    def take_stall_ms(self) -> int:
        """How long the process did not run, since this was last asked; 0 for ordinary lateness."""
        stall_ms, self._stall_ms = self._stall_ms, 0
        return stall_ms

    def _forgive(self) -> int:
        with self._lock:
            now_ms = self._monotonic_ns() // 1_000_000 - self._forgiven_ms
            if now_ms < self._stalled_at_ms:
                return now_ms  # Another thread was first.
            self._stall_ms += now_ms - self._wake_ms
            self._forgiven_ms += now_ms - self._wake_ms
            return self._wake_ms
