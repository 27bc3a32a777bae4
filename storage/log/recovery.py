"""What is done to a log's files before it is used: find the segments, check them, cut a torn tail.

A segment is synced before the next one is begun, so only the last can have been torn by a crash. In it,
everything below the recovery point was synced and may have been acknowledged: damage there is corruption and
is reported, never cut. Above it a crash may have torn or lost anything: the first batch that does not check
(length, magic, CRC-32C, offsets that do not follow on) ends the log, and what stood behind is kept aside
and cut. After a clean shutdown nothing is walked but the batches behind the last index entry; if even these
are not as they were left, the segment is checked like after a crash.

First of all a cleaning that a crash interrupted is finished or forgotten (`segment_swap`). A cleaned segment has
gaps in its offsets; it is never the last.

A log that is replayed whole before it is used has every byte checked then. Of its last segment only what lies
above the recovery point is checked here: from the last index entry below it on, if that leads to the batch that
it names.

Older segments are walked only where they lie above the recovery point or lost their indexes. The log directory
knows which offset is the recovery point, and whether the shutdown was clean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from storage.files import CorruptSegment, Files
from storage.index.indexes import CorruptIndex
from storage.index.segment_indexes import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    index_paths,
    sizes_look_right,
)
from storage.log.batch_walk import WINDOW_BYTES, Located, walk_checked
from storage.log.config import LogConfig
from storage.log.segment import Segment, base_offset_of
from storage.log.segment_swap import finish_swaps
from storage.producers.transaction_index import TRANSACTION_INDEX_SUFFIX, transaction_index_path

TORN_NAME: Final = re.compile(r"\d{20}\.log\.torn-\d+")
MAX_TORN_FILES: Final = 8  # Kept per log, the newest: enough to look into a crash that repeats.
MAX_TORN_BYTES: Final = 64 << 20  # Kept of one tail: what many flushes hold, but no segment full of zeros.


@dataclass(slots=True)
class Recovered:
    """What recovery found and did: the segments, and what an operator wants to read in the daemon's log."""

    segments: list[Segment] = field(default_factory=list)
    segments_scanned: int = 0  # From their start, after a crash or for lost indexes, which were built again.
    scanned_bytes: int = 0
    cut_bytes: int = 0  # Size of the last segment's torn tail, which began where the segment ends now.
    kept_aside: Path | None = None  # The file into which the torn tail was copied.
    swaps_completed: int = 0  # Replacements by a cleaned segment that a crash had interrupted.


