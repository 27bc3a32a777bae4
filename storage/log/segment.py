"""One segment: a `.log` file of record batches and its indexes, under Kafka's names.

What a segment shows (`size_bytes`, `next_offset`, the indexes) is what is durable: `write` puts bytes behind
it, and only `publish` counts them, after the log has synced as its policy asks. So readers need no lock, and
what a failed write left behind is cut by `cut_to_published`. One thread at a time changes a segment; any
number read it. Indexes of an older segment are read when first needed, and built again from the log if they
do not look right. A segment knows nothing of its neighbours, of policies or of what a crash may do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from storage.files import Buffer, CorruptSegment, File, Files
from storage.index.indexes import NO_TIMESTAMP, OFFSET_ENTRY, TIME_ENTRY, CorruptIndex
from storage.index.segment_indexes import SegmentIndexes
from storage.log.batch_walk import WINDOW_BYTES, walk_checked, walk_headers
from storage.producers.transaction_index import AbortedTransaction, TransactionIndex

LOG_SUFFIX: Final = ".log"
CLEANED_SUFFIX: Final = ".cleaned"  # Suffix of a log file that is being made to replace others.
SWAP_SUFFIX: Final = ".swap"  # Suffix of that file once it is whole and is to replace them.
DIGITS: Final = 20  # Digits of the base offset in a file's name.
BLOCK_BYTES: Final = 4096  # The most that a disk writes as one: see `cut_to_published`.


class StagedBatch(NamedTuple):
    """A batch that has its offsets and waits to be written. `wall_ms` is when it was appended."""

    data: Buffer
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    wall_ms: int
    aborted: AbortedTransaction | None = None  # The transaction that it aborts, if it is a marker.


def log_path(directory: Path, base_offset: int) -> Path:
    return directory / f"{base_offset:0{DIGITS}d}{LOG_SUFFIX}"


def cleaned_path(directory: Path, base_offset: int) -> Path:
    return directory / f"{base_offset:0{DIGITS}d}{LOG_SUFFIX}{CLEANED_SUFFIX}"


def swap_path(directory: Path, base_offset: int) -> Path:
    return directory / f"{base_offset:0{DIGITS}d}{LOG_SUFFIX}{SWAP_SUFFIX}"


def base_offset_of(name: str) -> int | None:
    """The base offset in the name of a `.log` file; None for any other name."""
    stem = name.removesuffix(LOG_SUFFIX)
    return int(stem) if stem != name and len(stem) == DIGITS and stem.isdecimal() else None


class Segment:
    """One segment, made by `create` or found by recovery. Methods that reach the disk raise StorageError."""

    def __init__(self, files: Files, directory: Path, base_offset: int, index_interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.path = log_path(directory, base_offset)
        self.size_bytes = 0
        self.synced_bytes = 0  # How much of the file is synced, from its start; a batch ends there.
        self.next_offset = base_offset
        self.first_timestamp_ms: int | None = None  # The first batch's largest; None while unknown.
        self.created_ms = 0
        self.transactions = TransactionIndex(files, directory, base_offset)
        self._files = files
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._written_bytes = 0  # Size of what was written, published or not.
        self._bytes_since_entry = 0
        self._max_timestamp = (NO_TIMESTAMP, base_offset)
        self._file: File | None = None
        self._indexes: SegmentIndexes | None = None
        self._is_replaced = False  # By a segment of the same name, so this one's file no longer has a name.
        self._loading = Lock()  # Held while the first reader loads an older segment's indexes.

    def create(self, wall_ms: int) -> None:
        """Make the three files of a new, empty segment; their names are not synced yet."""
        self.created_ms = wall_ms
        self._file = self._files.open(self.path, create=True)
        self._file.truncate(0)  # A creation that failed halfway may have left one.
        self.reset().rewrite()

    @classmethod
    def draft(
        cls, files: Files, directory: Path, base_offset: int, index_interval_bytes: int, created_ms: int
    ) -> Segment:
        """A segment that is being made to replace others: a `.cleaned` file, and indexes in memory only."""
        segment = cls(files, directory, base_offset, index_interval_bytes)
        segment.created_ms = created_ms
        segment._file = files.open(cleaned_path(directory, base_offset), create=True)
        segment._file.truncate(0)  # An attempt that failed may have left one.
        segment.reset()
        return segment

    @property
    def file(self) -> File:
        """The log file, opened when first needed."""
        file = self._file
        if file is None:
            file = self._file = self._files.open(self.path)
        return file

    @property
    def indexes(self) -> SegmentIndexes:
        """The indexes, loaded when first needed."""
        return self._indexes or self.load()

    def load(self) -> SegmentIndexes:
        """Have the indexes in memory: from their files, or from the log if those cannot be right."""
        with self._loading:
            if self._indexes is None:
                try:
                    indexes = self.read_indexes(self.size_bytes)
                    self.check_times(indexes)
                    self.adopt(indexes)
                except CorruptIndex:
                    self.build_indexes()
            assert self._indexes is not None
            return self._indexes

    @property
    def is_warm(self) -> bool:
        """Whether a read has nothing to open or load first."""
        return self._file is not None and self._indexes is not None

    def max_timestamp(self) -> tuple[int, int]:
        """The largest timestamp, and the last offset of the first batch that has it; (-1, base) if none."""
        self.load()
        return self._max_timestamp

    def index_room(self, max_bytes: int) -> int:
        """Return how many more entries indexes of `max_bytes` each have room for.

        As in Kafka, the index of times keeps a place for the entry that sealing adds.
        """
        offsets, times = len(self.indexes.offsets), len(self.indexes.times)
        return min(max_bytes // OFFSET_ENTRY.size - offsets, max_bytes // TIME_ENTRY.size - 1 - times)

    # Changes: by the flusher thread, or another that holds the log's disk lock.

    def write(self, run: Sequence[StagedBatch]) -> None:
        """Write the batches after what is published; readers do not see them before `publish`."""
        self.file.write_at([batch.data for batch in run], self.size_bytes)
        self._written_bytes = self.size_bytes + sum(len(batch.data) for batch in run)

    def sync(self) -> None:
        """Return once all that was written is on the disk."""
        self.file.sync()
        self.synced_bytes = max(self._written_bytes, self.size_bytes)

    def publish(self, run: Sequence[StagedBatch]) -> None:
        """Show the batches just written to readers."""
        for batch in run:
            self.note(batch.last_offset, batch.max_timestamp_ms, len(batch.data))
            if batch.aborted is not None:
                self.transactions.add(batch.aborted)

    def note(self, last_offset: int, max_timestamp_ms: int, size_bytes: int) -> None:
        """Add a batch to what the segment shows (size, offsets, timestamps), with an index entry if one is due."""
        if self.first_timestamp_ms is None:
            self.first_timestamp_ms = max_timestamp_ms
        if max_timestamp_ms > self._max_timestamp[0]:
            self._max_timestamp = (max_timestamp_ms, last_offset)
        if self._bytes_since_entry > self._index_interval_bytes:
            self.indexes.times.maybe_add(*self._max_timestamp)
            self.indexes.offsets.add(last_offset, self.size_bytes)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes
        self.next_offset = last_offset + 1
        self.size_bytes += size_bytes

    def seal(self) -> None:
        """Sync log and indexes, after a last time index entry with the largest timestamp, as Kafka does.

        Done when the segment is rolled, and when the log is closed.
        """
        self.sync()
        self.indexes.times.maybe_add(*self._max_timestamp)
        self.indexes.sync()
        self.transactions.sync()

    def finish_draft(self, next_offset: int) -> None:
        """Sync the bytes of a draft, and set the offset up to which it replaces other segments."""
        self.file.sync()
        self.indexes.times.maybe_add(*self._max_timestamp)
        self.next_offset = next_offset

    def prepare_replacement(self) -> None:
        """Load all that readers may still ask for: another segment is about to take this one's name."""
        self.load()
        _ = self.file
        self._is_replaced = True

    def cut_to_published(self) -> None:
        """After a failed write or sync: make the file what is published again, by a new descriptor, synced.

        Needs no disk space. Raises CorruptSegment if the disk no longer has what was published.
        """
        self._file = None
        file = self.file
        file.truncate(self.size_bytes)
        self._write_again(file)
        self._written_bytes = self.size_bytes
        self.sync()
        self.indexes.start_over()

    def _write_again(self, file: File) -> None:
        """Write again what no sync has covered, from its first block's start, so that the next sync proves it.

        A failed sync may leave pages that count as clean and are not on the disk, also such as share a block
        with what was synced before. If the system has let go of one of them, it reads as the disk has it.
        """
        end = self.synced_bytes
        for found in walk_checked(file, end, self.size_bytes):
            end = found.end
        if end < self.size_bytes:
            raise CorruptSegment(self.path, end, "written, but never on the disk")
        start = self.synced_bytes - self.synced_bytes % BLOCK_BYTES
        for position in range(start, self.size_bytes, WINDOW_BYTES):
            data = file.read_at(min(WINDOW_BYTES, self.size_bytes - position), position)
            file.write_at([data], position)

    def delete(self) -> None:
        """Remove the files' names, the log's first: an index without a log means nothing. Readers go on."""
        self._files.unlink(swap_path(self._directory, self.base_offset))  # Left by a swap that got stuck.
        self._files.unlink(self.path)
        SegmentIndexes(self._files, self._directory, self.base_offset).delete()
        self._files.unlink(self.transactions.path)

    def close(self) -> None:
        """Drop the reference to the file, which closes when its last reader does."""
        self._file = None

    # For recovery.

    def reset(self) -> SegmentIndexes:
        """Make the segment show nothing, with new, empty indexes, which are returned; `note` fills it again."""
        self.size_bytes = 0
        self.next_offset = self.base_offset
        self.first_timestamp_ms = None
        self._bytes_since_entry = 0
        self._max_timestamp = (NO_TIMESTAMP, self.base_offset)
        self._indexes = SegmentIndexes(self._files, self._directory, self.base_offset)
        return self._indexes

    def resume_at(self, position: int, indexes: SegmentIndexes) -> None:
        """Make the segment end at `position`, where the last batch of `indexes` begins; `note` adds the rest."""
        self.adopt(indexes)
        self.size_bytes = position
        if position:
            first = next(walk_headers(self.path, self.file.read_at, 0, position))
            self.first_timestamp_ms = first.max_timestamp_ms

    def read_indexes(self, log_size_bytes: int) -> SegmentIndexes:
        """Read the index files. Raises CorruptIndex if they cannot belong to a log of `log_size_bytes`."""
        return SegmentIndexes.load(self._files, self._directory, self.base_offset, log_size_bytes)

    def check_times(self, indexes: SegmentIndexes) -> None:
        """Raises CorruptIndex unless the last time entry names the largest timestamp there is, and its batch.

        Where time rises, as it mostly does, that is a look at the last batch.
        """
        timestamp_ms, offset = indexes.times.last()
        position, _ = indexes.offsets.floor(offset)
        try:
            named = self._newest_from(position, offset)
        except CorruptSegment as error:  # Or the log is; then building the index says so.
            raise CorruptIndex("an entry leads to no batch") from error
        if self.size_bytes and named != (timestamp_ms, offset):
            raise CorruptIndex(f"the last entry is {timestamp_ms} at {offset}, the log has {named}")

    def _newest_from(self, position: int, offset: int) -> tuple[int, int]:
        """The largest timestamp of the batches that end at `offset` or later, and where the first with it ends."""
        newest = (NO_TIMESTAMP, self.base_offset)
        for batch in walk_headers(self.path, self.file.read_at, position, self.size_bytes):
            if batch.last_offset >= offset and batch.max_timestamp_ms > newest[0]:
                newest = (batch.max_timestamp_ms, batch.last_offset)
        return newest

    def adopt(self, indexes: SegmentIndexes) -> None:
        """Use `indexes` from now on, and take the largest timestamp from them."""
        self._max_timestamp = indexes.times.last()
        self._indexes = indexes

    def build_indexes(self) -> None:
        """Build the indexes from the batches, and write their files again.

        For the active segment only under the log's disk lock: nothing may be published meanwhile.
        """
        fresh = Segment(self._files, self._directory, self.base_offset, self._index_interval_bytes)
        built = fresh.reset()
        for batch in walk_headers(self.path, self.file.read_at, 0, self.size_bytes):
            if not fresh.next_offset <= batch.base_offset <= batch.last_offset < self.next_offset:
                detail = f"offsets {batch.base_offset}-{batch.last_offset} have no place here"
                raise CorruptSegment(self.path, fresh.size_bytes, detail)  # No CRC covers a base offset.
            fresh.note(batch.last_offset, batch.max_timestamp_ms, batch.size_bytes)
        built.times.maybe_add(*fresh._max_timestamp)
        if not self._is_replaced:
            built.rewrite()
        self._bytes_since_entry = fresh._bytes_since_entry
        self.adopt(built)
