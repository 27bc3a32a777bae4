"""A hierarchical timing wheel: deadlines added and cancelled in constant time, and no ticking in between.

Level 0 has `size` buckets of one tick each; a bucket of the next level is as wide as the whole level below,
and levels are made when a deadline first needs them (with 20 buckets of 1 ms, five levels cover 53
minutes). A bucket is a circular doubly linked list, its sentinel being the bucket itself. A dict for
each bucket was measured too: on average no slower, but it stops the loop to grow where a list never does.

One heap holds the start of each bucket that is not empty. `advance` takes the buckets that have started
by now: what is due comes out, what is not moves to a finer bucket. So the caller may sleep until
`next_deadline_ms` whatever the level, and a jump over hours costs what the deadlines in it cost.

Inside, time is counted in ticks, deadlines rounded up: nothing is ever early, or late by a whole tick.
The wheel knows no clock and runs nothing: `now_ms` is handed in, and what is due is handed out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

TICK_MS: Final = 1
SIZE: Final = 20
UNUSED: Final = -1  # The start of a bucket that is not in the heap. No deadline is below zero.


class Node:
    """A place in a circular list. `next_node` is None while the node is in none."""

    __slots__ = ("next_node", "previous_node")

    next_node: Node | None
    previous_node: Node | None


class TimerEntry(Node, ABC):
    """Something with a deadline, in monotonic milliseconds. It is in one wheel at most."""

    __slots__ = ("deadline_ms", "sequence")

    def __init__(self, deadline_ms: int) -> None:
        self.next_node = None
        self.previous_node = None
        self.deadline_ms = deadline_ms
        self.sequence = 0  # Orders equal deadlines by when they were added.

    @abstractmethod
    def fire(self, now_ms: int) -> None:
        """The deadline has come, at `now_ms`. Whoever advances the wheel calls this for each due entry.

        An earlier entry of the same turn may have cancelled or replaced this one meanwhile: then do nothing.
        """

    @property
    def is_pending(self) -> bool:
        """Whether a wheel holds this entry: added, and neither cancelled nor due since."""
        return self.next_node is not None

    def cancel(self) -> bool:
        """Take the entry out of its wheel, if it is in one; return whether it was."""
        following, preceding = self.next_node, self.previous_node
        if following is None or preceding is None:
            return False
        preceding.next_node = following
        following.previous_node = preceding
        self.next_node = self.previous_node = None
        return True


class Bucket(Node):
    """The entries due in one span of ticks, and the sentinel of their list."""

    __slots__ = ("number", "start")

    def __init__(self, number: int) -> None:
        self.next_node = self.previous_node = self
        self.number = number  # Unique: it keeps the heap from comparing buckets.
        self.start = UNUSED


class Level:
    """A ring of buckets, each `width` ticks wide; it takes what is due before `end`."""

    __slots__ = ("buckets", "end", "width")

    def __init__(self, width: int, size: int, first_number: int) -> None:
        self.width = width
        self.end = 0
        self.buckets = [Bucket(first_number + index) for index in range(size)]

    def turn_to(self, clock: int) -> None:
        self.end = clock - clock % self.width + self.width * len(self.buckets)


class TimingWheel:
    """Entries by deadline. `start_ms` is the time it starts from; resolution is `tick_ms`."""

    def __init__(self, start_ms: int, tick_ms: int = TICK_MS, size: int = SIZE) -> None:
        self._tick_ms = tick_ms
        self._size = size
        self._clock = start_ms // tick_ms
        self._sequence = 0
        self._queue: list[tuple[int, int, Bucket]] = []
        self._levels = [Level(1, size, 0)]
        self._levels[0].turn_to(self._clock)

    def add(self, entry: TimerEntry) -> bool:
        """Hold `entry` until its deadline; False, and nothing done, if the wheel is already there."""
        due = -(-entry.deadline_ms // self._tick_ms)
        if due <= self._clock:
            return False
        self._sequence = entry.sequence = self._sequence + 1
        self._place(entry, due)
        return True

    def put(self, entry: TimerEntry) -> None:
        """As `add`, but what is due already comes out of the next `advance`."""
        if not self.add(entry):
            self._sequence = entry.sequence = self._sequence + 1
            self._place(entry, self._clock)

    def advance(self, now_ms: int) -> list[TimerEntry]:
        """Turn to `now_ms`; return what is due by then in the order of deadlines, equal ones as added.

        Those entries are no longer in the wheel. Time that goes back changes nothing.
        """
        clock = self._clock = max(self._clock, now_ms // self._tick_ms)
        for level in self._levels:
            level.turn_to(clock)
        due: list[TimerEntry] = []
        queue = self._queue
        while queue and queue[0][0] <= clock:
            _, _, bucket = heappop(queue)
            self._empty(bucket, due)
        due.sort(key=BY_DEADLINE)
        return due

    def next_deadline_ms(self) -> int | None:
        """When to advance next: the start of the first bucket that holds anything; None if none does.

        Nothing is due before; something may only move to a finer bucket then.
        """
        queue = self._queue
        while queue:
            start, _, bucket = queue[0]
            if bucket.next_node is not bucket:
                return start * self._tick_ms
            heappop(queue)
            bucket.start = UNUSED
        return None

    def _place(self, entry: TimerEntry, due: int) -> None:
        for level in self._levels:
            if due < level.end:
                break
        else:
            level = self._grow(due)
        width = level.width
        bucket = level.buckets[due // width % self._size]
        start = due - due % width
        if bucket.start != start:  # Else it is in the heap already: a ring holds one turn of it at a time.
            bucket.start = start
            heappush(self._queue, (start, bucket.number, bucket))
        last = bucket.previous_node
        assert last is not None, "a bucket is in its own list"
        entry.previous_node = last
        entry.next_node = bucket
        last.next_node = bucket.previous_node = entry

    def _grow(self, due: int) -> Level:
        """Add levels until one reaches `due`: each is `size` times as long as the one before."""
        while due >= self._levels[-1].end:
            width = self._levels[-1].width * self._size
            self._levels.append(Level(width, self._size, len(self._levels) * self._size))
            self._levels[-1].turn_to(self._clock)
        return self._levels[-1]

    def _empty(self, bucket: Bucket, due: list[TimerEntry]) -> None:
        """Move the entries of `bucket`, which has left the heap, to `due` or to finer buckets."""
        bucket.start = UNUSED
        node: Node | None = bucket.next_node
        bucket.next_node = bucket.previous_node = bucket
        while isinstance(node, TimerEntry):
            entry, node = node, node.next_node
            entry_due = -(-entry.deadline_ms // self._tick_ms)
            if entry_due <= self._clock:
                entry.next_node = entry.previous_node = None
                due.append(entry)
            else:
                self._place(entry, entry_due)


BY_DEADLINE: Final = attrgetter("deadline_ms", "sequence")
