"""The producers of one log, on the disk and in memory: read at a start, snapshot now and then, asked by readers.

`state` is None until it is known: the owner of the log has it `read` on a thread, and appends nothing that has a
producer until that is done. It is then changed by each append, on the event loop. What is read is the newest
snapshot and the batches behind it; where none is sound, all batches. On that way the transaction indexes
are put right as well: below the snapshot's offset they were synced before it was written, what they hold of
later offsets does not count and is built again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import ref

from protocol.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, NO_PRODUCER_ID, CorruptBatch, parse_header
from storage.files import CorruptSegment, Files, StorageError
from storage.index.indexes import CorruptIndex
from storage.log.batch_walk import WINDOW_BYTES, Window, walk_headers
from storage.log.segment import Segment
from storage.log.segment_read import WrongIndex, first_position
from storage.producers.producer_snapshot import (
    CorruptSnapshot,
    Entries,
    decode_snapshot,
    snapshot_offsets,
    snapshot_path,
    taken,
    write_snapshot,
)
from storage.producers.producer_state import ProducerState
from storage.producers.transaction_index import AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from storage.log.partition_log import PartitionLog

LENGTH_AND_PRODUCER: Final = Struct(">8xi31xq")
LOOK_BACK_OFFSETS: Final = 2000
"""A snapshot has only the last batch of each producer, so a batch that is sent again may look like a gap: of so
many offsets before it the headers are read again, which finds the rest of what was in flight."""

SNAPSHOT_BYTES: Final = 64 << 20
"""Bytes that are appended between two snapshots, about: after a crash no more than that is read again."""


class ProducerSnapshot(NamedTuple):
    """What a log's producers had appended below `offset`."""

    offset: int
    entries: Entries


@dataclass(slots=True)
class ReadProducers:
    """What was read, and what an operator wants to know about it."""

    state: ProducerState
    snapshot_offset: int | None = None
    scanned_bytes: int = 0
    damaged: list[tuple[Path, str]] = field(default_factory=list)  # Files that were left out, and why.


