"""The core of the real cleaner on the batches of a simulated log: its map of keys, and its filter."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.record_spans import record_spans
from protocol.records import parse_header, payload_of
from storage.batch_filter import BatchFilter
from storage.key_map import KeyMap
from storage.log_survey import Survey

KEYS_BYTES = 1 << 20


def cleaned(
    batches: Sequence[bytearray], clean_offset: int, wall_ms: int, delete_retention_ms: int
) -> list[bytearray]:
    """What stays of `batches`, of which those below `clean_offset` have been cleaned before."""
    keys = KeyMap(clean_offset, KEYS_BYTES)
    headers = [parse_header(data) for data in batches]
    for batch, data in zip(headers, batches, strict=True):
        assert not batch.is_transactional, "a survey of transactions would be needed"
        if batch.last_offset >= clean_offset:
            keys.add(batch.base_offset, record_spans(payload_of(data, batch), batch.record_count))
            keys.end_offset = batch.last_offset + 1
    kept = BatchFilter(keys, Survey(), wall_ms, delete_retention_ms)
    stay = [
        kept.kept(batch, memoryview(data), keeps_place=batch is headers[-1], marker=None)
        for batch, data in zip(headers, batches, strict=True)
    ]
    return [bytearray(data) for data in stay if data is not None]
