"""Topics, as stock clients write and read them and as Spark does: the one is compared with the other."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from harness.messages import offset_of, partition_of
from harness.observer import Observer
from harness.processes import ServerProcess

PARTITIONS = 3
FIRST_MS = time.time_ns() // 1_000_000 - 3_600_000  # An hour ago: older still, and retention would take it.
QUERY_TIMEOUT_S = 90
TIMEOUT_S = 60
POLL_S = 0.5


class Row(NamedTuple):
    """One record, as both Spark and a stock client show it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Topic:
    """A new topic, written and read by stock clients and by Spark."""

    def __init__(self, broker: ServerProcess, observer: Observer, spark: SparkSession) -> None:
        self.name = observer.create_topic("spark", PARTITIONS)
        self._bootstrap = broker.bootstrap
        self._observer = observer
        self._spark = spark

    def write(self, *values: str) -> list[Row]:
        return write(self._bootstrap, self.name, values, partitions=PARTITIONS, first_ms=FIRST_MS)

    def read(self) -> list[Row]:
        return [row(message) for message in self.messages()]

    def messages(self) -> list[Message]:
        return read(self._bootstrap, self.name, self._observer.log_ends(self.name, PARTITIONS))

    def batch(self, **options: str) -> DataFrame:
        """The topic as a table. `startingOffsets` and the like may be given."""
        source = self._spark.read.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        return source.option("subscribe", self.name).options(**options).load()

    def stream(self, **options: str) -> DataFrame:
        """The topic as an unbounded table, from its beginning."""
        source = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        source = source.option("subscribe", self.name).option("startingOffsets", "earliest")
        return source.options(**options).load()

    def sink(self) -> dict[str, str]:
        """The options of a write to this topic."""
        return {"kafka.bootstrap.servers": self._bootstrap, "topic": self.name}


def rows(table: DataFrame) -> list[Row]:
    """The records in a table of Spark's Kafka source, sorted."""
    found = table.select("partition", "offset", "key", "value").collect()
    return sorted(Row(each.partition, each.offset, bytes(each.key), bytes(each.value)) for each in found)


def run_to_end(query: StreamingQuery) -> int:
    """Wait until an availableNow query has ended; returns the rows that it read."""
    assert query.awaitTermination(QUERY_TIMEOUT_S), f"not done in {QUERY_TIMEOUT_S} s: {query.status}"
    return sum(batch["numInputRows"] for batch in query.recentProgress)


def row(message: Message) -> Row:
    if error := message.error():
        raise KafkaException(error)
    return Row(partition_of(message), offset_of(message), message.key(), message.value())


def write(bootstrap: str, topic: str, values: Iterable[str], *, partitions: int, first_ms: int) -> list[Row]:
    """Write `values` round the partitions, key = value, one millisecond apart; what went where, sorted."""
    written: list[Row] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            value,
            partition=number % partitions,
            timestamp=first_ms + number,
            headers={"number": str(number)},
            on_delivery=lambda error, message: written.append(row(message)),
        )
    if left := producer.flush(TIMEOUT_S):
        raise TimeoutError(f"{left} records not delivered")
    return sorted(written)


def read(bootstrap: str, topic: str, log_ends: dict[int, int]) -> list[Message]:
    """Every record up to `log_ends`, by a consumer that joins no group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "fetch.wait.max.ms": 50})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in log_ends])
    total = sum(log_ends.values())
    found: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < total:
        found += consumer.consume(total - len(found), POLL_S)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: {len(found)} of {total} records in {TIMEOUT_S} s")
    consumer.close()
    return sorted(found, key=row)


def groups_with(bootstrap: str, prefix: str) -> list[str]:
    """The groups whose id begins with `prefix`, as the broker lists them now."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    if listed.errors:
        raise KafkaException(listed.errors[0])
    return sorted(group.group_id for group in listed.valid if group.group_id.startswith(prefix))
