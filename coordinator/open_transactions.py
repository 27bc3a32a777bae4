"""Offsets that were committed within transactions, while a log is replayed: they count from the marker on.

Muster writes none, but a log that Kafka wrote has them: records in transactional batches, and later a
control batch of the same producer that commits or aborts them. What has no marker does not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from coordinator.effects import Record
from protocol.control_records import ControlType, control_type


class OpenTransactions:
    """The transactions of one log that have no marker yet. `count(record, offset)` takes what counts."""

    def __init__(self, count: Callable[[Record, int], None]) -> None:
        self._count = count
        self._held: dict[int, list[tuple[Record, int]]] = defaultdict(list)

    def hold(self, producer_id: int, record: Record, offset: int) -> None:
        """A record of a transactional batch."""
        self._held[producer_id].append((record, offset))

    def end(self, producer_id: int, marker_key: bytes | None) -> None:
        """The marker: count what was held, or forget it. Raises DecodeError for one that is neither."""
        kind = control_type(marker_key)
        if kind is None:
            return  # Of raft, say: nothing that ends a transaction.
        for record, offset in self._held.pop(producer_id, ()):
            if kind is ControlType.COMMIT:
                self._count(record, offset)

    def forget(self, key: Any) -> None:
        """A tombstone takes what is held for its key along (KAFKA.md O16)."""
        for producer_id, held in self._held.items():
            self._held[producer_id] = [(record, offset) for record, offset in held if record.key != key]
