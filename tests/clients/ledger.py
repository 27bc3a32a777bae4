"""The books of a group: what members read and committed, what OffsetFetch said meanwhile, and whether that agrees.

Times are nanoseconds of the machine's monotonic clock, which all processes share; a partition is "topic-0", and an
offset that is committed is the one to go on at. Knows no client, no broker and no group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import attrgetter

SHOWN = 5  # Faults of a ledger; there may be thousands.


@dataclass(frozen=True, slots=True)
class Read:
    """`reader` got the records `first` to `last` of a partition, at `at_ns` or later."""

    at_ns: int
    partition: str
    first: int
    last: int
    reader: str


@dataclass(frozen=True, slots=True)
class Commit:
    """At `at_ns` it was known that `offset` is committed."""

    at_ns: int
    partition: str
    offset: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What OffsetFetch, asked at `asked_ns`, said of a partition; 0 where it knew no offset."""

    asked_ns: int
    partition: str
    offset: int


@dataclass
class PartitionBook:
    """One partition's entries. They may be made in any order, but for the samples, which are in theirs."""

    name: str
    reads: list[Read] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def faults(self, end: int) -> Iterator[str]:
        """What must not be, in words; the log ends at `end`, and so must what is committed."""
        yield from self._unread(end)
        yield from self._doubled()
        yield from self._lost()
        if self._committed_at_last != end:
            yield f"{self._committed_at_last} is committed at last, and the log ends at {end}"

    @property
    def repeated(self) -> int:
        """Number of times that a record was read again."""
        return sum(read.last + 1 - read.first for read in self.reads) - sum(
            last + 1 - first for first, last in self._covered
        )

    def _unread(self, end: int) -> Iterator[str]:
        position = 0
        for first, last in [*self._covered, (end, end)]:
            if first > position:
                yield f"{position} to {first - 1} were read by no member"
            position = last + 1

    def _doubled(self) -> Iterator[str]:
        """Reads of what was committed with success before."""
        for read in self.reads:
            if read.first < (committed := self._acknowledged(read.at_ns)):
                yield f"{read.reader} read {read.first} to {read.last}, {committed} was committed before"

    def _lost(self) -> Iterator[str]:
        """Samples behind a commit that was acknowledged before, behind another sample, or ahead of all reads."""
        before, read = 0, self._covered[-1][1] + 1 if self._covered else 0
        for sample in self.samples:
            said = f"OffsetFetch says {sample.offset}"
            if sample.offset < (committed := self._acknowledged(sample.asked_ns)):
                yield f"{said}, {committed} was committed before"
            if sample.offset < before:
                yield f"{said}, and said {before} before"
            if sample.offset > read:
                yield f"{said}, and from {read} on no member read"
            before = max(before, sample.offset)

    @property
    def _committed_at_last(self) -> int:
        return self.samples[-1].offset if self.samples else 0

    def _acknowledged(self, at_ns: int) -> int:
        """The highest offset whose commit was known before `at_ns`."""
        times, highest = self._history
        index = bisect_left(times, at_ns)
        return highest[index - 1] if index else 0

    @cached_property
    def _history(self) -> tuple[list[int], list[int]]:
        """When commits were known, and the highest offset of each of these moments."""
        commits = sorted(self.commits, key=attrgetter("at_ns"))
        return [each.at_ns for each in commits], [*accumulate((each.offset for each in commits), max)]

    @cached_property
    def _covered(self) -> list[tuple[int, int]]:
        """The offsets that were read, as ranges in their order with gaps between them."""
        ranges: list[tuple[int, int]] = []
        for read in sorted(self.reads, key=attrgetter("first")):
            if ranges and read.first <= ranges[-1][1] + 1:
                ranges[-1] = (ranges[-1][0], max(ranges[-1][1], read.last))
            else:
                ranges.append((read.first, read.last))
        return ranges


@dataclass(frozen=True, slots=True)
class Ledger:
    """The entries of all partitions, once there will be no more."""

    books: Mapping[str, PartitionBook]

    @classmethod
    def of(cls, reads: list[Read], commits: list[Commit], samples: list[Sample]) -> Ledger:
        """Sort the entries by their partitions."""
        books: dict[str, PartitionBook] = {}
        for read in reads:
            books.setdefault(read.partition, PartitionBook(read.partition)).reads.append(read)
        for commit in commits:
            books.setdefault(commit.partition, PartitionBook(commit.partition)).commits.append(commit)
        for sample in samples:
            books.setdefault(sample.partition, PartitionBook(sample.partition)).samples.append(sample)
        return cls(books)

    def check(self, ends: Mapping[str, int]) -> None:
        """Raise AssertionError, which names the first faults and their number, unless there are none."""
        faults = [
            f"{name}: {fault}"
            for name, end in ends.items()
            for fault in self.books.get(name, PartitionBook(name)).faults(end)
        ]
        assert not faults, f"{len(faults)} faults\n" + "\n".join(faults[:SHOWN])

    @property
    def repeated(self) -> int:
        """Number of times that a record was read again; none of them was committed, where `check` is content."""
        return sum(book.repeated for book in self.books.values())
