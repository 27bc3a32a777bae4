"""Our batches against three other implementations, both ways: aiokafka, kafka-python and kio."""

from __future__ import annotations

from typing import Any

import kio.records.readers
import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import default_records as kafka_python_records

from protocol.records.records import Codec, Record, read_batch, read_records
from tests.batches import encode_batch

LIBRARIES = pytest.mark.parametrize("library", [aiokafka_records, kafka_python_records])
CODECS = pytest.mark.parametrize("codec", Codec)

T0_MS = 1_700_000_000_000
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
contents = st.none() | st.binary(max_size=300)
lists_of_records = st.lists(
    st.builds(
        Record,
        key=contents,
        value=contents,
        timestamp_ms=st.integers(T0_MS, T0_MS + 10**10),
        headers=st.lists(st.tuples(names, contents), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=6,
)


def written_by(library: Any, records: list[Record], codec: Codec) -> bytes:
    builder = library.DefaultRecordBatchBuilder(2, int(codec), 1, 77, 3, 11, 1_000_000)
    for delta, record in enumerate(records):
        builder.append(delta, record.timestamp_ms, record.key, record.value, list(record.headers))
    return bytes(builder.build())


def read_by(library: Any, data: bytes) -> list[Record]:
    batch = library.DefaultRecordBatch(data)
    assert batch.validate_crc()
    return [
        Record(record.key, record.value, record.timestamp, tuple(record.headers), record.offset)
        for record in batch
    ]


def placed(records: list[Record], base_offset: int) -> list[Record]:
    return [
        Record(record.key, record.value, record.timestamp_ms, record.headers, base_offset + delta)
        for delta, record in enumerate(records)
    ]


@LIBRARIES
@CODECS
@given(records=lists_of_records, repeat=st.integers(1, 100))
@settings(max_examples=15, deadline=None)
def test_what_they_write_we_read(library: Any, codec: Codec, records: list[Record], repeat: int) -> None:
    data = written_by(library, records * repeat, codec)
    batch = read_batch(data, 0)
    assert batch is not None
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 11)
    assert batch.is_transactional
    assert read_records(data, batch) == placed(records * repeat, 0)


@LIBRARIES
@CODECS
@given(records=lists_of_records, repeat=st.integers(1, 100))
@settings(max_examples=15, deadline=None)
def test_what_we_write_they_read(library: Any, codec: Codec, records: list[Record], repeat: int) -> None:
    data = bytes(encode_batch(records * repeat, base_offset=5, codec=codec))
    assert read_by(library, data) == placed(records * repeat, 5)


@LIBRARIES
@given(records=lists_of_records)
@settings(max_examples=50, deadline=None)
def test_uncompressed_batches_are_theirs_to_the_byte(library: Any, records: list[Record]) -> None:
    ours = encode_batch(
        records, producer_id=77, producer_epoch=3, base_sequence=11, transactional=True, leader_epoch=0
    )
    theirs = bytearray(written_by(library, records, Codec.NONE))
    theirs[12:16] = ours[12:16]  # The leader epoch is the broker's to set; the libraries differ there.
    assert ours == theirs


@given(records=lists_of_records)
@settings(max_examples=50, deadline=None)
def test_kio_reads_what_we_write(records: list[Record]) -> None:
    """kio reads uncompressed batches only."""
    batch, size = kio.records.readers.read_batch(bytes(encode_batch(records, base_offset=9)), 0)
    assert size == len(encode_batch(records))
    assert [(record.key, record.value, record.offset) for record in batch.records] == [
        (record.key, record.value, 9 + delta) for delta, record in enumerate(records)
    ]
