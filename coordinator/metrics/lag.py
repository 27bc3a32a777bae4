"""How far one group is behind: in records, and in time by when its first unread record arrived.

Only partitions with a committed offset count. In time a group is as late as its worst partition: now less the
arrival of the first record that it has not read (`Arrivals`), else less that record's timestamp, which a thread
reads (`UnreadRecords`); 0 if there are only markers of transactions from there on. Nothing is interpolated. What
takes long yields in between. Knows no text format.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future
from itertools import islice
from typing import Final, NamedTuple, Protocol

from coordinator.metrics.arrivals import Arrivals
from coordinator.metrics.figures import TopicLag
from coordinator.offsets.topic_offsets import ROW, ROW_BYTES, TopicOffsets
from coordinator.topics.partition import Partition
from coordinator.topics.topic import Topic
from coordinator.topics.workers import Workers
from protocol.errors import DecodeError
from protocol.records.records import CorruptBatch
from storage.files import StorageError

PARTITIONS_AT_ONCE: Final = 400
"""Partitions that are looked at between two yields: half a millisecond, if all of them are behind."""

ENDS_MS: Final = 1000
"""So long the ends of a topic's partitions are taken for what they were: a lag is no more exact than that."""

READS_MAX: Final = 200
"""Records whose timestamps are read at a time, on a thread; the others have their turn later."""

WANTED_MAX: Final = 5000
"""Records that wait to be read, READS_MAX a second; the next walk asks for the others."""

KNOWN_MAX: Final = 200_000
"""Records whose timestamps are kept, of some 200 bytes each; beyond them there is no lag in time."""

CONTROL_BATCHES_MAX: Final = 1000
"""Batches of markers that are passed by to find a record; beyond them its time is not known."""

READ_BYTES: Final = 1 << 14

Steps = Generator[None, None, dict[str, TopicLag]]


class Topics(Protocol):
    """The topics whose logs are here, as far as they are measured."""

    @property
    def version(self) -> int:
        """A number that rises whenever a topic is made, grows or is deleted."""
        ...

    def get(self, name: str) -> Topic | None:
        """The topic of this name; None if its log is not here."""
        ...

    def all(self) -> Iterable[Topic]:
        """All of them."""
        ...


class Unread(NamedTuple):
    """The first record that a group has not read in a partition."""

    partition: Partition
    offset: int


class UnreadRecords:
    """The timestamps of first unread records that were there before there was a point for them.

    What is asked for is read by one of the next calls of `read`, and known from then on for as long as each
    walk over the groups asks for it. What a whole walk has not asked for is forgotten, whoever asked before.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._known: dict[Unread, int | None] = {}  # ms since 1970; None: there are only markers.
        self._known_before: dict[Unread, int | None] = {}  # Likewise, and not asked for since the walk began.
        self._wanted: dict[Unread, None] = {}  # Not known yet; the one that has waited longest comes first.
        self._is_reading = False

    def begin_walk(self) -> None:
        """Forget what was not asked for since the last walk began, and what waits to be read.

        That is asked for again. A few assignments, however much is known: what is asked for is moved each time.
        """
        self._known_before, self._known = self._known, {}
        self._wanted = {}

    def knows(self, unread: Unread) -> bool:
        """Whether the record's time is known; if not, ask for it, if there is room."""
        if unread in self._known:
            return True
        if unread in self._known_before:
            self._known[unread] = self._known_before.pop(unread)
            return True
        if len(self._wanted) < WANTED_MAX and len(self._known) + len(self._known_before) < KNOWN_MAX:
            self._wanted[unread] = None
        return False

    def wall_ms(self, unread: Unread) -> int | None:
        """Timestamp of a record that is known; None if there are only markers."""
        return self._known[unread]

    def read(self) -> None:
        """Begin to read some of what was asked for and is not known."""
        wanted = list(islice(self._wanted, READS_MAX))
        if wanted and not self._is_reading:
            self._is_reading = True
            self._workers.submit(lambda: _read_all(wanted), lambda read: self._on_read(wanted, read))

    def _on_read(self, wanted: list[Unread], read: Future[dict[Unread, int | None]]) -> None:
        self._is_reading = False
        for unread in wanted:
            self._wanted.pop(unread, None)
        self._known |= read.result()


def _read_all(wanted: list[Unread]) -> dict[Unread, int | None]:
    """Read timestamps, on a thread; those that cannot be read are left out, and asked for again."""
    found: dict[Unread, int | None] = {}
    for unread in wanted:
        try:
            found[unread] = _timestamp_ms(unread)
        except (StorageError, CorruptBatch, DecodeError, LookupError):
            continue  # Whoever fetches it gets the error; here it is only a figure that is missing.
    return found


