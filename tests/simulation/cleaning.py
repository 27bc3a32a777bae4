"""The core of the real cleaner on the batches of a simulated log: its survey, its map of keys, and its filter."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.records.control import control_type
from protocol.records.records import Batch, parse_header, payload_of, read_records
from protocol.records.spans import record_spans
from storage.cleaning.batch_filter import BatchFilter
from storage.cleaning.key_map import KeyMap
from storage.log.transaction_scan import TransactionScan

KEYS_BYTES = 1 << 20
DAY_MS = 86_400_000

Headed = tuple[Batch, bytearray]


def surveyed(batches: Sequence[Headed]) -> TransactionScan:
    """What is to be known of the whole log: its transactions, and where each producer stands."""
    found = TransactionScan()
    for batch, data in batches:
        producer = (batch.producer_id, batch.producer_epoch)
        if batch.is_control:
            found.add_marker(batch.last_offset, producer, batch.max_timestamp_ms, marker_of(batch, data))
        elif batch.producer_id >= 0:
            found.add_data_batch(
                batch.base_offset, batch.last_offset, producer, batch.max_timestamp_ms, batch.attributes
            )
    return found


def marker_of(batch: Batch, data: bytearray) -> int | None:
    """What a control batch says; None of others, and once it has been emptied."""
    records = read_records(data, batch) if batch.is_control else []
    return control_type(records[0].key) if records else None


def cleaned(
    log: Sequence[bytearray], wanted: int, clean_offset: int, wall_ms: int, delete_retention_ms: int
) -> tuple[int, list[bytearray]]:
    """Of the first `wanted` batches of `log`, how many may be cleaned, and what stays of them.

    None beyond the first transaction that is open. What is below `clean_offset` has been cleaned before.
    """
    headed = [(parse_header(data), data) for data in log]
    survey = surveyed(headed)
    stable_offset = survey.stable_offset(headed[-1][0].last_offset + 1)
    part = [each for each in headed[:wanted] if each[0].last_offset < stable_offset]
    keys = KeyMap(clean_offset, KEYS_BYTES)
    for batch, data in part:
        if batch.last_offset >= clean_offset:
            if not batch.is_control and not survey.is_aborted(batch):
                keys.add(batch.base_offset, record_spans(payload_of(data, batch), batch.record_count))
            keys.end_offset = batch.last_offset + 1
    kept = BatchFilter(keys, survey, wall_ms, delete_retention_ms, producer_expiration_ms=DAY_MS)
    stay = [
        kept.kept(batch, memoryview(data), keeps_place=batch is part[-1][0], marker=marker_of(batch, data))
        for batch, data in part
    ]
    return len(part), [bytearray(data) for data in stay if data is not None]
