"""The daemon's own logs on a disk that tears, fails, fills up and forgets: `PartitionLog` over `FaultyFiles`.

Nothing runs on a thread: a flush, a recovery or a cleaning happens as a whole at one moment of virtual time, and a
process that dies may have come to any of its operations. Then either the process alone is gone, and what it wrote
is there, or the power is, and of what was not synced anything may be: sectors, lengths, names. Whatever has become
durable is read back from the files, and shown to the witness; what was durable once has to stay.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from coordinator.data.producer_ids import ProducerIds
from coordinator.topics.workers import Workers
from harness.doubles.faulty_files import Operation
from protocol.records.records import Batch
from protocol.topic_partition import TopicPartition
from storage.cleaning.cleanable import cleanable
from storage.cleaning.compaction import Compaction, CompactionLimits, LogChanged
from storage.directory.log_directory import LogDirectory
from storage.files import Buffer, CorruptSegment, OnFlushed, StorageError
from storage.journal.journal import Journal, Outcomes
from storage.log.config import LogConfig
from storage.log.log_producers import LogProducers
from storage.log.partition_log import Appended, PartitionLog
from storage.log.segment_swap import StuckSwap
from storage.log.shard_snapshot import SHARD_SNAPSHOT, UnusableSnapshot
from storage.log.staged_log import StagedLog
from tests.simulation.cleaning import DAY_MS
from tests.simulation.disk import Disk, OnDurable, Partitions
from tests.simulation.failing_files import LOOKS, Died, Faults, QuietFiles
from tests.simulation.timeline import Origin, ProcessLoop, Timeline

if TYPE_CHECKING:
    from tests.simulation.witness import Witness

MEMORY: Final = Path("/dev/shm")
"""Where a system has files in memory: a history needs none of them afterwards."""
SEGMENT_BYTES: Final = (2_048, 2_048, 16_384)
"""Small, for only what is rolled is cleaned, and a history writes little."""
BUFFER_BYTES: Final = 1 << 16
OPERATIONS_BEFORE_DEATH: Final = (0, 1, 1, 1, 1, 2, 4, 12)
"""A flush writes, and then it syncs: between the two a death tears most."""


class WatchedLog:
    """A partition's log in one life of the process; of `PartitionLog` what a runner and its loader use."""

    def __init__(self, partition: int, log: StagedLog, storage: RealStorage, on_durable: OnDurable) -> None:
        self.partition = partition
        self.log = log
        self.met_no_room = False  # And has taken nothing since.
        self._storage = storage
        self._on_durable = on_durable

    is_written_behind = True
    log_start_offset = property(lambda self: self.log.log_start_offset)
    next_offset = property(lambda self: self.log.next_offset)
    durable_offset = property(lambda self: self.log.durable_offset)
    failure = property(lambda self: self.log.failure)
    is_open = property(lambda self: self.log.is_open)
    size_bytes = property(lambda self: self.log.size_bytes)

    @property
    def producers(self) -> LogProducers:
        return self.log.producers

    def append(self, batch: bytearray, *, wall_ms: int) -> Appended:
        appended = self.log.append(batch, wall_ms=wall_ms)
        self.met_no_room = False
        return appended

    def framed(self, error: StorageError | None) -> None:
        """Hear what became of the frame that this log was part of."""
        if error is not None:
            self.met_no_room = error.is_no_room
            if error.is_no_room:
                self._storage.reach("flush_met_a_full_disk")
        self.note_durable()

    @property
    def on_written(self) -> Callable[[StorageError | None], None]:
        return self.log.on_written

    @on_written.setter
    def on_written(self, on_written: Callable[[StorageError | None], None]) -> None:
        self.log.on_written = on_written

    @property
    def has_behind(self) -> bool:
        return self.log.has_behind

    def take_written_bytes(self) -> int:
        return self.log.take_written_bytes()

    def recover(self) -> None:
        """As a start does it: what cannot be opened now may be later."""
        try:
            self.log.recover()
        except CorruptSegment as error:
            self._storage.violated(f"a crash is taken for corruption: {error}")
        except StorageError as error:
            if error.operation in LOOKS:
                self._storage.reach("recovery_could_not_read")
            if not self.is_open:
                return  # Otherwise it was only that what the journal has could not be written behind.
        if self.log.recovered.cut_bytes:
            self._storage.reach("torn_tail_cut")
        self.note_durable()

    def fail_back(self) -> None:
        try:
            self.log.fail_back()
        finally:
            if self.is_open:
                self.note_durable()

    def batches(self, start_offset: int, window_bytes: int) -> Iterator[tuple[Batch, memoryview]]:
        """For a shard that is loaded."""
        try:
            yield from self.log.batches(start_offset, window_bytes)
        except StorageError as error:
            if error.operation in LOOKS:
                self._storage.reach("load_could_not_read")
            raise

    def write_shard_snapshot(self, version: int, parts: Sequence[Buffer]) -> None:
        try:
            self.log.write_shard_snapshot(version, parts)
        except Died:
            self._storage.reach("snapshot_cut_by_death")
            raise

    def take_shard_snapshot(self, version: int) -> memoryview | None:
        """What is taken has to be what the shadow says; the witness compares when the shard has loaded."""
        try:
            taken = self.log.take_shard_snapshot(version)
        except UnusableSnapshot:
            self._storage.reach("snapshot_refused")
            raise
        if taken is not None:
            self._storage.reach("snapshot_restored")
        if (self.log.directory / SHARD_SNAPSHOT).exists():
            self._storage.violated("a shard serves beside its snapshot")
        return taken

    def note_durable(self) -> None:
        """Read what has become durable since the last time."""
        key = self.log.directory.name
        known = self._storage.durable_offsets.get(key, 0)
        if self.durable_offset < known:
            self._storage.violated(f"{key} was durable up to {known}, and ends at {self.durable_offset}")
        if self.durable_offset > known:
            self._storage.durable_offsets[key] = self.durable_offset
            with_faults, self._storage.faults.is_off = self._storage.faults.is_off, True
            for batch, data in self.log.batches(known):
                if batch.base_offset >= known:
                    self._on_durable(self, bytearray(data))
            self._storage.faults.is_off = with_faults


