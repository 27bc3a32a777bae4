"""One partition's log: batches are appended on the event loop, flushed by a thread, read by any thread.

`append` gives a batch its offsets and stages it in memory, without a system call. `flush` runs on a flusher
thread: it writes all that is staged, one write per segment, rolls segments, syncs as the policy asks, and
moves `durable_offset`; nothing beyond that is ever read. The first flush makes the directory and the first
segment, so a partition that holds nothing costs nothing.

Who owns what:
- the event loop: `next_offset`, `config`, and the right end of the staged batches;
- the holder of the disk lock, on any thread (`flush`, `apply_retention`, `truncate_to`, `fail_back`, ...):
  everything in `LogWriter`, and the left end of the staged batches;
- readers hold nothing: the segments are a tuple that is replaced, never changed, a segment shows only what
  is durable, and a deleted one stays readable until its last reader is done.

A failed flush fails the log: appends and flushes are refused until `fail_back` has cut the files back to
`durable_offset` and dropped what was staged. Nothing that failed is tried again as if it had not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from protocol.records.batch import parse_header, set_base_offset
from storage.files import Buffer, Files, StorageError
from storage.log.config import LogConfig
from storage.log.lifecycle import LifeTrigger, LogLife
from storage.log.log_producers import LogProducers
from storage.log.log_reader import LogReader, OffsetOutOfRange
from storage.log.opening import FIRST_EPOCHS, UNKNOWN, Opening, topic_id_of
from storage.log.partition_files import LeaderEpochs, read_leader_epochs
from storage.log.recovery import Recovered, Recovery
from storage.log.retention import count_below, count_expired
from storage.log.sealed_segments import PartitionSeals, Sizes
from storage.log.segment import Segment, StagedBatch
from storage.log.shard_snapshot import take_snapshot, write_snapshot
from storage.log.writer import LogWriter
from storage.producers.producer_snapshot import drop_snapshots_beyond
from storage.producers.producer_state import ProducerState


class BatchTooLarge(ValueError):
    """A batch beyond `max.message.bytes`, or larger than a segment: refused, nothing was staged."""


class Appended(NamedTuple):
    """The first and the last offset that an appended batch was given."""

    base_offset: int
    last_offset: int


class PartitionLog(LogReader):
    """The log of one partition. `recover` opens it, `open` makes and opens it; before that all else is refused.


    Methods say on which thread they run; those that block may raise StorageError.
    """

    is_written_behind = False
    """Whether records count before they are in the segments: see `StagedLog`."""

    def __init__(self, directory: Path, config: LogConfig, files: Files, opening: Opening = UNKNOWN) -> None:
        super().__init__(directory, LogWriter(directory, config, files))
        self.recovered = Recovered()  # What opening found and did.
        self.topic_id: bytes | None = None
        self.leader_epochs: LeaderEpochs = FIRST_EPOCHS
        self._files = files
        self._opening = opening
        self._seals = opening.seals or PartitionSeals.of_no_directory()
        self._staged: deque[StagedBatch] = deque()
        self.producers = LogProducers(self, files, self._disk)

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        files: Files,
        *,
        recovery_point: int | None = None,
        shut_down_cleanly: bool = False,
        log_start_offset: int = 0,
        topic_id: bytes | None = None,
        is_replayed: bool = False,
    ) -> PartitionLog:
        """Make and `recover` the log in `directory`, which need not exist."""
        opening = Opening(recovery_point, shut_down_cleanly, log_start_offset, topic_id, is_replayed)
        log = cls(directory, config, files, opening)
        log.recover()
        return log

    def recover(self) -> None:
        """Check and repair the files (see `recovery`), and open the log. Blocks.

        Raises CorruptSegment where synced bytes no longer check: the segments are then as they were. May be
        called again; until it succeeds, all other methods raise its error.
        """
        with self._disk:
            if not self.is_open:
                self.life.run_or_fail(self._recover)
                self.life.move(LifeTrigger.OPENED)

    def _recover(self) -> None:
        files, directory = self._files, self.directory
        recovery_point, is_clean, log_start_offset, topic_id, is_replayed, _ = self._opening
        self.leader_epochs = read_leader_epochs(files, directory) or FIRST_EPOCHS
        self.topic_id = topic_id_of(files, directory, topic_id)
        self._seals.check(files, directory, log_start_offset)
        recovery = Recovery(files, directory, self.config, recovery_point or 0, is_clean, is_replayed)
        self.recovered = recovery.run()
        segments, writer = self.recovered.segments, self._writer
        self._seals.keep_only(segments[:-1])
        writer.segments = tuple(segments)
        writer.durable_offset = segments[-1].next_offset if segments else 0
        self.log_start_offset = max(log_start_offset, segments[0].base_offset if segments else 0)
        if self.log_start_offset > self.written_offset:  # DeleteRecords has deleted all records there were.
            with self._seals.change(segments):
                writer.drop_first(len(segments))
            writer.durable_offset = self.log_start_offset
        self.next_offset = writer.recovery_point = self.written_offset
        drop_snapshots_beyond(files, directory, self.written_offset)
        if not self.segments:
            self.producers.state = ProducerState()

    @property
    def failure(self) -> StorageError | None:
        """The error for which appends, flushes and changes are refused; None if they are not."""
        return self.life.failure

    @property
    def is_open(self) -> bool:
        """Whether it was opened, so that it can be read."""
        return self.life.state is not LogLife.UNOPENED

    @property
    def config(self) -> LogConfig:
        """The log's options; may be replaced while the log is in use, and count from the next flush on."""
        return self._writer.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._writer.config = config

    @property
    def recovery_point(self) -> int:
        """The offset below which everything was synced: damage there is corruption."""
        return self._writer.recovery_point

    @property
    def leader_epoch(self) -> int:
        """The epoch that batches are stamped with."""
        return self.leader_epochs[-1][0]

    def sealed_sizes(self) -> Sizes:
        """Return the sizes of the sealed segments below the recovery point, but for those being changed."""
        below_point = [each for each in self.segments[:-1] if each.next_offset <= self.recovery_point]
        return self._seals.unchanging_sizes(below_point)

    # The event loop.

    def append(self, batch: bytearray | memoryview, *, wall_ms: int) -> Appended:
        """Give one whole, checked batch its offsets, written into it, and stage it for the next flush.

        The log keeps `batch`: the caller may not use it again. Raises BatchTooLarge; StorageError while the log
        has failed.
        """
        self.life.refuse_if_failed()
        header = parse_header(batch)
        assert header.size_bytes == len(batch), "exactly one batch"
        config = self._writer.config
        if header.size_bytes > config.max_batch_bytes or header.size_bytes > config.segment_bytes:
            raise BatchTooLarge(f"{self.directory.name}: batch of {len(batch)} bytes")
        base_offset = self.next_offset
        last_offset = base_offset + header.last_offset_delta
        set_base_offset(batch, base_offset, self.leader_epoch)
        state, newest_ms = self.producers.state, header.max_timestamp_ms
        aborted = None if state is None else state.appended(header, batch, base_offset, wall_ms)
        self._staged.append(StagedBatch(batch, base_offset, last_offset, newest_ms, wall_ms, aborted))
        self.producers.appended(len(batch))
        self.next_offset = last_offset + 1
        return Appended(base_offset, last_offset)

    # Threads that may wait: each of these takes the disk lock.

    def flush(self) -> None:
        """Write all that was staged before the call, durable as the policy says. Raises StorageError."""
        with self._disk:
            self.life.refuse_if_failed()
            self.life.run_or_fail(self._write_staged)

    def _write_staged(self) -> None:
        staged = [self._staged.popleft() for _ in range(len(self._staged))]
        if staged and not self._writer.segments:
            self._writer.make_directory(self.topic_id, self.leader_epochs)
        self._writer.write(staged)

    def sync(self, wall_ms: int) -> None:
        """Sync what was written, if the last sync is `flush.ms` ago; a log that has failed is left as it is."""
        with self._disk:
            if self.failure is None and self._writer.must_sync(wall_ms):
                self.life.run_or_fail(lambda: self._writer.sync(wall_ms))

    def catch_up(self) -> None:
        """Bring to the segments what counts, or may count soon, as far as that can be done now. Blocks."""
        self.flush()

    def add_behind(self, state: ProducerState, wall_ms: int) -> None:
        """Add the producers of what counts and is in no segment to `state`: there is nothing of the kind here."""

    def make_directory(self) -> None:
        """Make the log's directory now, as an empty topic's must be found again at the next start."""
        with self._disk:
            self.life.refuse_if_failed()
            self.life.run_or_fail(lambda: self._writer.make_directory(self.topic_id, self.leader_epochs))
            self.life.run_or_fail(self._writer.seal)

    def roll(self, wall_ms: int) -> None:
        """Seal the active segment, if it holds anything, and begin a new one."""
        with self._disk:
            self.life.refuse_if_failed()
            if self.segments and self.segments[-1].size_bytes:
                self.life.run_or_fail(lambda: self._writer.roll(wall_ms))

    def apply_retention(self, wall_ms: int, *, only_below_start: bool = False) -> int:
        """Delete segments beyond `retention.ms` or `retention.bytes`, or below the log's start; return how many.

        The active segment goes only when all of it has expired: a new one is begun first, as Kafka does.
        """
        with self._disk:
            self.life.refuse_if_failed()
            count = count_below(self.segments, self.log_start_offset)
            if not only_below_start:
                count = max(count, count_expired(self.segments, self.config, wall_ms))
            if count:
                with self._seals.change(self.segments[:count]):
                    self.life.run_or_fail(lambda: self._drop_first(count, wall_ms))
            return count

    def _drop_first(self, count: int, wall_ms: int) -> None:
        if count == len(self.segments):
            self._writer.roll(wall_ms)
        self.log_start_offset = max(self.log_start_offset, self.segments[count].base_offset)
        self._writer.drop_first(count)

    def advance_start(self, offset: int) -> None:
        """Move the log's start up to `offset`, as DeleteRecords does: the records below are no longer read.

        The log directory's checkpoint makes this durable. Raises OffsetOutOfRange beyond the durable offset.
        """
        self.check_start(offset)
        self.log_start_offset = max(self.log_start_offset, offset)

    def check_start(self, offset: int) -> None:
        """Raises OffsetOutOfRange where the log cannot begin at `offset`, beyond what is durable."""
        self.life.refuse_unless_opened()
        if not 0 <= offset <= self.written_offset:
            raise OffsetOutOfRange(f"{self.directory.name}: {offset}")

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that reaches `offset`, and all that is staged; nothing may be appended meanwhile.

        The recovery point on the disk must not lie beyond `offset`: see `LogDirectory.truncate`. Raises
        OffsetOutOfRange outside the log.
        """
        with self._disk:
            self.life.refuse_if_failed()
            if not self.log_start_offset <= offset <= self.durable_offset:
                raise OffsetOutOfRange(f"{self.directory.name}: {offset}")
            with self._seals.change(self.segments_from(offset - 1)):  # The first becomes the active one.
                self._staged.clear()
                self.producers.state = None  # To be read again.
                self.life.run_or_fail(lambda: drop_snapshots_beyond(self._files, self.directory, offset))
                self.life.run_or_fail(lambda: self._writer.truncate_to(offset))
                self.next_offset = self.durable_offset

    def replace(self, old: Sequence[Segment], new: Segment) -> bool:
        """Replace the segments `old` by the finished draft made of them; readers that hold `old` go on with it.

        Returns False, and changes nothing, if the log has failed or no longer has these segments. A disk
        error does not fail the log: it serves as before. Raises StorageError; StuckSwap after which the draft
        counts, but the next opening has to finish the work on the files.
        """
        for segment in old:
            segment.load()  # Before the lock is held: it may have to read.
        with self._seals.change(old):
            with self._disk:
                first = old[0].base_offset
                sealed = [segment for segment in self.segments[:-1] if segment.base_offset >= first]
                if self.failure is not None or sealed[: len(old)] != list(old):
                    return False
                self._writer.replace(old, new)
            new.indexes.sync()
            self._writer.sync_directory()
            return True

    def fail_back(self) -> None:
        """After a failure: cut the files to the durable offset, drop what is staged, and take appends again.

        A log that could not be opened is opened. Raises StorageError if the disk still fails; the log then
        stays failed.
        """
        if not self.is_open:
            self.recover()
            return
        with self._disk:
            self.life.refuse_if_abandoned()
            self._staged.clear()
            self.producers.state = None  # It counts what was staged.
            self.next_offset = self.durable_offset
            self._writer.cut_back()
            self.life.move(LifeTrigger.CUT_BACK)

    def close(self) -> None:
        """Flush, sync under either policy, and let go of the files. A failed log is left as it is."""
        with self._disk:
            if self.failure is None:
                self.life.run_or_fail(self._write_staged)
                self.life.run_or_fail(self._writer.seal)
                self.life.run_or_fail(self.producers.close)
            for segment in self.segments:
                segment.close()

    def write_shard_snapshot(self, version: int, parts: Sequence[Buffer]) -> None:
        """Leave the owner's state beside the closed log, for the next start; see `shard_snapshot`. Blocks."""
        self.life.refuse_if_failed()
        try:
            write_snapshot(self._files, self, self.topic_id, version, parts)
        finally:
            for segment in self.segments:
                segment.close()

    def take_shard_snapshot(self, version: int) -> memoryview | None:
        """Remove the snapshot that the last stop left, and return the owner's state; None without one. Blocks.

        Raises UnusableSnapshot, StorageError.
        """
        self.life.refuse_unless_opened()
        return take_snapshot(self._files, self, self.topic_id, version)

    def abandon(self) -> None:
        """Drop what is staged and refuse everything from now on: the directory is about to be deleted."""
        with self._disk:
            self._staged.clear()
            self.life.move(LifeTrigger.ABANDONED)
            for segment in self.segments:
                segment.close()
