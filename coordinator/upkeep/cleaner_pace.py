"""The pace of the cleaner: a little work, a little rest, and no more bytes a second than allowed.

Whatever cleans a log is plain Python and holds the interpreter's lock while it runs; the event loop, and the
threads that flush, want that lock many times for each commit. A thread that never waits lets go of it only
every `sys.getswitchinterval()`, 5 ms. So the cleaner works for less than that and then really sleeps. It costs
the cleaner some of its speed, and a commit next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Final

WORK_S: Final = 0.0005
REST_S: Final = 0.0005
LONGEST_REST_S: Final = 1.0
"""Longest rest before the rate is read again: a rate that is almost zero may have been raised meanwhile."""


class CleaningStopped(Exception):
    """The daemon is about to stop; the cleaning under way is dropped."""


class Pace:
    """The pace of one thread. Called after every step with the bytes it read or wrote; raises CleaningStopped.

    The rate may change while a log is cleaned, also while its thread waits.
    """

    def __init__(self, stopping: Event, max_bytes_per_second: Callable[[], float]) -> None:
        self._stopping = stopping
        self._max_bytes_per_second = max_bytes_per_second
        self._ahead_s = 0.0  # Time that the bytes since the last rest took less than they should.
        self._bytes = 0
        self._since = time.perf_counter()

    def __call__(self, size_bytes: int) -> None:
        self._bytes += size_bytes
        worked_s = time.perf_counter() - self._since
        if worked_s < WORK_S:
            return
        self._rest(max(self._owed_s(worked_s), REST_S))
        while (owed_s := self._owed_s(time.perf_counter() - self._since)) > REST_S:
            self._rest(owed_s)
        self._ahead_s = max(owed_s, -REST_S)
        self._bytes, self._since = 0, time.perf_counter()

    def _owed_s(self, elapsed_s: float) -> float:
        """Time by which the bytes since the last rest are ahead of what the rate allows now."""
        rate = self._max_bytes_per_second()
        # Kafka takes any number for the rate; zero and below would allow no work, and limit nothing here.
        return self._ahead_s + (self._bytes / rate if rate > 0 else 0.0) - elapsed_s

    def _rest(self, rest_s: float) -> None:
        if self._stopping.wait(min(rest_s, LONGEST_REST_S)):
            raise CleaningStopped
