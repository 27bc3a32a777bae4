"""The pace of the cleaner: short spells of work, short rests, and no more bytes a second than allowed.

Cleaning holds the interpreter's lock while it runs; the event loop, and the threads that flush, need that lock
many times for each commit. A thread that never waits releases it only every `sys.getswitchinterval()`, 5 ms. So
the cleaner works for less than that and then sleeps. That costs the cleaner some of its speed, and delays commits
hardly at all.
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
    """Raised when the daemon is about to stop: the cleaning under way is dropped."""


class Pace:
    """The pace of one thread, which calls it after every step with the number of bytes that it read or wrote.

    The call rests if it is time for that. Raises CleaningStopped. The rate may change while a log is cleaned, even
    while its thread rests.
    """

    def __init__(self, stopping: Event, max_bytes_per_second: Callable[[], float]) -> None:
        self._stopping = stopping
        self._max_bytes_per_second = max_bytes_per_second
        self._ahead_s = (
            0.0  # Rest in seconds that was still owed after the last one; below zero, too long a rest.
        )
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
        """Return the seconds of rest that are owed: the time that the bytes must take by the current rate, less
        `elapsed_s`, and what was owed before.
        """
        rate = self._max_bytes_per_second()
        # Kafka accepts any number for the rate; zero and below would allow no work, so here they set no limit.
        return self._ahead_s + (self._bytes / rate if rate > 0 else 0.0) - elapsed_s

    def _rest(self, rest_s: float) -> None:
        if self._stopping.wait(min(rest_s, LONGEST_REST_S)):
            raise CleaningStopped
