"""What is left of one batch when its log is cleaned: all of it, some of its records, its header, or nothing.

The rules are those of Kafka's cleaner. Of each key only the newest record stays. A tombstone stays for
`delete.retention.ms` from the first cleaning that meets it; when that time is up is noted in the batch, in
place of the base timestamp (the delete horizon, KIP-534). Records of aborted transactions go; the marker that
ends a transaction goes a `delete.retention.ms` after the last of its records. The last batch of a producer that
may come back stays as an empty one, for its sequence number.

A batch keeps its offsets, its producer, its compression and its place: records that stay are copied as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.records.batch import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CRC,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    Batch,
    checksum,
)
from protocol.records.compression import compress
from protocol.records.control import ControlType
from protocol.records.records import payload_of
from protocol.records.spans import Span, moved_in_time, record_spans
from storage.cleaning.key_map import KeyMap
from storage.files import Buffer
from storage.log.transaction_scan import TransactionScan


class BatchFilter:
    """Decides what one cleaning of a log keeps; `kept` is called for every batch, from the log's start on."""

    def __init__(
        self,
        keys: KeyMap,
        scan: TransactionScan,
        wall_ms: int,
        delete_retention_ms: int,
        producer_expiration_ms: int,
    ) -> None:
        self._newest = keys.newest
        self._end_offset = keys.end_offset
        self._scan = scan
        self._wall_ms = wall_ms
        self._delete_retention_ms = delete_retention_ms
        self._producer_expiration_ms = producer_expiration_ms
        self._with_records: set[int] = set()  # Producers of which a record was met since their last marker.

    def kept(self, batch: Batch, data: memoryview, *, keeps_place: bool, marker: int | None) -> Buffer | None:
        """Return what stays of `batch`, whose bytes are `data`; None if nothing does.

        With `keeps_place` at least the header stays. `marker` is a control batch's type. Raises CorruptBatch.
        """
        is_removable = self._is_removable(batch, marker)
        if batch.is_control:
            is_dropped = (
                is_removable and batch.has_delete_horizon and batch.base_timestamp_ms <= self._wall_ms
            )
        else:
            is_dropped = is_removable
        payload = b"" if is_dropped else payload_of(data, batch)
        spans = [] if is_dropped else record_spans(payload, batch.record_count)
        kept = spans if batch.is_control else self._newest_of(batch, spans)
        if not kept:
            return self._emptied(batch, data) if keeps_place or self._is_last_of_producer(batch) else None
        is_mortal = is_removable if batch.is_control else any(span[2] for span in kept)
        gets_horizon = is_mortal and not batch.has_delete_horizon
        if gets_horizon:
            return with_delete_horizon(batch, payload, kept, self._wall_ms + self._delete_retention_ms)
        return data if len(kept) == len(spans) else with_records(batch, payload, kept)

    def _is_removable(self, batch: Batch, marker: int | None) -> bool:
        """Whether `batch` is data of an aborted transaction, or the marker of one that has no record left."""
        producer_id = batch.producer_id
        if batch.is_control:
            met = producer_id in self._with_records
            self._with_records.discard(producer_id)
            return not met and marker in (ControlType.ABORT, ControlType.COMMIT, None)
        if not batch.is_transactional:
            return False
        self._with_records.add(producer_id)
        return self._scan.is_aborted(batch)

    def _is_last_of_producer(self, batch: Batch) -> bool:
        return self._scan.is_last_of_producer(batch, self._wall_ms, self._producer_expiration_ms)

    def _newest_of(self, batch: Batch, spans: Sequence[Span]) -> Sequence[Span]:
        """Return the records that no later one replaces, without tombstones whose time is up.

        A record without a key is not for a compacted log, and goes.
        """
        newest, base_offset = self._newest, batch.base_offset
        if base_offset >= self._end_offset:
            return spans
        if batch.has_delete_horizon and batch.base_timestamp_ms <= self._wall_ms:
            spans = [span for span in spans if not span[2]]
        return [
            span for span in spans if span[1] is not None and newest.get(span[1], -1) <= base_offset + span[0]
        ]

    def _emptied(self, batch: Batch, data: memoryview) -> Buffer:
        if not batch.record_count:
            return data
        attributes = batch.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
        return rebuilt(batch, b"", 0, attributes, NO_TIMESTAMP, batch.max_timestamp_ms)


def with_records(batch: Batch, payload: bytes, kept: Sequence[Span]) -> bytes:
    """Return `batch` with only the records `kept`, each as it was."""
    packed = b"".join([payload[start:end] for *_, start, _, end in kept])
    return rebuilt(
        batch, packed, len(kept), batch.attributes, batch.base_timestamp_ms, newest_ms(batch, kept)
    )


def with_delete_horizon(batch: Batch, payload: bytes, kept: Sequence[Span], horizon_ms: int) -> bytes:
    """Return `batch` with only the records `kept` and a delete horizon, which their timestamps are relative to."""
    shift_ms = batch.base_timestamp_ms - horizon_ms
    packed = b"".join([moved_in_time(payload, span, span[3] + shift_ms) for span in kept])
    attributes = batch.attributes | DELETE_HORIZON_BIT
    return rebuilt(batch, packed, len(kept), attributes, horizon_ms, newest_ms(batch, kept))


def newest_ms(batch: Batch, kept: Sequence[Span]) -> int:
    """Return the largest timestamp of the records `kept`."""
    if batch.is_log_append_time:
        return batch.max_timestamp_ms
    return batch.base_timestamp_ms + max(span[3] for span in kept)


def rebuilt(
    batch: Batch, payload: bytes, count: int, attributes: int, base_ms: int, max_timestamp_ms: int
) -> bytes:
    """Return a batch of `count` records with the offsets, producer and epochs of `batch`."""
    if count and batch.codec:
        payload = compress(batch.codec, payload)
    out = bytearray(BATCH_OVERHEAD)
    HEADER.pack_into(out, 0, batch.base_offset, BATCH_OVERHEAD - LOG_OVERHEAD + len(payload),
                     batch.leader_epoch, MAGIC, 0, attributes, batch.last_offset_delta, base_ms,
                     max_timestamp_ms, batch.producer_id, batch.producer_epoch, batch.base_sequence,
                     count)  # fmt: skip
    out += payload
    CRC.pack_into(out, CRC_POSITION, checksum(out))
    return bytes(out)