def _timestamp_ms(unread: Unread) -> int | None:
    """The time of the batch that holds the first record from an offset on; None: only markers follow.

    Raises LookupError where there are too many of them.
    """
    batches = unread.partition.log.batches(unread.offset, READ_BYTES)
    for number, (batch, _) in enumerate(batches):
        if not batch.is_control:
            return batch.base_timestamp_ms
        if number >= CONTROL_BATCHES_MAX:
            raise LookupError("too many markers")
    return None


class LagMeter:
    """Measures the lag of single groups, as it is now."""

    def __init__(
        self,
        topics: Topics,
        arrivals: Arrivals,
        unread: UnreadRecords,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._topics, self._arrivals, self._unread = topics, arrivals, unread
        self._now_ms, self._wall_ms = now_ms, wall_ms
        self._ends: dict[str, tuple[int, list[Partition], list[int]]] = {}

    def of_group(self, committed: Mapping[str, TopicOffsets]) -> dict[str, TopicLag] | None:
        """The lag in each topic that there still is; None if there are so many partitions that it takes steps."""
        if sum(map(len, committed.values())) > PARTITIONS_AT_ONCE:
            return None
        found: dict[str, TopicLag] = {}
        for topic, offsets in committed.items():
            lag = self._of_some(topic, offsets, 0)
            if lag is not None:
                found[topic] = lag
        return found

    def steps(self, committed: Mapping[str, TopicOffsets]) -> Steps:
        """Yield now and then, and return the lag in each topic that there still is."""
        found: dict[str, TopicLag] = {}
        for topic in tuple(committed):
            start = 0
            while (offsets := committed.get(topic)) is not None and start < len(offsets):
                lag = self._of_some(topic, offsets, start)
                if lag is not None:
                    found[topic] = _added(found.get(topic), lag)
                start += PARTITIONS_AT_ONCE
                yield
        return found

    def now(self, committed: Mapping[str, TopicOffsets]) -> dict[str, TopicLag]:
        """The lag in each topic, without a pause."""
        steps = self.steps(committed)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                lags: dict[str, TopicLag] = ended.value
                return lags

    def begin_walk(self) -> None:
        """Forget the times of records that no group has had as its first unread one for a whole walk."""
        self._unread.begin_walk()

    def forget_ends(self) -> None:
        """Forget what is known of topics: some may be gone."""
        self._ends.clear()

    def ends_of(self, topic: str) -> tuple[list[Partition], list[int]]:
        """The topic's partitions and their ends, of at most a second ago; empty if there is no such topic."""
        now_ms = self._now_ms()
        known = self._ends.get(topic)
        if known is None or now_ms - known[0] >= ENDS_MS:
            found = self._topics.get(topic)
            partitions = [] if found is None else list(found.partitions)
            known = now_ms, partitions, [each.log.durable_offset for each in partitions]
            self._ends[topic] = known
        return known[1], known[2]

    def _of_some(self, topic: str, offsets: TopicOffsets, start: int) -> TopicLag | None:
        """The lag in PARTITIONS_AT_ONCE partitions from the one in place `start` on; None without a topic."""
        partitions, ends = self.ends_of(topic)
        if not partitions:
            return None
        indexes, stop = offsets.partitions, start + PARTITIONS_AT_ONCE
        rows = bytes(offsets.rows[start * ROW_BYTES : stop * ROW_BYTES])  # A view would block commits.
        if start or len(indexes) > PARTITIONS_AT_ONCE:
            indexes = indexes[start:stop]
        records = count = 0
        worst_s: float | None = 0.0
        for index, row in zip(indexes, ROW.iter_unpack(rows), strict=True):
            if index >= len(ends):
                continue  # It was committed before the topic was made anew.
            count += 1
            behind = ends[index] - row[0]
            if behind > 0:
                is_first, records = not records, records + behind
                worst_s = _worse(worst_s, self.seconds(partitions[index], row[0]), is_first=is_first)
        return TopicLag(records, worst_s, count)

    def seconds(self, partition: Partition, offset: int) -> float | None:
        """For how long the first record from `offset` on is there; None: not known yet."""
        waited_ms = self._arrivals.waited_ms(partition, offset)
        if waited_ms is not None:
            return waited_ms / 1000
        unread = Unread(partition, offset)
        if not self._unread.knows(unread):
            return None
        stamp_ms = self._unread.wall_ms(unread)
        return 0.0 if stamp_ms is None else max(self._wall_ms() - stamp_ms, 0) / 1000


def _added(one: TopicLag | None, other: TopicLag) -> TopicLag:
    """The lag of the partitions of both."""
    if one is None:
        return other
    seconds = _worse(one.seconds, other.seconds, is_first=not one.records) if other.records else one.seconds
    return TopicLag(one.records + other.records, seconds, one.partitions + other.partitions)


def _worse(one_s: float | None, other_s: float | None, *, is_first: bool) -> float | None:
    """The longer of two times; what is not known counts only if nothing else is."""
    if other_s is None:
        return None if is_first else one_s
    return other_s if one_s is None else max(one_s, other_s)
