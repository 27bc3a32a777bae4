"""The life of a log's files: opened, in use, failed, abandoned; and what it refuses meanwhile.

Who holds the disk lock moves it; anyone may ask.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Final

from storage.files import StorageError


class LogLife(Enum):
    """Of a `PartitionLog`."""

    UNOPENED = auto()  # Its files have not been looked at, or could not be brought into order.
    OPEN = auto()
    FAILED = auto()  # Its files may differ from what is durable; that is read, and nothing is changed.
    ABANDONED = auto()  # Its directory goes; readers finish what they began.


class LifeTrigger(Enum):
    """What happens to a `PartitionLog`."""

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
    """The state of one log, and the error that it is in that state for."""

    def __init__(self, directory: Path) -> None:
        self.state = LogLife.UNOPENED
        self.failure: StorageError | None = StorageError("use", directory, "not opened yet")
        self._directory = directory

    def move(self, trigger: LifeTrigger, failure: StorageError | None = None) -> None:
        """Move along TRANSITIONS; the only code that assigns `state`."""
        self.state = TRANSITIONS[self.state, trigger]
        if self.state is LogLife.ABANDONED:
            failure = StorageError("use", self._directory, "the partition was deleted")
        self.failure = failure

    def failing(self, operation: Callable[[], None]) -> None:
        """Do what changes files; if it cannot be done, nothing more is until the log is cut back, or opened."""
        try:
            operation()
        except StorageError as error:
            self.move(LifeTrigger.FAILED, error)
            raise

    def refuse_if_failed(self) -> None:
        """Raises StorageError where nothing may be changed."""
        if (failure := self.failure) is not None:
            raise StorageError(failure.operation, failure.path, failure.reason, failure.errno)

    def refuse_if_abandoned(self) -> None:
        """Raises StorageError where there is nothing to cut back any more."""
        if self.state is LogLife.ABANDONED:
            self.refuse_if_failed()

    def refuse_unless_opened(self) -> None:
        """Raises StorageError where nothing can be read."""
        if self.state is LogLife.UNOPENED:
            assert self.failure is not None, "a log that is not open says why"
            raise self.failure.with_traceback(None)
