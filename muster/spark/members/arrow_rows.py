"""Turns Kafka's records into Arrow record batches, with the columns of Spark's own Kafka source but for two.

Of a record without headers `headers` is an empty list, as in Kafka (Spark says null), and there is no
`timestampType`. A record without a timestamp has null there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

if TYPE_CHECKING:
    from confluent_kafka import Message

HEADER: Final = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER), nullable=False),
    ]
)


def record_batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """One row of SCHEMA for each message, in the same order. None of them may be an error."""
    columns = [
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [_timestamp_ms(message) for message in messages],
        [message.key() for message in messages],
        [message.value() for message in messages],
        [_headers(message) for message in messages],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _timestamp_ms(message: Message) -> int | None:
    stamp: tuple[int, int] = message.timestamp()
    return None if stamp[0] == TIMESTAMP_NOT_AVAILABLE else stamp[1]


def _headers(message: Message) -> list[dict[str, str | bytes | None]]:
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return [{"key": key, "value": value} for key, value in headers]
