"""The changing side of one log: its segments on the disk, and how far they are durable.

Writes runs of staged batches, begins new segments, drops old ones, cuts back. The caller holds the log's
disk lock; nothing here is safe otherwise. Readers see `segments` and `durable_offset`, which are replaced and
never changed, the offset always last.

The order of things on the disk, which recovery counts on: a segment is synced, indexes and name included,
before its successor is made; where `flush.messages` asks for it, a batch and the name of its file are synced
before `durable_offset` moves over it. The file of a partition that was never written to does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import random

from storage.files import Files
from storage.index.indexes import MAX_RELATIVE_OFFSET
from storage.log.batch_walk import walk_headers
from storage.log.config import LogConfig
from storage.log.partition_files import (
    LeaderEpochs,
    read_leader_epochs,
    read_partition_metadata,
    write_leader_epochs,
    write_partition_metadata,
)
from storage.log.segment import Segment, StagedBatch
from storage.log.segment_read import seek
from storage.log.segment_swap import announce, finish_announced_swap


class LogWriter:
    """The segments of the log in `directory`. Methods raise StorageError; then only `cut_back` may follow."""

    def __init__(self, directory: Path, config: LogConfig, files: Files) -> None:
        self.directory = directory
        self.config = config
        self.segments: tuple[Segment, ...] = ()  # Oldest first; the last is the one that is written.
        self.durable_offset = 0
        self.recovery_point = 0
        self.synced_at_ms = 0  # When the last sync was, as far as writes and rolls know; 0 after opening.
        self._files = files
        self._jitter = random()  # The active segment's share of `segment.jitter.ms`.
        self._creating: Segment | None = None  # A new segment, whose files may exist in part.
        self._names_unsynced: list[Path] = []  # Directories with new names that are not on the disk yet.

    def write(self, staged: Sequence[StagedBatch]) -> None:
        """Write `staged` at the log's end, rolling where due; all of it is durable on return."""
        run: list[StagedBatch] = []
        run_bytes = 0  # The size of `run`.
        room = 0  # How many batches `run` may have: each may get an entry of the index.
        for batch in staged:
            if len(run) >= room:
                self._write_run(run)
                run, run_bytes, room = [], 0, self._index_room()
            if room <= 0 or self._must_roll(batch, run, run_bytes):
                self._write_run(run)
                self.roll(batch.wall_ms)
                run, run_bytes, room = [], 0, self._index_room()
            run.append(batch)
            run_bytes += len(batch.data)
        self._write_run(run)

    def _index_room(self) -> int:
        """Return how many entries fit into the active segment's indexes; an empty segment takes one batch."""
        if not self.segments:
            return 1
        active = self.segments[-1]
        room = active.index_room(self.config.index_max_bytes)
        return room if active.size_bytes else max(room, 1)

    def _must_roll(self, batch: StagedBatch, run: Sequence[StagedBatch], run_bytes: int) -> bool:
        """Whether `batch` belongs into a new segment: for size, for time, or for a 32-bit relative offset."""
        if not self.segments:
            return not run
        active = self.segments[-1]
        size_bytes = active.size_bytes + run_bytes
        if not size_bytes:
            return False
        first_ms = run[0].max_timestamp_ms if active.first_timestamp_ms is None else active.first_timestamp_ms
        waited_ms = batch.max_timestamp_ms - first_ms if first_ms >= 0 else batch.wall_ms - active.created_ms
        return (
            size_bytes + len(batch.data) > self.config.segment_bytes
            or waited_ms > self._roll_ms()
            or batch.last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        )

    def _roll_ms(self) -> int:
        """Return `segment.ms` less the active segment's jitter: logs that begin together do not roll together."""
        config = self.config
        return config.segment_ms - int(self._jitter * min(config.segment_jitter_ms, config.segment_ms))

    def _write_run(self, run: Sequence[StagedBatch]) -> None:
        """Write to the active segment, sync as the policy asks, and only then let readers see it."""
        if not run:
            return
        active, end = self.segments[-1], run[-1].last_offset + 1
        config = self.config
        is_synced = end - self.recovery_point >= config.flush_messages
        active.write(run)
        if is_synced:
            active.sync()
            self._sync_names()
        active.publish(run)
        self.durable_offset = end
        if is_synced:
            self.recovery_point, self.synced_at_ms = end, run[-1].wall_ms
        active.indexes.save()
        active.transactions.save()

    def roll(self, wall_ms: int) -> None:
        """Seal the active segment and begin a new, empty one at the end of the log."""
        if self.segments:
            self.seal()
        self.synced_at_ms, self._jitter = wall_ms, random()
        self._creating = self._segment(self.durable_offset)
        self._names_unsynced.append(self.directory)
        self._creating.create(wall_ms)
        self.segments += (self._creating,)
        self._creating = None

    def _segment(self, base_offset: int) -> Segment:
        return Segment(self._files, self.directory, base_offset, self.config.index_interval_bytes)

    def must_sync(self, wall_ms: int) -> bool:
        """Whether there is something to sync, and the last sync at least `flush.ms` ago."""
        is_recent = 0 <= wall_ms - self.synced_at_ms < self.config.flush_ms  # Not so if the clock went back.
        return self.durable_offset > self.recovery_point and not is_recent

    def sync(self, wall_ms: int) -> None:
        """Sync what was published without a sync."""
        self.segments[-1].sync()
        self._sync_names()
        self.recovery_point, self.synced_at_ms = self.durable_offset, wall_ms

    def seal(self) -> None:
        """Sync everything, so that a clean start has to walk nothing."""
        if self.segments:
            self.segments[-1].seal()
        self._sync_names()
        self.recovery_point = self.durable_offset

    def _sync_names(self) -> None:
        for directory in dict.fromkeys(self._names_unsynced):
            self._files.sync_directory(directory)
        self._names_unsynced.clear()

    def make_directory(self, topic_id: bytes | None, epochs: LeaderEpochs) -> None:
        """Make the log's directory with Kafka's small files in it; what is there already stays."""
        files = self._files
        files.make_directory(self.directory)
        self._names_unsynced += (self.directory, self.directory.parent)
        if topic_id is not None and read_partition_metadata(files, self.directory) is None:
            write_partition_metadata(files, self.directory, topic_id)
        if not read_leader_epochs(files, self.directory):
            write_leader_epochs(files, self.directory, epochs)

    def drop_first(self, count: int) -> None:
        """Delete the `count` oldest segments, oldest first, so that a crash leaves a log without a gap."""
        dropped, self.segments = self.segments[:count], self.segments[count:]
        for segment in dropped:
            segment.delete()
        if dropped:
            self._files.sync_directory(self.directory)

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace the neighbouring segments `old`, none of them the last, by the finished draft `new`.

        A failure before `announce` changes nothing; after it readers have `new`, however the files' swap ends.
        """
        for segment in old:
            segment.prepare_replacement()
        announce(self._files, self.directory, new.base_offset)
        first = self.segments.index(old[0])
        self.segments = (*self.segments[:first], new, *self.segments[first + len(old) :])
        finish_announced_swap(self._files, self.directory, old, new)

    def sync_directory(self) -> None:
        self._files.sync_directory(self.directory)

    def cut_back(self) -> None:
        """After a failure: make the files what readers were shown, synced."""
        # It would end the log too early if the active segment grows after all.
        if self._creating is not None:
            self._creating.delete()
            self._creating = None
        if self.segments:
            self.segments[-1].cut_to_published()
        self._sync_names()
        self.recovery_point = self.durable_offset

    def truncate_to(self, offset: int) -> None:
        """Drop all batches that reach `offset` or beyond, synced; `offset` lies within the log."""
        kept = [segment for segment in self.segments if segment.base_offset < offset]
        removed = self.segments[len(kept) :]
        if kept:
            kept[-1] = self._shortened(kept[-1], offset)
        self.segments = tuple(kept)
        self.durable_offset = self.recovery_point = kept[-1].next_offset if kept else offset
        for segment in reversed(removed):
            segment.delete()
        if kept:
            kept[-1].cut_to_published()
        if self.segments or removed:
            self._files.sync_directory(self.directory)

    def _shortened(self, segment: Segment, offset: int) -> Segment:
        """Return a copy of `segment` that shows only batches that end before `offset`; the file is unchanged."""
        copy = self._segment(segment.base_offset)
        copy.created_ms = segment.created_ms
        copy.reset()
        end = seek(segment, offset, segment.size_bytes, segment.file.read_at)
        for batch in walk_headers(segment.path, segment.file.read_at, 0, end):
            copy.note(batch.last_offset, batch.max_timestamp_ms, batch.size_bytes)
        copy.synced_bytes = min(segment.synced_bytes, copy.size_bytes)
        return copy
