"""confluent-kafka (librdkafka) as a group member, a producer of every codec, and a reader."""

from __future__ import annotations

import threading

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from harness.messages import headers_of, key_of, value_of
from harness.reporting import Config, main, report, require
from tests.clients.workers import (
    confluent_admin,
    confluent_ledger,
    confluent_secured,
    confluent_transactions,
    confluent_walk,
    payloads,
)
from tests.clients.workers.confluent_settings import consumer_config, subscription
from tests.clients.workers.diary import Diary
from tests.clients.workers.hosting import host

NOTHING_TO_COMMIT = KafkaError._NO_OFFSET


class Member:
    """Reads its share of the topics, reports every record before it commits it, until asked to stop."""

    def __init__(self, config: Config, diary: Diary) -> None:
        self._consumer = Consumer(consumer_config(config))
        self._topics = subscription(config)
        self._diary = diary

    def run(self, stop: threading.Event) -> None:
        self._consumer.subscribe(
            self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        while not stop.is_set():
            messages = self._consumer.consume(num_messages=100, timeout=0.1)
            self._diary.read([_text(message) for message in messages])
            self._commit()
        self._consumer.close()
        self._diary.note("closed")

    def _commit(self) -> None:
        if not self._diary.has_uncommitted:
            return
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            self._diary.refused(error.args[0].name(), error)
            if error.args[0].code() == NOTHING_TO_COMMIT:
                self._diary.committed()
        else:
            self._diary.committed()

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._diary.assigned(partitions)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._diary.gave_up(partitions)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._diary.gave_up(partitions)


def _text(message: Message) -> str:
    require(message.error() is None, message.error())
    return value_of(message).decode()


def member(config: Config) -> None:
    host(config, Member)


def produce(config: Config) -> None:
    """Write every label of this library, one producer for each."""
    for label in payloads.labels("confluent"):
        _, codec, acks = label.split("/")
        idempotent = acks == "idempotent"
        settings = {
            "bootstrap.servers": config["bootstrap"],
            "compression.type": codec,
            "acks": "all" if idempotent else acks,
            "enable.idempotence": idempotent,
            "linger.ms": 20,
        }
        producer = Producer(settings)
        for number in range(payloads.RECORDS_PER_LABEL):
            producer.produce(
                config["topic"],
                payloads.value(label, number),
                label,
                headers=[*payloads.headers(label, number)],
                on_delivery=_require_delivered,
            )
        require(producer.flush(60) == 0, f"{label}: not all delivered")
    report("produced")


def _require_delivered(error: KafkaError | None, _: Message) -> None:
    require(error is None, error)


def read(config: Config) -> None:
    """Read `count` records of the one-partition `topics` from the beginning, and check each; no group."""
    consumer = Consumer({**consumer_config({**config, "group": "unused"}), "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0) for topic in config["topics"]])
    checker = payloads.Checker()
    while checker.counts.total() < config["count"]:
        for message in consumer.consume(500, 1.0):
            require(message.error() is None, message.error())
            checker.check(key_of(message), message.value(), dict(headers_of(message)))
    report("read", counts=checker.counts)
    consumer.close()


if __name__ == "__main__":
    main(
        {
            "member": member,
            "ledger": confluent_ledger.ledger,
            "produce": produce,
            "read": read,
            "walk": confluent_walk.walk,
            "admin": confluent_admin.admin,
            "transactions": confluent_transactions.transactions,
            "secured": confluent_secured.secured,
        }
    )
