"""kafka-python: the steps of `transaction_walk`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from harness.reporting import Config, eventually, require
from tests.clients.workers.transaction_walk import READ_COMMITTED, TransactionWalk

TIMEOUT_S = 60


class KafkaPythonWalk(TransactionWalk[KafkaProducer, KafkaConsumer]):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.partition = TopicPartition(config["topic"], 0)
        self.source = TopicPartition(config["source"], 0)

    async def new_producer(self, suffix: str = "", timeout_ms: int = 30_000) -> KafkaProducer:
        producer = KafkaProducer(
            bootstrap_servers=self.config["bootstrap"],
            transactional_id=self.config["transactional_id"] + suffix,
            transaction_timeout_ms=timeout_ms,
        )
        producer.init_transactions()
        return producer

    def new_consumer(self, isolation: str, **settings: str) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.config["bootstrap"],
            isolation_level=isolation,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        )

    @asynccontextmanager
    async def source_consumer(self) -> AsyncIterator[KafkaConsumer]:
        """A consumer that has read some of the source, so it is a member of the group."""
        consumer = self.new_consumer(READ_COMMITTED, group_id=self.config["group"])
        consumer.subscribe([self.config["source"]])
        eventually(lambda: consumer.poll(200), "records of the source")
        yield consumer
        consumer.close()

    async def begin_transaction(self) -> None:
        self.producer.begin_transaction()

    async def commit_transaction(self) -> None:
        self.producer.commit_transaction()

    async def abort_transaction(self) -> None:
        self.producer.abort_transaction()

    async def write(self, value: str) -> None:
        self.producer.begin_transaction()
        self.producer.send(self.topic, value.encode()).get(TIMEOUT_S)

    async def commit_error(self) -> KafkaError | None:
        try:
            self.producer.commit_transaction()
        except KafkaError as error:
            return error
        return None

    def require_fenced(self, error: KafkaError) -> None:
        require("Fenced" in type(error).__name__, repr(error))

    async def send_offsets(self, consumer: KafkaConsumer, offset: int) -> None:
        offsets = {self.source: OffsetAndMetadata(offset, "", -1)}
        self.producer.send_offsets_to_transaction(offsets, consumer.group_metadata())

    async def committed(self, consumer: KafkaConsumer) -> int:
        found: int = consumer.committed(self.source)
        return found

    async def read(self, isolation: str, count: int) -> list[str]:
        consumer = self.new_consumer(isolation)
        consumer.assign([self.partition])
        values: list[str] = []

        def enough() -> bool:
            found = consumer.poll(100)
            values.extend(record.value.decode() for record in found.get(self.partition, []))
            return len(values) >= count

        eventually(enough, f"{count} records, {isolation}")
        consumer.close()
        return values

    async def end(self, isolation: str) -> int:
        consumer = self.new_consumer(isolation)
        found = consumer.end_offsets([self.partition])[self.partition]
        consumer.close()
        return int(found)


def transactions(config: Config) -> None:
    asyncio.run(KafkaPythonWalk(config).run())
