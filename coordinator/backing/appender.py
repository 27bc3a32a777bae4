"""The batches that a node writes to one log, one at a time: their producer epochs, sequences and outcomes."""

from __future__ import annotations

from typing import Any, Final

from coordinator.backing.claims import SEAL_EPOCH, Claim, Writer
from coordinator.backing.events import OutgoingBatch

SEQUENCE_MODULUS: Final = 2**31
"""After 2,147,483,647 comes 0, as in Kafka."""
NO_WRITER: Final = Writer(-1, -1)


class Appender:
    """What is on its way to the log. A batch stays until its outcome is known, and is never changed."""

    def __init__(self) -> None:
        self.writer = NO_WRITER
        self.in_flight: OutgoingBatch | None = None
        self._number = 0
        self._next_sequence = 0

    def begin(self, writer: Writer) -> None:
        """Write under this epoch from now on; its first batch has sequence 0."""
        self.writer = writer
        self._next_sequence = 0

    def write(self, content: Any, record_count: int) -> OutgoingBatch:
        """The next batch, which is on its way from now on."""
        sequence = self._next_sequence
        self._next_sequence = (sequence + record_count) % SEQUENCE_MODULUS
        return self._put(self.writer, sequence, record_count, content)

    def seal(self, producer_id: int, seal: Claim) -> OutgoingBatch:
        """The batch that shuts out all epochs of another producer id; to a leader a second is a duplicate."""
        return self._put(Writer(producer_id, SEAL_EPOCH), 0, 1, seal)

    def _put(self, writer: Writer, sequence: int, record_count: int, content: Any) -> OutgoingBatch:
        assert self.in_flight is None, "one batch at a time"
        self._number += 1
        self.in_flight = OutgoingBatch(self._number, writer, sequence, record_count, content)
        return self.in_flight

    def is_on_its_way(self, number: int) -> bool:
        """Whether an answer about this batch says what is not known yet."""
        return self.in_flight is not None and self.in_flight.number == number

    def settle(self) -> OutgoingBatch:
        """The batch on its way, which is none any more."""
        batch, self.in_flight = self.in_flight, None
        assert batch is not None
        return batch

    def forget(self) -> None:
        """Nothing is on its way that this node wants to hear of."""
        self.writer = NO_WRITER
        self.in_flight = None
