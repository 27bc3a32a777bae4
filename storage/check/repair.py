"""Copies one partition's log, every batch that checks, into a new directory; the source is only read.

Offsets stay, and so do the bytes of each batch. Indexes are built again. Where offsets are
missing in the last segment a new one begins: recovery takes a gap in the last segment for damage. If
the end of the log was lost, an empty segment begins where it was known to end: no offset is given twice.

No program takes the copy for a log until the caller gives its directory the log's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from storage.files import Files
from storage.log.batch_walk import WINDOW_BYTES, Located
from storage.log.damage_scan import Damage
from storage.log.partition_files import LEADER_EPOCHS, PARTITION_METADATA
from storage.log.sealed_segments import Sizes
from storage.log.segment import Segment, StagedBatch, log_path
from storage.log.segment_files import SegmentFile, scan_segment_file, segment_files
from storage.producers.producer_snapshot import snapshot_offsets, snapshot_path

INDEX_INTERVAL_BYTES: Final = 4096  # index.interval.bytes, unless it is configured.
RUN_BYTES: Final = 1 << 20  # Written at a time.
COPIED_SUFFIX: Final = ".txnindex"  # Its entries name offsets only: it fits the copied batches as it is.
REBUILT_SUFFIXES: Final = (".log", ".index", ".timeindex", ".snapshot")  # Or copied at the end.


@dataclass(frozen=True, slots=True)
class Loss:
    """What could not be copied: bytes [first_byte, end_byte) of `path`, and the offsets that they had.

    `last_offset` None: all from `first_offset` on, of unknown number. An empty range of bytes: the file has no
    batch with these offsets.
    """

    path: Path
    first_byte: int
    end_byte: int
    first_offset: int
    last_offset: int | None
    reason: str


@dataclass(slots=True)
class Repaired:
    """What was copied, what was lost, and files that were left behind as no part of a log."""

    batches: int = 0
    records: int = 0
    copied_bytes: int = 0
    next_offset: int = 0
    losses: list[Loss] = field(default_factory=list)
    left_behind: list[Path] = field(default_factory=list)


@dataclass(slots=True)
class LogRepair:
    """The copy of one partition, from the directory `source` into `target`, which must not exist yet.

    `recovery_point` is the offset up to which all was synced, 0 where it is not known. `advance` is called with
    the number of bytes of each step. `sealed_sizes` are the recorded sizes of sealed segments, as far as known.
    """

    files: Files
    source: Path
    target: Path
    recovery_point: int = 0
    wall_ms: int = 0
    advance: Callable[[int], None] = lambda _: None
    sealed_sizes: Sizes = field(default_factory=dict)
    _result: Repaired = field(default_factory=Repaired)
    _segment: Segment | None = None  # None until the first batch of it is written.
    _base: int = 0
    _run: list[StagedBatch] = field(default_factory=list)
    _run_bytes: int = 0

    def run(self) -> Repaired:
        """Copy the partition; everything is on the disk when this returns. Raises StorageError."""
        assert self.files.make_directory(self.target), f"{self.target} exists"
        names = self.files.entries(self.source) or []
        segments = segment_files(self.files, self.source)
        self._copy_small_files(names, {segment.path.name for segment in segments})
        for segment in segments:
            self._copy_segment(segment)
            self._add_loss_of_cut_end(segment)
        self._add_losses_of_missing_segments([segment.base_offset for segment in segments])
        if segments:
            self._keep_end()
        self._seal()
        if not self._result.losses:  # Else the snapshots would name batches that are not there.
            for offset in snapshot_offsets(names):
                name = snapshot_path(self.source, offset).name
                copy_file(self.files, self.source / name, self.target / name)
        self.files.sync_directory(self.target)
        return self._result

    def _copy_small_files(self, names: list[str], segments: set[str]) -> None:
        for name in names:
            if name in (PARTITION_METADATA, LEADER_EPOCHS) or name.endswith(COPIED_SUFFIX):
                copy_file(self.files, self.source / name, self.target / name)
            elif name not in segments and not name.endswith(REBUILT_SUFFIXES):
                self._result.left_behind.append(self.source / name)

    def _copy_segment(self, segment: SegmentFile) -> None:
        """Copy one segment to a segment at the same base offset; none is made if no batch of it is left."""
        self._begin_segment(segment.base_offset)
        for found in scan_segment_file(self.files, segment):
            if isinstance(found, Damage):
                self._add_loss(segment.path, found)
            else:
                if segment.is_last:
                    self._begin_segment_after_gap(segment.path, found)
                self._copy(found)
            self.advance(found.end - found.position)

    def _add_loss(self, path: Path, damage: Damage) -> None:
        last_offset = damage.last_offset
        if last_offset is None and self.recovery_point > damage.first_offset:
            last_offset = self.recovery_point - 1  # More may have been written; this much was for sure.
        first, end = damage.position, damage.end
        self._result.losses.append(Loss(path, first, end, damage.first_offset, last_offset, damage.reason))

    def _add_loss_of_cut_end(self, segment: SegmentFile) -> None:
        """Add a loss if a sealed segment is shorter than recorded, although it ends where a batch does."""
        synced_bytes, first = self.sealed_sizes.get(segment.base_offset, 0), self._result.next_offset
        size_bytes, losses = self.files.size_bytes(segment.path), self._result.losses
        if segment.end_offset is None or size_bytes >= synced_bytes:
            return
        if not losses or losses[-1].last_offset != segment.end_offset - 1:  # Else it is reported as damaged.
            last = self._next_base(segment.base_offset, [segment.end_offset]) - 1
            why = f"cut at {size_bytes} bytes, {synced_bytes} were synced"
            losses.append(Loss(segment.path, size_bytes, synced_bytes, first, last, why))

    def _add_losses_of_missing_segments(self, there: list[int]) -> None:
        """Add a loss for each sealed segment that has no file any more: its offsets up to the next segment."""
        for base in sorted(self.sealed_sizes.keys() - set(there)):
            path, last = log_path(self.source, base), self._next_base(base, there) - 1
            self._result.losses.append(Loss(path, 0, self.sealed_sizes[base], base, last, "the file is gone"))

    def _next_base(self, base: int, there: list[int]) -> int:
        """Return the base offset of the segment after the one at `base`; the recovery point if there is none."""
        return min(
            (other for other in (*there, *self.sealed_sizes) if other > base), default=self.recovery_point
        )

    def _begin_segment_after_gap(self, path: Path, found: Located) -> None:
        """Begin a new segment after offsets missing in the last one; add a loss unless one has them already."""
        offset, expected = found.batch.base_offset, self._result.next_offset
        if offset == expected:
            return
        losses = self._result.losses
        if not losses or losses[-1].last_offset != offset - 1:
            at, why = found.position, "there is no batch that has them"
            losses.append(Loss(path, at, at, expected, offset - 1, why))
        self._begin_segment(offset)

    def _copy(self, found: Located) -> None:
        batch, result, size_bytes = found.batch, self._result, found.batch.size_bytes
        staged = StagedBatch(
            bytes(found.data), batch.base_offset, batch.last_offset, batch.max_timestamp_ms, self.wall_ms
        )
        self._run.append(staged)
        self._run_bytes += size_bytes
        result.batches += 1
        result.records += batch.record_count
        result.copied_bytes += size_bytes
        result.next_offset = batch.last_offset + 1
        if self._run_bytes >= RUN_BYTES:
            self._write_run()

    def _begin_segment(self, base: int) -> None:
        """Have the next batches go into a segment at `base`, whose files are made with its first batch."""
        self._seal()
        self._base = base
        self._result.next_offset = max(self._result.next_offset, base)

    def _keep_end(self) -> None:
        """Make the copy end where the source did, or at the recovery point if that is higher."""
        losses, next_offset = self._result.losses, self._result.next_offset
        if self.recovery_point > next_offset:
            last = self.recovery_point - 1
            if not losses or losses[-1].last_offset != last:
                why = "synced once, and not there any more"
                losses.append(Loss(self.source, 0, 0, next_offset, last, why))
            self._begin_segment(self.recovery_point)
        self._write_run()
        if self._segment is None:
            self._segment = self._new_segment()

    def _new_segment(self) -> Segment:
        segment = Segment(self.files, self.target, self._base, INDEX_INTERVAL_BYTES)
        segment.create(self.wall_ms)
        return segment

    def _write_run(self) -> None:
        run, self._run, self._run_bytes = self._run, [], 0
        if run:
            segment = self._segment = self._segment or self._new_segment()
            segment.write(run)
            segment.publish(run)
            segment.indexes.save()

    def _seal(self) -> None:
        self._write_run()
        if self._segment is not None:
            self._segment.seal()
            self._segment.close()
            self._segment = None


def copy_file(files: Files, source: Path, target: Path) -> None:
    """Copy a file as it is, synced but for its name. Raises StorageError."""
    original = files.open_to_read(source)
    copy = files.open(target, create=True)
    copy.truncate(0)
    size_bytes = original.size_bytes()
    for position in range(0, size_bytes, WINDOW_BYTES):
        copy.write_at([original.read_at(WINDOW_BYTES, position)], position)
    copy.sync()
    copy.close()
    original.close()
