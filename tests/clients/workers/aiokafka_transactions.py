"""aiokafka: transactions, step by step, with their outcome. The steps are `confluent_transactions`'."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from harness.reporting import Config, eventually_async, require, require_equal, step


class TransactionWalk:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.partition = TopicPartition(config["topic"], 0)
        self.source = TopicPartition(config["source"], 0)
        self.started: list[AIOKafkaProducer] = []

    async def run(self) -> None:
        self.producer = await self.new_producer()
        await self.commit()
        await self.abort()
        await self.offsets()
        await self.fencing()
        await self.timeout()
        for producer in self.started:
            await producer.stop()

    async def commit(self) -> None:
        with step("commit"):
            before = await self.end("read_committed")
            await self.write("committed")
            require_equal(await self.end("read_committed"), before, "the last stable offset")
            require(await self.end("read_uncommitted") > before, "the log's end")
            await self.producer.commit_transaction()
            require_equal(await self.read("read_committed", 1), ["committed"], "records")

    async def abort(self) -> None:
        with step("abort"):
            await self.write("aborted")
            await self.producer.abort_transaction()
            await self.write("after")
            await self.producer.commit_transaction()
            require_equal(await self.read("read_committed", 2), ["committed", "after"], "what is committed")
            everything = await self.read("read_uncommitted", 3)
            require_equal(everything, ["committed", "aborted", "after"], "all")

    async def offsets(self) -> None:
        with step("offsets"):
            async with self.new_consumer("read_committed", group_id=self.config["group"]) as consumer:
                consumer.assign([self.source])
                await self.producer.begin_transaction()
                await self.producer.send_offsets_to_transaction({self.source: 3}, self.config["group"])
                await self.producer.commit_transaction()
                require_equal(await consumer.committed(self.source), 3, "committed offset")
                await self.producer.begin_transaction()
                await self.producer.send_offsets_to_transaction({self.source: 5}, self.config["group"])
                await self.producer.abort_transaction()
                require_equal(await consumer.committed(self.source), 3, "committed offset after an abort")

    async def fencing(self) -> None:
        with step("fencing"):
            await self.write("of the first life")
            second = await self.new_producer()
            error = await self.failure(self.producer)
            require(isinstance(error, ProducerFenced), repr(error))
            self.producer = second
            await self.write("of the second life")
            await second.commit_transaction()
            require_equal((await self.read("read_committed", 3))[-1], "of the second life", "the last record")

    async def timeout(self) -> None:
        with step("timeout"):
            self.producer = await self.new_producer("-late", 1000)
            await self.write("late")
            await eventually_async(self.is_settled, "the coordinator aborts what nobody ends")
            require(await self.failure(self.producer), "an error")
            require_equal((await self.read("read_committed", 3))[-1], "of the second life", "the last record")

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

    async def write(self, value: str) -> None:
        """A record in a new transaction, delivered, and the transaction left open."""
        await self.producer.begin_transaction()
        await self.producer.send_and_wait(self.config["topic"], value.encode())

    async def failure(self, producer: AIOKafkaProducer) -> KafkaError:
        try:
            await producer.commit_transaction()
        except KafkaError as error:
            return error
        raise AssertionError("committed, though another life has begun or the time was over")

    async def read(self, isolation: str, count: int) -> list[str]:
        """The first `count` records that can be seen."""
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

    async def is_settled(self) -> bool:
        return await self.end("read_committed") == await self.end("read_uncommitted")


def transactions(config: Config) -> None:
    asyncio.run(TransactionWalk(config).run())