@dataclass(frozen=True, slots=True)
class Recovery:
    """One log's recovery. `recovery_point` is the offset below which everything was synced."""

    files: Files
    directory: Path
    config: LogConfig
    recovery_point: int
    shut_down_cleanly: bool
    is_replayed: bool = False

    def run(self) -> Recovered:
        """Bring the files of the log into order. Raises CorruptSegment, StorageError."""
        result = Recovered(swaps_completed=finish_swaps(self.files, self.directory))
        names = frozenset(self.files.entries(self.directory) or ())
        base_offsets = sorted(base for name in names if (base := base_offset_of(name)) is not None)
        self._remove_orphans(names, base_offsets)
        if not base_offsets:
            if self.recovery_point > 0:
                detail = f"no segments, but synced up to offset {self.recovery_point}"
                raise CorruptSegment(self.directory, 0, detail)
            return result
        for base_offset, next_base in pairwise(base_offsets):
            result.segments.append(self._sealed_segment(base_offset, next_base, names, result))
        result.segments.append(self._active_segment(base_offsets[-1], names, result))
        return result

    def _remove_orphans(self, names: frozenset[str], base_offsets: list[int]) -> None:
        """Remove index files that have no log file: a crash interrupted the deletion of their segment."""
        kept = {path.name for base in base_offsets for path in index_paths(self.directory, base)}
        kept |= {transaction_index_path(self.directory, base).name for base in base_offsets}
        for name in names - kept:
            if name.endswith((OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)):
                self.files.unlink(self.directory / name)

    def _segment(self, base_offset: int) -> Segment:
        segment = Segment(self.files, self.directory, base_offset, self.config.index_interval_bytes)
        segment.created_ms = self.files.modified_ms(segment.path)
        return segment

    def _sealed_segment(
        self, base_offset: int, next_base: int, names: frozenset[str], result: Recovered
    ) -> Segment:
        """Return a segment with a successor: its size is looked up, its indexes are read when first needed.

        Only after a crash above the recovery point, or with lost indexes, is it scanned in full and sealed again.
        Raises CorruptSegment where that finds damage.
        """
        segment = self._segment(base_offset)
        size_bytes = self.files.size_bytes(segment.path)
        flushed = self.shut_down_cleanly or next_base <= self.recovery_point
        if not flushed or not sizes_look_right(self.files, self.directory, base_offset, names):
            for found in self._note_batches(segment, size_bytes, result):
                if found.batch.last_offset >= next_base:
                    raise CorruptSegment(segment.path, found.position, f"offsets reach into {next_base}")
            if segment.size_bytes < size_bytes:
                raise CorruptSegment(segment.path, segment.size_bytes, f"of {size_bytes}, all of them synced")
            segment.indexes.rewrite()
            segment.seal()
        segment.size_bytes = segment.synced_bytes = size_bytes
        segment.next_offset = next_base
        return segment

    def _active_segment(self, base_offset: int, names: frozenset[str], result: Recovered) -> Segment:
        """Return the segment that is written on; find its end, and cut it where a crash tore it.

        Raises CorruptSegment where synced bytes are damaged.
        """
        segment = self._segment(base_offset)
        size_bytes = segment.file.size_bytes()
        if self.shut_down_cleanly and self._resume(segment, size_bytes):
            return segment
        for found in self._note_unsynced_batches(segment, size_bytes, result):
            # Only compaction leaves gaps, and never here: this base offset (no CRC covers it) is wrong.
            if found.batch.base_offset != segment.next_offset:
                detail = f"offset {found.batch.base_offset} follows on {segment.next_offset - 1}"
                raise CorruptSegment(segment.path, found.position, detail)
            if found.batch.last_offset < self.recovery_point:
                segment.synced_bytes = found.end
        if segment.next_offset < self.recovery_point:
            detail = f"offset {segment.next_offset} is gone, all was synced up to {self.recovery_point}"
            raise CorruptSegment(segment.path, segment.size_bytes, detail)
        if segment.size_bytes < size_bytes:
            result.cut_bytes = size_bytes - segment.size_bytes
            result.kept_aside = keep_aside(self.files, segment, size_bytes, names)
        segment.cut_to_published()
        for directory in (self.directory, self.directory.parent):
            self.files.sync_directory(directory)  # What is shown from now on must not be lost later.
        return segment

    def _note_batches(self, segment: Segment, size_bytes: int, result: Recovered) -> Iterator[Located]:
        """Yield each whole batch from the segment's start, and then `note` it in the segment."""
        segment.reset()
        result.segments_scanned += 1
        result.scanned_bytes += size_bytes
        for found in walk_checked(segment.file, 0, size_bytes, min_offset=segment.base_offset):
            yield found
            segment.note(found.batch.last_offset, found.batch.max_timestamp_ms, found.batch.size_bytes)

    def _note_unsynced_batches(
        self, segment: Segment, size_bytes: int, result: Recovered
    ) -> Iterator[Located]:
        """Yield and note whole batches; of a replayed log, if possible, only those from the recovery point on."""
        position = self._trusted_position(segment, size_bytes) if self.is_replayed else 0
        if not position:
            yield from self._note_batches(segment, size_bytes, result)
            return
        result.scanned_bytes += size_bytes - position
        for found in walk_checked(segment.file, position, size_bytes, min_offset=segment.next_offset):
            yield found
            segment.note(found.batch.last_offset, found.batch.max_timestamp_ms, found.batch.size_bytes)

    def _trusted_position(self, segment: Segment, size_bytes: int) -> int:
        """Return the byte of the last indexed batch below the recovery point; `segment` then ends there.

        0, and `segment` is unchanged, if there is no such batch or the index is wrong: a crash may leave it so.
        """
        try:
            indexes = segment.read_indexes(size_bytes)
        except CorruptIndex:
            return 0
        indexes.forget_from(self.recovery_point)
        position, promised = indexes.offsets.last() or (0, None)
        found = next(walk_checked(segment.file, position, size_bytes, min_offset=segment.base_offset), None)
        if found is None or found.batch.last_offset != promised:
            return 0
        segment.resume_at(position, indexes)
        segment.next_offset, segment.synced_bytes = found.batch.base_offset, position
        return position

    def _resume(self, segment: Segment, size_bytes: int) -> bool:
        """Read `segment` from its last index entry on; return False if it is not as a clean shutdown leaves it."""
        try:
            indexes = segment.read_indexes(size_bytes)
        except CorruptIndex:
            return False
        position, promised = indexes.offsets.last() or (0, None)
        segment.resume_at(position, indexes)
        for found in walk_checked(segment.file, position, size_bytes, min_offset=segment.base_offset):
            if promised not in (None, found.batch.last_offset):
                return False
            promised = None
            segment.note(found.batch.last_offset, found.batch.max_timestamp_ms, found.batch.size_bytes)
        segment.synced_bytes = segment.size_bytes
        try:
            segment.check_times(indexes)
        except CorruptIndex:
            return False
        return segment.size_bytes == size_bytes and segment.next_offset == self.recovery_point


def keep_aside(files: Files, segment: Segment, size_bytes: int, names: frozenset[str]) -> Path:
    """Copy the bytes after the last whole batch to `<segment>.torn-<n>`, and return its path.

    The oldest such files are removed, so that there are MAX_TORN_FILES at most.
    """
    kept = sorted((int(name.rpartition("-")[2]), name) for name in names if TORN_NAME.fullmatch(name))
    for _, name in kept[: max(0, len(kept) - MAX_TORN_FILES + 1)]:
        files.unlink(segment.path.with_name(name))
    number = kept[-1][0] + 1 if kept else 0
    path = segment.path.with_name(f"{segment.path.name}.torn-{number}")
    aside = files.open(path, create=True)
    start, end = segment.size_bytes, min(size_bytes, segment.size_bytes + MAX_TORN_BYTES)
    for position in range(start, end, WINDOW_BYTES):
        data = segment.file.read_at(min(WINDOW_BYTES, end - position), position)
        aside.write_at([data], position - start)
    aside.sync()
    aside.close()
    return path