@dataclass
class Cleaning:
    """Logs that are being cleaned."""

    delete_retention_ms: int


class RealStorage:
    """The log directory of one machine, life after life of its process."""

    def __init__(
        self,
        disk: RealDisk,
        random: Random,
        timeline: Timeline,
        partitions: Partitions,
        witness: Witness,
    ) -> None:
        self.violated = witness.violated
        self.reach = witness.marks.reach
        self.durable_offsets: dict[str, int] = {}  # By the name of a log's directory.
        self.batches_cleaned = 0
        self._logs: dict[str, list[WatchedLog]] = {}
        self.faults = Faults(disk, random)
        self._disk = disk
        self._random = random
        self._timeline = timeline
        self._partitions = partitions
        self._path = Path(tempfile.mkdtemp(prefix="muster-", dir=MEMORY if MEMORY.is_dir() else None))
        self._files = QuietFiles(self._path, self._wall_ms)
        self._files.fault = self.faults.of_change
        self._files.read_fault = self._look
        self._config = LogConfig(
            segment_bytes=random.choice(disk.segment_bytes), is_compacted=True, min_cleanable_ratio=0.0
        )
        self._directory: LogDirectory | None = None
        self._flusher: RealFlusher | None = None  # Of the present life of the process.
        self._cleaning: list[Cleaning] = []
        self._uncleanable: set[TopicPartition] = set()  # Before the next start, as in the daemon.

    def _wall_ms(self) -> int:
        return self._timeline.now_ms + self._timeline.wall_offset_ms

    def _look(self, operation: Operation) -> OSError | None:
        assert operation.name in LOOKS
        return self.faults.of_look(operation)

    @property
    def max_batch_bytes(self) -> int:
        """What a runner may put into one batch."""
        return min(self._config.max_batch_bytes, self._config.segment_bytes)

    def logs_of(self, topic: str) -> list[WatchedLog]:
        """Of the present life of the process, or the last."""
        return self._logs[topic]

    # Lives.

    def open(self) -> None:
        """A process starts: it takes the directory, and recovers the logs."""
        self._uncleanable.clear()
        self.faults.is_off = True  # A directory that cannot be taken keeps the daemon from starting.
        self._directory = LogDirectory.open(self._path, self._files, node_id=1)
        if self._directory.warnings:
            self.violated(f"a crash has spoilt the directory: {self._directory.warnings}")
        self.faults.is_off = False
        journal = self._directory.journal.files
        if journal.numbers:
            self.reach("journal_replayed")
        if journal.cut_bytes:
            self.reach("torn_frame_cut")
        for topic, (count, on_durable) in self._partitions.items():
            self._logs[topic] = [
                WatchedLog(
                    partition,
                    self._add_log(topic, partition),
                    self,
                    on_durable,
                )
                for partition in range(count)
            ]
            for log in self._logs[topic]:
                log.recover()

    def _add_log(self, topic: str, partition: int) -> StagedLog:
        assert self._directory is not None
        log = self._directory.add_log(topic, partition, self._config, is_replayed=True)
        assert isinstance(log, StagedLog)
        return log

    @property
    def journal(self) -> Journal:
        assert self._directory is not None
        return self._directory.journal

    def crash(self) -> None:
        """The process dies: of what it was about some may have been done; or the power fails with it."""
        random = self._random
        if self._flusher is not None:
            self._die_flushing(self._flusher)
        for cleaning in self._cleaning:
            if self._dies_in(partial(self._clean_all, cleaning)):
                self.reach("cleaning_cut_by_death")
        self._cleaning.clear()
        self._let_go()
        if random.random() < 0.75:
            self._files.crash(random if random.random() < 0.8 else None)

    def _die_flushing(self, flusher: RealFlusher) -> None:
        """The journal's threads may be in the midst of a frame, and of what is behind the one before."""
        logs = [log.log for log, _ in flusher.in_flight]
        if logs and self._dies_in(lambda: self.journal.write(logs)):
            self.reach("frame_cut_by_death")
        elif flusher.is_behind and self._dies_in(self.journal.write_behind):
            self.reach("behind_cut_by_death")
        elif self._random.random() < 0.2 and self._dies_in(lambda: self.journal.checkpoint(self._wall_ms())):
            self.reach("checkpoint_cut_by_death")

    def stop(self, before_release: Callable[[], object]) -> None:
        """The logs are closed, unless the process dies in it; the power may fail afterwards.

        Or the system writes all of it to the disk in its own time: what the next life removes and does not sync,
        a loss of power may then bring back whole.
        """
        directory = self._directory
        assert directory is not None, "a process that is there stops"
        self._cleaning.clear()
        self._close(directory, before_release)
        for logs in self._logs.values():
            for log in logs:
                if log.is_open:
                    log.note_durable()
        self._let_go()
        fate = self._random.random()
        if fate < 0.3:
            self._files.crash(self._random)
        elif fate < 0.8:
            self._files.write_back()

    def _close(self, directory: LogDirectory, before_release: Callable[[], object]) -> None:
        """Close the directory; the process may die in it, or in what is done last."""
        random = self._random
        if random.random() < 0.15:
            self._dies_in(partial(directory.close, before_release=before_release))
            return

        def last() -> None:
            if random.random() < 0.3:
                self.faults.die_after(random.randrange(6))
            before_release()

        with suppress(Died):
            if not directory.close(before_release=last):
                self.reach("stopped_cleanly")
        self.faults.live()

    def _dies_in(self, work: Callable[[], object]) -> bool:
        """Do some of what a process does, perhaps nothing, perhaps all; whether it dies amid."""
        if self._random.random() < 0.3:
            return False
        self.faults.die_after(self._random.choice(OPERATIONS_BEFORE_DEATH))
        try:
            with suppress(StorageError):  # A log that had failed before refuses.
                work()
        except Died:
            return True
        finally:
            self.faults.live()
        return False

    def _let_go(self) -> None:
        """The system closes the files of a process that is gone."""
        assert self._directory is not None
        for logs in self._logs.values():
            for log in logs:
                for segment in log.log.segments:
                    segment.close()
        self._directory._lock_file.close()
        self._directory = None

    def close(self) -> None:
        """The machine is not needed any more."""
        if self._directory is not None:
            self._let_go()
        shutil.rmtree(self._path)

    # Work on threads.

    def new_flusher(self, loop: ProcessLoop) -> RealFlusher:
        self._flusher = RealFlusher(loop, self._disk, self, self._random)
        return self._flusher

    def producer_ids(self, workers: Workers) -> ProducerIds:
        return ProducerIds(self._path, self._files, workers)

    def clean(self, loop: ProcessLoop, took_ms: int, delete_retention_ms: int) -> None:
        """Checkpoint as maintenance does; `took_ms` later every log is cleaned."""
        self.checkpoint()
        cleaning = Cleaning(delete_retention_ms)
        self._cleaning.append(cleaning)

        def end() -> None:
            self._cleaning.remove(cleaning)
            self._clean_all(cleaning)

        loop.run_at(self._timeline.now_ms + took_ms, Origin.THREAD, end)

    def checkpoint(self) -> None:
        """Write down how far the logs are synced."""
        assert self._directory is not None
        try:
            self._directory.checkpoint()
        except StorageError:
            return  # Tried again at its next time; to be behind is safe.

    def _clean_all(self, cleaning: Cleaning) -> None:
        assert self._directory is not None
        for name, log, checkpoint in self._directory.compacted_logs():
            if log.failure is None and name not in self._uncleanable:
                self._clean(name, log, checkpoint, cleaning)

    def _clean(self, name: TopicPartition, log: PartitionLog, checkpoint: int, cleaning: Cleaning) -> None:
        assert self._directory is not None
        log.config = replace(self._config, delete_retention_ms=cleaning.delete_retention_ms)
        before = self._count(log)
        try:
            part = cleanable(log, checkpoint, self._wall_ms())
            if part.dirty_bytes:
                compaction = Compaction(
                    log,
                    self._files,
                    part,
                    wall_ms=self._wall_ms(),
                    limits=CompactionLimits(BUFFER_BYTES, DAY_MS),
                    pace=lambda _: None,
                )
                self._directory.set_cleaned(name, log, compaction.run().end_offset)
        except LogChanged:
            return
        except StorageError as error:  # The log serves as it is.
            if error.errno != errno.ENOSPC or isinstance(error, StuckSwap):
                self._uncleanable.add(name)
            return
        self.batches_cleaned += before - self._count(log)

    def _count(self, log: PartitionLog) -> int:
        was_off, self.faults.is_off = self.faults.is_off, True
        count = sum(1 for _ in log.batches(log.log_start_offset))
        self.faults.is_off = was_off
        return count


