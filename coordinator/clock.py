"""The daemon's two times, read here and nowhere else.

`now_ms()` is monotonic and drives every deadline. It leaves out the time in which this process did
not run (a paused VM, SIGSTOP, a long collection): `forgive` takes such a stall out, so every deadline
moves with it and nobody is expired for our own sleep. `wall_ms()` is the time of day, for what is stored.
"""

from __future__ import annotations

import time

STALL_MS = 250
"""A timer that fires this late was held up by our own stop, not by load: a turn of the loop takes far less."""


class Clock:
    """Monotonic milliseconds without our own stalls, and wall milliseconds."""

    __slots__ = ("_forgiven_ms",)

    def __init__(self) -> None:
        self._forgiven_ms = 0

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000 - self._forgiven_ms

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def forgive(self, expected_ms: int) -> int:
        """Take out the stall if `expected_ms` is long past; return its length, 0 for ordinary lateness."""
        late_ms = self.now_ms() - expected_ms
        if late_ms < STALL_MS:
            return 0
        self._forgiven_ms += late_ms
        return late_ms
