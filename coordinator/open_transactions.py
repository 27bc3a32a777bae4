"""Offsets that were committed within transactions, while a log is replayed: they count from the marker on.

Muster writes none, but a log that Kafka wrote has them: records in transactional batches, and later a
control batch of the same producer that commits or aborts them. What has no marker does not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from coordinator.groups.effects import Record
from protocol.errors import DecodeError

MARKER_KEY: Final = Struct(">hh")  # A version, and which of the two it is.
ABORT: Final = 0
COMMIT: Final = 1


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
        if marker_key is None or len(marker_key) < MARKER_KEY.size:
            raise DecodeError("a control batch of the offsets log holds no marker")
        _, kind = MARKER_KEY.unpack_from(marker_key)
        if kind not in (ABORT, COMMIT):
            return  # Of raft, say: nothing that ends a transaction.
        for record, offset in self._held.pop(producer_id, ()):
            if kind == COMMIT:
                self._count(record, offset)

    def forget(self, key: Any) -> None:
        """A tombstone takes what is held for its key along (KAFKA.md O16)."""
        for producer_id, held in self._held.items():
            self._held[producer_id] = [(record, offset) for record, offset in held if record.key != key]
