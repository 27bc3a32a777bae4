"""The disk of the simulation: the logs of the shards, and flushes that take their time, fail, or find no room.

A log keeps what a disk keeps. Batches are real bytes, so that loading reads what a restart would read. When
the process dies, what was written but not synced may be there or not: any number of batches from the front. A
cleaning reads now and swaps later, as on a thread; a process that dies between may have swapped or not.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from coordinator.topics.workers import Workers
from protocol.records.records import Batch, parse_header, set_base_offset
from storage.files import Buffer, OnFlushed, StorageError
from storage.log.partition_log import Appended
from storage.producers.producer_state import ProducerState
from tests.simulation.cleaning import cleaned
from tests.simulation.timeline import Origin, ProcessLoop, Timeline

if TYPE_CHECKING:
    from tests.simulation.witness import Witness

BROKEN = StorageError("sync", Path("__consumer_offsets-0"), "Input/output error", errno.EIO)
NO_ROOM = StorageError("write", Path("__consumer_offsets-0"), "No space left on device", errno.ENOSPC)

OnDurable = Callable[[Any, bytearray], None]
"""Called with a log, and each batch that has become durable in it."""
Partitions = dict[str, tuple[int, OnDurable]]
"""The topics of a storage: how many partitions each has, and what watches them."""


class SimulatedLog:
    """The part of `PartitionLog` that a runner and its loader use; outlives the process."""

    log_start_offset = 0
    is_open = True

    is_written_behind = False

    def __init__(self, partition: int, disk: Disk, on_durable: OnDurable) -> None:
        self.partition = partition
        self.failure: StorageError | None = None
        self.next_offset = self.durable_offset = 0
        self.durable: list[bytearray] = []
        self.staged: deque[bytearray] = deque()
        self.met_no_room = False  # And has taken nothing since.
        self.clean_offset = 0
        self.batches_cleaned = 0
        self._disk = disk
        self._snapshot: tuple[int, bytes] | None = None
        self._draft: tuple[int, list[bytearray]] | None = None  # What is to come instead of so many batches.
        self.producers = SimpleNamespace(state=ProducerState(), settle=lambda: None)
        self._on_durable = on_durable

    def append(self, batch: bytearray, *, wall_ms: int) -> Appended:
        if self.failure is not None:
            raise self.failure
        base_offset = self.next_offset
        set_base_offset(batch, base_offset, 0)
        self.met_no_room = False
        self.next_offset = parse_header(batch).last_offset + 1
        self.staged.append(batch)
        return Appended(base_offset, self.next_offset - 1)

    def flush(self, batches: list[bytearray]) -> None:
        """Those of `batches` that have not been cut off meanwhile are on the disk for good."""
        for batch in batches:
            if not self.staged or self.staged[0] is not batch:
                return
            self.durable.append(self.staged.popleft())
            self.durable_offset = parse_header(batch).last_offset + 1
            self._on_durable(self, batch)

    def fail_back(self) -> None:
        self.staged.clear()
        self.next_offset, self.failure = self.durable_offset, None
        if self._disk.has_no_room_to_cut():
            self.failure = NO_ROOM
            raise NO_ROOM

    def crash(self, kept: int, swaps: bool) -> None:
        """The process is gone; of what it had written `kept` batches have reached the disk.

        If it was about to swap what a cleaning left, it `swaps` yet, or did not come so far.
        """
        self.flush(list(self.staged)[:kept])
        self.staged.clear()
        self.next_offset, self.failure, self.met_no_room = self.durable_offset, None, False
        if swaps:
            self.swap()
        self._draft = None

    def clean(self, count: int, wall_ms: int, delete_retention_ms: int) -> bool:
        """Write the first `count` batches again, for `swap`; False if there is nothing to do, or too much."""
        if self._draft is not None or not count:
            return False
        draft = cleaned(self.durable, count, self.clean_offset, wall_ms, delete_retention_ms)
        self._draft = draft if draft[0] else None
        return self._draft is not None

    def swap(self) -> None:
        """Let what a cleaning left take the place of what it read."""
        if self._draft is not None:
            (count, left), self._draft = self._draft, None
            self.clean_offset = parse_header(self.durable[count - 1]).last_offset + 1
            self.batches_cleaned += count - len(left)
            self.durable[:count] = left

    def batches(self, start_offset: int, window_bytes: int) -> Iterator[tuple[Batch, memoryview]]:
        for data in self.durable:
            yield parse_header(data), memoryview(data)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.durable))

    def write_shard_snapshot(self, version: int, parts: Sequence[Buffer]) -> None:
        """What is left here is never damaged: that is for real logs."""
        self._snapshot = self.durable_offset, b"".join(parts)

    def take_shard_snapshot(self, version: int) -> memoryview | None:
        snapshot, self._snapshot = self._snapshot, None
        return (
            memoryview(snapshot[1]) if snapshot is not None and snapshot[0] == self.durable_offset else None
        )


class SimulatedFlusher:
    """As `storage.flusher.Flusher`, for one process: a flush ends a drawn time after it began."""

    def __init__(self, loop: ProcessLoop, disk: Disk) -> None:
        self._loop = loop
        self._disk = disk
        self._under_way: dict[int, Callable[[], None]] = {}
        self._numbers = count()

    def schedule(self, log: SimulatedLog, done: OnFlushed) -> None:
        batches = list(log.staged)
        number = next(self._numbers)

        def end() -> None:
            if self._under_way.pop(number, None) is None:
                return  # The stop did not wait for its time.
            if log.failure is None:
                log.failure = self._disk.failure()
                log.met_no_room = log.failure is NO_ROOM
            if log.failure is None:
                log.flush(batches)
            done(log.failure)

        self._under_way[number] = end
        self._loop.run_at(self._disk.flush_ends_ms(self._loop.timeline), Origin.THREAD, end)

    def close(self) -> None:
        """End every flush that is under way, and those that follow."""
        while self._under_way:
            next(iter(self._under_way.values()))()


class Log(Protocol):
    """What the witness asks of a log, be it a model or the daemon's own."""

    @property
    def partition(self) -> int: ...
    @property
    def durable_offset(self) -> int: ...
    @property
    def met_no_room(self) -> bool: ...


