"""The states of a log's files (unopened, open, failed, abandoned), and what is refused in each.

Only the holder of the log's disk lock changes the state; any thread may read it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Final

from storage.files import StorageError
from storage.log.transitions import next_state


class LogLife(Enum):
    """The state of a `PartitionLog`'s files."""

    UNOPENED = auto()  # Its files have not been looked at, or could not be brought into order.
    OPEN = auto()
    FAILED = auto()  # Its files may differ from what is durable: reads are served, changes are refused.
    ABANDONED = auto()  # Its directory is being deleted; readers finish what they began.


class LifeTrigger(Enum):
    """An event that changes the state of a `PartitionLog`'s files."""

    OPENED = auto()
    FAILED = auto()
    CUT_BACK = auto()
    ABANDONED = auto()


TRANSITIONS: Final = {
    (LogLife.UNOPENED, LifeTrigger.OPENED): LogLife.OPEN,
    (LogLife.UNOPENED, LifeTrigger.FAILED): LogLife.UNOPENED,
    (LogLife.OPEN, LifeTrigger.FAILED): LogLife.FAILED,
    (LogLife.OPEN, LifeTrigger.CUT_BACK): LogLife.OPEN,
    (LogLife.FAILED, LifeTrigger.CUT_BACK): LogLife.OPEN,
    **{(state, LifeTrigger.ABANDONED): LogLife.ABANDONED for state in LogLife},
}


class Lifecycle:
    """The state of one log's files, and the error for which changes are refused, if they are."""

    def __init__(self, directory: Path) -> None:
        self.state = LogLife.UNOPENED
        self.failure: StorageError | None = StorageError("use", directory, "not opened yet")
        self._directory = directory

    def move(self, trigger: LifeTrigger, failure: StorageError | None = None) -> None:
        """Move along TRANSITIONS; the only code that assigns `state`."""
        self.state = next_state(TRANSITIONS, self.state, trigger)
        if self.state is LogLife.ABANDONED:
            failure = StorageError("use", self._directory, "the partition was deleted")
        self.failure = failure

    def run_or_fail(self, operation: Callable[[], None]) -> None:
        """Run `operation`, which changes files; a StorageError fails the log, until it is cut back or opened."""
        try:
            operation()
        except StorageError as error:
            self.move(LifeTrigger.FAILED, error)
            raise

    def refuse_if_failed(self) -> None:
        """Raise StorageError if the log's files may not be changed now."""
        if (failure := self.failure) is not None:
            raise StorageError(failure.operation, failure.path, failure.reason, failure.errno)

    def refuse_if_abandoned(self) -> None:
        """Raise StorageError if the log is being deleted: nothing is left to cut back. A failed log passes."""
        if self.state is LogLife.ABANDONED:
            self.refuse_if_failed()

    def refuse_unless_opened(self) -> None:
        """Raise StorageError if the log was not opened, so that it cannot be read."""
        if self.state is LogLife.UNOPENED:
            assert self.failure is not None, "a log that is not open says why"
            raise self.failure.with_traceback(None)
