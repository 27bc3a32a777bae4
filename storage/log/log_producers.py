"""The producers of one log, on the disk and in memory: read at a start, written to snapshots now and then.

`state` is None until it is known: the owner of the log calls `read` on a thread, and appends no batch that has a
producer until that is done. Then each append changes the state, on the event loop. `read` takes the newest
sound snapshot and the batches after it, or all batches where no snapshot is sound. It corrects the transaction
indexes as well: below the snapshot's offset they were synced before the snapshot was written; their entries of
later offsets do not count and are built again.
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
    snapshot_entries,
    snapshot_offsets,
    snapshot_path,
    write_snapshot,
)
from storage.producers.producer_state import ProducerState
from storage.producers.transaction_index import AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from storage.log.partition_log import PartitionLog

LENGTH_AND_PRODUCER: Final = Struct(">8xi31xq")
LOOK_BACK_OFFSETS: Final = 2000
"""Offsets before a snapshot whose batch headers are read again. A snapshot has only the last batch of each
producer: without the other batches that were in flight, one that is sent again would look like a gap."""

SNAPSHOT_BYTES: Final = 64 << 20
"""About how many bytes are appended between two snapshots: after a crash no more than that is read again."""


class ProducerSnapshot(NamedTuple):
    """What a log's producers had appended below `offset`."""

    offset: int
    entries: Entries


@dataclass(slots=True)
class ReadProducers:
    """The producers that were read from the disk, and what an operator wants to know about the reading."""

    state: ProducerState
    snapshot_offset: int | None = None
    scanned_bytes: int = 0
    damaged: list[tuple[Path, str]] = field(default_factory=list)  # Files that were left out, and why.


class LogProducers:
    """The producers of one `PartitionLog`, whose disk lock is `disk`."""

    def __init__(self, log: PartitionLog, files: Files, disk: Lock) -> None:
        self.state: ProducerState | None = None
        self._owner = ref(log)  # Weak: a cycle would keep a deleted log until a garbage collection.
        self._files = files
        self._disk = disk
        self._bytes_since_snapshot = 0
        self._snapshot_offset: int | None = None  # The offset of the newest snapshot on the disk.

    @property
    def _log(self) -> PartitionLog:
        log = self._owner()
        assert log is not None, "a log outlives the use of its producers"
        return log

    # The event loop.

    def appended(self, size_bytes: int) -> None:
        self._bytes_since_snapshot += size_bytes

    def settle(self) -> bool:
        """Note a new durable offset; return whether markers became durable, which moves the last stable offset."""
        return self.state is not None and self.state.settle(self._log.durable_offset)

    def take_snapshot(self, min_bytes: int | None = None) -> ProducerSnapshot | None:
        """Return a snapshot if `min_bytes` (SNAPSHOT_BYTES) were appended since the last one; else None."""
        due_bytes = SNAPSHOT_BYTES if min_bytes is None else min_bytes
        if self.state is None or self._bytes_since_snapshot < due_bytes:
            return None
        self._bytes_since_snapshot = 0
        return ProducerSnapshot(self._log.next_offset, snapshot_entries(self.state))

    # Any thread.

    @property
    def last_stable_offset(self) -> int | None:
        """The offset below which every transaction is decided; None while the producers are not known."""
        durable_offset = self._log.durable_offset  # First: what is durable by now has been counted by now.
        state = self.state
        if state is None:
            return None
        unstable = state.first_unstable_offset
        if unstable is None:
            return durable_offset
        return max(min(durable_offset, unstable), self._log.log_start_offset)

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that have records in [start, end), in the order of their markers."""
        found: list[AbortedTransaction] = []
        for segment in self._log.segments_from(start_offset):
            if segment.transactions.collect(start_offset, end_offset, found):
                break
        return found

    # Threads that may wait.

    def write(self, snapshot: ProducerSnapshot) -> None:
        """Make all that `snapshot` covers durable, and then write the snapshot itself. Raises StorageError."""
        if snapshot.offset > self._log.written_offset:
            self._log.catch_up()
        with self._disk:
            if self._log.failure is None and snapshot.offset <= self._log.written_offset:
                self._write(snapshot)

    def close(self) -> None:
        """Write a snapshot at a clean stop, when all is durable, so that the next start reads nothing else.

        The caller holds the log's disk lock.
        """
        offset = self._log.written_offset
        if self.state is None or not self._log.segments or self._snapshot_offset == offset:
            return
        try:
            self._write(ProducerSnapshot(offset, snapshot_entries(self.state)))
        except StorageError as error:
            if not error.is_no_room:  # On a full disk the next start just has more to read.
                raise

    def _write(self, snapshot: ProducerSnapshot) -> None:
        for segment in self._log.segments:
            segment.transactions.sync()
        self._files.sync_directory(self._log.directory)
        write_snapshot(self._files, self._log.directory, snapshot.offset, snapshot.entries)
        self._snapshot_offset = snapshot.offset

    def read(self, wall_ms: int) -> ReadProducers:
        """Read the producers; the caller then assigns `state`. Blocks. Raises StorageError, CorruptSegment.

        No batch that has a producer may be staged or be appended meanwhile.
        """
        segments, end = self._log.segments, self._log.written_offset
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
        self._log.add_behind(found.state, wall_ms)
        found.state.settle(self._log.durable_offset)
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
        """Load the newest sound snapshot within the log into `found` and return its offset; None without one."""
        files, directory = self._files, self._log.directory
        for offset in snapshot_offsets(files.entries(directory) or ()):
            path = snapshot_path(directory, offset)
            if not self._log.log_start_offset <= offset <= end:
                continue  # Records above it were deleted, or records below it were cut off.
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
        """Return the byte in `segment` where the batch that has offset `start` begins; 0 without a `start`."""
        if start is None or start <= segment.base_offset:
            return 0
        while True:
            try:
                return first_position(segment, start)
            except WrongIndex:
                with self._disk:
                    segment.build_indexes()

    def _install(self, indexes: dict[Segment, TransactionIndex]) -> None:
        """Let readers have the indexes, except those of segments that were cleaned meanwhile."""
        with self._disk:
            for segment in self._log.segments:
                if segment in indexes:
                    indexes[segment].truncate_file()
                    segment.transactions = indexes[segment]


def scan(
    segment: Segment, position: int, state: ProducerState, index: TransactionIndex, wall_ms: int
) -> None:
    """Record the batches of `segment` from byte `position` on in `state`, and what they abort in `index`."""
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
