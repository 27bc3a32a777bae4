"""What one member of a group reports to the test: its partitions, the records it read, the commits it was refused.

The same for every client library. Events carry the member's number, since one process may host many (see
`hosting`). With `"holds": true` it stands still, once, between reading records and committing them, until a line
comes on stdin: a test may stop the process just there. Knows no client library.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from harness.reporting import Config, report


class Partition(Protocol):
    """A TopicPartition of any library."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...


class Diary:
    """One member's events; a library's callback threads may write them, one at a time."""

    def __init__(self, config: Config, number: int, go: threading.Semaphore) -> None:
        self.has_uncommitted = False
        self._number = number
        self._owned: set[str] = set()
        self._holds = bool(config.get("holds"))
        self._go = go

    def note(self, event: str, **fields: object) -> None:
        """Report one event of this member."""
        report(event, member=self._number, **fields)

    def assigned(self, partitions: Iterable[Partition]) -> None:
        """Report that the member got `partitions` beside those it has."""
        self._owned |= _names(partitions)
        self.note("owns", partitions=sorted(self._owned))

    def gave_up(self, partitions: Iterable[Partition]) -> None:
        """Report that `partitions` were revoked, or lost."""
        self._owned -= _names(partitions)
        self.note("owns", partitions=sorted(self._owned))

    def read(self, values: list[str]) -> None:
        """Report records that the member read and has yet to commit; without records there is no event."""
        if not values:
            return
        self.has_uncommitted = True
        self.note("records", values=values)
        if self._holds:
            self._holds = False
            self.note("holding")
            self._go.acquire()

    @contextmanager
    def committing(self, *errors: type[Exception]) -> Iterator[None]:
        """Wrap a commit of all that was read: one of `errors` is reported, and does not end the member."""
        try:
            yield
        except errors as error:
            self.refused(type(error).__name__, error)
        else:
            self.committed()

    def committed(self) -> None:
        """Note that all that the member read is committed."""
        self.has_uncommitted = False

    def refused(self, error: str, said: object = "") -> None:
        """A commit failed with `error`, the library's name for it, and what else it `said`."""
        self.note("commit_refused", error=error, said=str(said))


def _names(partitions: Iterable[Partition]) -> set[str]:
    return {f"{each.topic}-{each.partition}" for each in partitions}
