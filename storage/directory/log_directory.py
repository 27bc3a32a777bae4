"""A directory of logs (`log.dirs`), owned by one process: its lock, its identity, its checkpoints.

Laid out as a KRaft broker does: `.lock`, `meta.properties`, a directory per partition, the offset checkpoints
and, after a clean shutdown, a marker that says so. The recovery-point checkpoint holds, per partition, the
offset below which everything was synced; being behind is safe, being ahead is not, so whatever moves a log's
end back writes it first. Beside it stands what the sealed segments below were (`sealed_segments`). A partition
that was not opened, or failed to open, keeps what its checkpoint said.

It opens and keeps the logs but knows nothing of topics' settings, and deletes nothing unasked except
directories that were already on their way out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import RLock
from typing import Final, TypeAlias
from uuid import uuid4

from protocol.topic_partition import TopicPartition
from storage.files import File, Files, StorageError
from storage.journal.files import JournalFiles
from storage.journal.journal import Journal
from storage.journal.scan import ForeignJournal
from storage.log.checkpoints import (
    CLEANED,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    Garbled,
    MetaProperties,
    encode_offsets,
    new_uuid,
    read_meta_properties,
    read_offsets,
    take_clean_shutdown,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
)
from storage.log.config import LogConfig
from storage.log.opening import Opening
from storage.log.partition_log import PartitionLog
from storage.log.sealed_segments import PartitionSeals, SealedSegments, Sizes
from storage.log.staged_log import StagedLog

LOCK: Final = ".lock"
DELETED_SUFFIX: Final = "-delete"
MAX_NAME_BYTES: Final = 255  # The limit of a directory entry.
PARTITION_NAME: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9]\d{0,9})")
CloseAll: TypeAlias = Callable[
    [Callable[[PartitionLog], StorageError | None], list[PartitionLog]], Iterable[StorageError | None]
]
"""Calls a function with each log, as `map` does; on threads the syncs of logs wait for the disk side by side."""
METADATA_TOPIC: Final = "__cluster_metadata"  # KRaft's own log, in a directory that a broker used before us.


WITHOUT_JOURNAL: Final = (
    "`muster log verify {path}` says what is wrong with it. To start without, move {journal} aside: what was "
    "acknowledged after the last checkpoint, up to half a minute before the end, may be lost"
)
"""What an operator can do about a journal that no start takes."""


class LogDirectoryError(Exception):
    """The directory cannot be used; the message is one sentence for the operator who started the daemon."""


class LogDirectory:
    """A log directory, held from `open` to `close`. All methods block and may be called from any thread."""

    journal: Journal
    """Where the logs of shards are written first."""

    def __init__(self, path: Path, files: Files, lock: File) -> None:
        self.path = path
        self.warnings: list[str] = []  # What opening found odd and went on with.
        self._files = files
        self._lock_file = lock
        self._guard = RLock()  # Guards the logs and the checkpoint files.
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._cleaned: dict[TopicPartition, int] = {}
        self._sealed = SealedSegments(files, path)
        self.shut_down_cleanly = False
        self.properties = MetaProperties(-1, "", "")

    @classmethod
    def open(
        cls,
        path: Path,
        files: Files,
        *,
        node_id: int,
        cluster_id: str | None = None,
        is_journal_synced: bool = True,
    ) -> LogDirectory:
        """Take the directory for this process, making it if it is not there.

        Without `is_journal_synced` what is acknowledged survives the death of the process, not a loss of power.
        Raises LogDirectoryError if another process holds it, it cannot be read or written, or it belongs
        to another node or cluster.
        """
        try:
            _make(path, files, is_private=True)
            lock = files.lock(path / LOCK)
            if lock is None:
                raise LogDirectoryError(f"log directory {path} is in use by another process")
            directory = cls(path, files, lock)
            try:
                directory._load(node_id, cluster_id)
                directory._open_journal(is_journal_synced)
            except BaseException:
                lock.close()
                raise
            return directory
        except Garbled as error:
            raise LogDirectoryError(f"log directory {path} cannot be used: {error}") from error
        except StorageError as error:
            raise LogDirectoryError(f"log directory {path} cannot be used: cannot {error}") from error

    def _load(self, node_id: int, cluster_id: str | None) -> None:
        self.properties = self._identify(node_id, cluster_id)
        self.shut_down_cleanly = self._take_clean_shutdown()
        self._load_sealed()
        self._purge_deleted()
        present = set(self.partitions())
        self._recovery_points = self._read_checkpoint(RECOVERY_POINTS, present)
        self._log_starts = self._read_checkpoint(LOG_STARTS, present)
        self._cleaned = self._read_checkpoint(CLEANED, present)
        self._sealed.keep(present, self._files.read_small(self.path / RECOVERY_POINTS))

    def _open_journal(self, is_synced: bool) -> None:
        files = JournalFiles(self._files, self.path, self.properties.directory_id, is_synced=is_synced)
        self.journal = Journal(files)
        try:
            self.journal.read()
        except ForeignJournal:
            raise
        except StorageError as error:
            advice = f"{error}. {WITHOUT_JOURNAL.format(path=self.path, journal=files.path)}"
            raise LogDirectoryError(f"log directory {self.path} cannot be used: cannot {advice}") from error

    def _load_sealed(self) -> None:
        try:
            self._sealed.load()
        except Garbled as error:
            self.warnings.append(f"{error}; it is not used")

    def _take_clean_shutdown(self) -> bool:
        try:
            return take_clean_shutdown(self._files, self.path)
        except Garbled as error:
            self.warnings.append(f"{error}; the shutdown is taken for unclean")
            return False

    def _identify(self, node_id: int, cluster_id: str | None) -> MetaProperties:
        path = self.path / META_PROPERTIES
        found = read_meta_properties(self._files, path)
        if found is None:
            found = MetaProperties(node_id, cluster_id or new_uuid(), new_uuid())
            write_meta_properties(self._files, path, found)
        if found.node_id != node_id:
            raise Garbled(f"it belongs to node {found.node_id}, this is node {node_id} ({path})")
        if cluster_id not in (None, found.cluster_id):
            raise Garbled(f"it belongs to cluster {found.cluster_id}, this is {cluster_id} ({path})")
        return found

    def _read_checkpoint(self, name: str, present: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Read a checkpoint without the entries of partitions that are gone.

        These entries are removed from the file at once: a partition made again under an old name begins at 0.
        """
        path = self.path / name
        try:
            offsets = read_offsets(self._files, path)
        except Garbled as error:
            self.warnings.append(f"{error}; it is not used")
            return {}
        kept = {partition: offset for partition, offset in offsets.items() if partition in present}
        if lost := [partition.directory_name for partition in offsets.keys() - kept.keys()]:
            self.warnings.append(f"{path} names directories that are not there: {', '.join(sorted(lost))}")
            write_offsets(self._files, path, kept)
        return kept

    def _purge_deleted(self) -> None:
        for name in self._files.entries(self.path) or ():
            if name.endswith(DELETED_SUFFIX) and self._files.is_directory(self.path / name):
                self._purge(self.path / name)

    def _purge(self, directory: Path) -> None:
        for name in self._files.entries(directory) or ():
            self._files.unlink(directory / name)
        self._files.remove_directory(directory)

    def partitions(self) -> list[TopicPartition]:
        """The partitions that have a directory, whether they hold anything or not."""
        matches = map(PARTITION_NAME.fullmatch, self._files.entries(self.path) or ())
        names = (TopicPartition(match[1], int(match[2])) for match in matches if match)
        return [
            name
            for name in names
            if name.topic != METADATA_TOPIC and self._files.is_directory(self.path / name.directory_name)
        ]

    def open_log(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        topic_id: bytes | None = None,
        is_replayed: bool = False,
    ) -> PartitionLog:
        """Open one partition's log; logs may be opened side by side. Raises CorruptSegment, StorageError."""
        log = self.add_log(topic, partition, config, topic_id=topic_id, is_replayed=is_replayed)
        try:
            log.recover()
        except BaseException:
            with self._guard:
                del self._logs[TopicPartition(topic, partition)]
            raise
        return log

    def add_log(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        topic_id: bytes | None = None,
        is_replayed: bool = False,
    ) -> PartitionLog:
        """Return one partition's log, not opened yet: its `recover` opens it, and may be tried again.

        `is_replayed` is as in `Opening`; such a log is written behind the journal.
        """
        name = TopicPartition(topic, partition)
        with self._guard:
            assert name not in self._logs, f"{name.directory_name} is open"
            opening = Opening(
                self._recovery_points.get(name),
                self.shut_down_cleanly,
                self._log_starts.get(name, 0),
                topic_id,
                is_replayed,
                PartitionSeals(self._sealed, name),
            )
            make = StagedLog if is_replayed else PartitionLog
            log = make(self.path / name.directory_name, config, self._files, opening)
            if isinstance(log, StagedLog):
                self.journal.add(log)
            self._logs[name] = log
        return log

    def checkpoint(self) -> None:
        """Write down how far every open log is synced, and where it starts; call it now and then.

        Without it a crash costs nothing but time: more is checked at the next start.
        """
        with self._guard:
            for name, log in self._logs.items():
                if log.is_open:
                    self._recovery_points[name] = log.recovery_point
                    self._log_starts[name] = _start_to_remember(log)
            self._write_checkpoints()

    def _write_checkpoints(self) -> None:
        synced = {name: offset for name, offset in self._recovery_points.items() if offset}
        synced_text = encode_offsets(synced)  # No entry means 0, too.
        self._sealed.write_down(synced_text, self._sealed_now)
        self._files.write_atomically(self.path / RECOVERY_POINTS, synced_text)
        self._write_log_starts()

    def _sealed_now(self) -> dict[TopicPartition, Sizes]:
        return {name: log.sealed_sizes() for name, log in self._logs.items() if log.is_open}

    def _write_log_starts(self) -> None:
        starts = {name: offset for name, offset in self._log_starts.items() if offset}
        write_offsets(self._files, self.path / LOG_STARTS, starts)

    def delete_records(self, name: TopicPartition, log: PartitionLog, offset: int, wall_ms: int) -> None:
        """Delete the records of `log` below `offset`; the files of whole segments below it are removed.

        The start is on the disk before any reader sees it: what is gone stays gone. Raises OffsetOutOfRange;
        StorageError, also where `log` was deleted meanwhile.
        """
        with self._guard:
            if self._logs.get(name) is not log:
                raise StorageError("use", log.directory, "the partition was deleted")
            log.check_start(offset)
            before = self._log_starts.get(name, 0)
            self._log_starts[name] = max(before, offset)
            try:
                self._write_log_starts()
            except StorageError:
                self._log_starts[name] = before
                raise
            log.advance_start(offset)
        log.apply_retention(wall_ms, only_below_start=True)

    def compacted_logs(self) -> list[tuple[TopicPartition, PartitionLog, int]]:
        """The open logs that are to be compacted, each with the offset up to which it has been cleaned."""
        with self._guard:
            logs = [(name, log) for name, log in self._logs.items() if log.config.is_compacted]
            return [(name, log, self._cleaned.get(name, 0)) for name, log in logs]

    def set_cleaned(self, name: TopicPartition, log: PartitionLog, offset: int) -> None:
        """Write down that `log` has been cleaned up to `offset`, unless it was deleted meanwhile."""
        with self._guard:
            if self._logs.get(name) is log:
                self._cleaned[name] = offset
                self._write_cleaned()
                self._sealed.add(self._sealed_now)

    def _write_cleaned(self) -> None:
        write_offsets(self._files, self.path / CLEANED, self._cleaned)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """`PartitionLog.truncate_to`, with the recovery point on the disk moved back first."""
        name = TopicPartition(topic, partition)
        with self._guard:
            log = self._logs[name]
            self._recovery_points[name] = min(offset, log.recovery_point)
            self._write_checkpoints()
            if self._cleaned.get(name, 0) > offset:
                self._cleaned[name] = offset
                self._write_cleaned()
            log.truncate_to(offset)

    def delete_log(self, topic: str, partition: int) -> None:
        """Delete a partition for good; its log must take no more appends. Readers finish what they began."""
        name = TopicPartition(topic, partition)
        with self._guard:
            log = self._logs.pop(name, None)
            if log is not None:
                log.abandon()
            if isinstance(log, StagedLog):
                self.journal.forget(log)
            self._sealed.forget(name)
            renamed = self.path / deleted_name(name)
            exists = self._files.is_directory(self.path / name.directory_name)
            if exists:
                self._files.rename(self.path / name.directory_name, renamed)
                self._files.sync_directory(self.path)
            known = self._recovery_points.pop(name, None) is not None
            if self._log_starts.pop(name, None) is not None or known:
                self._write_checkpoints()
            if self._cleaned.pop(name, None) is not None:
                self._write_cleaned()
            if exists:
                self._purge(renamed)

    def close(
        self, close_all: CloseAll = map, before_release: Callable[[], object] = list
    ) -> list[StorageError]:
        """Close every log and release the directory; return the errors of what could not be closed cleanly.

        Logs that never had a record, as most of the internal topics, are closed on this thread: there is nothing
        to wait for, and to hand each of a hundred to another took 10 ms.

        Without any, the marker of a clean shutdown is written: the next start trusts the files as they are. Then
        `before_release` is called, with every log closed and synced and the directory still held.
        """
        with self._guard:
            empty = [log for log in self._logs.values() if not log.next_offset]
            rest = [log for log in self._logs.values() if log.next_offset]
            outcomes = [*close_all(_failure_to_close, rest), *map(_failure_to_close, empty)]
            failures = [failure for failure in outcomes if failure is not None]
            try:
                self.checkpoint()
                self.journal.close()  # It stays if something in it is in no segment.
                if not failures and self._all_clean():
                    write_clean_shutdown(self._files, self.path)
            except StorageError as error:
                failures.append(error)
            try:
                before_release()
            finally:
                self._lock_file.close()
            return failures

    def _all_clean(self) -> bool:
        """Whether every partition was closed whole, or not touched since the last clean shutdown."""
        if any(log.failure is not None for log in self._logs.values()):
            return False
        return self.shut_down_cleanly or self._logs.keys() >= set(self.partitions())


