"""Stock readers and writers of topics, and the groups of a broker: what Spark's work is compared with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

TIMEOUT_S = 20


class Row(NamedTuple):
    """One record, as both Spark and a stock client show it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def row(message: Message) -> Row:
    if error := message.error():
        raise KafkaException(error)
    return Row(message.partition(), message.offset(), message.key(), message.value())


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
    found: list[Message] = []
    while len(found) < sum(log_ends.values()):
        messages = consumer.consume(1_000, TIMEOUT_S)
        if not messages:
            raise TimeoutError(f"{topic}: {len(found)} of {sum(log_ends.values())} records")
        found += messages
    consumer.close()
    return sorted(found, key=row)


def groups_with(bootstrap: str, prefix: str) -> list[str]:
    """The groups whose id begins with `prefix`, as the broker lists them now."""
    listed = AdminClient({"bootstrap.servers": bootstrap}).list_consumer_groups(request_timeout=TIMEOUT_S)
    return sorted(
        group.group_id for group in listed.result(TIMEOUT_S).valid if group.group_id.startswith(prefix)
    )
