"""Records of `__consumer_offsets` at times of our own choice: Kafka takes them from its admin client alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator.effects import CoordinatorRecord
from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import decode_record, encode_record
from coordinator.groups.record_schemas import OffsetCommitKey, OffsetCommitValue
from harness.messages import offset_of, partition_of
from protocol.errors import DecodeError

TOPIC = "__consumer_offsets"
PARTITIONS = 2
MINUTE_MS = 60_000
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Commit:
    """What a record says: an offset, or with None that there is none any more."""

    at_ms: int
    place: int
    group_id: str
    topic: str
    partition: int
    offset: int | None

    @property
    def minute_ms(self) -> int:
        return self.at_ms // MINUTE_MS * MINUTE_MS

    @property
    def key(self) -> tuple[str, str, int]:
        return self.group_id, self.topic, self.partition


class OffsetsTopic:
    """The topic of a broker, which is made by the first group that is looked for."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "client.id": "__admin_client"}
        first = Consumer({"bootstrap.servers": bootstrap, "group.id": "first"})
        deadline = time.monotonic() + TIMEOUT_S
        while True:  # Refused while the topic is being made.
            try:
                first.committed([TopicPartition("none", 0)], timeout=TIMEOUT_S)
                break
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
        first.close()
        self._producer = Producer({**self._settings, "linger.ms": 5, "enable.idempotence": True})

    def commit(self, group_id: str, topic: str, partition: int, offset: int | None, at_ms: int) -> None:
        """A commit, or a tombstone. To be flushed."""
        self._put(self._producer, group_id, *commit_bytes(group_id, topic, partition, offset, at_ms), at_ms)

    def put(self, group_id: str, key: bytes, value: bytes | None, at_ms: int) -> None:
        """Any bytes, in the partition of that group."""
        self._put(self._producer, group_id, key, value, at_ms)

    def commit_in_transaction(self, group_id: str, topic: str, offset: int, *, abort: bool) -> None:
        """Commit as a client does, until the transaction is settled: the coordinator gives it the time of now.

        A transaction's markers may come after its end is answered. Offsets that it holds are waited for.
        """
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": f"t-{group_id}"})
        member = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group_id})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        where = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(where, member.consumer_group_metadata(), TIMEOUT_S)
        if abort:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
        (settled,) = member.committed(where, TIMEOUT_S)
        assert settled.error is None, settled.error
        member.close()

    def flush(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0

    def _put(self, producer: Producer, group_id: str, key: bytes, value: bytes | None, at_ms: int) -> None:
        partition = partition_for(group_id, PARTITIONS)
        producer.produce(TOPIC, value, key, partition=partition, timestamp=at_ms, on_delivery=_delivered)
        producer.poll(0)

    def messages(self) -> list[Message]:
        """All that is there now and committed, by a consumer of no group."""
        return read_all(self.bootstrap, TOPIC)

    def commits(self) -> Iterator[Commit]:
        """All commits and tombstones of offsets, each decoded by itself as the coordinator does."""
        for message in self.messages():
            try:
                record = decode_record(message.key(), message.value())
            except DecodeError:
                continue
            if record is not None and isinstance(record.key, OffsetCommitKey):
                offset = None if record.value is None else record.value.offset
                key, place = record.key, offset_of(message)
                yield Commit(message.timestamp()[1], place, key.group, key.topic, key.partition, offset)


def commit_bytes(
    group_id: str, topic: str, partition: int, offset: int | None, at_ms: int
) -> tuple[bytes, bytes | None]:
    value = None
    if offset is not None:
        value = OffsetCommitValue(offset=offset, leader_epoch=0, metadata="", commit_timestamp=at_ms)
    return encode_record(
        CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value)
    )


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(TIMEOUT_S)


def write_at(bootstrap: str, topic: str, partition: int, times_ms: list[int]) -> None:
    """A record at each of those times."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})
    for at_ms in times_ms:
        producer.produce(topic, b"x", partition=partition, timestamp=at_ms, on_delivery=_delivered)
    assert producer.flush(TIMEOUT_S) == 0


def read_all(bootstrap: str, topic: str) -> list[Message]:
    """Every committed record of the topic, up to where its partitions end now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    known = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in known])
    found: list[Message] = []
    ended: set[int] = set()
    deadline = time.monotonic() + TIMEOUT_S
    while len(ended) < len(known):
        assert time.monotonic() < deadline, f"{topic}: {ended} of {len(known)} partitions in {TIMEOUT_S} s"
        for message in consumer.consume(1000, 0.2):
            if message.error():
                ended.add(partition_of(message))
            else:
                found.append(message)
    consumer.close()
    return found


def _delivered(error: object, message: Message) -> None:
    assert error is None, error
