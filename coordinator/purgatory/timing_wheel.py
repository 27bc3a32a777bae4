"""A hierarchical timing wheel: deadlines added and cancelled in constant time, and no ticking in between.

Level 0 has buckets of one tick each; a bucket of the next level is as wide as `size` of the level below, and a
level is made when a deadline first needs it: with 1000 ticks of 1 ms, two levels cover 16 minutes. A deadline goes
to the finest level that reaches so far ahead. Only buckets that hold something exist, under their start; one that
starts together with one of a finer level is the same bucket.

A bucket is a plain list, and an entry knows its place in it. Cancelling moves the last of the list into the place
that gets free, so a bucket holds what is pending and nothing else: no entry that was cancelled has to be skipped,
or swept up, or keeps a request in memory. What is left of a bucket that lost all its entries is its start, dropped
when it comes first or when its time has come; at most `size` + 1 are ahead in each level.

Each level costs an entry a move, and a bucket is emptied in one turn. So there are few levels, of more buckets
than Kafka's 20: a session of 45 s moves once, together with what is due in the same second.

One heap holds the start of each bucket. `advance` takes the buckets that have started by now: what is due
comes out, what is not moves to a finer bucket. So the caller may sleep until `next_deadline_ms` whatever the
level, and a jump over hours costs what the deadlines in it cost.

Inside, time is counted in ticks, deadlines rounded up: nothing is ever early, or late by a whole tick.
The wheel knows no clock and runs nothing: `now_ms` is handed in, and what is due is handed out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

TICK_MS: Final = 1
SIZE: Final = 1000
"""Buckets of a level: one second of them, then 16 minutes."""


class TimerEntry(ABC):
    """Something with a deadline, in monotonic milliseconds. It is in one wheel at most."""

    __slots__ = ("_bucket", "_index", "deadline_ms", "sequence")

    _index: int  # In `_bucket`, while there is one.
    sequence: int  # Orders equal deadlines by when they were added.

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self._bucket: list[TimerEntry] | None = None

    @abstractmethod
    def fire(self, now_ms: int) -> None:
        """The deadline has come, at `now_ms`. Called for each due entry when the wheel is advanced.

        An earlier entry of the same turn may have cancelled or replaced this one meanwhile: then do nothing.
        """

    @property
    def is_pending(self) -> bool:
        """Whether a wheel holds this entry: added, and neither cancelled nor due since."""
        return self._bucket is not None

    def cancel(self) -> bool:
        """Take the entry out of its wheel, if it is in one; return whether it was."""
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
    """Entries by deadline. `start_ms` is the time it starts from; resolution is `tick_ms`."""

    def __init__(self, start_ms: int, tick_ms: int = TICK_MS, size: int = SIZE) -> None:
        self._tick_ms = tick_ms
        self._size = size
        self._clock = start_ms // tick_ms
        self._sequence = 0
        self._buckets: dict[int, list[TimerEntry]] = {}
        self._starts: list[int] = []  # A heap: the keys of `_buckets`.
        self._levels = [(size, 1)]  # How many ticks ahead each reaches, and how many its buckets are wide.

    def add(self, entry: TimerEntry) -> bool:
        """Hold `entry` until its deadline; False, and nothing done, if the wheel is already there."""
        if -(-entry.deadline_ms // self._tick_ms) <= self._clock:
            return False
        self.put(entry)
        return True

    def put(self, entry: TimerEntry) -> None:
        """As `add`, but what is due already comes out of the next `advance`."""
        self._sequence = entry.sequence = self._sequence + 1
        due = -(-entry.deadline_ms // self._tick_ms)
        self._place(entry, due if due > self._clock else self._clock)

    def advance(self, now_ms: int) -> list[TimerEntry]:
        """Turn to `now_ms`; return what is due by then in the order of deadlines, equal ones as added.

        Those entries are no longer in the wheel. Time that goes back changes nothing.
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
        """When to advance next: the start of the first bucket that holds anything; None if none does.

        Nothing is due before; something may only move to a finer bucket then.
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
        """Add levels until one reaches `ahead`, and return how wide its buckets are."""
        reach, width = self._levels[-1]
        while ahead >= reach:
            reach, width = reach * self._size, reach
            self._levels.append((reach, width))
        return width


BY_DEADLINE: Final = attrgetter("deadline_ms", "sequence")
