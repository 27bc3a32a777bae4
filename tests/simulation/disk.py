"""The disk of the simulation: the logs of the shards, and flushes that take their time or fail.

A log keeps what a disk keeps. Batches are real bytes, so that loading reads what a restart would read. When
the process dies, what was written but not synced may be there or not: any number of batches from the front.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace

from protocol.records import Batch, parse_header, set_base_offset
from storage.files import StorageError
from storage.partition_log import Appended
from storage.producer_state import ProducerState
from tests.simulation.timeline import Origin, ProcessLoop

BROKEN = StorageError("sync", Path("__consumer_offsets-0"), "Input/output error", 5)

Done = Callable[[StorageError | None], None]


class SimulatedLog:
    """The part of `PartitionLog` that a runner and its loader use; outlives the process."""

    log_start_offset = 0

    def __init__(self, partition: int, on_durable: Callable[[SimulatedLog, bytearray], None]) -> None:
        self.partition = partition
        self.failure: StorageError | None = None
        self.next_offset = self.durable_offset = 0
        self.durable: list[bytearray] = []
        self.staged: deque[bytearray] = deque()
        self.producers = SimpleNamespace(state=ProducerState())  # Which nobody asks here.
        self._on_durable = on_durable

    def append(self, batch: bytearray, *, wall_ms: int) -> Appended:
        if self.failure is not None:
            raise self.failure
        base_offset = self.next_offset
        set_base_offset(batch, base_offset, 0)
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

    def crash(self, kept: int) -> None:
        """The process is gone; of what it had written `kept` batches have reached the disk."""
        self.flush(list(self.staged)[:kept])
        self.fail_back()

    def batches(self, start_offset: int, window_bytes: int) -> Iterator[tuple[Batch, memoryview]]:
        for data in self.durable:
            yield parse_header(data), memoryview(data)


class SimulatedFlusher:
    """As `storage.flusher.Flusher`, for one process: a flush ends a drawn time after it began."""

    def __init__(self, loop: ProcessLoop, disk: Disk) -> None:
        self._loop = loop
        self._disk = disk

    def schedule(self, log: SimulatedLog, done: Done) -> None:
        batches = list(log.staged)

        def end() -> None:
            if log.failure is None and self._disk.fails():
                log.failure = BROKEN
            if log.failure is None:
                log.flush(batches)
            done(log.failure)

        at_ms = self._loop.timeline.now_ms + self._disk.flush_ms()
        self._loop.run_at(at_ms, Origin.THREAD, end)

    def close(self) -> None:
        """A process of the simulation ends by dying."""


class Disk:
    """How quick and how sound the disk is at present."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.is_sound = False  # Nothing fails, and everything is quick.
        self.failures_to_come = 0

    def new_flusher(self, loop: ProcessLoop) -> SimulatedFlusher:
        """For a process that starts."""
        return SimulatedFlusher(loop, self)

    def flush_ms(self) -> int:
        if self.is_sound or self._random.random() < 0.7:
            return self._random.randint(1, 5)
        return self._random.choice((20, 80, 300, 1_500)) if self._random.random() < 0.97 else 7_000

    def load_ms(self) -> int:
        """How long reading a log takes."""
        return 5 if self.is_sound else self._random.choice((1, 20, 500, 3_000))

    def fails(self) -> bool:
        if self.is_sound or not self.failures_to_come:
            return False
        self.failures_to_come -= 1
        return True
