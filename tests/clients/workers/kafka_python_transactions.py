"""kafka-python: transactions, step by step, with their outcome. The steps are `confluent_transactions`'."""

from __future__ import annotations

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from harness.reporting import Config, eventually, require, require_equal, step

TIMEOUT_S = 15


class TransactionWalk:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.partition = TopicPartition(config["topic"], 0)
        self.source = TopicPartition(config["source"], 0)
        self.producer = self.new_producer()

    def run(self) -> None:
        self.commit()
        self.abort()
        self.offsets()
        self.fencing()
        self.timeout()

    def commit(self) -> None:
        with step("commit"):
            before = self.end("read_committed")
            self.write("committed")
            require_equal(self.end("read_committed"), before, "the last stable offset")
            require(self.end("read_uncommitted") > before, "the log's end")
            self.producer.commit_transaction()
            require_equal(self.read("read_committed", 1), ["committed"], "records")

    def abort(self) -> None:
        with step("abort"):
            self.write("aborted")
            self.producer.abort_transaction()
            self.write("after")
            self.producer.commit_transaction()
            require_equal(self.read("read_committed", 2), ["committed", "after"], "what is committed")
            require_equal(self.read("read_uncommitted", 3), ["committed", "aborted", "after"], "all")

    def offsets(self) -> None:
        with step("offsets"):
            consumer = self.new_consumer("read_committed", group_id=self.config["group"])
            consumer.subscribe([self.config["source"]])
            eventually(lambda: consumer.poll(200), "records of the source")
            self.producer.begin_transaction()
            self.send_offsets(consumer, 3)
            self.producer.commit_transaction()
            require_equal(consumer.committed(self.source), 3, "committed offset")
            self.producer.begin_transaction()
            self.send_offsets(consumer, 5)
            self.producer.abort_transaction()
            require_equal(consumer.committed(self.source), 3, "committed offset after an abort")
            consumer.close()

    def fencing(self) -> None:
        with step("fencing"):
            self.write("of the first life")
            second = self.new_producer()
            require("Fenced" in type(error := self.failure()).__name__, repr(error))
            self.producer = second
            self.write("of the second life")
            second.commit_transaction()
            require_equal(self.read("read_committed", 3)[-1], "of the second life", "the last record")

    def timeout(self) -> None:
        with step("timeout"):
            self.producer = self.new_producer("-late", 1000)
            self.write("late")
            eventually(self.is_settled, "the coordinator aborts what nobody ends")
            require(self.failure(), "an error")
            require_equal(self.read("read_committed", 3)[-1], "of the second life", "the last record")

    def new_producer(self, suffix: str = "", timeout_ms: int = 30_000) -> KafkaProducer:
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

    def write(self, value: str) -> None:
        """A record in a new transaction, delivered, and the transaction left open."""
        self.producer.begin_transaction()
        self.producer.send(self.config["topic"], value.encode()).get(TIMEOUT_S)

    def failure(self) -> KafkaError:
        try:
            self.producer.commit_transaction()
        except KafkaError as error:
            return error
        raise AssertionError("committed, though another life has begun or the time was over")

    def send_offsets(self, consumer: KafkaConsumer, offset: int) -> None:
        offsets = {self.source: OffsetAndMetadata(offset, "", -1)}
        self.producer.send_offsets_to_transaction(offsets, consumer.group_metadata())

    def read(self, isolation: str, count: int) -> list[str]:
        """The first `count` records that can be seen."""
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

    def end(self, isolation: str) -> int:
        consumer = self.new_consumer(isolation)
        found = consumer.end_offsets([self.partition])[self.partition]
        consumer.close()
        return int(found)

    def is_settled(self) -> bool:
        return self.end("read_committed") == self.end("read_uncommitted")


def transactions(config: Config) -> None:
    TransactionWalk(config).run()
