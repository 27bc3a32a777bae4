"""How much was taken lately, and for how long to wait: Kafka's windows and its token bucket (Q8, Q9, Q13).

The figures equal those of Kafka's classes SampledStat, Rate and TokenBucket, to the millisecond, since clients'
throttle times are compared. Knows no clients; the time is an argument, in monotonic ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from coordinator.topics.config_values import INT32_MAX, INT64_MAX

NO_LIMIT: Final = float(INT64_MAX)
"""What a limit is where no rule gives one, as in Kafka."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The samples that a rate is made of: their number, and the ms that each spans."""

    samples: int = 11
    sample_ms: int = 1_000

    @property
    def burst_s(self) -> float:
        """Seconds of a limit that may be taken at once, from nothing."""
        return (self.samples - 1) * self.sample_ms / 1_000


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """What was recorded, per second, over the last windows.

    There is one sample more than windows, for the one that overlaps their beginning; of fewer than all windows but
    one, the missing ones count as time in which nothing was recorded.
    """

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Count `value`; what is below zero is taken back."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._windows.sample_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._windows.samples + 1)
        if self._current >= len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def measure(self, now_ms: int) -> tuple[float, int]:
        """Return the rate per second, and the ms of the window that it is the rate of."""
        windows = self._windows
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        for sample in self._samples:
            if now_ms - sample.last_ms >= windows.samples * windows.sample_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        missing = windows.samples - 1 - elapsed_ms // windows.sample_ms
        window_ms = max(elapsed_ms + max(missing, 0) * windows.sample_ms, 1)
        return sum(sample.value for sample in self._samples) / (window_ms / 1_000), window_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return the ms after which the rate is down at `limit` per second, if nothing more comes; 0: it is."""
        rate, window_ms = self.measure(now_ms)
        return 0 if rate <= limit else rounded_ms((rate - limit) / limit * window_ms)


class TokenBucket:
    """Permits that come at a limit per second; all windows' worth may be taken at once (KIP-599)."""

    __slots__ = ("_at_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens = math.inf  # Full, whatever the limit turns out to be.
        self._at_ms = 0

    def take(self, count: float, limit: float, now_ms: int) -> None:
        """Take `count` permits, whether they are there or not."""
        self._tokens = self.left(limit, now_ms) - count

    def left(self, limit: float, now_ms: int) -> float:
        """Return the permits that are left: below zero, as many were taken too many."""
        burst = self._windows.samples * self._windows.sample_ms / 1_000 * limit
        self._tokens = min(burst, self._tokens + limit * ((now_ms - self._at_ms) / 1_000))
        self._at_ms = now_ms
        return self._tokens

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return the ms after which no more permits are taken than came; 0: that is so now."""
        left = self.left(limit, now_ms)
        return rounded_ms(-left / limit * 1_000) if left < 0 else 0


def rounded_ms(ms: float) -> int:
    """Return a time as Kafka rounds it, and no longer than its field: there it would be a negative one."""
    return min(math.floor(ms + 0.5), INT32_MAX) if ms < INT32_MAX else INT32_MAX
