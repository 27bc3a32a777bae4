"""Exactly once, from topic to topic: the results and the offsets of their source are one Kafka transaction.

    python exactly_once_transactions.py BOOTSTRAP SOURCE GROUP TARGET TRANSACTIONAL_ID [NAME=VALUE ...]

Writes a row to TARGET for each row of SOURCE: readers with `isolation.level=read_committed` see it exactly once.
TRANSACTIONAL_ID is this worker's own, and the same whenever it is started again: that ends what its last life
left open, and a life that is not quite over can write no more. NAME=VALUE are further settings of the consumer.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

BATCH = 100
TRANSACTION_TIMEOUT_MS = 30_000  # A worker that dies, and is not started again, holds up readers for so long.
OUTAGE_S = 60  # A broker that is away for longer ends the worker.
# After an outage librdkafka 2.16 starts again from `bootstrap.servers`, and may then wait for ever, in
# send_offsets_to_transaction, for a connection that it has given up: it is to keep the brokers that it knows.
KEEP_BROKERS = {"metadata.recovery.strategy": "none"}
COORDINATOR_MOVES = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


class Worker:
    def __init__(self, target: str, consumer: Consumer, producer: Producer) -> None:
        self.target = target
        self.consumer = consumer
        self.producer = producer
        self.group = consumer.consumer_group_metadata()
        self.ends: dict[tuple[str, int], int] = {}  # Behind the last row that came, or was committed.

    def run(self, source: str, stop: threading.Event) -> None:
        self.producer.init_transactions(OUTAGE_S)
        self.consumer.subscribe([source], on_assign=self.on_assign)
        while not stop.is_set():
            messages = self.consumer.consume(BATCH, timeout=0.5)
            if messages and self.follows(messages):
                self.transact(messages)
            elif messages:
                print("rows came again, which are committed: back to the offsets", file=sys.stderr)
                self.rewind()
        self.consumer.close()

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Rows are committed in the generation that gave them to us: if it has passed, that is refused."""
        self.group = consumer.consumer_group_metadata()
        consumer.assign(self.committed(partitions))

    def follows(self, messages: list[Message]) -> bool:
        """Whether no partition goes back behind what has come from it since its offset was looked up.

        librdkafka 2.16 asks where a partition begins that has no offset yet. If the answer is so late that it
        finds another assignment (the broker was away), it starts there again from the beginning, half a second
        after it has begun at the committed offset.
        """
        for message in messages:
            partition, end = end_of(message)
            if end <= self.ends.get(partition, 0):
                return False
            self.ends[partition] = end
        return True

    def transact(self, messages: list[Message]) -> None:
        """Commit all results of a batch and the offsets behind it, or nothing, and read the batch again.

        Raises KafkaException where this worker can do no more: it was fenced, or the broker is away for long. It
        ends then, and its supervisor starts it again.
        """
        self.producer.begin_transaction()
        try:
            for message in messages:
                (_, partition), _ = end_of(message)
                self.producer.produce(self.target, process(message), partition=partition)
            self.insist(self.producer.send_offsets_to_transaction, next_offsets(messages), self.group)
            self.insist(self.producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            print(f"aborted, to be read again: {error}", file=sys.stderr)
            self.insist(self.producer.abort_transaction)
            self.rewind()

    def insist(self, call: Callable[..., None], *arguments: object) -> None:
        """Call again while the outcome is unknown: the producer goes on where it was."""
        deadline = time.monotonic() + OUTAGE_S
        while True:
            try:
                return call(*arguments, 10)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def rewind(self) -> None:
        """Seek to the committed offset in every partition that this worker owns."""
        for partition in self.committed(self.consumer.assignment()):
            self.consumer.seek(partition)

    def committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Where to go on in these partitions, which are all that this worker owns."""
        found = self.look_up(partitions) if partitions else []
        self.ends = {(each.topic, each.partition): max(each.offset, 0) for each in found}
        for each in found:
            if each.offset < 0:
                each.offset = OFFSET_BEGINNING
        return found

    def look_up(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        deadline = time.monotonic() + OUTAGE_S
        while True:
            try:
                return self.consumer.committed(partitions, OUTAGE_S)
            except KafkaException as error:
                if error.args[0].code() not in COORDINATOR_MOVES or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def next_offsets(messages: list[Message]) -> list[TopicPartition]:
    ends = dict(map(end_of, messages))
    return [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()]


def end_of(message: Message) -> tuple[tuple[str, int], int]:
    """The message's partition, and the offset behind it."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise AssertionError("only an error may lack them")
    return (topic, partition), offset + 1


def process(message: Message) -> bytes:
    if message.error():
        raise KafkaException(message.error())
    time.sleep(0.001)  # Stands for the work.
    value = message.value()
    assert value is not None, "a tombstone among the rows"
    return value


def main(bootstrap: str, source: str, group: str, target: str, transactional_id: str, *settings: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = {
        "bootstrap.servers": bootstrap,
        **KEEP_BROKERS,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",  # Also: offsets that a transaction holds open are waited for.
        **dict(setting.split("=", 1) for setting in settings),
    }
    producer = {
        "bootstrap.servers": bootstrap,
        **KEEP_BROKERS,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    }
    worker = Worker(target, Consumer(consumer), Producer(producer))
    print(f"{group} reads {source}", flush=True)
    worker.run(source, stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