def _make(path: Path, files: Files, *, is_private: bool = False) -> None:
    """Make `path` and what is missing above it, from above: the name of each is on the disk before the next.

    If `is_private` only its owner can use it, as users and rights may be kept in it (F13). That is not so of what
    is above it, and what was there keeps its mode.

    One whose name cannot be synced is taken back, or the next start would find it and trust it.
    """
    if files.is_directory(path):
        return
    _make(path.parent, files)
    if not files.make_directory(path, is_private=is_private):
        return
    try:
        files.sync_directory(path.parent)
    except StorageError:
        files.remove_directory(path)
        raise


def _failure_to_close(log: PartitionLog) -> StorageError | None:
    try:
        log.close()
    except StorageError as error:
        return error
    return None


def _start_to_remember(log: PartitionLog) -> int:
    """Return the log's start for its checkpoint; 0 (no entry), as in Kafka, if the first file's name says it."""
    segments = log.segments
    is_in_file_name = bool(segments) and segments[0].base_offset == log.log_start_offset
    return 0 if is_in_file_name else log.log_start_offset


def deleted_name(name: TopicPartition) -> str:
    """Return the name of a partition's directory while it is being deleted: Kafka's form, and no partition's."""
    suffix = f"-{name.partition}.{uuid4().hex}{DELETED_SUFFIX}"
    return name.topic[: MAX_NAME_BYTES - len(suffix)] + suffix
