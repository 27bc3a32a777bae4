"""A parked Fetch: completes when enough bytes have become durable, or when its time is up (`max_wait_ms`).

The purgatory watches it under each of its partitions; when one is flushed, the fetch counts the bytes that became
durable since it was parked, without reading them. Whatever ends the wait, the partitions are read again. A fetch
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
    high_watermark: int
    flushed_bytes: int
    max_bytes: int
    stable_offset: int | None  # None for a fetch that reads uncommitted records too.

    def new_bytes(self) -> int | None:
        """Return the number of new bytes that this fetch may read; None if the wait must end."""
        partition = self.partition
        if partition.is_deleted or partition.high_watermark < self.high_watermark:
            return None
        if self.stable_offset is not None:
            return 0 if partition.last_stable_offset == self.stable_offset else None
        if partition.high_watermark == self.high_watermark:
            return 0
        came_bytes = partition.flushed_bytes - self.flushed_bytes
        if came_bytes <= 0:
            return None  # Flushed, but the outcome has not reached the loop: the bytes are not counted yet.
        return min(came_bytes, self.max_bytes)


def mark(target: Target, is_read_committed: bool) -> Mark | None:
    """Return the present state of the target's partition; None if the target has no partition."""
    partition = target.partition
    if partition is None:
        return None
    stable_offset = partition.last_stable_offset if is_read_committed else None
    max_bytes = max(target.wanted.max_bytes, 0)
    return Mark(partition, partition.high_watermark, partition.flushed_bytes, max_bytes, stable_offset)


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
        if self._pending.is_open:
            self._finish(self)
