"""confluent-kafka (librdkafka): transactions, step by step, each with its outcome asserted.

Given an empty `topic` of one partition, a `source` of one partition with `records` records, and a `group` and a
`transactional_id` that are new. The other libraries walk the same steps.
"""

from __future__ import annotations

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from harness.messages import value_of
from harness.reporting import Config, eventually, require, require_equal, step

TIMEOUT_S = 15


class TransactionWalk:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.topic: str = config["topic"]
        self.admin = AdminClient({"bootstrap.servers": config["bootstrap"]})
        self.producer = self.new_producer()

    def run(self) -> None:
        self.commit()
        self.abort()
        self.offsets()
        self.fencing()
        self.timeout()

    def commit(self) -> None:
        with step("commit"):
            before = self.end()
            self.write("committed")
            require_equal(self.end(), before, "the last stable offset")
            require(self.end(IsolationLevel.READ_UNCOMMITTED) > before, "the log's end")
            self.producer.commit_transaction(TIMEOUT_S)
            require_equal(self.read("read_committed", 1), ["committed"], "records")

    def abort(self) -> None:
        with step("abort"):
            self.write("aborted")
            self.producer.abort_transaction(TIMEOUT_S)
            self.write("after")
            self.producer.commit_transaction(TIMEOUT_S)
            require_equal(self.read("read_committed", 2), ["committed", "after"], "what is committed")
            require_equal(self.read("read_uncommitted", 3), ["committed", "aborted", "after"], "all")

    def offsets(self) -> None:
        with step("offsets"):
            consumer = self.new_consumer("read_committed")
            consumer.subscribe([self.config["source"]])
            eventually(lambda: self.is_read(consumer), "all records of the source")
            self.producer.begin_transaction()
            self.send_offsets(consumer, 3)
            self.producer.commit_transaction(TIMEOUT_S)
            require_equal(self.committed(consumer), 3, "committed offset")
            self.producer.begin_transaction()
            self.send_offsets(consumer, 5)
            self.producer.abort_transaction(TIMEOUT_S)
            require_equal(self.committed(consumer), 3, "committed offset after an abort")
            consumer.close()

    def fencing(self) -> None:
        with step("fencing"):
            self.write("of the first life")
            second = self.new_producer()
            error = self.failure(self.producer)
            require(error.fatal(), error)
            require_equal(error.code(), KafkaError._FENCED, "error")
            second.begin_transaction()
            second.produce(self.topic, "of the second life")
            second.commit_transaction(TIMEOUT_S)
            require_equal(self.read("read_committed", 3)[-1], "of the second life", "the last record")

    def timeout(self) -> None:
        with step("timeout"):
            self.producer = self.new_producer("-late", 1000)
            self.write("late")
            eventually(self.is_settled, "the coordinator aborts what nobody ends")
            error = self.failure(self.producer)
            require(error.fatal() or error.txn_requires_abort(), error)
            require_equal(self.read("read_committed", 3)[-1], "of the second life", "the last record")

    def new_producer(self, suffix: str = "", timeout_ms: int = 30_000) -> Producer:
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

    def write(self, value: str) -> None:
        """A record in a new transaction, delivered, and the transaction left open."""
        self.producer.begin_transaction()
        self.producer.produce(self.topic, value)
        require_equal(self.producer.flush(TIMEOUT_S), 0, "records that were not delivered")

    def failure(self, producer: Producer) -> KafkaError:
        try:
            producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            return reason
        raise AssertionError("committed, though another life has begun or the time was over")

    def is_read(self, consumer: Consumer) -> bool:
        messages = consumer.consume(self.config["records"], 0.2)
        return bool(messages) and messages[-1].offset() == self.config["records"] - 1

    def send_offsets(self, consumer: Consumer, offset: int) -> None:
        offsets = [TopicPartition(self.config["source"], 0, offset)]
        self.producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)

    def committed(self, consumer: Consumer) -> int:
        (found,) = consumer.committed([TopicPartition(self.config["source"], 0)], TIMEOUT_S)
        return found.offset

    def read(self, isolation: str, count: int) -> list[str]:
        """The first `count` records that can be seen."""
        consumer = self.new_consumer(isolation)
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        values: list[str] = []

        def enough() -> bool:
            values.extend(value_of(message).decode() for message in consumer.consume(100, 0.1))
            return len(values) >= count

        eventually(enough, f"{count} records, {isolation}")
        consumer.close()
        return values

    def end(self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> int:
        partition = TopicPartition(self.topic, 0)
        asked = {partition: OffsetSpec.latest()}
        found = self.admin.list_offsets(asked, isolation_level=isolation, request_timeout=TIMEOUT_S)
        end: int = found[partition].result(TIMEOUT_S).offset
        return end

    def is_settled(self) -> bool:
        return self.end() == self.end(IsolationLevel.READ_UNCOMMITTED)


def transactions(config: Config) -> None:
    TransactionWalk(config).run()
