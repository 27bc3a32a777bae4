"""What each producer last appended to one log, and which transactions are open: read off the batch headers.

A producer numbers its records per partition. Its last five batches are remembered, so one that is sent again is
recognised (KIP-98). A transaction opens with a producer's first transactional batch and ends with a marker, a
control batch of the same producer (`protocol.records.control`). Below the last stable offset everything is
decided: no record there belongs to a transaction that is open, or whose marker is not durable yet.

It is changed by appends, on one thread; `first_unstable_offset` alone is read by others. Whether a batch
may be appended at all is decided elsewhere, with `find` and `find_duplicate`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from protocol.errors import DecodeError
from protocol.records.batch import Batch, Buffer, CorruptBatch
from protocol.records.control import ControlType, control_type, coordinator_epoch
from protocol.records.records import read_records
from storage.producers.transaction_index import AbortedTransaction

REMEMBERED_BATCHES: Final = 5
"""Batches remembered per producer: as many as a stock producer may have in flight to one partition."""

MAX_PRODUCERS: Final = 10_000
"""Producers remembered per partition, about 1 KiB each: beyond it the one silent longest is forgotten. Producers
with an open transaction are always kept: how many there can be is up to the transaction coordinator."""

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1


class AppendedBatch(NamedTuple):
    """One remembered batch: its place in the producer's numbering and in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


class MarkerRead(NamedTuple):
    """A transaction's marker, read: commit or abort, and the epoch of the coordinator that wrote it."""

    kind: ControlType
    coordinator_epoch: int