class LogProducers:
    """The producers of one `PartitionLog`, whose disk lock is `disk`."""

    def __init__(self, log: PartitionLog, files: Files, disk: Lock) -> None:
        self.state: ProducerState | None = None
        self._owner = ref(log)  # It holds us: both would wait for a collection once it is deleted.
        self._files = files
        self._disk = disk
        self._bytes_since_snapshot = 0
        self._snapshot_offset: int | None = None  # The offset of the newest one on the disk.

    @property
    def _log(self) -> PartitionLog:
        log = self._owner()
        assert log is not None, "a log outlives the use of its producers"
        return log

    # The event loop.

    def appended(self, size_bytes: int) -> None:
        self._bytes_since_snapshot += size_bytes

    def settle(self) -> bool:
        """The durable offset has moved. Whether the last stable offset may have moved for another reason."""
        return self.state is not None and self.state.settle(self._log.durable_offset)

    def take_snapshot(self, min_bytes: int | None = None) -> ProducerSnapshot | None:
        """A snapshot of all that was appended, if that were `min_bytes` (SNAPSHOT_BYTES) since the last one."""
        due_bytes = SNAPSHOT_BYTES if min_bytes is None else min_bytes
        if self.state is None or self._bytes_since_snapshot < due_bytes:
            return None
        self._bytes_since_snapshot = 0
        return ProducerSnapshot(self._log.next_offset, taken(self.state))

    # Any thread.

    @property
    def last_stable_offset(self) -> int | None:
        """The end of what is decided; None while the producers are not known."""
        durable_offset = self._log.durable_offset  # First: what is durable by now has been counted by now.
        state = self.state
        if state is None:
            return None
        unstable = state.first_unstable_offset
        if unstable is None:
            return durable_offset
        return max(min(durable_offset, unstable), self._log.log_start_offset)

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that have records among [start, end), in the order of their markers."""
        found: list[AbortedTransaction] = []
        for segment in self._log.segments_from(start_offset):
            if segment.transactions.collect(start_offset, end_offset, found):
                break
        return found

    # Threads that may wait.

    def write(self, snapshot: ProducerSnapshot) -> None:
        """Make all durable that `snapshot` covers, and then itself. Raises StorageError."""
        if snapshot.offset > self._log.durable_offset:
            self._log.flush()
        with self._disk:
            if self._log.failure is None and snapshot.offset <= self._log.durable_offset:
                self._write(snapshot)

    def close(self) -> None:
        """At a clean stop, all is durable: leave a snapshot, so that the next start reads nothing else.

        The log's disk lock is held.
        """
        offset = self._log.durable_offset
        if self.state is None or not self._log.segments or self._snapshot_offset == offset:
            return
        try:
            self._write(ProducerSnapshot(offset, taken(self.state)))
        except StorageError as error:
            if not error.is_no_room:  # Then the next start has more to read, and that is all.
                raise

    def _write(self, snapshot: ProducerSnapshot) -> None:
        for segment in self._log.segments:
            segment.transactions.sync()
        self._files.sync_directory(self._log.directory)
        write_snapshot(self._files, self._log.directory, snapshot.offset, snapshot.entries)
        self._snapshot_offset = snapshot.offset

    def read(self, wall_ms: int) -> ReadProducers:
        """Read the state, which the caller then puts in place. Blocks. Raises StorageError, CorruptSegment.

        Nothing with a producer may be appended meanwhile, or be staged.
        """
        segments, end = self._log.segments, self._log.durable_offset
        indexes, found = self._load_indexes(segments)
        start = self._find_snapshot(found, end, wall_ms) if not found.damaged else None
        if start is not None:
            self._look_back(found.state, segments, start)
        for segment in segments:
            indexes[segment].forget_from(segment.next_offset)
            if start is not None and segment.next_offset <= start:
                continue
            indexes[segment].forget_from(segment.base_offset if start is None else start)
            position = self._position(segment, start)
            found.scanned_bytes += segment.size_bytes - position
            scan(segment, position, found.state, indexes[segment], wall_ms)
        found.state.settle(end)
        self._install(indexes)
        self._snapshot_offset = start
        self._bytes_since_snapshot += found.scanned_bytes
        return found

    def _load_indexes(
        self, segments: tuple[Segment, ...]
    ) -> tuple[dict[Segment, TransactionIndex], ReadProducers]:
        indexes: dict[Segment, TransactionIndex] = {}
        found = ReadProducers(ProducerState())
        for segment in segments:
            index = TransactionIndex(self._files, self._log.directory, segment.base_offset)
            try:
                index.load()
            except CorruptIndex as error:
                found.damaged.append((index.path, str(error)))
            indexes[segment] = index
        return indexes, found

    def _find_snapshot(self, found: ReadProducers, end: int, wall_ms: int) -> int | None:
        """The newest sound snapshot within the log goes into `found`; its offset."""
        files, directory = self._files, self._log.directory
        for offset in snapshot_offsets(files.entries(directory) or ()):
            path = snapshot_path(directory, offset)
            if not self._log.log_start_offset <= offset <= end:
                continue  # What it says of the records between has been deleted with them.
            try:
                found.state = decode_snapshot(files.read_small(path) or b"", wall_ms)
            except CorruptSnapshot as error:
                found.damaged.append((path, str(error)))
                files.unlink(path)
                continue
            found.snapshot_offset = offset
            return offset
        return None

    def _look_back(self, state: ProducerState, segments: tuple[Segment, ...], start: int) -> None:
        for segment in [each for each in segments if each.base_offset < start][-1:]:
            position = self._position(segment, start - LOOK_BACK_OFFSETS)
            for batch in walk_headers(segment.path, segment.file.read_at, position, segment.size_bytes):
                if batch.base_offset >= start:
                    return
                state.recall(batch)

    def _position(self, segment: Segment, start: int | None) -> int:
        """Where in `segment` to begin with the batch that has `start`, or the first one."""
        if start is None or start <= segment.base_offset:
            return 0
        while True:
            try:
                return first_position(segment, start)
            except WrongIndex:
                with self._disk:
                    segment.build_indexes()

    def _install(self, indexes: dict[Segment, TransactionIndex]) -> None:
        """Let readers have the indexes, but for those of segments that were cleaned meanwhile."""
        with self._disk:
            for segment in self._log.segments:
                if segment in indexes:
                    indexes[segment].truncate_file()
                    segment.transactions = indexes[segment]


def scan(
    segment: Segment, position: int, state: ProducerState, index: TransactionIndex, wall_ms: int
) -> None:
    """Take all batches of `segment` from byte `position` on into `state`, and what they take back into `index`."""
    end = segment.size_bytes
    window = Window(segment.file.read_at, end, WINDOW_BYTES)
    while position < end:
        view = window.view(position, BATCH_OVERHEAD)
        if len(view) < BATCH_OVERHEAD:
            raise CorruptSegment(segment.path, position, f"{len(view)} bytes are no batch")
        length, producer_id = LENGTH_AND_PRODUCER.unpack_from(view)
        size_bytes = LOG_OVERHEAD + length
        if size_bytes < BATCH_OVERHEAD:
            raise CorruptSegment(segment.path, position, f"batch of {size_bytes} bytes")
        if producer_id != NO_PRODUCER_ID:
            data = window.view(position, size_bytes)[:size_bytes]
            try:
                batch = parse_header(data)
                aborted = state.appended(batch, data, batch.base_offset, wall_ms)
            except CorruptBatch as error:
                raise CorruptSegment(segment.path, position, str(error)) from error
            if aborted is not None:
                index.add(aborted)
        position += size_bytes
