"""How many connections may be accepted now, where `max.connection.creation.rate` limits it (KIP-612).

What was not used of a second may be used at once in the next, and no more: over any time t no more than
(1 s + t) times the rate. Kafka goes by the mean of `quota.window.num` seconds. Knows no sockets; the time is
passed in.
"""

from __future__ import annotations

from typing import Final

MIN_WAIT_S: Final = 0.001
"""The shortest wait in seconds: the event loop's timers are no finer."""


class CreationRate:
    """A token bucket for the connections of all listeners together."""

    def __init__(self, per_second: int, now_s: float) -> None:
        self.per_second = per_second
        self._left = float(per_second)
        self._at_s = now_s

    def allowed(self, now_s: float) -> int:
        """Return the number of connections that may be accepted now."""
        self._left = min(self._left + (now_s - self._at_s) * self.per_second, float(self.per_second))
        self._at_s = now_s
        return int(self._left)

    def take(self) -> None:
        """Count one accepted connection."""
        self._left -= 1

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until a connection may be accepted; 0 if one may be now."""
        if self.allowed(now_s):
            return 0.0
        return max((1 - self._left) / self.per_second, MIN_WAIT_S)