@dataclass(slots=True)
class Producer:
    """One producer id on one partition."""

    epoch: int
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))
    coordinator_epoch: int = NO_EPOCH  # The epoch of the coordinator that wrote its last marker.
    transaction_start: int | None = None  # The first offset of its open transaction.
    timestamp_ms: int = -1  # The time of its newest batch or marker.
    seen_ms: int = 0  # Wall time of the last append, or of reading the log back.

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def begin_epoch(self, epoch: int) -> None:
        """Go on under another epoch: the numbering begins again. The same epoch changes nothing."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class ProducerState:
    """All producers of one partition."""

    def __init__(self) -> None:
        self.first_unstable_offset: int | None = None  # Offset of the first record that is not decided.
        self._producers: OrderedDict[int, Producer] = OrderedDict()
        self._open: dict[int, int] = {}  # First offset of each open transaction, rising, by producer.
        self._ended: deque[tuple[int, int]] = deque()  # First offset and marker's, until that is durable.

    def __len__(self) -> int:
        return len(self._producers)

    def items(self) -> Iterable[tuple[int, Producer]]:
        """Every producer that is known, the one that has been silent longest first."""
        return self._producers.items()

    def find(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def has_open_transaction(self, producer_id: int, epoch: int | None = None) -> bool:
        """Whether the producer has a transaction open here; with `epoch`, only if it still has that epoch."""
        return producer_id in self._open and epoch in (None, self._producers[producer_id].epoch)

    def find_duplicate(self, batch: Batch) -> AppendedBatch | None:
        """The remembered batch that `batch` repeats: same epoch, same first and last sequence."""
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            return None
        wanted = (batch.base_sequence, batch.last_sequence)
        return next((each for each in producer.batches if each[:2] == wanted), None)

    def appended(
        self, batch: Batch, data: Buffer, base_offset: int, wall_ms: int
    ) -> AbortedTransaction | None:
        """Record that `batch`, exactly `data`, stands at `base_offset`; return the transaction that it aborts.

        Also used to read the state back from a log. A batch without a producer changes nothing. Raises
        CorruptBatch.
        """
        if batch.producer_id < 0:
            return None
        if not batch.is_control:
            self._add_data_batch(batch, base_offset, wall_ms)
            return None
        marker = read_marker(data, batch)
        return None if marker is None else self._add_marker(batch, marker, base_offset, wall_ms)

    def _producer(self, batch: Batch, wall_ms: int) -> Producer:
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            producer = self._producers[batch.producer_id] = Producer(batch.producer_epoch)
            self._forget_beyond_bound()
        producer.begin_epoch(batch.producer_epoch)
        producer.timestamp_ms, producer.seen_ms = batch.max_timestamp_ms, wall_ms
        self._producers.move_to_end(batch.producer_id)
        return producer

    def _add_data_batch(self, batch: Batch, base_offset: int, wall_ms: int) -> None:
        producer = self._producer(batch, wall_ms)
        producer.batches.append(appended_batch(batch, base_offset))
        if batch.is_transactional and producer.transaction_start is None:
            producer.transaction_start = self._open[batch.producer_id] = base_offset
            self._find_unstable()

    def _add_marker(
        self, batch: Batch, marker: MarkerRead, offset: int, wall_ms: int
    ) -> AbortedTransaction | None:
        producer = self._producer(batch, wall_ms)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.transaction_start = None
        first_offset = self._open.pop(batch.producer_id, None)
        if first_offset is None:
            return None  # It ends nothing: written again, or the transaction never came here.
        self._ended.append((first_offset, offset))
        self._find_unstable()
        if marker.kind is ControlType.COMMIT:
            return None
        stable_offset = next(iter(self._open.values()), offset + 1)
        return AbortedTransaction(batch.producer_id, first_offset, offset, stable_offset)

    def settle(self, durable_offset: int) -> bool:
        """Decide the transactions whose markers lie below `durable_offset`; return whether there were any."""
        before = len(self._ended)
        while self._ended and self._ended[0][1] < durable_offset:
            self._ended.popleft()
        if len(self._ended) == before:
            return False
        self._find_unstable()
        return True

    def _find_unstable(self) -> None:
        first_open = next(iter(self._open.values()), None)
        ended = [first_offset for first_offset, _ in self._ended]
        self.first_unstable_offset = min(
            [first_open, *ended] if first_open is not None else ended, default=None
        )

    def restore(self, producer_id: int, producer: Producer) -> None:
        """Add a producer from a snapshot; those with an open transaction in the order of its first offset."""
        self._producers[producer_id] = producer
        if producer.transaction_start is not None:
            self._open[producer_id] = producer.transaction_start
            self._find_unstable()

    def recall(self, batch: Batch) -> None:
        """Add a batch older than a snapshot's to its producer's last ones; called in the order of the log."""
        producer = self._producers.get(batch.producer_id)
        if producer is None or batch.is_control or producer.epoch != batch.producer_epoch:
            return
        if producer.batches and batch.last_offset < producer.batches[-1].base_offset:
            last = producer.batches.pop()
            producer.batches += (appended_batch(batch, batch.base_offset), last)

    # Forgetting.

    def _forget_beyond_bound(self) -> None:
        for _ in range(len(self._producers)):
            if len(self._producers) <= MAX_PRODUCERS:
                return
            oldest = next(iter(self._producers))
            if oldest in self._open:
                self._producers.move_to_end(oldest)
            else:
                del self._producers[oldest]

    def expire(self, wall_ms: int, expiration_ms: int) -> int:
        """Forget producers silent for `expiration_ms` (producer.id.expiration.ms); return how many.

        A producer with an open transaction is kept: its marker is still to come.
        """
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if wall_ms - producer.seen_ms >= expiration_ms and producer_id not in self._open
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)


def appended_batch(batch: Batch, base_offset: int) -> AppendedBatch:
    last_offset = base_offset + batch.last_offset_delta
    return AppendedBatch(
        batch.base_sequence, batch.last_sequence, base_offset, last_offset, batch.max_timestamp_ms
    )


def read_marker(data: Buffer, batch: Batch) -> MarkerRead | None:
    """Return the marker in the control batch `data`; None if compaction emptied it or it ends no transaction.

    Raises CorruptBatch.
    """
    try:
        records = read_records(data, batch)
        kind = control_type(records[0].key) if records else None
        return None if kind is None else MarkerRead(kind, coordinator_epoch(records[0].value))
    except DecodeError as error:
        raise CorruptBatch(f"no marker: {error}") from error
