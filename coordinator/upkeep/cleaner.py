"""The log cleaner: threads that compact the logs of compacted topics, the dirtiest first.

The event loop takes no part: a log may be cleaned while it is appended to, flushed and read. The cleaning of one
log is in `storage.cleaning.compaction`; this module decides which log is next, when, how fast, and what a failure
means. A log whose cleaning failed stays as it is and is still served; it is not cleaned again before the next
start. After a full disk, or too many open files, the log is tried again after the usual pause.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from threading import TIMEOUT_MAX, Condition, Event, Lock, Thread
from typing import Final, NamedTuple, Protocol
from weakref import WeakSet

import structlog

from coordinator.settings.model import Settings
from coordinator.upkeep.cleaner_pace import CleaningStopped, Pace
from protocol.topic_partition import TopicPartition
from storage.cleaning.cleanable import Cleanable, cleanable
from storage.cleaning.compaction import Cleaned, Compaction, CompactionLimits, LogChanged
from storage.directory.log_directory import LogDirectory
from storage.files import Files, StorageError
from storage.log.partition_log import PartitionLog
from storage.log.segment_swap import StuckSwap

log = structlog.get_logger("muster.cleaner")

PASSING_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})


class CleanerSettings(Protocol):
    """The settings of the cleaner that may change at run time."""

    @property
    def log_cleaner_threads(self) -> int: ...
    @property
    def log_cleaner_backoff_ms(self) -> int: ...
    @property
    def log_cleaner_dedupe_buffer_size(self) -> int: ...
    @property
    def log_cleaner_io_max_bytes_per_second(self) -> float: ...
    @property
    def producer_id_expiration_ms(self) -> int: ...


class Candidate(NamedTuple):
    """A log that is dirty enough to be cleaned."""

    name: TopicPartition
    log: PartitionLog
    part: Cleanable


class Cleaner:
    """The cleaner's threads, which repeat `clean_all`. `start` and `stop` are called once each, on any thread."""

    def __init__(
        self,
        directory: LogDirectory,
        files: Files,
        settings: Settings,
        wall_ms: Callable[[], int],
    ) -> None:
        self._directory = directory
        self._files = files
        self._settings: CleanerSettings = settings
        self._wall_ms = wall_ms
        self._stopping = Event()
        self._guard = Lock()  # Guards the sets of logs and the dict of threads.
        self._altered = Condition(self._guard)
        self._busy: WeakSet[PartitionLog] = WeakSet()
        self._uncleanable: WeakSet[PartitionLog] = WeakSet()
        self._threads: dict[int, Thread] = {}
        self._is_enabled = settings.log_cleaner_enable
        self._is_started = False

    def start(self) -> None:
        """Start the threads, if `log.cleaner.enable` is set."""
        with self._guard:
            self._is_started = True
            self._start_threads()

    def alter(self, settings: CleanerSettings) -> None:
        """Change the settings; surplus threads end after the log that they are cleaning."""
        with self._guard:
            self._settings = settings
            self._start_threads()
            self._altered.notify_all()

    def stop(self) -> None:
        """Drop the cleanings under way and end the threads. Blocks for a moment."""
        self._stopping.set()
        with self._guard:
            self._altered.notify_all()
            threads = list(self._threads.values())
        for thread in threads:
            thread.join()

    @property
    def threads(self) -> int:
        """Number of running cleaner threads."""
        with self._guard:
            return len(self._threads)

    def _start_threads(self) -> None:
        """Start the threads that are missing to `log.cleaner.threads`. The caller holds the guard."""
        if not self._is_enabled or not self._is_started or self._stopping.is_set():
            return
        for number in range(self._settings.log_cleaner_threads):
            if number not in self._threads:
                name = f"cleaner-{number}"
                thread = Thread(target=self._run_thread, args=(number,), name=name, daemon=True)
                thread.start()  # The system may refuse it: then `stop` waits for the others.
                self._threads[number] = thread

    def _run_thread(self, number: int) -> None:
        while not self._stopping.is_set():
            try:
                self.clean_all()
            except CleaningStopped:
                return
            with self._guard:
                if number >= self._settings.log_cleaner_threads:
                    del self._threads[number]
                    return
                if not self._stopping.is_set():
                    self._altered.wait(min(self._settings.log_cleaner_backoff_ms / 1000, TIMEOUT_MAX))

    def clean_all(self) -> int:
        """Clean one log after another until none is dirty enough; return how many. Raises CleaningStopped."""
        # A cleaned log may still be dirty; it waits for the next call.
        done: WeakSet[PartitionLog] = WeakSet()
        count = 0
        while (chosen := self._choose(done)) is not None:
            done.add(chosen.log)
            count += 1
            try:
                self._clean(chosen)
            finally:
                with self._guard:
                    self._busy.discard(chosen.log)
        return count

    def _choose(self, done: WeakSet[PartitionLog]) -> Candidate | None:
        """Return the dirtiest log that no thread is cleaning, marked as busy; None if none is dirty enough."""
        with self._guard:
            best: Candidate | None = None
            for name, partition_log, checkpoint in self._directory.compacted_logs():
                if partition_log in done or partition_log in self._busy or partition_log in self._uncleanable:
                    continue
                part = self._cleanable_part(name, partition_log, checkpoint)
                if part is not None and (best is None or part.ratio > best.part.ratio):
                    best = Candidate(name, partition_log, part)
            if best is not None:
                self._busy.add(best.log)
            return best

    def _cleanable_part(
        self, name: TopicPartition, partition_log: PartitionLog, checkpoint: int
    ) -> Cleanable | None:
        if partition_log.failure is not None:
            return None
        try:
            part = cleanable(partition_log, checkpoint, self._wall_ms())
        except StorageError as error:
            self._give_up(name, partition_log, error)
            return None
        is_worth_it = part.ratio > partition_log.config.min_cleanable_ratio or part.is_overdue
        return part if part.dirty_bytes and is_worth_it else None

    def _clean(self, chosen: Candidate) -> None:
        settings = self._settings
        limits = CompactionLimits(
            buffer_bytes=settings.log_cleaner_dedupe_buffer_size // settings.log_cleaner_threads,
            producer_expiration_ms=settings.producer_id_expiration_ms,
        )
        compaction = Compaction(
            chosen.log,
            self._files,
            chosen.part,
            wall_ms=self._wall_ms(),
            limits=limits,
            pace=Pace(self._stopping, lambda: self._settings.log_cleaner_io_max_bytes_per_second),
        )
        try:
            cleaned = compaction.run()
            self._directory.set_cleaned(chosen.name, chosen.log, cleaned.end_offset)
        except LogChanged:
            log.debug("cleaning dropped: the log has changed", partition=chosen.name.directory_name)
        except StorageError as error:
            with self._guard:
                self._give_up(chosen.name, chosen.log, error)
        else:
            _report(chosen, cleaned)

    def _give_up(self, name: TopicPartition, partition_log: PartitionLog, error: StorageError) -> None:
        if partition_log.failure is not None:
            return  # Failed or deleted meanwhile, which is reported elsewhere.
        if error.errno in PASSING_ERRORS and not isinstance(error, StuckSwap):
            log.warning("cleaning failed, tried again later", partition=name.directory_name, error=str(error))
            return
        self._uncleanable.add(partition_log)
        log.error(
            "cleaning failed, not cleaned until the next start",
            partition=name.directory_name,
            error=str(error),
        )


def _report(chosen: Candidate, cleaned: Cleaned) -> None:
    if cleaned.bytes_before:
        log.info(
            "log cleaned",
            partition=chosen.name.directory_name,
            up_to=cleaned.end_offset,
            bytes_before=cleaned.bytes_before,
            bytes_after=cleaned.bytes_after,
            keys=cleaned.keys,
        )
