"""What a cleaning must know of the whole log first: its transactions, and where each producer stands.

Read off the batch headers, and off the markers that end transactions, from the log's start to its end. Kafka
keeps this in files of its own beside the log (`.txnindex`, `.snapshot`); ours are the batches alone, so a
scan passes over all of them. `batch_filter` decides what is done with a transaction's records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from protocol.errors import DecodeError
from protocol.records.batch import (
    BATCH_OVERHEAD,
    CONTROL_BIT,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
    Batch,
    CorruptBatch,
    parse_header,
)
from protocol.records.control import ControlType, control_number
from protocol.records.records import payload_of
from protocol.records.spans import record_spans
from storage.files import Buffer, CorruptSegment
from storage.log.batch_walk import Window
from storage.log.segment import Segment

FIELDS: Final = Struct(">qi9xhi8xqqh")
"""A batch header's base offset, length, attributes, last offset delta, largest timestamp, producer, epoch."""
MAX_PRODUCERS: Final = 10_000
"""How many producers' last batches are kept (of those that wrote last), at about 200 bytes each."""

SLICE_BYTES: Final = 128 << 10
"""Bytes that a cleaning reads at a time: so much work lies between two points at which it may pause."""

Pace = Callable[[int], None]
"""A callback with the bytes of each step of work; it may sleep, or raise to stop the work."""


class LastBatch(NamedTuple):
    """A producer's newest batch. `offset` is the last one of its newest data batch; None if its epoch has none."""

    epoch: int
    offset: int | None
    timestamp_ms: int


class TransactionScan:
    """The transactions and producers of a log, found by passing over every batch in order."""

    def __init__(self) -> None:
        self.producers: OrderedDict[int, LastBatch] = OrderedDict()
        self._open: dict[int, int] = {}  # First offset of each open transaction, by producer.
        self._aborted: dict[int, tuple[list[int], list[int]]] = {}  # Ends and first offsets, by producer.

    def stable_offset(self, end_offset: int) -> int:
        """The offset below which every transaction has ended; `end_offset` if all have."""
        return min(self._open.values(), default=end_offset)

    def is_aborted(self, batch: Batch) -> bool:
        """Whether the records of `batch` belong to an aborted transaction."""
        aborted = self._aborted.get(batch.producer_id) if batch.is_transactional else None
        if aborted is None:
            return False
        ends, firsts = aborted
        slot = bisect_right(ends, batch.base_offset)
        return slot < len(ends) and firsts[slot] <= batch.base_offset

    def is_last_of_producer(self, batch: Batch, now_ms: int, expiration_ms: int) -> bool:
        """Whether `batch` is its producer's newest, and the producer wrote within the last `expiration_ms`."""
        last = self.producers.get(batch.producer_id)
        if last is None or now_ms - last.timestamp_ms >= expiration_ms:
            return False
        if last.offset is None:
            return batch.is_control and batch.producer_epoch == last.epoch
        return batch.last_offset == last.offset

    def add_data_batch(
        self,
        base_offset: int,
        last_offset: int,
        producer: tuple[int, int],
        timestamp_ms: int,
        attributes: int,
    ) -> None:
        """Record a data batch; `producer` is its producer's id and epoch."""
        producer_id, epoch = producer
        if attributes & TRANSACTIONAL_BIT:
            self._open.setdefault(producer_id, base_offset)
        self._remember(producer_id, LastBatch(epoch, last_offset, timestamp_ms))

    def add_marker(self, offset: int, producer: tuple[int, int], timestamp_ms: int, kind: int | None) -> None:
        producer_id, epoch = producer
        first = self._open.pop(producer_id, None)
        if kind == ControlType.ABORT and first is not None:
            ends, firsts = self._aborted.setdefault(producer_id, ([], []))
            ends.append(offset)
            firsts.append(first)
        known = self.producers.get(producer_id)
        data_offset = known.offset if known is not None and known.epoch == epoch else None
        self._remember(producer_id, LastBatch(epoch, data_offset, timestamp_ms))

    def _remember(self, producer_id: int, last: LastBatch) -> None:
        self.producers[producer_id] = last
        self.producers.move_to_end(producer_id)
        if len(self.producers) > MAX_PRODUCERS:
            self.producers.popitem(last=False)


def scan_transactions(segments: Sequence[Segment], pace: Pace) -> TransactionScan:
    """Return the transactions and producers of all batches that `segments` show. Raises StorageError."""
    found = TransactionScan()
    for segment in segments:
        _scan_segment(segment, found, pace)
    return found


def _scan_segment(segment: Segment, found: TransactionScan, pace: Pace) -> None:
    end, position = segment.size_bytes, 0
    window = Window(segment.file.read_at, end, SLICE_BYTES)
    unpack, overhead = FIELDS.unpack_from, BATCH_OVERHEAD
    while position < end:
        view = window.view(position, overhead)
        start, last, at = position, len(view) - overhead, 0
        while at <= last:
            base, length, attributes, last_delta, timestamp_ms, producer_id, epoch = unpack(view, at)
            size_bytes = LOG_OVERHEAD + length
            if size_bytes < overhead:
                raise CorruptSegment(segment.path, position, f"batch of {size_bytes} bytes")
            if producer_id != NO_PRODUCER_ID:
                producer = (producer_id, epoch)
                if attributes & CONTROL_BIT:
                    kind = _marker_kind(segment, window, position)
                    found.add_marker(base + last_delta, producer, timestamp_ms, kind)
                else:
                    found.add_data_batch(base, base + last_delta, producer, timestamp_ms, attributes)
            position += size_bytes
            at += size_bytes
        if position == start:
            raise CorruptSegment(segment.path, position, f"{len(view)} bytes are no batch")
        pace(min(position, end) - start)


def _marker_kind(segment: Segment, window: Window, position: int) -> int | None:
    view = window.view(position, BATCH_OVERHEAD)
    batch = parse_header(view)
    return marker_kind(segment, position, batch, window.view(position, batch.size_bytes))


def marker_kind(segment: Segment, position: int, batch: Batch, data: Buffer) -> int | None:
    """Return the type number of the control batch at the start of `data`; None if compaction emptied it."""
    try:
        spans = record_spans(payload_of(data, batch), batch.record_count)
        return control_number(spans[0][1]) if spans else None
    except (CorruptBatch, DecodeError) as error:
        raise CorruptSegment(segment.path, position, str(error)) from error
