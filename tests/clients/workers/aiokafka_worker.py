"""aiokafka as a group member, a producer of every codec, and a reader."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from harness.reporting import Config, main, report
from tests.clients.workers import (
    aiokafka_admin,
    aiokafka_secured,
    aiokafka_transactions,
    aiokafka_walk,
    payloads,
)
from tests.clients.workers.diary import Diary
from tests.clients.workers.hosting import host_async
from tests.clients.workers.member_settings import member_settings

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


def consumer_config(config: Config) -> dict[str, Any]:
    """aiokafka's settings for a test's member."""
    settings = member_settings(config, "aiokafka")
    if "assignor" in config:
        settings["partition_assignment_strategy"] = (ASSIGNORS[config["assignor"]],)
    return settings


class Member(ConsumerRebalanceListener):
    """Reads its share of the topics, reports every record before it commits it, until asked to stop."""

    def __init__(self, config: Config, diary: Diary) -> None:
        self._consumer = AIOKafkaConsumer(**consumer_config(config))
        self._diary = diary
        self._consumer.subscribe(config["topics"], listener=self)

    async def run(self, stop: threading.Event) -> None:
        await self._consumer.start()
        while not stop.is_set():
            batches = await self._consumer.getmany(timeout_ms=100)
            records = itertools.chain.from_iterable(batches.values())
            self._diary.read([_there(record.value, record).decode() for record in records])
            await self._commit()
        await self._consumer.stop()
        self._diary.note("closed")

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._commit()
        self._diary.gave_up(revoked)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._diary.assigned(assigned)

    async def _commit(self) -> None:
        if self._diary.has_uncommitted:
            with self._diary.committing(KafkaError):
                await self._consumer.commit()


def _there(part: bytes | None, record: object) -> bytes:
    if part is None:
        raise AssertionError(f"its key or its value is missing: {record}")
    return part


def member(config: Config) -> None:
    host_async(config, Member)


async def _produce(config: Config) -> None:
    for label in payloads.labels("aiokafka"):
        _, codec, acks = label.split("/")
        producer = AIOKafkaProducer(
            bootstrap_servers=config["bootstrap"],
            compression_type=None if codec == "none" else codec,
            acks={"0": 0, "1": 1, "all": "all", "idempotent": "all"}[acks],
            enable_idempotence=acks == "idempotent",
            linger_ms=20,
        )
        await producer.start()
        sent = [
            await producer.send(
                config["topic"],
                payloads.value(label, number),
                label.encode(),
                headers=payloads.headers(label, number),
            )
            for number in range(payloads.RECORDS_PER_LABEL)
        ]
        await producer.flush()
        await asyncio.gather(*sent)
        await producer.stop()
    report("produced")


async def _read(config: Config) -> None:
    """Read `count` records of the one-partition `topics` from the beginning, and check each; no group."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=config["bootstrap"], auto_offset_reset="earliest", check_crcs=True
    )
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0) for topic in config["topics"]])
    checker = payloads.Checker()
    while checker.counts.total() < config["count"]:
        for records in (await consumer.getmany(timeout_ms=500)).values():
            for record in records:
                checker.check(_there(record.key, record), record.value, dict(record.headers))
    report("read", counts=checker.counts)
    await consumer.stop()


def _sync(command: Callable[[Config], Awaitable[None]]) -> Callable[[Config], None]:
    async def run(config: Config) -> None:
        await command(config)

    return lambda config: asyncio.run(run(config))


if __name__ == "__main__":
    main(
        {
            "member": member,
            "produce": _sync(_produce),
            "read": _sync(_read),
            "walk": _sync(aiokafka_walk.walk),
            "admin": _sync(aiokafka_admin.admin),
            "transactions": aiokafka_transactions.transactions,
            "secured": aiokafka_secured.secured,
        }
    )
