"""A member's share: the partitions that it owns, and how far it has come in each. No clients, no clock.

An offset goes three steps: a row is *taken* out of what the consumer returned, it is *processed*, its offset is
*committed*. Only processed offsets are committed. Where a partition has an end, rows after it are
not taken: it is *at its end* as soon as anything shows that the log goes on there, be it a row behind it or the
broker's word that nothing comes before it, for the last offsets may belong to markers, which no consumer sees.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

from muster.spark.members.report import KEPT_RANGES, OffsetRange
from protocol.topic_partition import TopicPartition

R = TypeVar("R")
"""The type of a row, which the share does not look into."""


class OutOfOrderError(Exception):
    """The consumer returned a row twice or out of order: committing would lose rows."""


class ProcessedOffset(NamedTuple):
    """An offset to commit: all rows before it are processed. `is_at_end`: it is the end of the run's part."""

    topic: str
    partition: int
    offset: int
    is_at_end: bool

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(slots=True)
class _Owned:
    """One owned partition. A None offset is not known yet: the consumer starts at the group's committed offset."""

    end: int | None
    chain: int | None  # The end of the newest range, where the next begins.
    taken: int | None = None
    processed: int | None = None
    committed: int | None = None
    is_paused: bool = False
    read: OffsetRange | None = None  # The ranges processed so far, joined into one.

    @property
    def is_at_end(self) -> bool:
        return self.end is not None and self.processed is not None and self.processed >= self.end

    def reach(self, offset: int) -> None:
        """Record that all rows before `offset` were taken, or do not exist."""
        reached = offset if self.end is None else min(offset, self.end)
        self.taken = max(reached, self.taken or 0)


@dataclass(frozen=True, slots=True)
class RowBatch(Generic[R]):
    """Rows in the order of arrival, and the range of offsets of each partition among them."""

    rows: list[R]
    ranges: tuple[OffsetRange, ...]


class Share:
    """The partitions that one member owns. `ends` are the run's log ends; None in a continuous run."""

    def __init__(self, ends: Mapping[TopicPartition, int] | None) -> None:
        self._ends = ends
        self._owned: dict[TopicPartition, _Owned] = {}
        self.rows: Counter[TopicPartition] = Counter()
        self._closed: deque[OffsetRange] = deque(maxlen=KEPT_RANGES)

    def assign(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Add partitions that begin at these offsets, or at the group's committed offset (None or negative)."""
        self.release(positions)
        for where, position in positions.items():
            # A partition created after the run began has nothing that the run is to read.
            end = None if self._ends is None else self._ends.get(where, 0)
            known = position if position is not None and position >= 0 else None
            self._owned[where] = _Owned(end, chain=known, taken=known)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions; the next owner reads what is not committed of them."""
        for where in partitions:
            owned = self._owned.pop(where, None)
            if owned is not None and owned.read is not None:
                self._closed.append(owned.read)

    def take(self, records: Iterable[tuple[TopicPartition, int, R]]) -> RowBatch[R]:
        """The rows to process among `records` (partition, offset, row). Raises OutOfOrderError."""
        rows: list[R] = []
        found: dict[TopicPartition, list[int]] = {}  # First offset, offset after the last, number of rows.
        for where, offset, row in records:
            owned = self._owned.get(where)
            if owned is None:
                continue  # The partition was revoked before its rows arrived: the next owner reads them.
            if owned.end is not None and offset >= owned.end:
                owned.reach(offset)
                continue
            if owned.taken is not None and offset < owned.taken:
                raise OutOfOrderError(f"{where}: offset {offset} behind {owned.taken}")
            owned.taken = offset + 1
            rows.append(row)
            span = found.setdefault(where, [offset, 0, 0])
            span[1:] = offset + 1, span[2] + 1
        return RowBatch(rows, tuple(self._range(where, *span) for where, span in found.items()))

    def _range(self, where: TopicPartition, first: int, end: int, rows: int) -> OffsetRange:
        """The offset range of a batch in a partition, from the end of the range before it, if there was one."""
        chain = self._owned[where].chain
        return OffsetRange(*where, first if chain is None else chain, end, rows)

    def reach(self, where: TopicPartition, offset: int) -> None:
        """Record the broker's word that there is nothing before `offset` but what it has returned."""
        if where in self._owned:
            self._owned[where].reach(offset)

    def mark_processed(self, batch: RowBatch[R]) -> None:
        """Record that the batch is processed, and with it everything that was taken before."""
        for span in batch.ranges:
            owned = self._owned[span.topic_partition]
            owned.chain = span.end_offset
            owned.read = span if owned.read is None else _joined(owned.read, span)
            self.rows[span.topic_partition] += span.rows
        for owned in self._owned.values():
            owned.processed = owned.taken

    def uncommitted(self, among: Sequence[TopicPartition] | None = None) -> list[ProcessedOffset]:
        """The processed offsets that are not committed, of all partitions or of those in `among`."""
        wanted = self._owned if among is None else [where for where in among if where in self._owned]
        found = ((where, self._owned[where]) for where in wanted)
        return [
            ProcessedOffset(*where, owned.processed, owned.is_at_end)
            for where, owned in found
            if owned.processed is not None and owned.processed != owned.committed
        ]

    def mark_committed(self, progress: Iterable[ProcessedOffset]) -> None:
        for each in progress:
            self._owned[each.topic_partition].committed = each.offset

    def newly_at_end(self) -> list[TopicPartition]:
        """Partitions that have reached their end since the last call, and of which nothing more is to be read."""
        found = [where for where, owned in self._owned.items() if owned.is_at_end and not owned.is_paused]
        for where in found:
            self._owned[where].is_paused = True
        return found

    def ranges(self) -> tuple[OffsetRange, ...]:
        """The processed ranges, one for each time that a partition was owned, at least the newest KEPT_RANGES."""
        return (*self._closed, *(owned.read for owned in self._owned.values() if owned.read is not None))


def _joined(first: OffsetRange, second: OffsetRange) -> OffsetRange:
    """The union of two ranges of one owner, of which the second begins at the end of the first."""
    return replace(first, end_offset=second.end_offset, rows=first.rows + second.rows)
