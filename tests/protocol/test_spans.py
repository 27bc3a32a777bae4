"""The walk of compaction says of each record what the walk that makes records says, and refuses what is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batch import CorruptBatch
from protocol.records.records import Record, iter_payload, parse_header, payload_of
from protocol.records.spans import record_spans
from tests.batches import encode_batch
from tests.protocol.test_records import records


@given(st.lists(records, min_size=1, max_size=5), st.integers(0, 2**40))
@settings(max_examples=200, deadline=None)
def test_spans_are_equal_to_the_records(written: list[Record], base_offset: int) -> None:
    data = encode_batch(written, base_offset=base_offset)
    batch = parse_header(data)
    payload = payload_of(data, batch)
    spans = record_spans(payload, batch.record_count)
    assert [
        (record.offset - base_offset, record.key, record.value is None, record.timestamp_ms)
        for record in iter_payload(payload, batch)
    ] == [
        (delta, key, is_null, batch.base_timestamp_ms + delta_ms)
        for delta, key, is_null, delta_ms, *_ in spans
    ]
    assert b"".join(payload[start:end] for *_, start, _, end in spans) == payload


@given(st.lists(records, min_size=1, max_size=3), st.data())
@settings(max_examples=100, deadline=None)
def test_both_walks_refuse_a_payload_that_is_cut(written: list[Record], data: st.DataObject) -> None:
    encoded = encode_batch(written)
    batch = parse_header(encoded)
    payload = payload_of(encoded, batch)
    cut = payload[: data.draw(st.integers(0, len(payload) - 1))]
    with pytest.raises(CorruptBatch):
        record_spans(cut, batch.record_count)
    with pytest.raises(CorruptBatch):
        list(iter_payload(cut, batch))


@pytest.mark.parametrize("size", [b"\x80" * 9 + b"\x02", b"\xfe" + b"\xff" * 8 + b"\x01"])
@pytest.mark.parametrize("before", [4, 5], ids=["key", "value"])
def test_a_length_beyond_64_bits_is_corrupt(before: int, size: bytes) -> None:
    with pytest.raises(CorruptBatch):
        record_spans(bytes(before) + size, 1)
