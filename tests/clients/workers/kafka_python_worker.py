"""kafka-python as a group member, a producer of every codec, and a reader."""

from __future__ import annotations

import threading
from typing import Any

from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError

from harness.reporting import Config, main, report
from tests.clients.workers import (
    kafka_python_admin,
    kafka_python_secured,
    kafka_python_transactions,
    kafka_python_walk,
    payloads,
)
from tests.clients.workers.diary import Diary
from tests.clients.workers.hosting import host
from tests.clients.workers.member_settings import member_settings

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


def consumer_config(config: Config) -> dict[str, Any]:
    """kafka-python's settings for a test's member."""
    settings = member_settings(config, "kafka-python")
    if "assignor" in config:
        settings["partition_assignment_strategy"] = [ASSIGNORS[config["assignor"]]]
    return settings


class Member(AsyncConsumerRebalanceListener):
    """Reads its share of the topics, reports every record before it commits it, until asked to stop.

    The listener is asynchronous: it runs on the library's own loop, where a blocking commit is refused.
    """

    def __init__(self, config: Config, diary: Diary) -> None:
        self._consumer = KafkaConsumer(**consumer_config(config))
        self._diary = diary
        self._consumer.subscribe(config["topics"], listener=self)

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                batches = self._consumer.poll(timeout_ms=100)
            except KafkaConnectionError as error:  # While no broker is there, poll may raise that: ask again.
                self._diary.note("disturbed", error=str(error))
                continue
            self._diary.read([record.value.decode() for records in batches.values() for record in records])
            self._commit()
        self._consumer.close()
        self._diary.note("closed")

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._diary.assigned(assigned)

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        if self._diary.has_uncommitted:
            with self._diary.committing(KafkaError):
                await self._consumer.commit_async()
        self._diary.gave_up(revoked)

    async def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._diary.gave_up(lost)

    def _commit(self) -> None:
        if self._diary.has_uncommitted:
            with self._diary.committing(KafkaError):
                self._consumer.commit()


def member(config: Config) -> None:
    host(config, Member)


def produce(config: Config) -> None:
    """Write every label of this library, one producer for each."""
    for label in payloads.labels("kafka_python"):
        _, codec, acks = label.split("/")
        producer = KafkaProducer(
            bootstrap_servers=config["bootstrap"],
            compression_type=None if codec == "none" else codec,
            acks={"0": 0, "1": 1, "all": "all", "idempotent": "all"}[acks],
            enable_idempotence=acks == "idempotent",
            linger_ms=20,
        )
        sent = [
            producer.send(
                config["topic"],
                payloads.value(label, number),
                label.encode(),
                headers=payloads.headers(label, number),
            )
            for number in range(payloads.RECORDS_PER_LABEL)
        ]
        for record in sent:
            record.get(timeout=60)
        producer.close()
    report("produced")


def read(config: Config) -> None:
    """Read `count` records of the one-partition `topics` from the beginning, and check each; no group."""
    consumer = KafkaConsumer(
        bootstrap_servers=config["bootstrap"], auto_offset_reset="earliest", check_crcs=True
    )
    consumer.assign([TopicPartition(topic, 0) for topic in config["topics"]])
    checker = payloads.Checker()
    while checker.counts.total() < config["count"]:
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                checker.check(record.key, record.value, dict(record.headers))
    report("read", counts=checker.counts)
    consumer.close()


if __name__ == "__main__":
    main(
        {
            "member": member,
            "produce": produce,
            "read": read,
            "walk": kafka_python_walk.walk,
            "admin": kafka_python_admin.admin,
            "transactions": kafka_python_transactions.transactions,
            "secured": kafka_python_secured.secured,
        }
    )
