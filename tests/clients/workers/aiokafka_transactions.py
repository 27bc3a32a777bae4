"""aiokafka: the steps of `transaction_walk`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from harness.reporting import Config, eventually_async, require
from tests.clients.workers.transaction_walk import READ_COMMITTED, TransactionWalk


class AIOKafkaWalk(TransactionWalk[AIOKafkaProducer, AIOKafkaConsumer]):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.partition = TopicPartition(config["topic"], 0)
        self.source = TopicPartition(config["source"], 0)
        self.started: list[AIOKafkaProducer] = []

    async def run(self) -> None:
        await super().run()
        for producer in self.started:
            await producer.stop()

    async def new_producer(self, suffix: str = "", timeout_ms: int = 30_000) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.config["bootstrap"],
            transactional_id=self.config["transactional_id"] + suffix,
            transaction_timeout_ms=timeout_ms,
        )
        await producer.start()
        self.started.append(producer)
        await producer.begin_transaction()  # Waits for the producer id, and so fences a former life.
        await producer.abort_transaction()
        return producer

    def new_consumer(self, isolation: str, **settings: str) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self.config["bootstrap"],
            isolation_level=isolation,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        )

    @asynccontextmanager
    async def source_consumer(self) -> AsyncIterator[AIOKafkaConsumer]:
        async with self.new_consumer(READ_COMMITTED, group_id=self.config["group"]) as consumer:
            consumer.assign([self.source])
            yield consumer

    async def begin_transaction(self) -> None:
        await self.producer.begin_transaction()

    async def commit_transaction(self) -> None:
        await self.producer.commit_transaction()

    async def abort_transaction(self) -> None:
        await self.producer.abort_transaction()

    async def write(self, value: str) -> None:
        await self.producer.begin_transaction()
        await self.producer.send_and_wait(self.topic, value.encode())

    async def commit_error(self) -> KafkaError | None:
        try:
            await self.producer.commit_transaction()
        except KafkaError as error:
            return error
        return None

    def require_fenced(self, error: KafkaError) -> None:
        require(isinstance(error, ProducerFenced), repr(error))

    async def send_offsets(self, consumer: AIOKafkaConsumer, offset: int) -> None:
        await self.producer.send_offsets_to_transaction({self.source: offset}, self.config["group"])

    async def committed(self, consumer: AIOKafkaConsumer) -> int:
        found: int = await consumer.committed(self.source)
        return found

    async def read(self, isolation: str, count: int) -> list[str]:
        values: list[str] = []
        async with self.new_consumer(isolation) as consumer:
            consumer.assign([self.partition])
            await consumer.seek_to_beginning(self.partition)

            async def enough() -> bool:
                batch = await consumer.getmany(timeout_ms=100)
                values.extend(record.value.decode() for record in batch.get(self.partition, []))
                return len(values) >= count

            await eventually_async(enough, f"{count} records, {isolation}")
        return values

    async def end(self, isolation: str) -> int:
        async with self.new_consumer(isolation) as consumer:
            ends: dict[TopicPartition, int] = await consumer.end_offsets([self.partition])
            return ends[self.partition]


def transactions(config: Config) -> None:
    asyncio.run(AIOKafkaWalk(config).run())
