"""Idempotence: what each producer last appended to one partition (KIP-98).

A producer numbers its records per partition. Its last five batches are remembered, so a batch that is sent
again is recognised and answered with its first offset; one that leaves a gap is refused. A producer that
is not known, because it is new here or was forgotten, may begin at any number: Kafka answers
UNKNOWN_PRODUCER_ID no longer, since a log whose records have been deleted looks the same.

All of it is in the batch headers, so it is read back from the log. Knows no files, topics or transactions.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

from protocol.errors import ErrorCode
from protocol.record_batch import Batch

REMEMBERED_BATCHES: Final = 5
"""Per producer: as many as a stock producer may have in flight to one partition."""

MAX_PRODUCERS: Final = 10_000
"""Per partition, about 1 KiB each: the one that has been silent longest is forgotten for the next."""

LAST_SEQUENCE: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """One remembered batch: its place in the producer's numbering and in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


@dataclass(slots=True)
class Producer:
    """One producer id on one partition."""

    epoch: int
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))
    seen_ms: int = 0  # Wall time of the last append, or of reading the log back.

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence


class ProducerError(Exception):
    """A batch that does not fit what its producer sent before: `error` and words for the client."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class ProducerState:
    """All producers of one partition."""

    def __init__(self) -> None:
        self._producers: OrderedDict[int, Producer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    def find_duplicate(self, batch: Batch) -> AppendedBatch | None:
        """The remembered batch that `batch` repeats: same epoch, same first and last sequence."""
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            return None
        wanted = (batch.base_sequence, batch.last_sequence)
        return next(
            (each for each in producer.batches if (each.base_sequence, each.last_sequence) == wanted), None
        )

    def check(self, batch: Batch) -> None:
        """Raise ProducerError unless `batch` comes next for its producer.

        INVALID_PRODUCER_EPOCH: a newer instance of the producer has written here (it is fenced).
        OUT_OF_ORDER_SEQUENCE_NUMBER: there is a gap, or a new epoch does not begin with 0.
        """
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            return
        if batch.producer_epoch < producer.epoch:
            raise ProducerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {batch.producer_id} is {batch.producer_epoch}, "
                f"which is smaller than the last seen epoch {producer.epoch}",
            )
        expected = 0 if batch.producer_epoch > producer.epoch else _following(producer.last_sequence)
        if batch.base_sequence != expected:
            raise ProducerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {batch.producer_id}: "
                f"{batch.base_sequence} (incoming seq. number), {expected} (expected)",
            )

    def appended(self, batch: Batch, base_offset: int, wall_ms: int) -> None:
        """Remember that `batch` now stands at `base_offset`; also how state is read back from a log."""
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            producer = self._producers[batch.producer_id] = Producer(batch.producer_epoch)
            self._forget_beyond_bound()
        producer.batches.append(
            AppendedBatch(
                base_sequence=batch.base_sequence,
                last_sequence=batch.last_sequence,
                base_offset=base_offset,
                last_offset=base_offset + batch.last_offset_delta,
                max_timestamp_ms=batch.max_timestamp_ms,
            )
        )
        producer.seen_ms = wall_ms
        self._producers.move_to_end(batch.producer_id)

    def _forget_beyond_bound(self) -> None:
        if len(self._producers) > MAX_PRODUCERS:
            self._producers.popitem(last=False)

    def expire(self, wall_ms: int, expiration_ms: int) -> int:
        """Forget producers silent for `expiration_ms` (producer.id.expiration.ms); return how many."""
        expired = 0
        while self._producers:
            producer_id, producer = next(iter(self._producers.items()))
            if wall_ms - producer.seen_ms < expiration_ms:
                break
            del self._producers[producer_id]
            expired += 1
        return expired


def _following(sequence: int) -> int:
    return 0 if sequence == LAST_SEQUENCE else sequence + 1
