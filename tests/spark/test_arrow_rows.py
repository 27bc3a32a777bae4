"""Kafka's records as Arrow rows: every column, and what records may lack."""

from __future__ import annotations

from datetime import UTC, datetime

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from muster.spark.arrow_rows import SCHEMA, record_batch

NOON = datetime(2026, 3, 1, 12, 0, 0, 7000, UTC)


def test_each_record_is_a_row_with_all_that_it_has() -> None:
    full = Message(
        "orders",
        3,
        2**40,
        b"k",
        b"v",
        [("trace", b"\x00\xff"), ("trace", None)],
        timestamp=(TIMESTAMP_CREATE_TIME, int(NOON.timestamp() * 1000)),
    )
    bare = Message("orders", 0, 0, None, None, None, timestamp=(TIMESTAMP_NOT_AVAILABLE, -1))
    batch = record_batch([full, bare])
    assert batch.schema == SCHEMA
    assert batch.to_pylist() == [
        {
            "topic": "orders",
            "partition": 3,
            "offset": 2**40,
            "timestamp": NOON,
            "key": b"k",
            "value": b"v",
            "headers": [{"key": "trace", "value": b"\x00\xff"}, {"key": "trace", "value": None}],
        },
        {
            "topic": "orders",
            "partition": 0,
            "offset": 0,
            "timestamp": None,
            "key": None,
            "value": None,
            "headers": [],
        },
    ]


def test_no_records_are_a_batch_without_rows() -> None:
    batch = record_batch([])
    assert (batch.num_rows, batch.schema) == (0, SCHEMA)
