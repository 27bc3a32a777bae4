"""Reads ranges of a topic's log as Arrow in the process that decodes them: by librdkafka, many records at a time.

Spark's own Kafka source takes every record through the JVM by itself, as a row: some 10 µs of CPU time, twenty
times what it costs to decode it. Here a record costs about 2 µs, nearly all of it librdkafka's.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from muster.spark.clients import client_settings, error_text, new_consumer
from muster.spark.errors import PassingError

SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
    ]
)
RECORDS_AT_A_TIME: Final = 100_000
PATIENCE_S: Final = 60.0  # How long a log may give nothing before its end.
_POLL_S: Final = 0.1
_MS: Final = itemgetter(1)  # `timestamp()` of a message is (type, milliseconds).
_SETTINGS: Final[Mapping[str, str | int | float | bool]] = {
    "group.id": "muster-spark",  # librdkafka requires one; the consumer neither joins nor commits.
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",  # Records that are already deleted are skipped.
    # What is fetched beyond the end of a range is dropped, so little is fetched ahead ...
    "queued.min.messages": 20_000,
    # ... and the next fetch follows at once, where the default is to wait for a second.
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 50,
}


@dataclass(frozen=True, slots=True)
class Range:
    """The records of a partition at offsets from `start` up to, without, `end`."""

    partition: int
    start: int
    end: int


def read_ranges(
    bootstrap: str, kafka: Mapping[str, str], topic: str, ranges: Sequence[Range]
) -> Iterator[pa.RecordBatch]:
    """Yield the records that transactions have not aborted, range by range, in batches of SCHEMA.

    Every end must be at most the partition's last stable offset. Raises PassingError if no answer comes from the
    cluster, or the topic does not exist.
    """
    with _consumer({**client_settings(bootstrap, kafka), **_SETTINGS}) as consumer, _no_collection():
        for each in ranges:
            consumer.assign([ClientPartition(topic, each.partition, each.start)])
            yield from _read(consumer, each)


def _read(consumer: Consumer, wanted: Range) -> Iterator[pa.RecordBatch]:
    at, progress_at = wanted.start, time.monotonic()
    while at < wanted.end:
        # `consume` returns early only with this many, which never come where compaction has left gaps.
        messages = consumer.consume(min(RECORDS_AT_A_TIME, wanted.end - at), _POLL_S)
        if messages:
            progress_at = time.monotonic()
        elif time.monotonic() - progress_at > PATIENCE_S:
            raise PassingError(f"nothing came of partition {wanted.partition} for {PATIENCE_S:.0f} s")
        records = messages
        if any(map(Message.error, messages)):
            records = [each for each in messages if not _is_end(each)]
        offsets = np.fromiter(map(Message.offset, records), np.int64, len(records))
        first, last = np.searchsorted(offsets, (at, wanted.end))
        if last > first:
            yield _as_arrow(records[first:last], offsets[first:last], wanted.partition)
        if records:
            assert {records[0].partition(), records[-1].partition()} == {wanted.partition}
            at = max(at, int(offsets[-1]) + 1)
        if len(records) < len(messages):
            return


def _is_end(message: Message) -> bool:
    """Whether the message is the end of the log. Raises PassingError for any other error."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise PassingError(f"the log could not be read: {error.str()}")
    return error is not None


def _as_arrow(messages: list[Message], offsets: Any, partition: int) -> pa.RecordBatch:
    times_ms = np.fromiter(map(_MS, map(Message.timestamp, messages)), np.int64, len(messages))
    columns = [
        pa.array(list(map(Message.key, messages)), pa.binary()),
        pa.array(list(map(Message.value, messages)), pa.binary()),
        pa.array(np.full(len(messages), partition, np.int32)),
        pa.array(offsets),
        pa.array(times_ms * 1000).cast(SCHEMA.field("timestamp").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@contextmanager
def _consumer(settings: Mapping[str, Any]) -> Iterator[Consumer]:
    try:
        consumer = new_consumer(settings)
    except KafkaException as error:
        raise PassingError(f"the log could not be read: {error_text(error)}") from None
    try:
        yield consumer
    finally:
        consumer.close()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Turn Python's garbage collector off: it would walk the messages in vain, which costs 0.5 µs a record."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
