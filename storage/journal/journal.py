"""One journal for the logs of all shards: one frame, one write and one sync for what a turn of the loop appended.

`write` makes a frame of what is staged in some logs; from then on it counts. `write_behind` brings it to the
segments. `checkpoint` syncs these and removes the files whose frames are no longer needed, so that a start
has little to replay. `logs` are asked who they are by the name of their directory.

The journal knows no threads. `write` may run beside the other methods; those one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Final, TypeAlias

from protocol.records.batch import parse_header, read_batch
from storage.files import Buffer, CorruptSegment, StorageError
from storage.journal.files import JournalFiles
from storage.journal.frames import Frame, Part
from storage.log.segment import StagedBatch
from storage.log.staged_log import StagedLog

Outcomes: TypeAlias = list[tuple[StagedLog, StorageError | None]]
"""What became of some logs: the error, or None where something was written."""

CARRY_OVER_BYTES: Final = 128 << 20
"""Size of the files that a log which cannot be written may hold back; then what it needs of them is copied."""

CARRY_OVER_FILES: Final = 100
"""Number of such files: under little load each checkpoint makes one, of a few bytes."""


class Journal:
    """The journal of one log directory, and the logs that are written behind it. Opened by `read`."""

    def __init__(self, files: JournalFiles) -> None:
        self.files = files
        self._lock = Lock()  # Held while a frame is written.
        self._guard = Lock()  # Guards the three below.
        self._found: dict[str, list[memoryview]] = {}  # What the start found of logs that were not added yet.
        self._behind: dict[StagedLog, None] = {}  # Logs that a frame was written of, since their last round.
        self._unsynced: dict[StagedLog, None] = {}  # Those since the last checkpoint.
        self._outcomes: Outcomes = []  # Returned by no call yet: one may have ended with an error.
        self.is_closed = False
        self.want_written: Callable[[], None] = _nothing  # On any thread: a reader waits for a segment.
        self.bytes_behind = 0  # About how much is in the journal and in no segment.

    # The start.

    def read(self) -> None:
        """Read what an earlier process left. Raises CorruptSegment, ForeignJournal, StorageError."""
        for frame in self.files.read():
            for name, data in frame.parts:
                self._found.setdefault(name, []).extend(self._batches(frame, name, data))

    def _batches(self, frame: Frame, name: str, data: memoryview) -> Iterator[memoryview]:
        position = 0
        while position < len(data):
            batch = read_batch(data, position, 0)
            if batch is None:
                detail = f"frame {frame.sequence} has no batch at byte {position} of {name}"
                raise CorruptSegment(self.files.path, frame.position, detail)
            yield data[position : batch.end]
            position = batch.end

    def add(self, log: StagedLog) -> None:
        """Take a log that is not opened yet; it inherits what an earlier process left of it."""
        log.journal_lock, log.cut_back_journal = self._lock, self.files.cut_back
        log.want_written = self._on_wanted
        with self._guard:
            if found := self._found.pop(log.directory.name, None):
                log.inherit(found)
                self._behind[log] = self._unsynced[log] = None

    def forget(self, log: StagedLog) -> None:
        """Drop a log whose directory is deleted."""
        with self._guard:
            self._behind.pop(log, None)
            self._unsynced.pop(log, None)

    @property
    def unclaimed(self) -> list[str]:
        """The names of logs of which an earlier process left something, and that were not added."""
        return sorted(self._found)

    # The turn.

    def write(self, logs: Iterable[StagedLog]) -> dict[StagedLog, StorageError]:
        """Write one frame of all that is staged in `logs`; return the errors of those that it failed for."""
        with self._lock:
            failed: dict[StagedLog, StorageError] = {}
            taken: dict[StagedLog, list[StagedBatch]] = {}
            for log in logs:
                try:
                    if batches := log.take_staged():
                        taken[log] = batches
                except StorageError as error:
                    failed[log] = error
            if taken:
                self._write_frame(taken, failed)
            for log, failure in failed.items():
                log.frame_failed(failure)  # Under the lock: a log that is cut back then is not failed anew.
        return failed

    def _write_frame(
        self, taken: dict[StagedLog, list[StagedBatch]], failed: dict[StagedLog, StorageError]
    ) -> None:
        try:
            self.files.append([_part(log, batches) for log, batches in taken.items()])
        except StorageError as error:
            failed.update(dict.fromkeys(taken, error))
            return
        try:
            for log, batches in taken.items():
                self._count(log, batches)
        except BaseException as bug:  # The frame is good, and a log does not count it: none may follow it.
            self.files.end(repr(bug))
            raise

    def _count(self, log: StagedLog, batches: list[StagedBatch]) -> None:
        log.journaled(batches)
        with self._guard:
            self._behind[log] = self._unsynced[log] = None
            self.bytes_behind += sum(len(batch.data) for batch in batches)
        if log.waiting_readers:
            self.want_written()

    def _on_wanted(self) -> None:
        self.want_written()

    # Behind.

    def write_behind(self) -> Outcomes:
        """Write to the segments what is behind them; return the logs that were written, and errors of others.

        A bug in one log is raised when the others have been written.
        """
        with self._guard:
            behind, self._behind = self._behind, {}
            self.bytes_behind = 0
        bug: BaseException | None = None
        for log in behind:
            try:
                if log.failure is None and log.write_behind():
                    self._outcomes.append((log, None))
            except StorageError as error:
                self._outcomes.append((log, error))
            except BaseException as error:  # Raised below: first the other logs are written.
                bug = bug or error
                with self._guard:
                    self._behind[log] = None
        if bug is not None:
            raise bug
        return self._take_outcomes()

    def _take_outcomes(self) -> Outcomes:
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    @property
    def needs_checkpoint(self) -> bool:
        """Whether there is anything to sync, or a file to remove."""
        return not self.is_closed and (bool(self._unsynced) or len(self.files.numbers) > 1)

    def checkpoint(self, wall_ms: int, meanwhile: Callable[[], None] = lambda: None) -> Outcomes:
        """Sync the segments and remove the files that are no longer needed; return the errors of logs.

        `meanwhile` is called between the syncs of two logs. A log that cannot be written holds back the files
        that it needs, up to CARRY_OVER_BYTES and CARRY_OVER_FILES; one that was not added yet, all of them.
        Raises StorageError if the journal itself cannot be changed; it goes on as it was.
        """
        carried: set[StagedLog] = set()
        with self._lock:
            is_too_much = (
                self.files.size_bytes > CARRY_OVER_BYTES or len(self.files.numbers) > CARRY_OVER_FILES
            )
            self.files.begin()
            if is_too_much:
                carried = self._carry_over()
            first_needed = self.files.numbers[-1]
            with self._guard:
                unsynced, self._unsynced = self._unsynced, {}
                is_claimed = not self._found
        stuck = dict(unsynced)
        try:
            for log in unsynced:
                if log not in carried and self._sync(log, wall_ms):
                    del stuck[log]
                meanwhile()
        finally:  # Also after a bug: what was not synced still needs its files.
            with self._guard:
                self._unsynced.update(stuck)
        if is_claimed and len(stuck) == len(carried):
            self.files.delete_before(first_needed)
        return self._take_outcomes()

    def _sync(self, log: StagedLog, wall_ms: int) -> bool:
        """Bring all that a log has in the journal to the disk; return whether that went well."""
        if log.failure is not None:
            return False
        try:
            log.write_behind()
            log.sync_written(wall_ms)
        except StorageError as error:
            self._outcomes.append((log, error))
            return False
        return True

    def _carry_over(self) -> set[StagedLog]:
        """Write again, as the first frame of the new file, what logs need of the old ones that cannot be written.

        Returns these logs.
        """
        with self._guard:
            failed = [log for log in self._unsynced if log.failure is not None]
        stuck = {log: _part(log, batches) for log in failed if (batches := log.stuck()) is not None}
        if missing := [log for log in failed if log not in stuck and log.failure is not None]:
            stuck |= self._parts_of_files(missing)
        if parts := [part for part in stuck.values() if part.batches]:
            self.files.append(parts)
        return set(stuck)

    def _parts_of_files(self, logs: list[StagedLog]) -> dict[StagedLog, Part]:
        """Return what older files have of logs whose segments are not synced: they need more than is in memory.

        Frames wait meanwhile, for as long as it takes to read these files.
        """
        wanted = {log.directory.name: (log, log.recovery_point) for log in logs}
        found: dict[StagedLog, list[Buffer]] = {log: [] for log in logs}
        for frame in self.files.older():
            for name, data in frame.parts:
                if name in wanted:
                    log, synced_offset = wanted[name]
                    batches = self._batches(frame, name, data)
                    found[log] += [
                        each for each in batches if parse_header(each).last_offset >= synced_offset
                    ]
        return {log: Part(log.directory.name, batches) for log, batches in found.items()}

    @property
    def is_needed(self) -> bool:
        """Whether the next start needs it: some log has not got all of it in its segments, synced."""
        return bool(self._found) or any(
            log.failure is not None or log.has_behind or not log.is_synced for log in self._unsynced
        )

    def close(self) -> None:
        """Write nothing more; unless the next start needs it, remove the journal. The logs were closed before."""
        with self._lock:
            self.is_closed = True
            if not self.is_needed:
                self.files.remove()


def _nothing() -> None:
    """Until there are threads the journal is written behind by those who use it."""


def _part(log: StagedLog, batches: list[StagedBatch]) -> Part:
    return Part(log.directory.name, [batch.data for batch in batches])
