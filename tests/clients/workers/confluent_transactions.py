"""confluent-kafka (librdkafka): the steps of `transaction_walk`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from harness.messages import value_of
from harness.reporting import Config, eventually, require, require_equal
from tests.clients.workers.transaction_walk import READ_COMMITTED, TransactionWalk

TIMEOUT_S = 60


class ConfluentWalk(TransactionWalk[Producer, Consumer]):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.admin = AdminClient({"bootstrap.servers": config["bootstrap"]})

    async def new_producer(self, suffix: str = "", timeout_ms: int = 30_000) -> Producer:
        settings = {
            "bootstrap.servers": self.config["bootstrap"],
            "transactional.id": self.config["transactional_id"] + suffix,
            "transaction.timeout.ms": timeout_ms,
        }
        producer = Producer(settings)
        producer.init_transactions(TIMEOUT_S)
        return producer

    def new_consumer(self, isolation: str) -> Consumer:
        settings = {
            "bootstrap.servers": self.config["bootstrap"],
            "group.id": self.config["group"],
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        return Consumer(settings)

    @asynccontextmanager
    async def source_consumer(self) -> AsyncIterator[Consumer]:
        """A consumer that has read all of the source, so it is a member of the group."""
        consumer = self.new_consumer(READ_COMMITTED)
        consumer.subscribe([self.config["source"]])
        eventually(lambda: self.is_read(consumer), "all records of the source")
        yield consumer
        consumer.close()

    def is_read(self, consumer: Consumer) -> bool:
        messages = consumer.consume(self.config["records"], 0.2)
        return bool(messages) and messages[-1].offset() == self.config["records"] - 1

    async def begin_transaction(self) -> None:
        self.producer.begin_transaction()

    async def commit_transaction(self) -> None:
        self.producer.commit_transaction(TIMEOUT_S)

    async def abort_transaction(self) -> None:
        self.producer.abort_transaction(TIMEOUT_S)

    async def write(self, value: str) -> None:
        self.producer.begin_transaction()
        self.producer.produce(self.topic, value)
        require_equal(self.producer.flush(TIMEOUT_S), 0, "records that were not delivered")

    async def commit_one(self, value: str) -> None:
        """Commit a transaction of one record that only the commit delivers."""
        self.producer.begin_transaction()
        self.producer.produce(self.topic, value)
        self.producer.commit_transaction(TIMEOUT_S)

    async def commit_error(self) -> KafkaError | None:
        try:
            self.producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            return reason
        return None

    def require_fenced(self, error: KafkaError) -> None:
        require(error.fatal(), error)
        require_equal(error.code(), KafkaError._FENCED, "error")

    def require_overdue(self, error: KafkaError) -> None:
        require(error.fatal() or error.txn_requires_abort(), error)

    async def send_offsets(self, consumer: Consumer, offset: int) -> None:
        offsets = [TopicPartition(self.config["source"], 0, offset)]
        self.producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)

    async def committed(self, consumer: Consumer) -> int:
        (found,) = consumer.committed([TopicPartition(self.config["source"], 0)], TIMEOUT_S)
        return found.offset

    async def read(self, isolation: str, count: int) -> list[str]:
        consumer = self.new_consumer(isolation)
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        values: list[str] = []

        def enough() -> bool:
            values.extend(value_of(message).decode() for message in consumer.consume(100, 0.1))
            return len(values) >= count

        eventually(enough, f"{count} records, {isolation}")
        consumer.close()
        return values

    async def end(self, isolation: str) -> int:
        partition = TopicPartition(self.topic, 0)
        level = IsolationLevel[isolation.upper()]
        asked = {partition: OffsetSpec.latest()}
        found = self.admin.list_offsets(asked, isolation_level=level, request_timeout=TIMEOUT_S)
        end: int = found[partition].result(TIMEOUT_S).offset
        return end


def transactions(config: Config) -> None:
    asyncio.run(ConfluentWalk(config).run())
