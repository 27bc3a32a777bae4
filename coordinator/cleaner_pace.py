"""How fast the cleaner may go: a little work, a little rest, and no more bytes a second than allowed.

Whatever cleans a log is plain Python and holds the interpreter's lock while it runs; the event loop, and the
threads that flush, want that lock many times for each commit. A thread that never waits lets go of it only
every `sys.getswitchinterval()`, 5 ms. So the cleaner works for less than that and then really sleeps. It costs
the cleaner some of its speed, and a commit next to nothing.
"""

from __future__ import annotations

import math
import time
from threading import Event
from typing import Final

WORK_S: Final = 0.0005
REST_S: Final = 0.0005


class CleaningStopped(Exception):
    """The daemon is about to end; the work in hand is thrown away."""


class Pace:
    """Of one thread. Called after every step with the bytes it read or wrote; raises CleaningStopped."""

    def __init__(self, stopping: Event, max_bytes_per_second: float) -> None:
        self._stopping = stopping
        # Kafka takes any number for the rate; one that nothing could be done at limits nothing here.
        self._max_bytes_per_second = max_bytes_per_second if max_bytes_per_second > 0 else math.inf
        self._ahead_s = 0.0  # By how much the bytes since the last rest took less time than they should.
        self._bytes = 0
        self._since = time.perf_counter()

    def __call__(self, size_bytes: int) -> None:
        self._bytes += size_bytes
        worked_s = time.perf_counter() - self._since
        if worked_s < WORK_S:
            return
        owed_s = self._ahead_s + self._bytes / self._max_bytes_per_second - worked_s
        if self._stopping.wait(max(owed_s, REST_S)):
            raise CleaningStopped
        now = time.perf_counter()
        rested_s = now - self._since - worked_s
        self._ahead_s = max(owed_s - rested_s, -REST_S)
        self._bytes, self._since = 0, now
