"""The log of a shard: batches count once they are in the journal, and are written to the segments behind it.

Between `append` and the segments a batch passes two queues. `staged` holds what is in no journal yet: the
journal's thread takes it with `take_staged`, and reports `journaled` or `frame_failed`. `behind` holds what counts
(`durable_offset`) and is in no segment yet: `write_behind` writes it, a few milliseconds later. Readers are shown
the segments (`written_offset`), a load all that counts; one that waits for more says so (`await_written`), since
without it there is no hurry.

A log that is opened inherits what the journal has of it: batches that the segments have already are passed
over, the first of the others has to continue the log. What cannot be written for want of room stays behind
the log, which is open and has failed: it can be loaded, and takes nothing until `fail_back` finds room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Lock

from protocol.records.batch import Batch, parse_header
from storage.files import CorruptSegment, Files, StorageError
from storage.log.batch_walk import WINDOW_BYTES
from storage.log.config import LogConfig
from storage.log.file_range import FileRange
from storage.log.lifecycle import LifeTrigger
from storage.log.opening import UNKNOWN, Opening
from storage.log.partition_log import PartitionLog
from storage.log.segment import StagedBatch
from storage.producers.producer_state import ProducerState


class StagedLog(PartitionLog):
    """A `PartitionLog` that is written behind a journal. What `PartitionLog` says of threads holds here, too."""

    is_written_behind = True

    def __init__(self, directory: Path, config: LogConfig, files: Files, opening: Opening = UNKNOWN) -> None:
        super().__init__(directory, config, files, opening)
        self.journal_lock = Lock()  # Held while a frame is written; the journal puts its own here.
        self.cut_back_journal: Callable[[], None] = _nothing  # The same.
        # The same: has what is behind written soon; on any thread.
        self.want_written: Callable[[], None] = _nothing
        self.waiting_readers = 0  # Of the event loop; those that wait for what the next frames bring.
        self.on_written: Callable[[StorageError | None], None] = _ignore  # On the event loop, by the journal.
        self._behind: deque[StagedBatch] = deque()
        self._journaled_offset = 0
        self._inherited: list[memoryview] = []
        self._written_bytes = 0

    @property
    def durable_offset(self) -> int:
        return self._journaled_offset

    @property
    def has_behind(self) -> bool:
        """Whether something counts that is in no segment yet, or would if the log could be opened."""
        return bool(self._behind or self._inherited)

    @property
    def is_synced(self) -> bool:
        """Whether all that is in the segments is on the disk; so it is with a log that was not opened."""
        return not self.is_open or self.recovery_point >= self.written_offset

    def take_written_bytes(self) -> int:
        """Return how many bytes became readable since the last call."""
        written, self._written_bytes = self._written_bytes, 0
        return written

    # The start.

    def inherit(self, batches: Iterable[memoryview]) -> None:
        """Take batches that the journal has of this log, in order, before it is opened."""
        assert not self.is_open, "a log inherits before it is opened"
        self._inherited += batches

    def _recover(self) -> None:
        self._behind.clear()
        super()._recover()
        self._journaled_offset = self.written_offset
        inherited = self._inherited
        self._take_inherited(inherited)
        self._inherited = []
        self.next_offset = self._journaled_offset
        if self._behind:
            self.producers.state = None  # Of a log without segments it was taken for empty.

    def _take_inherited(self, batches: list[memoryview]) -> None:
        """Put what is missing in the segments behind the log. Raises CorruptSegment where a batch is missing."""
        for data in batches:
            header = parse_header(data)
            if header.last_offset < self._journaled_offset:
                continue  # It had been written before the crash.
            if header.base_offset != self._journaled_offset:
                end = self._journaled_offset
                detail = f"the journal goes on with {header.base_offset}, the log ends before {end}"
                raise CorruptSegment(self.directory, 0, detail)
            self._behind.append(_staged(data, header, header.max_timestamp_ms))
            self._journaled_offset = header.last_offset + 1

    def recover(self) -> None:
        super().recover()
        if self.failure is None:
            self._write_if_there_is_room()

    def _write_if_there_is_room(self) -> None:
        try:
            self.write_behind()
        except StorageError as error:
            if not error.is_no_room:
                raise

    # The journal's thread.

    def take_staged(self) -> list[StagedBatch]:
        """Take all that is staged, for one frame; the caller holds `journal_lock`. Raises StorageError."""
        self.life.refuse_if_failed()
        staged = self._staged
        return [staged.popleft() for _ in range(len(staged))]

    def journaled(self, batches: list[StagedBatch]) -> None:
        """Count `batches`, which are in the journal now."""
        self._behind += batches
        self._journaled_offset = batches[-1].last_offset + 1

    def frame_failed(self, error: StorageError) -> None:
        """Fail the log: what `take_staged` gave away is in no journal."""
        with self._disk:
            if self.failure is None:
                self.life.move(LifeTrigger.FAILED, error)

    # Writing behind.

    def write_behind(self) -> bool:
        """Write to the segments what the journal has. Raises StorageError.

        Returns whether there is something that `take_written_bytes` has not returned yet.
        """
        with self._disk:
            self.life.refuse_if_failed()
            if self._behind:
                self.life.run_or_fail(self._write_staged)
            return self._written_bytes > 0

    def _write_staged(self) -> None:
        """Write what is behind the log. It leaves the queue when it is in the segments, not before."""
        behind = self._behind
        batches = [behind[index] for index in range(len(behind))]
        if batches and not self._writer.segments:
            self._writer.make_directory(self.topic_id, self.leader_epochs)
        try:
            self._writer.write(batches)
        finally:
            written = self.written_offset
            while behind and behind[0].last_offset < written:
                self._written_bytes += len(behind.popleft().data)

    def catch_up(self) -> None:
        self.write_behind()

    def flush(self) -> None:
        """Write what is staged to the segments and sync it, past the journal: for what fills a directory alone."""
        with self.journal_lock:
            staged = self.take_staged()
            with self._disk:
                self._behind += staged
                self.life.run_or_fail(self._write_staged)
                if self.recovery_point < self.written_offset:
                    self.life.run_or_fail(self._writer.seal)
                self._journaled_offset = self.written_offset

    def sync_written(self, wall_ms: int) -> None:
        """Sync what is in the segments. Raises StorageError."""
        with self._disk:
            self.life.refuse_if_failed()
            if self.recovery_point < self.written_offset:
                self.life.run_or_fail(lambda: self._writer.sync(wall_ms))

    def stuck(self) -> list[StagedBatch] | None:
        """Return what counts and is in no segment; None unless the log has failed and its segments are synced.

        Of a log that cannot be opened it is all that it inherited.
        """
        with self._disk:
            if self.failure is None or not self.is_synced:
                return None
            if self.is_open:
                return list(self._behind)
            return [_staged(data, parse_header(data), 0) for data in self._inherited]

    # Readers.

    def await_written(self) -> None:
        self.waiting_readers += 1
        if self._behind:
            self.want_written()

    def end_wait(self) -> None:
        self.waiting_readers -= 1

    def _find(
        self, offset: int, max_bytes: int, at_least_one: bool, up_to: int | None, wait: bool
    ) -> FileRange | None:
        found = super()._find(offset, max_bytes, at_least_one, up_to, wait)
        if found is None and self._behind:
            self.want_written()  # For the next time that it asks.
        return found

    # Loads.

    def batches(
        self, start_offset: int, window_bytes: int = WINDOW_BYTES
    ) -> Iterator[tuple[Batch, memoryview]]:
        """Yield every batch that counts, be it in a segment or behind the log. See `LogReader.batches`."""
        with self._disk:
            behind, written = list(self._behind), self.written_offset
        for batch, data in super().batches(start_offset, window_bytes):
            if batch.base_offset >= written:
                break  # Written while this was read: it comes from the queue.
            yield batch, data
        for staged in behind:
            if staged.last_offset >= start_offset:
                view = memoryview(staged.data)
                yield parse_header(view), view

    def add_behind(self, state: ProducerState, wall_ms: int) -> None:
        """Add the producers of what is behind the log to `state`, which counts the segments."""
        with self._disk:
            for index in range(len(self._behind)):  # A frame may add to its end meanwhile.
                batch = self._behind[index]
                header = parse_header(batch.data)
                aborted = state.appended(header, batch.data, batch.base_offset, wall_ms)
                self._behind[index] = batch._replace(aborted=aborted)

    # After a failure, and the end.

    def fail_back(self) -> None:
        """Drop what is staged, cut the segments back, and write what is behind. Raises StorageError."""
        if not self.is_open:
            self.recover()
            return
        with self.journal_lock, self._disk:
            self.life.refuse_if_abandoned()
            self._staged.clear()
            self.producers.state = None  # It counts what was staged.
            self.next_offset = self._journaled_offset
            self.cut_back_journal()  # A frame that failed may be whole, and is not to come back after a crash.
            self._writer.cut_back()
            self.life.move(LifeTrigger.CUT_BACK)
        self.write_behind()

    def close(self) -> None:
        """As `PartitionLog.close`; what is in no journal was never appended."""
        with self.journal_lock:
            if self._staged:
                self._staged.clear()
                self.producers.state = None  # It counts what was staged.
        super().close()

    def truncate_to(self, offset: int) -> None:
        raise AssertionError(f"the log of a shard is never truncated: {self.directory.name} to {offset}")


def _staged(data: memoryview, header: Batch, wall_ms: int) -> StagedBatch:
    return StagedBatch(data, header.base_offset, header.last_offset, header.max_timestamp_ms, wall_ms)


def _nothing() -> None:
    """A log on its own has no journal."""


def _ignore(error: StorageError | None) -> None:
    """Until the log is in use nothing waits for this."""
