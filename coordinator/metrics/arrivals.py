"""When records arrived: a point a second for each partition that grows, in memory.

A point says that the record at its offset arrived at its time; those up to the next point count as arrived then,
so a lag in time is at most a second too long. All partitions together have a bound: where a partition has more
than its share, every other one of its older points goes, and what lay between counts as arrived before.
Nothing here reads a record.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from coordinator.topics.names import SHARD_TOPICS
from coordinator.topics.partition import Partition

POINTS_MAX: Final = 1_000_000
"""Points of all partitions together, of 16 bytes each."""

POINTS_LEAST: Final = 16
"""Points that a partition may have however many partitions there are."""

POINT_MS: Final = 1000


class Track:
    """The points of one partition."""

    __slots__ = ("last_ms", "offsets", "seen_end", "times_ms")

    def __init__(self, end: int) -> None:
        self.seen_end = end
        self.last_ms = -POINT_MS
        self.offsets: array[int] = array("q")
        self.times_ms: array[int] = array("q")

    def advance(self, end: int, now_ms: int) -> None:
        """Note that the partition ends at `end` by now."""
        begin, self.seen_end = self.seen_end, end
        if end < begin:  # Records were cut off: those that come in their place arrive later.
            while self.offsets and self.offsets[-1] >= end:
                self.offsets.pop()
                self.times_ms.pop()
        elif end > begin and now_ms - self.last_ms >= POINT_MS:
            self.last_ms = now_ms
            self.offsets.append(begin)
            self.times_ms.append(now_ms)

    def thin(self) -> None:
        """Drop every other point of the older half."""
        half = len(self.offsets) // 2
        for column in (self.offsets, self.times_ms):
            column[:half] = column[:half:2]

    def arrived_ms(self, offset: int) -> int | None:
        """When the record at `offset` arrived; None if it was there before the first point."""
        index = bisect_right(self.offsets, offset) - 1
        return None if index < 0 else self.times_ms[index]


class Arrivals:
    """The points of all partitions, but for those of the coordinator's own topics. Event-loop thread only."""

    def __init__(self, now_ms: Callable[[], int], points_max: int = POINTS_MAX) -> None:
        self._now_ms, self._points_max = now_ms, points_max
        self._tracks: WeakKeyDictionary[Partition, Track] = WeakKeyDictionary()

    @property
    def points(self) -> int:
        """Number of points of all partitions."""
        return sum(len(track.offsets) for track in self._tracks.values())

    def advanced(self, partition: Partition) -> None:
        """Note that the partition's durable end has moved. Called for each flush."""
        if partition.topic in SHARD_TOPICS:
            return
        track = self._tracks.get(partition)
        if track is None:
            self._tracks[partition] = Track(partition.high_watermark)
            return
        track.advance(partition.high_watermark, self._now_ms())
        if len(track.offsets) > max(self._points_max // len(self._tracks), POINTS_LEAST):
            track.thin()

    def waited_ms(self, partition: Partition, offset: int) -> int | None:
        """For how long the record at `offset` is there; 0 if only markers follow from it on. None: not known."""
        if offset >= partition.data_end:
            return 0
        track = self._tracks.get(partition)
        arrived_ms = None if track is None else track.arrived_ms(offset)
        return None if arrived_ms is None else max(self._now_ms() - arrived_ms, 0)
