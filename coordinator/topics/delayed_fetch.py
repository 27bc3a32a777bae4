"""A parked Fetch: completes when enough bytes have become durable, or when its time is up (`max_wait_ms`).

It is watched under its partitions; each flush of one lets it count what came since it was parked, without
reading. Whatever ends the wait, the partitions are then read afresh by whoever parked it. A fetch whose
connection is gone ends at the next occasion and reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coordinator.purgatory.delayed import DelayedOperation
from coordinator.topics.broker import Pending
from coordinator.topics.fetch_read import Target
from coordinator.topics.partition import Partition


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a partition stood when the fetch was parked."""

    partition: Partition
    high_watermark: int
    flushed_bytes: int
    max_bytes: int

    def new_bytes(self) -> int | None:
        """Bytes that came since, as far as this fetch may take them; None if the wait must end."""
        partition = self.partition
        if partition.is_deleted or partition.high_watermark < self.high_watermark:
            return None
        if partition.high_watermark == self.high_watermark:
            return 0
        came_bytes = partition.flushed_bytes - self.flushed_bytes
        if came_bytes <= 0:
            return None  # Written past `Partition`, by a shard of the coordinator: nobody counted.
        return min(came_bytes, self.max_bytes)


def mark(target: Target) -> Mark | None:
    """The mark of a target, if it has a partition."""
    partition = target.partition
    if partition is None:
        return None
    return Mark(partition, partition.high_watermark, partition.flushed_bytes, max(target.wanted.max_bytes, 0))


class DelayedFetch(DelayedOperation):
    """One parked fetch. `wanted_bytes` is what is still missing of `min_bytes`."""

    def __init__(
        self,
        deadline_ms: int,
        marks: Sequence[Mark],
        wanted_bytes: int,
        pending: Pending,
        finish: Callable[[], None],
    ) -> None:
        super().__init__(deadline_ms)
        self._marks = marks
        self._wanted_bytes = wanted_bytes
        self._pending = pending
        self._finish = finish

    def try_complete(self) -> bool:
        if not self._pending.is_open:
            return self.force_complete()
        came_bytes = 0
        for each in self._marks:
            new_bytes = each.new_bytes()
            if new_bytes is None:
                return self.force_complete()
            came_bytes += new_bytes
        return came_bytes >= self._wanted_bytes and self.force_complete()

    def on_complete(self) -> None:
        if self._pending.is_open:
            self._finish()