class RealFlusher:
    """As `JournalThreads`: a frame is written as a whole, a drawn time after it was asked for."""

    def __init__(self, loop: ProcessLoop, disk: Disk, storage: RealStorage, random: Random) -> None:
        self._loop = loop
        self._disk = disk
        self._storage = storage
        self._random = random
        self._scheduled: list[tuple[WatchedLog, OnFlushed]] = []
        self.in_flight: list[tuple[WatchedLog, OnFlushed]] = []
        self.is_behind = False  # Whether a round of writing behind is to come.

    def schedule(self, log: WatchedLog, done: OnFlushed) -> None:
        self._scheduled.append((log, done))
        if len(self._scheduled) == 1 and not self.in_flight:
            self._loop.run_at(self._loop.timeline.now_ms, Origin.THREAD, self._begin)

    def _begin(self) -> None:
        if self.in_flight or not self._scheduled:
            return
        frame = self.in_flight = self._scheduled
        self._scheduled = []
        self._loop.run_at(
            self._disk.flush_ends_ms(self._loop.timeline), Origin.THREAD, lambda: self._end(frame)
        )

    def _end(self, frame: list[tuple[WatchedLog, OnFlushed]]) -> None:
        if frame is not self.in_flight:
            return  # The stop did not wait for its time.
        failed = self._storage.journal.write([log.log for log, _ in frame])
        for log, _ in frame:
            log.framed(failed.get(log.log))
        self.in_flight = []
        if not self.is_behind:
            self.is_behind = True
            self._after(20, self._write_behind)
        for log, done in frame:
            done(failed.get(log.log))
        self._begin()

    def _after(self, most_ms: int, action: Callable[[], None]) -> None:
        at_ms = self._loop.timeline.now_ms + self._random.randint(1, most_ms)
        self._loop.run_at(at_ms, Origin.THREAD, action)

    def _write_behind(self) -> None:
        self.is_behind = False
        self._report(self._storage.journal.write_behind())
        if self._random.random() < 0.02:
            self._checkpoint()

    def _checkpoint(self) -> None:
        try:
            self._report(self._storage.journal.checkpoint(0))
        except StorageError:
            return  # The journal stays as it is; tried again at its next time.
        self._storage.checkpoint()

    def _report(self, outcomes: Outcomes) -> None:
        for log, error in outcomes:
            if error is not None:
                self._storage.reach("behind_failed")
            log.on_written(error)

    def close(self) -> None:
        """End the frame that is under way, and those that follow."""
        self._begin()
        while self.in_flight:
            self._end(self.in_flight)


class RealDisk(Disk):
    """A disk with files on it."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.segment_bytes: tuple[int, ...] = (
            SEGMENT_BYTES  # One of these for a history; no batch is larger than that.
        )
        self._reads_to_fail = 0

    def new_storage(
        self, random: Random, timeline: Timeline, partitions: Partitions, witness: Witness
    ) -> RealStorage:
        return RealStorage(self, random, timeline, partitions, witness)

    def fail_soon(self) -> None:
        """Some of the next operations: reads, of which there are few but at a start, or writes and syncs."""
        if self._random.random() < 0.3:
            self._reads_to_fail += 1
        else:
            self.failures_to_come += self._random.choice((1, 1, 4))

    def takes_failure(self) -> bool:
        """Whether the operation at hand is to fail."""
        if self.is_sound or not self.failures_to_come:
            return False
        self.failures_to_come -= 1
        return True

    def takes_read_failure(self) -> bool:
        if self.is_sound or not self._reads_to_fail:
            return False
        self._reads_to_fail -= 1
        return True
