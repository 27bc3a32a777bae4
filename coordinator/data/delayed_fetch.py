"""A parked Fetch: completes when enough bytes have become durable, or when its time is up (`max_wait_ms`).

The purgatory watches it under each of its partitions; when one is flushed, the fetch counts the bytes that became
readable since it was parked, without reading them. Whatever ends the wait, the partitions are read again. A fetch
whose connection is gone is dropped when it is next looked at, at the latest when its slice of the wait ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.data.broker import ClientRequest
from coordinator.data.fetch_read import Target
from coordinator.purgatory.delayed import DelayedOperation
from coordinator.topics.partition import Partition


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of a partition when the fetch was parked."""

    partition: Partition
    readable_offset: int
    flushed_bytes: int
    max_bytes: int
    is_read_committed: bool

    def new_bytes(self) -> int | None:
        """Return the number of new bytes that this fetch may read; None if the wait must end."""
        partition = self.partition
        readable_offset = partition.readable_offset(is_read_committed=self.is_read_committed)
        if partition.is_deleted or readable_offset < self.readable_offset:
            return None
        if readable_offset == self.readable_offset:
            return 0
        if self.is_read_committed:
            return None  # What of the new bytes is stable is not counted.
        came_bytes = partition.flushed_bytes - self.flushed_bytes
        if came_bytes <= 0:
            return None  # Flushed, but the outcome has not reached the loop: the bytes are not counted yet.
        return min(came_bytes, self.max_bytes)


def mark(target: Target, is_read_committed: bool) -> Mark | None:
    """Return the present state of the target's partition; None if the target has no partition."""
    partition = target.partition
    if partition is None:
        return None
    readable_offset = partition.readable_offset(is_read_committed=is_read_committed)
    max_bytes = max(target.wanted.max_bytes, 0)
    return Mark(partition, readable_offset, partition.flushed_bytes, max_bytes, is_read_committed)


SLICE_MS: Final = 30_000
"""A wait is cut into slices of this length, so the request of a client that is gone is kept no longer."""


class DelayedFetch(DelayedOperation):
    """One parked fetch. `wanted_bytes` is the number of bytes that are missing to `min_bytes`."""

    def __init__(
        self,
        deadline_ms: int,
        marks: Sequence[Mark],
        wanted_bytes: int,
        pending: ClientRequest,
        finish: Callable[[DelayedFetch], None],
    ) -> None:
        super().__init__(deadline_ms)
        self._marks = marks
        self._wanted_bytes = wanted_bytes
        self._pending = pending
        self._finish = finish
        for each in marks:
            each.partition.log.await_written()

    def try_complete(self) -> bool:
        return (not self._pending.is_open or self.has_enough()) and self.force_complete()

    def has_enough(self) -> bool:
        """Whether the wait must end: enough bytes are new, or a partition has changed in another way."""
        came_bytes = 0
        for each in self._marks:
            new_bytes = each.new_bytes()
            if new_bytes is None:
                return True
            came_bytes += new_bytes
        return came_bytes >= self._wanted_bytes

    def on_complete(self) -> None:
        for each in self._marks:
            each.partition.log.end_wait()
        if self._pending.is_open:
            self._finish(self)