class Storage(Protocol):
    """The logs of a server, and what happens to all of them together."""

    @property
    def max_batch_bytes(self) -> int: ...
    @property
    def batches_cleaned(self) -> int: ...
    def logs_of(self, topic: str) -> Sequence[Any]: ...
    def new_flusher(self, loop: ProcessLoop) -> Any: ...
    def producer_ids(self, workers: Workers) -> Any: ...
    def open(self) -> None: ...
    def crash(self) -> None: ...
    def stop(self, before_release: Callable[[], object]) -> None: ...
    def clean(self, loop: ProcessLoop, took_ms: int, delete_retention_ms: int) -> None: ...
    def close(self) -> None: ...


class Numbers:
    """As `topics.producer_ids.ProducerIds`, on a disk that keeps them."""

    def __init__(self) -> None:
        self._numbers = count(1_000)

    def take(self) -> int:
        return next(self._numbers)

    def when_ready(self, done: Callable[[], None]) -> None:
        done()


class ModelStorage:
    """A `SimulatedLog` for each partition."""

    max_batch_bytes = 1 << 20

    def __init__(self, disk: Disk, random: Random, timeline: Timeline, partitions: Partitions) -> None:
        self._disk = disk
        self._random = random
        self._timeline = timeline
        self._numbers = Numbers()
        self._logs = {
            topic: [SimulatedLog(partition, disk, on_durable) for partition in range(count)]
            for topic, (count, on_durable) in partitions.items()
        }

    def logs_of(self, topic: str) -> list[SimulatedLog]:
        return self._logs[topic]

    @property
    def _all(self) -> list[SimulatedLog]:
        return [log for logs in self._logs.values() for log in logs]

    @property
    def batches_cleaned(self) -> int:
        return sum(log.batches_cleaned for log in self._all)

    def new_flusher(self, loop: ProcessLoop) -> SimulatedFlusher:
        return self._disk.new_flusher(loop)

    def producer_ids(self, workers: Workers) -> Numbers:
        return self._numbers

    def open(self) -> None:
        """Models are never closed."""

    def crash(self) -> None:
        """The logs keep what had reached the disk."""
        for log in self._all:
            log.crash(self._random.randint(0, len(log.staged)), swaps=self._random.random() < 0.5)

    def stop(self, before_release: Callable[[], object]) -> None:
        """The logs are whole, or have failed and are cut back by the next start."""
        before_release()
        for log in self._all:
            log.crash(0, swaps=True)

    def clean(self, loop: ProcessLoop, took_ms: int, delete_retention_ms: int) -> None:
        """Compact some of every log: read now, swapped when the cleaner is through."""
        wall_ms = self._timeline.now_ms + self._timeline.wall_offset_ms
        for log in self._all:
            count = self._random.randrange(len(log.durable) or 1)  # Never the last: that segment is written.
            if log.clean(count, wall_ms, delete_retention_ms):
                loop.run_at(self._timeline.now_ms + took_ms, Origin.THREAD, log.swap)

    def close(self) -> None:
        """Nothing is left of a model."""


class Disk:
    """How quick and how sound the disk is at present."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.is_sound = False  # Nothing fails, and everything is quick.
        self.failures_to_come = 0
        self.is_full = False
        self.times_no_room = 0
        self.during_flush: Callable[[], None] | None = (
            None  # Happens once, while the next flush is under way.
        )

    def new_storage(
        self, random: Random, timeline: Timeline, partitions: Partitions, witness: Witness
    ) -> Storage:
        """The logs that are on it. `witness` hears what a storage finds itself."""
        return ModelStorage(self, random, timeline, partitions)

    def fail_soon(self) -> None:
        """The next flush, or several: a log may fail while another waits for it."""
        self.failures_to_come += self._random.choice((1, 1, 3))

    def new_flusher(self, loop: ProcessLoop) -> SimulatedFlusher:
        """For a process that starts."""
        return SimulatedFlusher(loop, self)

    def flush_ends_ms(self, timeline: Timeline) -> int:
        """When a flush that begins now ends."""
        took_ms = self._flush_ms()
        action, self.during_flush = self.during_flush, None
        if action is not None:
            timeline.after(self._random.randrange(took_ms), action)
        return timeline.now_ms + took_ms

    def _flush_ms(self) -> int:
        if self.is_sound or self._random.random() < 0.7:
            return self._random.randint(1, 5)
        return self._random.choice((20, 80, 300, 1_500)) if self._random.random() < 0.97 else 7_000

    def load_ms(self) -> int:
        """How long reading a log takes."""
        return 5 if self.is_sound else self._random.choice((1, 20, 500, 3_000))

    def failure(self) -> StorageError | None:
        """What becomes of a flush."""
        if self.is_full:
            self.times_no_room += 1
            return NO_ROOM
        if self.is_sound or not self.failures_to_come:
            return None
        self.failures_to_come -= 1
        return BROKEN

    def has_no_room_to_cut(self) -> bool:
        """Some file systems need room even to give some back."""
        return self.is_full and self._random.random() < 0.3

    def probe_disk_space(self) -> None:
        if self.is_full:
            raise NO_ROOM
