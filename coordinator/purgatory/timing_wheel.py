"""A hierarchical timing wheel: deadlines are added and cancelled in constant time, and empty ticks cost nothing.

Level 0 has buckets of one tick each; a bucket of the next level is as wide as `size` of the level below, and a
level is made when a deadline first needs it: with 1000 ticks of 1 ms, two levels cover 16 minutes. A deadline goes
to the finest level that reaches so far ahead. Only buckets with entries exist, keyed by the tick they start at;
two buckets of different levels with the same start are the same bucket.

A bucket is a plain list, and an entry knows its index in it. Cancelling moves the last entry of the list to the
index that becomes free, so a bucket holds pending entries only: a cancelled entry need not be skipped
or swept up, and keeps no request in memory. Of a bucket whose entries were all cancelled only its start remains,
dropped when it is the first or when its time has come; at most `size` + 1 are ahead in each level.

Each level costs an entry one move, and a bucket is emptied in one `advance`. So there are few levels, with more
buckets than Kafka's 20: a session of 45 s moves once, together with the entries due in the same second.

One heap holds the start of each bucket. `advance` takes the buckets that have started by now: entries that are due
are returned, others move to a finer bucket. So the caller may sleep until `next_deadline_ms` whatever the
level, and a jump over hours costs no more than the deadlines in it.

Inside, time is counted in ticks, deadlines rounded up: no entry is ever early, or late by a whole tick.
The wheel knows no clock and runs nothing: it is given `now_ms`, and returns the entries that are due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

TICK_MS: Final = 1
SIZE: Final = 1000
"""Number of buckets of a level: level 0 covers one second, level 1 16 minutes."""


class TimerEntry(ABC):
    """An entry of a timing wheel, with a deadline in monotonic milliseconds. It is in one wheel at most."""

    __slots__ = ("_bucket", "_index", "deadline_ms", "sequence")

    _index: int  # Its index in `_bucket`, while it is in one.
    sequence: int  # Orders equal deadlines by when they were added.

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self._bucket: list[TimerEntry] | None = None

    @abstractmethod
    def fire(self, now_ms: int) -> None:
        """Handle that the deadline has passed. Called at `now_ms` for each entry that `advance` returned.

        Must do nothing if an earlier entry of the same `advance` has cancelled or replaced this one.
        """

    @property
    def is_pending(self) -> bool:
        """Whether the entry is in a wheel: it was added, and neither cancelled nor returned as due since."""
        return self._bucket is not None

    def cancel(self) -> bool:
        """Remove the entry from its wheel; return whether it was in one."""
        bucket = self._bucket
        if bucket is None:
            return False
        last = bucket.pop()
        if last is not self:
            bucket[self._index] = last
            last._index = self._index
        self._bucket = None
        return True


class TimingWheel:
    """Timer entries by deadline, from `start_ms` on, with a resolution of `tick_ms`."""

    def __init__(self, start_ms: int, tick_ms: int = TICK_MS, size: int = SIZE) -> None:
        self._tick_ms = tick_ms
        self._size = size
        self._clock = start_ms // tick_ms
        self._sequence = 0
        self._buckets: dict[int, list[TimerEntry]] = {}
        self._starts: list[int] = []  # A heap: the keys of `_buckets`.
        self._levels = [(size, 1)]  # Reach and bucket width of each level, in ticks.

    def add(self, entry: TimerEntry) -> bool:
        """Add `entry`; return False, without adding it, if its deadline has passed already."""
        if -(-entry.deadline_ms // self._tick_ms) <= self._clock:
            return False
        self.put(entry)
        return True

    def put(self, entry: TimerEntry) -> None:
        """Add `entry`; if its deadline has passed already, the next `advance` returns it."""
        self._sequence = entry.sequence = self._sequence + 1
        due = -(-entry.deadline_ms // self._tick_ms)
        self._place(entry, due if due > self._clock else self._clock)

    def advance(self, now_ms: int) -> list[TimerEntry]:
        """Remove and return the entries due at `now_ms`, by deadline; equal deadlines in the order of adding.

        A `now_ms` before that of the last call changes nothing.
        """
        starts, tick_ms = self._starts, self._tick_ms
        clock = self._clock = max(self._clock, now_ms // tick_ms)
        due: list[TimerEntry] = []
        while starts and starts[0] <= clock:
            for entry in self._buckets.pop(heappop(starts)):
                entry_due = -(-entry.deadline_ms // tick_ms)
                if entry_due <= clock:
                    entry._bucket = None
                    due.append(entry)
                else:
                    self._place(entry, entry_due)
        if len(due) > 1:
            due.sort(key=BY_DEADLINE)
        return due

    def next_deadline_ms(self) -> int | None:
        """Return when to advance next: the start of the first bucket with entries; None if there is none.

        No entry is due before; at that time entries may also only move to a finer bucket.
        """
        starts = self._starts
        while starts:
            start = starts[0]
            if self._buckets[start]:
                return start * self._tick_ms
            del self._buckets[heappop(starts)]
        return None

    def _place(self, entry: TimerEntry, due: int) -> None:
        ahead = due - self._clock
        for reach, width in self._levels:
            if ahead < reach:
                start = due - due % width
                break
        else:
            start = due - due % self._grow(ahead)
        bucket = self._buckets.get(start)
        if bucket is None:
            bucket = self._buckets[start] = []
            heappush(self._starts, start)
        entry._bucket = bucket
        entry._index = len(bucket)
        bucket.append(entry)

    def _grow(self, ahead: int) -> int:
        """Add levels until one reaches `ahead` ticks, and return the width of its buckets in ticks."""
        reach, width = self._levels[-1]
        while ahead >= reach:
            reach, width = reach * self._size, reach
            self._levels.append((reach, width))
        return width


BY_DEADLINE: Final = attrgetter("deadline_ms", "sequence")
