"""The test's own neutral view of a broker: makes topics, writes records, asks for offsets and groups.

It is one confluent-kafka admin client and one producer inside the test process; what is tested runs
elsewhere.
"""

from __future__ import annotations

import itertools
import struct
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, NewPartitions, NewTopic, OffsetSpec

Settings = dict[str, str | int | float | bool]
"""Settings of a librdkafka client, by name."""

TIMEOUT_S = 60
"""Of what takes a moment: the machine may be busy, and a disk that a test fills holds up a write."""
POLL_S = 0.2
# In Kafka's batch header the attributes are at byte 21 and the length is at byte 8; it counts what follows it.
BATCH_PREFIX_BYTES = 12
COORDINATOR_MOVES = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
Answer = TypeVar("Answer")
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")


class Observer:
    """Topics, records, offsets and groups of a broker at `bootstrap`; any error raises KafkaException."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.connect()

    def connect(self) -> None:
        """Make new clients after the broker's restart: librdkafka's admin client may never send a request again.

        (Seen with librdkafka 2.16, in about one restart of five: connected, and silent until its timeout.)
        """
        # No client logs: at the end of a test run the broker stops before these clients.
        common: Settings = {"bootstrap.servers": self.bootstrap, "client.id": "observer", "log_level": 0}
        self._admin = AdminClient(common)
        # Idempotent, or a retry on a busy machine could swap or repeat records that tests know by offset.
        self._producer = Producer({**common, "linger.ms": 1, "enable.idempotence": True})

    def create_topic(self, prefix: str, partitions: int) -> str:
        """Create a topic under a unique name that begins with `prefix`; return the name."""
        topic = unique(prefix)
        self.create_named_topic(topic, partitions)
        return topic

    def create_named_topic(self, topic: str, partitions: int) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1)
        self._admin.create_topics([new], request_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)

    def grow_topic(self, topic: str, partitions: int) -> None:
        """Grow the topic to `partitions` partitions."""
        asked = [NewPartitions(topic, partitions)]
        self._admin.create_partitions(asked, request_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic], request_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)

    def write(self, topic: str, values: Iterable[str], partition: int = -1, base_ms: int = 0) -> None:
        """Write `values`; with `base_ms` each has a timestamp one second later than the one before it."""
        for number, value in enumerate(values):
            timestamp = base_ms + number * 1000 if base_ms else 0
            self._producer.produce(topic, value, partition=partition, timestamp=timestamp, key=value)
        if left := self._producer.flush(TIMEOUT_S):
            raise TimeoutError(f"{left} records of {topic} were not delivered in {TIMEOUT_S} s")

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Commit as a simple consumer: no membership, so the group must have no members."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        partitions = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        # A broker that has just made its `__consumer_offsets` for this very commit still loads that partition.
        _from_coordinator(lambda: consumer.commit(offsets=partitions, asynchronous=False))
        consumer.close()

    def has_topic(self, topic: str) -> bool:
        """Whether the topic is there; it is not made by the question."""
        return topic in self._admin.list_topics(timeout=TIMEOUT_S).topics

    def partition_count(self, topic: str) -> int:
        """The topic's number of partitions; 0 if it does not exist."""
        return len(self._admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions)

    def read(self, topic: str, partition: int) -> list[Message]:
        """Every record of the partition, up to its end as of now."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.partition.eof": True}
        consumer = Consumer({**settings, "fetch.wait.max.ms": 10, "log_level": 0})
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        found: list[Message] = []
        deadline = time.monotonic() + TIMEOUT_S
        while not any(message.error() for message in found):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}-{partition} was not read to its end in {TIMEOUT_S} s")
            found += consumer.consume(1000, POLL_S)
        consumer.close()
        return _until_end(found)

    def log_ends(
        self, topic: str, partitions: int, level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[int, int]:
        """The end offset of each partition: the log end, or with READ_COMMITTED the last stable offset."""
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
        found = self._admin.list_offsets(asked, isolation_level=level, request_timeout=TIMEOUT_S)
        return {partition.partition: answer.result(TIMEOUT_S).offset for partition, answer in found.items()}

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The committed offset of each of the topic's partitions that has one.

        By a consumer: librdkafka 2.16's admin client crashes the process if the coordinator is loading.
        """
        asked = [TopicPartition(topic, partition) for partition in range(self.partition_count(topic))]
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        try:
            found = _from_coordinator(lambda: consumer.committed(asked, TIMEOUT_S)) if asked else []
            return {tp.partition: tp.offset for tp in found if tp.offset >= 0}
        finally:
            consumer.close()

    def describe(self, group: str) -> ConsumerGroupDescription:
        """The group's present state and members."""

        def described() -> ConsumerGroupDescription:
            answers = self._admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S)
            description: ConsumerGroupDescription = answers[group].result(TIMEOUT_S)
            return description

        return _from_coordinator(described)

    def kind(self, group: str) -> str:
        """The group's type by name: "CLASSIC" or "CONSUMER". Raises StopIteration if there is no such group."""
        found = self._admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S).valid
        return next(str(each.type.name) for each in found if each.group_id == group)

    def owned(self, group: str) -> list[str] | None:
        """The partitions assigned in a Stable group, sorted, one entry per owner; None in other states."""
        group_now = self.describe(group)
        if group_now.state is not ConsumerGroupState.STABLE:
            return None
        owned = (tp for member in group_now.members for tp in member.assignment.topic_partitions)
        return sorted(f"{tp.topic}-{tp.partition}" for tp in owned)

    def state(self, group: str) -> str:
        """The group's state by name, or "absent"."""
        try:
            return self.describe(group).state.name
        except KafkaException:
            return "absent"


def _from_coordinator(ask: Callable[[], Answer]) -> Answer:
    """What `ask` returns; it is called again while the group's coordinator starts or moves."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_MOVES or time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


def _until_end(messages: list[Message]) -> list[Message]:
    """The records before the partition's end was reported. Raises KafkaException for any other error."""
    records = list(itertools.takewhile(lambda message: message.error() is None, messages))
    error = messages[len(records)].error()
    assert error is not None
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return records


def unique(prefix: str) -> str:
    """A topic or group name that no other test has, on this worker or another."""
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def codecs_on_disk(log_dir: Path, topic: str, partition: int = 0) -> set[str]:
    """The codecs of the batches in a partition's segments, as they lie on the disk."""
    segments = sorted((log_dir / f"{topic}-{partition}").glob("*.log"))
    return {codec for segment in segments for codec in _batch_codecs(segment.read_bytes())}


def _batch_codecs(data: bytes) -> Iterator[str]:
    position = 0
    while position + BATCH_PREFIX_BYTES < len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        if length == 0:
            return  # Kafka allots files ahead and fills the rest with zeros.
        (attributes,) = struct.unpack_from(">h", data, position + 21)
        yield CODEC_NAMES[attributes & 7]
        position += BATCH_PREFIX_BYTES + length
